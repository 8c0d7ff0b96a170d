"""Two stages with a model repository each, and clients that check who has answered them.

Each answer names version, folder and process of both stages, so that it can be held against what
the broker and the supervisors have logged.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from millstream.cli.ask import ask
from tests.ports import free_port
from tests.system.client import HttpAnswer
from tests.system.deployment import READY_S, Deployment, Role, wait_until
from tests.system.load import Load, Request

SCRIPT = Path(__file__).parent / "plugins" / "staged.py"
STAGES = ("prepare", "infer")
PATH = "/pipelines/p"
PIPELINES = '[pipelines.p]\nchain = ["prepare", "infer"]\n'

_TIME = re.compile(r"time=(\S+) ")
_FIELD = re.compile(r'(\w+)=("[^"]*"|\S+)')


class Seen(NamedTuple):
    """One answer: by which version and processes, and when (seconds since 1970) it was sent for and
    came."""

    version: str
    pids: tuple[int, ...]
    sent: float
    came: float


class Mill(Deployment):
    """See the module."""

    def __init__(self) -> None:
        super().__init__(pipelines=PIPELINES)
        self.ports = [self.port, free_port()]
        self.seen: list[Seen] = []
        self.stages: dict[str, Role] = {}
        self.newest = 0
        for stage in STAGES:
            (self.folder / "models" / stage).mkdir(parents=True)

    # -------------------------------------------------------------- start

    def stage(self, stage: str, *options: str) -> None:
        """The supervisor of a stage."""
        path = f"{SCRIPT}:{stage.capitalize()}"
        models = ("--models", f"models/{stage}", "--stage", stage)
        self.stages[stage] = self.worker(path, *models, *options)

    def begin(self) -> str:
        """A new version has taken over, and the next one will."""
        self.ask("traffic", latest=True, sticky="", shadow="")
        version = self.put()
        self.wait_stable(version)
        return version

    def put(self, how: str = "fine", *, version: str = "", stages: Sequence[str] = STAGES) -> str:
        """A version, by default the next one, made elsewhere and moved into place."""
        if not version:
            self.newest += 1
            version = str(self.newest)
        for stage in stages:
            made = self.folder / f"made-{stage}-{version}"
            made.mkdir()
            (made / "weights").write_text(f"{how}\nend\n")
            (made / "READY").touch()
            made.rename(self.folder / "models" / stage / version)
        return version

    def start_broker(self) -> None:
        """The only one, or the next one where that was killed; returns when it can be asked."""
        self.broker_role = self.broker()
        self.broker_role.wait_for_output("event=listening")

    # -------------------------------------------------------------- ask

    def ask(self, what: str, **body: Any) -> dict[str, Any]:
        """An operation's answer. Raises CommandError where the broker says no."""
        about = msgspec.json.encode({"pipeline": "p", **body})
        answer = ask(self.address, what, keys=None, body=about, timeout_s=READY_S)
        document: dict[str, Any] = msgspec.json.decode(answer)
        return document

    def states(self) -> dict[str, str]:
        """How each version stands."""
        return {each["version"]: each["state"] for each in self.ask("traffic")["versions"]}

    def wait_state(self, version: str, state: str) -> None:
        """Until it stands so."""
        what = f"version {version} is {state}"
        wait_until(lambda: self.states().get(version) == state, READY_S, what)

    def wait_stable(self, version: str) -> None:
        """Until it has taken over."""
        what = f"version {version} takes over"
        wait_until(lambda: self.ask("traffic")["stable"] == version, READY_S, what)

    def pss_bytes(self) -> int:
        """The memory of all processes, what they share counted once."""
        return sum(process.memory_full_info().pss for process in self.processes())

    # -------------------------------------------------------------- requests

    def load(self, clients: int = 64, *, port: int | None = None) -> Load:
        """Clients that note who has answered."""
        return Load(port or self.port, PATH, clients=clients, make=self._request)

    def _request(self, number: int) -> Request:
        sent = time.time()

        def is_right(answer: HttpAnswer) -> bool:
            said = answer.json()
            version = answer.headers["x-model-version"]
            self.seen.append(Seen(version, pids(said), sent, time.time()))
            return is_whole(said, number, version)

        return Request(body(number), {}, is_right)

    def version(self, path: str = "", headers: Mapping[str, str] | None = None) -> str:
        """Which version answers one request, in both stages."""
        with self.client() as client:
            answer = client.post(PATH + path, body(7), headers)
        assert answer.status == 200, answer.body
        version = answer.headers["x-model-version"]
        assert is_whole(answer.json(), 7, version), answer.body
        return version

    # -------------------------------------------------------------- what was logged

    def events(self, *names: str) -> Iterator[tuple[float, dict[str, str]]]:
        """Lines of these events in all logs, and when they were written."""
        for role in self.roles:
            for line in role.output.splitlines():
                fields = {name: value.strip('"') for name, value in _FIELD.findall(line)}
                if fields.get("event") in names:
                    at = _TIME.search(line)
                    assert at, line
                    yield datetime.fromisoformat(at[1]).timestamp(), fields

    def check_seen(self) -> None:
        """AssertionError where one answered that was not ready yet, or was to retire already."""
        ready: dict[int, float] = {}  # to the first broker that knew it
        for at, fields in self.events("worker_ready"):
            pid = int(fields["peer_pid"])
            ready[pid] = min(at, ready.get(pid, at))
        retired = {f["version"]: at for at, f in self.events("version retires")}
        for each in self.seen:
            for pid in each.pids:
                assert each.came >= ready[pid] - 0.001, f"before it was ready: {each}"
            assert each.sent <= retired.get(each.version, each.sent) + 0.5, f"retired: {each}"


def body(number: int) -> bytes:
    return b'{"n":%d,"said":[]}' % number


def pids(said: Any) -> tuple[int, ...]:
    return tuple(each[2] for each in said["said"])


def is_whole(said: Any, number: int, version: str) -> bool:
    """Whether an answer is this request's, and of one warm version in both stages."""
    return said["n"] == number and all(
        (name, folder, was_warm) == (version, version, True)
        for name, folder, _, was_warm in said["said"]
    )


def check(load: Load) -> None:
    """AssertionError unless each request had its answer, with 200, and from one version."""
    assert set(load.answers) == {"200"}, load.answers
    assert (load.cut, load.wrong[:3], load.refused) == ([], [], 0)

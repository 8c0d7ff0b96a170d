"""File systems that are really full: one with the broker's state, and one with the models.

Small ones, mounted in a namespace of which nobody else knows, and which ends with its only process.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from millstream.cli.ask import ask
from tests.system.client import HttpAnswer
from tests.system.deployment import COMMAND, READY_S, Deployment, Role, wait_until
from tests.system.load import Load, Request

pytestmark = [pytest.mark.system, pytest.mark.timeout(150)]

SCRIPT = Path(__file__).parents[1] / "rollout" / "plugins" / "staged.py"
PIPELINES = '[pipelines.p]\nchain = ["infer"]\n'
SIZE = "1m"
WAYS = (["--mount"], ["--mount", "--user", "--map-root-user"])
"""How one gets a namespace: as root, and as anybody where the system lets them."""


class SmallDisks:
    """The namespace. Its file systems stand at `state` and `models` of the folder there."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError where it may not be."""
        self.paths = {name: folder / name for name in ("state", "models")}
        for path in self.paths.values():
            path.mkdir()
        mounts = [f"mount -t tmpfs -o size={SIZE} tmpfs {path}" for path in self.paths.values()]
        script = " && ".join([*mounts, "echo ready", "exec cat"])
        for way in WAYS:
            self._holder = subprocess.Popen(
                ["unshare", *way, "sh", "-c", script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert self._holder.stdout is not None, "it was asked for"
            if self._holder.stdout.readline() == b"ready\n":
                kinds = [kind for kind in way if kind != "--map-root-user"]
                keep = ["--preserve-credentials"] if "--user" in way else []
                self.enter = ["nsenter", "--target", str(self._holder.pid), *kinds, *keep]
                return
            self.__exit__()
        raise PermissionError("no file system can be mounted here")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()
        self._holder.wait()
        for stream in (self._holder.stdin, self._holder.stdout):
            assert stream is not None, "it was asked for"
            stream.close()

    def seen(self, name: str) -> Path:
        """One of them, as it is seen from outside."""
        return Path(f"/proc/{self._holder.pid}/root{self.paths[name]}")

    def fill(self, name: str) -> None:
        """Leave nothing free."""
        with (self.seen(name) / "filler").open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def empty(self, name: str) -> None:
        """All is free again."""
        (self.seen(name) / "filler").unlink()


class Mill(Deployment):
    """A broker and a supervisor that see the small disks, and a gateway."""

    def __init__(self) -> None:
        super().__init__(pipelines=PIPELINES)
        self.broker_role: Role
        try:
            self.disks = SmallDisks(self.folder)
        except OSError as error:
            shutil.rmtree(self.folder)
            pytest.skip(f"no file system can be mounted here: {error}")

    def inside(self, name: str, *argv: str) -> Role:
        return self.spawn([*self.disks.enter, *COMMAND, name, *argv], name=name)

    def start_broker(self) -> Role:
        state = self.disks.paths["state"] / "traffic.db"
        return self.inside("broker", str(self.folder / "pipelines.toml"), "--state", str(state))

    def restart_broker(self) -> None:
        """The next one, once it knows what serves."""
        self.broker_role.kill()
        self.broker_role = self.start_broker()
        self.broker_role.wait_for_output("event=listening")
        wait_until(self._is_served, READY_S, "its workers are back")

    def _is_served(self) -> bool:
        return "ready" in {each["state"] for each in self.traffic()["versions"]}

    def put(self, version: str, content: bytes) -> None:
        """Raises OSError where there is no room for it."""
        path = self.disks.seen("models") / version
        path.mkdir(exist_ok=True)
        with (path / "weights").open("wb", buffering=0) as file:
            for start in range(0, len(content), 1024):
                file.write(content[start : start + 1024])

    def operate(self, what: str, **body: Any) -> dict[str, Any]:
        """An operation's answer."""
        asked = msgspec.json.encode({"pipeline": "p", **body})
        told: dict[str, Any] = msgspec.json.decode(ask(self.address, what, keys=None, body=asked))
        return told

    def traffic(self) -> dict[str, Any]:
        return self.operate("traffic")

    def detail(self, version: str) -> str:
        """Why a version has failed; "" while it has not."""
        for each in self.traffic()["versions"]:
            if (each["version"], each["state"]) == (version, "failed"):
                return str(each["detail"])
        return ""


@pytest.fixture(scope="module")
def mill() -> Iterator[Mill]:
    """Version 1 serves."""
    with Mill() as mill, mill.disks:
        mill.put("1", weights())
        mill.broker_role = mill.start_broker()
        models = str(mill.disks.paths["models"])
        mill.inside("worker", f"{SCRIPT}:Infer", "--models", models, "--stage", "infer")
        mill.gateway()
        mill.wait_ready()
        wait_until(lambda: mill.operate("history")["changes"], READY_S, "that 1 serves is kept")
        yield mill


def weights() -> bytes:
    """What a version is made of: a few hundred kilobytes that are there only with their end."""
    return b"fine\n" + b"0\n" * 150_000 + b"end\n"


def steady_load(mill: Mill) -> Load:
    def is_right(answer: HttpAnswer) -> bool:
        return bool(answer.json()["n"] == 7)

    request = Request(b'{"n":7,"said":[]}', {}, is_right)
    return Load(mill.port, "/pipelines/p", clients=4, make=lambda _: request)


def check(load: Load) -> None:
    """Nobody noticed anything."""
    assert set(load.answers) == {"200"}, load.answers
    assert (load.wrong, load.cut) == ([], [])


def test_the_disk_with_the_state_is_full(mill: Mill) -> None:
    with steady_load(mill) as load:
        mill.disks.fill("state")
        number = 0
        while not mill.status()["traffic_trouble"]:  # some find room in what the file has already
            number += 1
            assert number < 50
            mill.operate("traffic", labels={f"prod{number}": "1"}, why="x" * 500)
        ran = mill.run("traffic", "p", "--label", f"prod{number}=1")
        assert ran.returncode == 0
        assert ran.stderr.startswith("millstream: in force, but not kept")
        assert "the disk is full" in ran.stderr
        label = f"prod{number}"
        assert mill.traffic()["labels"][label] == "1"
        assert "the disk is full" in mill.run("status").stdout
        assert "traffic_not_kept" in mill.broker_role.output
        mill.restart_broker()  # a full disk is no reason not to read
        labels = mill.traffic()["labels"]
        assert label not in labels, "as was said"
        assert len(labels) == number, "stable, and what was kept before"
        mill.disks.empty("state")
        kept = mill.run("traffic", "p", "--label", "prod=1")
        assert (kept.returncode, kept.stderr) == (0, "")
        assert "not kept" not in mill.run("status").stdout
        mill.restart_broker()
        assert mill.traffic()["labels"]["prod"] == "1"
        answered = load.answered
        wait_until(lambda: load.answered > answered + 50, READY_S, "it serves")
    check(load)


def test_the_disk_with_the_models_is_full(mill: Mill) -> None:
    """What could be written of a version is no version; the rest of it makes it one."""
    mill.operate("traffic", latest=True)
    with steady_load(mill) as load:
        mill.disks.fill("models")
        with (mill.disks.seen("models") / "filler").open("rb+") as filler:
            filler.truncate(filler.seek(0, os.SEEK_END) - 100_000)  # room for a third of it
        with pytest.raises(OSError, match="No space left"):
            mill.put("2", weights())
        why = wait_until(lambda: mill.detail("2"), READY_S, "it is tried, and fails")
        assert "version 2 is cut short" in why
        assert "version 2 is cut short" in mill.run("status").stdout
        assert mill.traffic()["weights"] == {"1": 100.0}
        mill.disks.empty("models")
        mill.put("2", weights())
        wait_until(lambda: mill.traffic()["stable"] == "2", READY_S, "it takes over")
        answered = load.answered
        wait_until(lambda: load.answered > answered + 50, READY_S, "it serves")
    check(load)

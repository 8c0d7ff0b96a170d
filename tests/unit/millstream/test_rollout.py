"""The commands for versions against a socket that answers as a script says."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from broker.wire.errors import ErrorCode
from broker.wire.frames import decode_to_broker, encode
from broker.wire.messages import Ask, Beat, Refused, Report
from millstream.__main__ import main
from millstream.cli import rollout
from millstream.cli.rollout import LOOK, who

EPOCH = 7

DOCUMENT: dict[str, Any] = {
    "pipeline": "digits",
    "follows": False,
    "weights": {"2": 95.0, "3": 5.0},
    "stable": "2",
    "previous": "1",
    "canary": "3",
    "shadow": "",
    "sticky": "header:X-User-Id",
    "labels": {"prod": "2", "stable": "2", "canary": "3"},
    "rejected": {"1": "slow"},
    "promotion": {
        "version": "3",
        "steps": [1, 5, 100],
        "step": 1,
        "every_s": 600.0,
        "elapsed_s": 90,
    },
    "pending": None,
    "versions": [
        {"version": "1", "state": "found"},
        {"version": "2", "state": "ready", "workers": 2, "ready_workers": 2, "share": 95.0},
        {"version": "3", "state": "ready", "workers": 2, "ready_workers": 1, "share": 5.0},
        {"version": "4", "state": "failed", "detail": "no\n file" + 200 * " so"},
    ],
    "changed": {"at": 1.8e9, "by": "ann@mill", "what": "traffic 2=95 3=5", "why": "a look"},
    "a_later_field": 1,
}
PENDING = {
    **DOCUMENT,
    "pending": {"waits_for": ["5"], "what": "traffic 5=1"},
    "versions": [{"version": "5", "state": "loading", "workers": 2, "ready_workers": 1}],
}

TRAFFIC = """\
traffic of digits: shares stay as they are
  promotion of 3: step 2 of 3 (5 %), 8 min 30 s left of 10 min 0 s
  sticky: header:X-User-Id
  labels: prod=2, stable=2, canary=3
  rejected: 1 (slow)
  last change: 2027-01-15 08:00:00 by ann@mill: traffic 2=95 3=5 (a look)
  version  share  role    state   ready  detail
  1          0 %  -       found     0/0  on disk, not loaded
  2         95 %  stable  ready     2/2  -
  3          5 %  canary  ready     1/2  -
  4          0 %  -       failed    0/0  no file{} …
""".format(50 * " so")

Respond = Callable[[Ask], list[Report | Refused]]


class Broker:
    """A ROUTER in a thread that answers each question as `respond` says."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: list[Ask] = []
        self.respond: Respond = lambda ask: [answer(ask)]
        self.failure: BaseException | None = None
        self._bound = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "Broker":
        self._thread.start()
        assert self._bound.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)
        assert self.failure is None

    def bodies(self) -> list[tuple[str, Any]]:
        return [(ask.what, json.loads(ask.body)) for ask in self.asked]

    def _serve(self) -> None:
        try:
            with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
                router.linger = 0
                router.bind(self.address)
                self._bound.set()
                while not self._stop.is_set():
                    if router.poll(20):
                        peer, *frames = router.recv_multipart()
                        ask = decode_to_broker(frames)
                        assert isinstance(ask, Ask)
                        self.asked.append(ask)
                        for message in (Beat(EPOCH), *self.respond(ask)):
                            router.send_multipart([peer, *encode(message)])
        except BaseException as error:
            self.failure = error


def answer(ask: Ask, document: object = DOCUMENT, message: str = "") -> Report:
    return Report(EPOCH, msgspec.json.encode(document), 0, message, ask.id)


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MILLSTREAM_")]:
        monkeypatch.delenv(name)
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(rollout, "LOOK_S", 0.05)


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    address = f"ipc://{tmp_path}/b.sock"
    monkeypatch.setenv("MILLSTREAM_BROKER", address)
    with Broker(address) as serving:
        yield serving


class TestQuestions:
    def test_traffic(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["traffic", "digits"]) == 0
        assert capsys.readouterr() == (TRAFFIC, "")
        assert broker.bodies() == [("traffic", {"pipeline": "digits"})]

    def test_json(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["traffic", "digits", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == DOCUMENT

    def test_a_pipeline_of_no_versions(
        self, broker: Broker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        broker.respond = lambda ask: [answer(ask, {"pipeline": "digits", "follows": True})]
        assert main(["traffic", "digits"]) == 0
        assert capsys.readouterr().out == (
            "traffic of digits: the newest version takes over\n  no versions are known\n"
        )

    def test_history(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        change = {**DOCUMENT["changed"], "traffic": {"weights": {"2": 3, "3": 1}}}
        broker.respond = lambda ask: [answer(ask, {"changes": [change, {"at": 0}]})]
        assert main(["history", "digits", "--limit", "2"]) == 0
        assert capsys.readouterr().out == (
            "changes, the latest first\n"
            "  when                 by        what              shares       why\n"
            "  2027-01-15 08:00:00  ann@mill  traffic 2=95 3=5  2=75% 3=25%  a look\n"
            "  1970-01-01 00:00:00  -         -                 -            -\n"
        )
        assert broker.bodies() == [("history", {"pipeline": "digits", "limit": 2})]

    def test_compare(self, broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
        figures = {
            "pipeline": "digits",
            "a": {"version": "2", "requests": 1000, "latency_ms": {"p50": 1.23456}},
            "b": {"version": "3", "requests": 50, "latency_ms": {"p50": 1.5, "p99": 4}},
            "agreement": {"share": 0.99},
            "drift": None,
        }
        broker.respond = lambda ask: [answer(ask, figures)]
        assert main(["compare", "digits", "2", "3"]) == 0
        assert capsys.readouterr().out == (
            "pipeline digits: 2 and 3\n"
            "  agreement share: 0.99\n"
            "  figure          2      3\n"
            "  requests        1000   50\n"
            "  latency_ms p50  1.235  1.5\n"
            "  latency_ms p99  -      4\n"
        )
        assert broker.bodies() == [("compare", {"pipeline": "digits", "a": "2", "b": "3"})]

    @pytest.mark.parametrize(
        ("reply", "line"),
        [
            (Report(EPOCH, b"", ErrorCode.UNKNOWN_PIPELINE, "no such"), "no such"),
            (Refused(EPOCH, "not known"), "the broker refuses: not known"),
            (Report(EPOCH, b"3"), "the broker's answer cannot be read: "),
        ],
    )
    def test_the_broker_says_no(
        self,
        broker: Broker,
        capsys: pytest.CaptureFixture[str],
        reply: Report | Refused,
        line: str,
    ) -> None:
        broker.respond = lambda _ask: [reply]
        for command in (["traffic", "d"], ["history", "d"], ["compare", "d", "1", "2"]):
            assert main(command) == 1
            said = capsys.readouterr()
            assert said.out == ""
            assert said.err.startswith(f"millstream: {line}")
            assert said.err.count("\n") == 1


class TestChanges:
    @pytest.mark.parametrize(
        ("argv", "what", "body"),
        [
            (["traffic", "d", "2=95", "3=5"], "traffic", {"weights": {"2": 95.0, "3": 5.0}}),
            (["traffic", "d", "v1.9=0.5"], "traffic", {"weights": {"v1.9": 0.5}}),
            (
                ["traffic", "d", "2=1", "--sticky", "header:X-User-Id"],
                "traffic",
                {"weights": {"2": 1.0}, "sticky": "header:X-User-Id"},
            ),
            (["traffic", "d", "--sticky", "none"], "traffic", {"sticky": ""}),
            (["traffic", "d", "--shadow", "3"], "traffic", {"shadow": "3"}),
            (["traffic", "d", "--shadow", "none"], "traffic", {"shadow": ""}),
            (["traffic", "d", "--latest"], "traffic", {"latest": True}),
            (
                ["traffic", "d", "--label", "a=1,b=2", "--label", "c="],
                "traffic",
                {"labels": {"a": "1", "b": "2", "c": ""}},
            ),
            (["rollback", "d"], "rollback", {}),
            (
                ["promote", "d", "3"],
                "promote",
                {"version": "3", "steps": [1.0, 5.0, 25.0, 100.0], "every_s": 600.0},
            ),
            (
                ["promote", "d", "3", "--steps", "5,50", "--every", "1.5h"],
                "promote",
                {"version": "3", "steps": [5.0, 50.0], "every_s": 5400.0},
            ),
            (["promote", "d", "--stop"], "promote", {"stop": True}),
        ],
    )
    def test_what_is_asked(
        self,
        broker: Broker,
        capsys: pytest.CaptureFixture[str],
        argv: list[str],
        what: str,
        body: dict[str, object],
    ) -> None:
        assert main([*argv, "--why", "a test"]) == 0
        assert capsys.readouterr() == (TRAFFIC, "")
        said = {"pipeline": "d", "by": who(), "why": "a test"}
        assert broker.bodies()[0] == (what, {**said, **body})  # then, perhaps, how it stands

    def test_what_could_not_be_kept_is_told(
        self, broker: Broker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        broker.respond = lambda ask: [answer(ask, message="in force, but not kept")]
        assert main(["rollback", "digits"]) == 0
        assert capsys.readouterr() == (TRAFFIC, "millstream: in force, but not kept\n")

    def test_it_waits_for_a_version(
        self, broker: Broker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        order: list[Ask] = []

        def respond(ask: Ask) -> list[Report | Refused]:
            if ask.id != LOOK:
                order.append(ask)
                return []
            looks = len(broker.asked) - 1
            return [answer(ask, PENDING)] if looks < 4 else [answer(order[0]), answer(ask)]

        broker.respond = respond
        assert main(["traffic", "digits", "5=1"]) == 0
        waiting = "waiting for version 5 (loading, 1 of 2 workers ready) of digits\n"
        assert capsys.readouterr() == (TRAFFIC, waiting)

    def test_the_version_fails_in_the_end(
        self, broker: Broker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        why = "the traffic is as it was: version 5 failed: no file"

        def respond(ask: Ask) -> list[Report | Refused]:
            if ask.id == LOOK:
                return [Report(EPOCH, b"", ErrorCode.NOT_READY, why, broker.asked[0].id)]
            return []

        broker.respond = respond
        assert main(["traffic", "digits", "5=1"]) == 1
        assert capsys.readouterr().err == f"millstream: {why}\n"

    def test_another_broker_comes_meanwhile(
        self, broker: Broker, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def respond(ask: Ask) -> list[Report | Refused]:
            if ask.id != LOOK:
                return []
            epoch = EPOCH + (len(broker.asked) > 2)
            return [msgspec.structs.replace(answer(ask, PENDING), epoch=epoch)]

        broker.respond = respond
        assert main(["traffic", "digits", "5=1"]) == 1
        assert capsys.readouterr().err.splitlines()[-1] == (
            "millstream: the broker has begun anew meanwhile; "
            "'millstream traffic digits' shows how it stands"
        )

    @pytest.mark.parametrize(
        ("respond", "line"),
        [
            (lambda _ask: [], "no broker answers at "),
            (lambda ask: [answer(ask)] if ask.id == LOOK else [], "the broker gives no answer; "),
        ],
    )
    def test_no_answer(
        self,
        broker: Broker,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        respond: Respond,
        line: str,
    ) -> None:
        monkeypatch.setattr(rollout, "ANSWER_S", 0.3)
        monkeypatch.setattr(rollout, "LOST_S", 0.3)
        broker.respond = respond
        assert main(["rollback", "digits"]) == 1
        assert capsys.readouterr().err.startswith(f"millstream: {line}")

    @pytest.mark.system
    def test_ctrl_c(self, broker: Broker) -> None:
        broker.respond = lambda ask: [answer(ask, PENDING)] if ask.id == LOOK else []
        command = subprocess.Popen(
            [sys.executable, "-m", "millstream", "traffic", "digits", "5=1"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert command.stderr is not None
        with command, command.stderr as lines:
            assert lines.readline().startswith("waiting for version 5 ")
            command.send_signal(signal.SIGINT)
            assert lines.read() == (
                "millstream: not waiting any longer; the change goes on at the broker: "
                "'millstream traffic digits' shows how it stands\n"
            )
            assert command.wait(5) == 130


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("traffic", "PIPELINE is missing"),
        ("traffic a/b", "the name of a pipeline must be 1 to 64 of the characters"),
        ("traffic d 2", "2: must be VERSION=SHARE, such as 2=95"),
        ("traffic d 2=x", "2=x: the share must be a number, 0 or more, not 'x'"),
        ("traffic d 2=-1", "2=-1: the share must be a number, 0 or more, not '-1'"),
        ("traffic d 2=inf", "2=inf: the share must be a number"),
        ("traffic d =5", "the name of a version must be"),
        ("traffic d 2=1 2=3", "version 2 is given twice"),
        ("traffic d 2=1 --latest", "give shares or --latest, not both"),
        ("traffic d --sticky x", "--sticky: must be header:NAME, cookie:NAME, request-id or none"),
        ("traffic d --sticky header:a:b", "--sticky: must be header:NAME"),
        ("traffic d --label x", "--label: must be NAME=VERSION, or NAME= to remove the label"),
        ("traffic d --label a=1,a=2", "label a is given twice"),
        ("traffic d --why x", "--why is for a change, and none is asked for"),
        ("traffic d --shadw 3", "no such option: --shadw; did you mean --shadow?"),
        ("rollback", "PIPELINE is missing"),
        ("promote d", "VERSION is missing (or --stop)"),
        ("promote d 3 --stop", "--stop ends the promotion that there is"),
        ("promote d 3 --steps 5,1", "--steps: must be growing shares in percent"),
        ("promote d 3 --steps 0,5", "--steps: must be growing shares in percent"),
        ("promote d 3 --steps 5,101", "--steps: must be growing shares in percent"),
        ("promote d 3 --steps 5,,6", "--steps: a step must be a number"),
        ("promote d 3 --every 10x", "--every: must be a duration such as 90s, 10m or 2h"),
        ("promote d 3 --every 0s", "--every: must be a duration"),
        ("promote d 3 --every 31d", "--every: must be a duration"),
        ("compare d 1", "B is missing"),
        ("history d --limit 0", "--limit: must be a whole number, 1 or more"),
        ("rollbak d", "no such command: rollbak; did you mean rollback?"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], argv: str, line: str) -> None:
    assert main(argv.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"millstream: {line}")
    assert said.err.count("\n") == 1


def test_a_reason_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rollback", "d", "--why", "a\nb"]) == 2
    assert main(["rollback", "d", "--why", "x" * 501]) == 2
    line = "millstream: --why: must be one line of at most 500 characters\n"
    assert capsys.readouterr().err == 2 * line


def test_no_broker(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in (["traffic", "d"], ["rollback", "d"], ["history", "d"]):
        assert main([*command, "--broker", f"ipc://{tmp_path}/none.sock"]) == 1
        assert capsys.readouterr().err.startswith("millstream: no broker answers at ipc://")

"""`millstream status` against a socket that answers as the broker does."""

import contextlib
import io
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import zmq
from rich.console import Console
from zmq.auth.thread import ThreadAuthenticator

from broker.wire.frames import decode_to_broker, encode
from broker.wire.keys import BrokerKeys, load_broker_keys, load_client_keys
from broker.wire.messages import PROTOCOL_VERSION, Ask, Beat, Refused, Report
from millstream.__main__ import main
from millstream.cli.ask import ask
from millstream.cli.errors import CommandError
from millstream.cli.report import parse, tables
from millstream.cli.tables import rich_group
from tests.ports import free_port

REPORT = {
    "epoch": 7,
    "uptime_s": 3725.5,
    "draining": False,
    "pipelines": {
        "digits": {
            "chain": ["preprocess", "infer"],
            "ready": False,
            "reasons": ["infer has no ready worker"],
            "items": 12,
            "bytes": 1_500_000,
            "max_items": 4096,
            "max_bytes": 1 << 30,
            "versions": ["1", "2"],
            "stages": {
                "preprocess": {
                    "queued": 3,
                    "running": 2,
                    "ready_workers": 1,
                    "workers": 2,
                    "max_batch_size": 8,
                    "batch_cap": 4,
                    "estimate_ms": {"a": 1.23456, "c": 0.5},
                    "done": 1000,
                    "failed": 1,
                    "reason": "",
                },
                "infer": {"queued": 7, "estimate_ms": None, "a_later_field": 1},
            },
        }
    },
    "workers": [
        {
            "id": "77",
            "stage": "preprocess",
            "state": "busy",
            "version": "2",
            "pid": 4242,
            "host": "mill",
            "index": 0,
            "device": "cuda:0",
            "running": 1,
            "batches": 90,
            "items": 1000,
            "supervisor": "73",
        }
    ],
    "supervisors": [
        {"id": "73", "stage": "", "script": "a.py", "host": "mill", "pid": 4241, "workers": 1}
    ],
    "gateways": [{"id": "67", "host": "mill", "pid": 4240, "items": 12}],
    "counters": {"admitted": 1012},
}


TEXT = """\
broker at ADDRESS, up 1 h 2 min

pipeline digits: not ready, 12 of 4096 items, 1.43 MiB of 1 GiB, versions 1, 2
  infer has no ready worker
  stage       queue  running  ready  batch  t(b)             done  failed
  preprocess      3        2    1/2    4-8  1.23 + 0.5·b ms  1000       1
  infer           7        0    0/0      -  -                   0       0

workers
  stage       state  version  device  host   pid  running  batches  items
  preprocess  busy   2        cuda:0  mill  4242        1       90   1000

supervisors
  stage  script  host   pid  workers
  -      a.py    mill  4241        1

gateways
  host   pid  items
  mill  4240     12
"""


TRAFFIC = {
    "pipeline": "digits",
    "follows": False,
    "stable": "2",
    "canary": "3",
    "shadow": "4",
    "sticky": "header:X-User-Id",
    "rejected": {"5": "agreement: 72 %"},
    "promotion": {
        "version": "3", "steps": [1.0, 5.0, 100.0], "step": 1, "every_s": 600.0, "elapsed_s": 61.2
    },
    "pending": {"by": "ann", "what": "traffic 6=100", "waits_for": ["6"], "elapsed_s": 3.0},
    "versions": [
        {"version": "1", "state": "ready", "share": 0.0},
        {"version": "2", "state": "ready", "share": 95.0},
        {"version": "3", "state": "ready", "share": 5.0},
        {"version": "4", "state": "loading", "detail": "no ready worker of it at infer"},
        {"version": "6", "state": "found"},
    ],
}  # fmt: skip

TRAFFIC_LINES = [
    "  traffic: 2 95 %, 3 5 % (canary), 4 0 % (shadow); sticky by header:X-User-Id",
    "  version 4 loading: no ready worker of it at infer",
    "  version 6 found",
    "  version 5 is rejected: agreement: 72 %",
    "  promoting 3: step 2 of 3, for 1 min 1 s of 10 min 0 s",
    "  traffic 6=100 waits for version 6",
]


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests, and a default address of their own."""
    for name in [name for name in os.environ if name.startswith("MILLSTREAM_")]:
        monkeypatch.delenv(name)
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


class Answerer:
    """A ROUTER in a thread that answers each question, after a word about something else."""

    def __init__(
        self,
        address: str,
        *,
        keys: BrokerKeys | None = None,
        answer: Report | Refused = Report(7, msgspec.json.encode(REPORT)),  # noqa: B008
    ) -> None:
        self.address = address
        self.asked: list[Ask] = []
        self._keys = keys
        self._answer = answer
        self._bound = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "Answerer":
        self._thread.start()
        assert self._bound.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def callback(self, _domain: str, key: bytes) -> bool:
        """Whether this public key is let in."""
        return self._keys is not None and key in self._keys.allowed

    def _serve(self) -> None:
        with zmq.Context() as context, contextlib.ExitStack() as stack:
            if self._keys is not None:
                authenticator = ThreadAuthenticator(context)
                authenticator.start()
                stack.callback(authenticator.stop)
                authenticator.configure_curve_callback("*", self)
            router = stack.enter_context(context.socket(zmq.ROUTER))
            router.linger = 0
            if self._keys is not None:
                router.curve_server = 1
                router.curve_secretkey = self._keys.secret
            router.bind(self.address)
            self._bound.set()
            while not self._stop.is_set():
                if router.poll(20):
                    peer, *frames = router.recv_multipart()
                    question = decode_to_broker(frames)
                    assert isinstance(question, Ask)
                    self.asked.append(question)
                    for message in (Beat(7), self._answer):
                        router.send_multipart([peer, *encode(message)])


@pytest.fixture
def answerer(tmp_path: Path) -> Iterator[Answerer]:
    with Answerer(f"ipc://{tmp_path}/b.sock") as serving:
        yield serving


def start(*argv: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "millstream", *argv],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_text(answerer: Answerer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--broker", answerer.address]) == 0
    assert capsys.readouterr() == (TEXT.replace("ADDRESS", answerer.address), "")
    assert answerer.asked == [Ask(PROTOCOL_VERSION, "status")]


def test_json(answerer: Answerer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json", "--broker", answerer.address]) == 0
    assert json.loads(capsys.readouterr().out) == REPORT


def test_terminal() -> None:
    shown = tables(parse(msgspec.json.encode(REPORT)), "ADDRESS")
    out = io.StringIO()
    Console(file=out, width=100, force_terminal=True, color_system=None).print(rich_group(shown))
    assert [line.split() for line in out.getvalue().splitlines()] == [
        line.split() for line in TEXT.splitlines()
    ]


def test_an_empty_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with Answerer(f"ipc://{tmp_path}/b.sock", answer=Report(1, b"{}")) as answerer:
        assert main(["status", "--broker", answerer.address]) == 0
        assert capsys.readouterr().out == f"broker at {answerer.address}, up 0 s\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(59.9, "59 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")],
)
def test_up_for(seconds: float, words: str) -> None:
    body = msgspec.json.encode({"uptime_s": seconds, "draining": True})
    assert tables(parse(body), "A")[0].lines == [f"broker at A, up {words}, draining"]


def test_where_requests_go() -> None:
    digits = REPORT["pipelines"]["digits"] | {"traffic": TRAFFIC}  # type: ignore[index]
    shown = tables(parse(msgspec.json.encode({"pipelines": {"digits": digits}})), "A")
    assert list(shown[1].lines[2:]) == TRAFFIC_LINES


@pytest.mark.parametrize(
    ("hindrance", "agreements", "lines"),
    [
        ("", [], []),
        ("it is not ready", [], ["  shadow 4 gets no copies: it is not ready"]),
        (
            "",
            [
                {"shadow": "4", "copies": 90, "compared": 80, "agreed": 79, "dropped": {"late": 6}},
                {"shadow": "4", "copies": 20, "compared": 20, "agreed": 20, "dropped": {"full": 9}},
                {"shadow": "3", "copies": 7, "dropped": {"lost": 7}},
            ],
            ["  shadow 4: 110 copies, 100 compared, 99 % agree, 15 dropped (9 full, 6 late)"],
        ),
    ],
)
def test_what_became_of_a_shadows_copies(
    hindrance: str, agreements: list[dict[str, object]], lines: list[str]
) -> None:
    about = REPORT["pipelines"]["digits"] | {  # type: ignore[index]
        "reasons": [],
        "shadow": {"version": "4", "hindrance": hindrance},
        "agreements": agreements,
    }
    report = parse(msgspec.json.encode(REPORT | {"pipelines": {"digits": about}}))
    assert list(tables(report, "ADDRESS")[1].lines[1:]) == lines


def test_what_is_wrong_is_told_first() -> None:
    told = [{"level": "warning", "text": "infer is the bottleneck", "rank": 6}, {"text": "second"}]
    shown = tables(parse(msgspec.json.encode(REPORT | {"findings": told})), "A")
    assert list(shown[1].lines) == ["infer is the bottleneck", "second"]
    assert not shown[1].head


def test_the_environment_names_the_broker_and_the_option_goes_first(
    answerer: Answerer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLSTREAM_BROKER", answerer.address)
    monkeypatch.setenv("MILLSTREAM_JSON", "true")
    assert main(["status"]) == 0
    monkeypatch.setenv("MILLSTREAM_BROKER", "ipc:///nowhere/b.sock")
    assert main(["status", "--broker", answerer.address]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_default_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "millstream").mkdir(mode=0o700)
    with Answerer(f"ipc://{tmp_path}/millstream/broker.sock"):
        assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == REPORT


@pytest.fixture
def guarded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Answerer]:
    """One that lets in who has the keys of the folder `keys`, which is the working directory's."""
    monkeypatch.chdir(tmp_path)
    for folder in ("keys", "others"):
        assert main(["keys", folder]) == 0
    capsys.readouterr()
    with Answerer(f"tcp://127.0.0.1:{free_port()}", keys=load_broker_keys("keys")) as serving:
        yield serving


def complaint_of(address: str, folder: str | None, *, timeout_s: float = 20.0) -> tuple[int, str]:
    """Exit code and line of an `ask` with these keys: wrong ones need not be waited for."""
    keys = load_client_keys(folder) if folder else None
    with pytest.raises(CommandError) as caught:
        ask(address, "status", keys=keys, timeout_s=timeout_s)
    return caught.value.code, str(caught.value)


def test_with_keys(guarded: Answerer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json", "--broker", guarded.address, "--keys", "keys"]) == 0
    assert json.loads(capsys.readouterr().out) == REPORT


def test_with_the_wrong_keys(guarded: Answerer) -> None:
    address = guarded.address
    assert complaint_of(address, None) == (
        2,
        f"the broker at {address} wants keys; give --keys DIR",
    )
    assert complaint_of(address, "others") == (
        2,
        f"the broker at {address} has another broker.public than these keys",
    )
    Path("others/broker.public").write_bytes(Path("keys/broker.public").read_bytes())
    assert complaint_of(address, "others") == (
        2,
        f"the broker at {address} does not let this client in: "
        "its client.public is missing from the clients/ of the broker's keys",
    )
    assert guarded.asked == []


def test_a_change_without_keys(guarded: Answerer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traffic", "digits", "1=1", "--broker", guarded.address]) == 2
    assert "wants keys; give --keys DIR" in capsys.readouterr().err


def test_nobody_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 1
    assert capsys.readouterr() == (
        "",
        f"millstream: no broker answers at ipc://{tmp_path}/millstream/broker.sock; is it running? "
        "(--broker or MILLSTREAM_BROKER names another address)\n",
    )


def test_nobody_answers_on_tcp() -> None:
    code, line = complaint_of(f"tcp://127.0.0.1:{free_port()}", None, timeout_s=0.3)
    assert code == 1
    assert line.startswith("no broker answers at tcp://127.0.0.1:")


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (Refused(7, "protocol 9 is not spoken here"), "the broker refuses: protocol 9 is not"),
        (Report(7, b"no json"), "the broker's report cannot be read: "),
        (Report(7, b'{"workers": 3}'), "the broker's report cannot be read: "),
    ],
)
def test_an_answer_that_is_no_report(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answer: Report | Refused,
    line: str,
) -> None:
    with Answerer(f"ipc://{tmp_path}/b.sock", answer=answer) as answerer:
        assert main(["status", "--broker", answerer.address]) == 1
    assert capsys.readouterr().err.startswith(f"millstream: {line}")


def test_a_reader_that_has_gone(answerer: Answerer) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with start("status", "--broker", answerer.address, stdout=writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (1, "")


def test_interrupted_while_it_waits() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(20)
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with start("status", "--broker", address) as process:
            silent.accept()[0].close()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")


def test_watching_in_a_terminal_until_interrupted(answerer: Answerer) -> None:
    ours, theirs = pty.openpty()
    shown = b""
    with start("status", "--watch", "--broker", answerer.address, stdout=theirs) as process:
        os.close(theirs)
        while b"gateways" not in shown:
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # how a terminal says that the other end has closed
            while os.read(ours, 65536):
                pass
        _, err = process.communicate(timeout=20)
    os.close(ours)
    assert (process.returncode, err) == (0, "")
    assert b"pipeline digits: not ready" in shown


def test_watching_in_a_pipe_waits_for_a_broker(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/b.sock"
    with start("status", "--watch", "--json", "--broker", address) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert "no broker answers" in process.stderr.readline()
        with Answerer(address):
            for _ in range(2):
                assert json.loads(process.stdout.readline()) == REPORT
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0

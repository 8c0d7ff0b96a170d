"""One line per event, from ours and from others, to whoever reads."""

import contextlib
import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from broker.wire import log
from broker.wire.log_lines import Event
from tests.logs import logging_to


class Answered(Struct, omit_defaults=True):
    """As gateways have it for each request."""

    status: int
    ms: float
    code: str = ""
    queue_ms: list[float] = []


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Callable[..., Callable[[], list[str]]]]:
    """Sets the log up, and gives what then reads its lines."""
    path = tmp_path / "log"
    with ExitStack() as stack:

        def begin(form: str = "logfmt", level: str = "info") -> Callable[[], list[str]]:
            stack.enter_context(logging_to(path, form, level))
            log.configure(role="worker", stage="infer", index=2)
            return lambda: path.read_text().splitlines()

        yield begin


Begin = Callable[..., Callable[[], list[str]]]


def test_a_line_is_key_and_value(written: Begin) -> None:
    lines = written()
    log.info("worker ready", size=8, run_s=0.12345678, plugin="Infer")
    (line,) = lines()
    assert line.endswith(
        f'level=info role=worker stage=infer index=2 pid={os.getpid()} event="worker ready" '
        "size=8 run_s=0.123457 plugin=Infer"
    )


def test_or_json(written: Begin) -> None:
    lines = written("json")
    log.error("x", reason='say "no"\n', odd="\udcff", error=ValueError("v"), trace="Trace\n  y\n")
    (line,) = lines()
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "error",
        "role": "worker",
        "stage": "infer",
        "index": 2,
        "pid": os.getpid(),
        "event": "x",
        "reason": 'say "no"\n',
        "odd": "\\udcff",
        "error": "v",
        "trace": "Trace\n  y\n",
    }


def test_nothing_breaks_the_line(written: Begin) -> None:
    lines = written()
    log.error("x", reason='say "no"\nlevel=info forged=1', empty="", odd="a\x1b[31m")
    (line,) = lines()
    assert r'reason="say \"no\"\nlevel=info forged=1"' in line
    assert 'empty=""' in line
    assert "\x1b" not in line


def test_a_trace_follows(written: Begin) -> None:
    lines = written()
    log.warning("x", trace="Traceback\n  line\n")
    with contextlib.suppress(ValueError):
        try:
            raise ValueError("ours")
        except ValueError:
            log.bug("oops")
            raise
    said = lines()
    assert said[1:3] == ["Traceback", "  line"]
    assert said[-1] == "ValueError: ours"


def test_lines_of_requests_wait_and_go_out_together(written: Begin) -> None:
    lines = written("json")
    log.put(log.INFO, "answered", Answered(200, 1.25))
    log.put(log.WARNING, "answered", Answered(500, 2.5, "worker_error", [0.5]))
    log.put(log.DEBUG, "answered", Answered(200, 1.0))
    assert lines() == []
    log.write_out()
    first, second = map(json.loads, lines())
    assert (first["level"], first["event"], first["status"], first["ms"]) == (
        "info",
        "answered",
        200,
        1.25,
    )
    assert "code" not in first
    assert (second["level"], second["code"], second["queue_ms"]) == (
        "warning",
        "worker_error",
        [0.5],
    )


@pytest.mark.parametrize("form", ["json", "logfmt", "human"])
def test_a_client_cannot_break_the_line_of_its_request(written: Begin, form: str) -> None:
    lines = written(form)
    log.put(log.INFO, "answered", Answered(400, 1.0, 'a\n{"level":"error"} \udcff\x1b[0m'))
    log.write_out()
    (line,) = lines()
    assert "\x1b" not in line


def test_scripts_write_there_with_what_runs(written: Begin) -> None:
    lines = written("json")
    log.adopt_scripts(lambda: {"request_ids": ["a"]})
    logging.basicConfig(level=logging.ERROR)  # as scripts do: there is a log already
    logging.getLogger("lib.part").info("loaded %s", "weights")
    try:
        raise ValueError("theirs")
    except ValueError:
        logging.getLogger("lib").exception("failed")
    logging.getLogger("lib").debug("noise")
    first, second = map(json.loads, lines())
    assert (first["event"], first["logger"]) == ("loaded weights", "lib.part")
    assert (first["request_ids"], first["index"]) == (["a"], 2)
    assert "ValueError: theirs" in second["trace"]


def test_a_line_of_another_process_bears_its_name(written: Begin) -> None:
    lines = written("json")
    log.relay("loading…", role="worker", stage="a", index=1, pid=7)
    found = json.loads(lines()[0])
    assert (found["stage"], found["index"], found["pid"]) == ("a", 1, 7)
    assert (found["event"], found["text"]) == ("printed", "loading…")


def test_a_signal_turns_debug_on_and_off(written: Begin) -> None:
    lines = written(level="warning")
    before = signal.getsignal(signal.SIGUSR2)
    try:
        log.switch_by_signal()
        for _ in range(3):
            log.debug("detail")
            log.info("usual")
            signal.raise_signal(signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert [line.rpartition("event=")[2] for line in lines()] == ["detail", "usual"]


@pytest.mark.parametrize(
    ("environ", "form"),
    [({}, "json"), ({"HONCHO_PROCESS_NAME": "gateway.1"}, "human")],
)
def test_auto_asks_who_reads(
    written: Begin, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], form: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    lines = written("auto")
    log.info("worker ready", size=8)
    (line,) = lines()
    if form == "json":
        assert json.loads(line)["event"] == "worker ready"
    else:  # the time stands before it already
        assert line == "info    infer.2       worker ready size=8"


def test_people_at_a_terminal_get_columns_and_colours() -> None:
    master, slave = os.openpty()
    try:
        log.setup("auto", "info", slave)
        lines = log._lines("auto", slave, {"role": "gateway"})
        text = lines.line(0.0, log.WARNING, Event("gone", {"a": 1}, "Trace\n")).decode()
    finally:
        log.setup()
        os.close(master)
        os.close(slave)
    assert "\x1b[33mwarning\x1b[0m" in text
    assert "gateway" in text
    assert text.endswith("\n    Trace\n")


def test_processes_that_are_started_write_likewise() -> None:
    log.setup("human", "error")
    environ = log.environment()
    log.setup()
    log.setup_from(environ)
    found: Any = (log.state.form, log.state.level)
    log.setup()
    assert found == ("human", log.ERROR)

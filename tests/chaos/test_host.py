"""Tracebacks in logs: those that requests asked for are planned, all others are found."""

import time
from pathlib import Path

import pytest

from tests.chaos import host

LOG = """time=1 level=error event="forward raised" error="as the item wished"
Traceback (most recent call last):
  File "chain.py", line 51, in _misbehave
    raise Poisoned("as the item wished")
millstream_plugin_chain.Poisoned: as the item wished
time=2 level=error event="forward raised"
Traceback (most recent call last):
  File "chain.py", line 53, in _misbehave

MemoryError: as the item wished
time=3 level=error event=sweep_failed
Traceback (most recent call last):
  File "server.py", line 193, in _sweep
    service.tick(time.monotonic())
KeyError: 7
time=4 level=error event="forward raised"
Traceback (most recent call last):
  File "chain.py", line 53, in _mistime=5 level=info event="another process"
time=6 level=info event=stopped
"""


def test_planned_tracebacks_are_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "gateway.log"
    log.write_text(LOG)
    assert list(host.tracebacks([log])) == ["gateway.log: KeyError: 7"]


def test_memory_may_grow_a_little() -> None:
    before = {"broker": 40 << 20}
    assert list(host.grown(before, {"broker": 50 << 20})) == []
    (said,) = host.grown(before, {"broker": 70 << 20})
    assert said == "memory: a broker had 40 MiB, and then 70"


def test_when_versions_were_ready_first(tmp_path: Path) -> None:
    second, third = tmp_path / "second.log", tmp_path / "third.log"
    head = "time=2026-01-01T00:00:{:02}.000Z level=info role={} stage={} index=0 pid={} event={}"
    lines: dict[Path, list[str]] = {second: [], third: []}
    for log, stage, pid, version, at in (
        (second, "second", 11, "1", 1), (second, "second", 12, "2", 5), (third, "third", 13, "1", 3)
    ):  # fmt: skip
        started = f'"worker started" index=0 worker_pid={pid} version={version}'
        lines[log] += [
            head.format(at, "supervisor", stage, 7, started),
            head.format(at + 1, "worker", stage, pid, '"worker ready" plugin=X'),
        ]
    for log, text in lines.items():
        log.write_text("\n".join(text))
    found = host.ready_versions([second, third])
    assert found.keys() == {"1"}, "2 was never there in the third stage"
    assert found["1"] + time.time() - time.monotonic() == pytest.approx(1767225604.0, abs=0.1)

"""Tracebacks in logs: those that requests asked for are planned, all others are found."""

from pathlib import Path

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
Traceback (most recent call last):
  File "chain.py", line 37, in foFatal Python error: Segmentation fault

Thread 0x00007fd5fd9fd6c0 (most recent call first):
  File "workers/ahead.py", line 123 in _run
time=6 level=error event="forward raised"
Traceback (most recent call last):
  File "chain.py", line 53, in _misbehave
MemoryErrtime=7 level=info event="another process"
time=8 level=info event=stopped
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

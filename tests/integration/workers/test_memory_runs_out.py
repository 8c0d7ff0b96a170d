"""Memory that really runs out: under a limit of the process, and under the kernel's hand."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import Dismiss, Failure, Results, WorkerDraining
from tests.integration.workers.conftest import Start
from tests.integration.workers.scripted_broker import ScriptedBroker, value_of

LIMIT_BYTES = 256 << 20


def told(results: Results) -> list[object]:
    """The outcomes, a failure by its code."""
    return [out.code if isinstance(out, Failure) else value_of(out) for out in results.outcomes]


@pytest.mark.parametrize("class_name", ["Hungry", "HungryAsync"])
def test_a_batch_too_large_an_item_too_large_and_a_leak(
    broker: ScriptedBroker, start: Start, class_name: str
) -> None:
    supervisor = start("hungry.py", class_name=class_name)
    ((worker, _),) = broker.wait_ready()

    together = broker.wait_results(broker.send_batch(worker, [{"mib": 160}, {"mib": 160}]))
    assert told(together) == [1, 1]
    assert together.out_of_memory == 2
    assert not together.sample

    too_large = broker.wait_results(broker.send_batch(worker, [{"mib": 1}, {"mib": 300}]))
    assert told(too_large) == [1, ErrorCode.WORKER_ERROR]
    assert too_large.out_of_memory == 1

    assert told(broker.wait_results(broker.send_batch(worker, [{"leak": 180}]))) == [1]
    short = broker.wait_results(broker.send_batch(worker, [{"mib": 100}]))
    assert told(short) == [ErrorCode.OUT_OF_MEMORY]
    broker.wait_for(WorkerDraining)
    broker.send(worker, Dismiss(broker.epoch))
    ((new, _),) = broker.wait_ready()
    again = broker.wait_results(broker.send_batch(new, [{"mib": 100}]))
    assert (told(again), again.out_of_memory) == ([1], 0)
    assert "its memory does not come back" in supervisor.log
    assert 'event="forward ran out of memory" items=2' in supervisor.log


# ------------------------------------------------------------------ the kernel's OOM killer


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup of 256 MiB, of either version, where this user may make one."""
    v1 = Path("/sys/fs/cgroup/memory")
    folder = (v1 if v1.is_dir() else Path("/sys/fs/cgroup")) / f"millstream-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        _limit(folder, LIMIT_BYTES)
        yield folder
    finally:
        deadline = time.monotonic() + 20
        while (folder / "cgroup.procs").read_text():  # whoever ends is moved out soon after
            assert time.monotonic() < deadline
            time.sleep(0.02)
        folder.rmdir()


def _limit(folder: Path, size_bytes: int) -> None:
    """Memory, and swap where there is any."""
    for file, value in (
        ("memory.max", size_bytes),
        ("memory.swap.max", 0),
        ("memory.limit_in_bytes", size_bytes),
        ("memory.memsw.limit_in_bytes", size_bytes),
    ):
        if (folder / file).exists():
            (folder / file).write_text(str(value))
    if not any((folder / file).exists() for file in ("memory.max", "memory.limit_in_bytes")):
        pytest.skip("cgroups here do not limit memory")


def test_who_the_kernel_kills_for_want_of_memory_is_told_from_others(
    cgroup: Path, broker: ScriptedBroker, start: Start
) -> None:
    join = ["sh", "-c", f'echo $$ > {cgroup}/cgroup.procs && exec "$@"', "sh"]
    supervisor = start("hungry.py", class_name="Glutton", prefix=join)
    ((worker, hello),) = broker.wait_ready()
    os.kill(hello.pid, signal.SIGKILL)
    assert not broker.wait_death(worker).out_of_memory
    ((worker, _),) = broker.wait_ready()
    broker.send_batch(worker, [{"mib": 2 * LIMIT_BYTES >> 20}])
    death = broker.wait_death(worker)
    assert death.out_of_memory
    assert death.detail == "killed by the kernel for want of memory"
    broker.wait_ready()
    assert 'how="killed by the kernel for want of memory"' in supervisor.log

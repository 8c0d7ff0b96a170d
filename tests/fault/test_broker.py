"""A broker that is killed, stopped or replaced under load: requests wait for it, none is lost."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.fault.rig import LONG_S, Away, Rig, under_load

pytestmark = pytest.mark.fault


@pytest.mark.parametrize("down_s", [0.2, 2.0])
def test_broker_killed_and_restarted(rig: Rig, down_s: float) -> None:
    away = Away(rig.status)

    def fault() -> None:
        with away:
            rig.broker.kill()
            time.sleep(down_s)
            rig.start_broker()

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    assert load.report.slowest_s() < away.seconds + LONG_S


def test_broker_killed_three_times_in_a_row(rig: Rig) -> None:
    def fault() -> None:
        for up_s in (0.3, 0.8, 0.0):
            rig.broker.kill()
            rig.start_broker()
            time.sleep(up_s)

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()


def test_broker_drained_and_restarted(rig: Rig) -> None:
    away = Away(rig.status)

    def fault() -> None:
        with away:
            rig.broker.stop()
            rig.start_broker()

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    assert load.report.slowest_s() < away.seconds + LONG_S


@pytest.mark.parametrize("stop_s", [1.0, 3.5])  # silent for less than SILENCE_S, and for more
def test_broker_stopped_for_a_while(rig: Rig, stop_s: float) -> None:
    workers = sorted(rig.workers())

    def fault() -> None:
        rig.broker.send(signal.SIGSTOP)
        time.sleep(stop_s)
        rig.broker.send(signal.SIGCONT)

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    assert load.report.slowest_s() < stop_s + LONG_S
    assert sorted(rig.workers()) == workers, "nobody was taken for dead"


def test_memory_of_the_broker_is_flat(rig: Rig) -> None:
    pid = rig.broker.pid
    with rig.load(clients=128) as load:
        load.flow(4_000)
        load.pause()
        rig.check_empty()
        before = resident_bytes(pid)
        load.resume()
        load.flow(10_000)
        load.pause()
        rig.check_empty()
        after = resident_bytes(pid)
    load.report.check()
    assert after < 80 << 20
    assert after - before < 1 << 20


def resident_bytes(pid: int) -> int:
    """The memory of a process that is in use at this moment."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")

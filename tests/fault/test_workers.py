"""Workers that are killed or stopped under load: no request is lost, and all come back."""

import os
import random
import signal
import time

import pytest

from tests.fault.rig import CHAIN, Rig, kill, under_load
from tests.system.deployment import wait_until

pytestmark = pytest.mark.fault


def test_one_worker_killed(rig: Rig) -> None:
    load = rig.load()
    under_load(rig, load, lambda: kill(rig.workers("second")[0]))
    load.report.check()
    rig.wait_whole()


def test_all_workers_of_a_stage_killed_at_once(rig: Rig) -> None:
    load = rig.load()
    under_load(rig, load, lambda: kill(*rig.workers("first")))
    load.report.check()
    rig.wait_whole()


def test_workers_killed_one_after_the_other(rig: Rig) -> None:
    chance = random.Random(7)

    def storm() -> None:
        for _ in range(13):
            living = rig.workers(*CHAIN)
            if living:
                kill(chance.choice(living))
            time.sleep(0.3)

    load = rig.load()
    under_load(rig, load, storm)
    load.report.check()


def test_worker_stopped_for_a_second(rig: Rig) -> None:
    (stopped, _) = rig.workers("second")

    def stop() -> None:
        os.kill(stopped, signal.SIGSTOP)
        time.sleep(1.0)
        os.kill(stopped, signal.SIGCONT)

    load = rig.load()
    under_load(rig, load, stop)
    load.report.check()
    assert load.report.slowest_s() < 2.0
    rig.wait_whole()
    assert stopped in rig.workers("second"), "it is taken back, not replaced"


def test_worker_stopped_for_ever(rig: Rig) -> None:
    (stopped, _) = rig.workers("third")

    def stop() -> None:
        os.kill(stopped, signal.SIGSTOP)
        wait_until(lambda: stopped not in rig.workers("third"), 8.0, "it is replaced")

    load = rig.load()
    under_load(rig, load, stop)
    load.report.check()
    assert load.report.slowest_s() < 2.0
    rig.wait_whole()


def test_sigterm_to_one_worker(rig: Rig) -> None:
    (leaving, _) = rig.workers("second")

    def leave() -> None:
        os.kill(leaving, signal.SIGTERM)
        wait_until(lambda: leaving not in rig.workers("second"), 5.0, "it ends")

    load = rig.load()
    under_load(rig, load, leave)
    load.report.check()
    rig.wait_whole()

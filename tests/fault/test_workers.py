"""Workers that are killed or stopped under load: no request is lost, and all come back. And the
end of everything at once."""

import os
import random
import signal
import time

import pytest

from tests.fault.rig import CHAIN, LONG_S, WAIT_S, Rig, kill, under_load
from tests.system.deployment import wait_until

pytestmark = pytest.mark.fault

ON_ITS_WAY_S = 0.1
"""A request that was sent so short before a drain may not have been admitted yet."""


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


def test_one_worker_stopped_for_ever_and_one_for_a_second(rig: Rig) -> None:
    (gone, _) = rig.workers("third")
    (back, _) = rig.workers("second")

    def stop() -> None:
        os.kill(gone, signal.SIGSTOP)
        time.sleep(2.0)  # its items run elsewhere by now; it is replaced after five seconds
        os.kill(back, signal.SIGSTOP)
        time.sleep(1.0)
        os.kill(back, signal.SIGCONT)
        wait_until(lambda: gone not in rig.workers("third"), WAIT_S, "it is replaced")

    load = rig.load()
    under_load(rig, load, stop)
    load.report.check()
    assert load.report.slowest_s() < LONG_S
    rig.wait_whole()
    assert back in rig.workers("second"), "it is taken back, not replaced"


def test_sigterm_to_one_worker(rig: Rig) -> None:
    (leaving, _) = rig.workers("second")

    def leave() -> None:
        os.kill(leaving, signal.SIGTERM)
        wait_until(lambda: leaving not in rig.workers("second"), WAIT_S, "it ends")

    load = rig.load()
    under_load(rig, load, leave)
    load.report.check()
    rig.wait_whole()


def test_sigterm_to_everything_at_once(standing: Rig) -> None:
    """As honcho does it, which kills after five seconds. A queue of a second is worked off.

    It comes last, for nothing is left then that would have to be mended.
    """
    rig = standing
    rig.mend()
    everyone = [rig.broker, *rig.gateways, *(r for crew in rig.supervisors.values() for r in crew)]
    slow = rig.solo(clients=60, requests=60, body=lambda number: b'{"n":%d,"nap_s":0.03}' % number)
    with rig.load() as load:
        load.flow(100)
        with slow:
            wait_until(
                lambda: len(slow.report.answers) + rig.status()["pipelines"]["solo"]["items"] >= 60,
                WAIT_S,
                "all are admitted",
            )
            signalled = time.monotonic()
            for role in everyone:
                role.send(signal.SIGTERM)
            for role in everyone:
                role.check_exit()
    slow.report.check()
    assert len(slow.report.answers) == 60
    load.report.check(allowed=["503 draining"])
    refused = [answer for answer in load.report.answers if answer.code]
    assert all(answer.sent_s > signalled - ON_ITS_WAY_S for answer in refused)
    assert not rig.mill.processes()
    rig.check_sound()

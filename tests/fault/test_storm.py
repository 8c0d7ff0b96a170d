"""Faults of all kinds, one upon the other: still no request is lost."""

import os
import random
import signal
import time

import pytest

from tests.fault.rig import CHAIN, Rig, under_load

pytestmark = pytest.mark.fault

STORM_S = 4.0


class Storm:
    """Draws one fault after the other. Whatever is gone is started again before the next."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self._rig = rig
        self._chance = random.Random(seed)

    def rage(self) -> None:
        """For `STORM_S`."""
        faults = [
            *[self._kill_worker] * 4,
            *[self._terminate_worker] * 2,
            *[self._stop_worker] * 2,
            *[self._kill_supervisor] * 2,
            self._kill_broker,
            self._stop_broker,
        ]
        end = time.monotonic() + STORM_S
        while time.monotonic() < end:
            self._chance.choice(faults)()
            time.sleep(self._chance.uniform(0.05, 0.4))
            self._rig.start_missing()

    def _signal_worker(self, signum: signal.Signals) -> int:
        """Returns 0 where there is none at this moment."""
        living = self._rig.workers(*CHAIN)
        if not living:
            return 0
        pid = self._chance.choice(living)
        os.kill(pid, signum)
        return pid

    def _kill_worker(self) -> None:
        self._signal_worker(signal.SIGKILL)

    def _terminate_worker(self) -> None:
        self._signal_worker(signal.SIGTERM)

    def _stop_worker(self) -> None:
        pid = self._signal_worker(signal.SIGSTOP)
        time.sleep(self._chance.uniform(0.1, 0.8))
        if pid in self._rig.workers(*CHAIN):
            os.kill(pid, signal.SIGCONT)

    def _kill_supervisor(self) -> None:
        self._chance.choice(self._rig.supervisors[self._chance.choice(CHAIN)]).kill()

    def _kill_broker(self) -> None:
        self._rig.broker.kill()

    def _stop_broker(self) -> None:
        self._rig.broker.send(signal.SIGSTOP)
        time.sleep(self._chance.uniform(0.1, 1.0))
        self._rig.broker.send(signal.SIGCONT)


def test_a_storm_of_faults(rig: Rig) -> None:
    load = rig.load()
    under_load(rig, load, Storm(rig, seed=1).rage)
    load.report.check()

"""Watches whether requests could be served at all: by a broker that takes some and knows their
gateway, and by a ready worker in every stage.

Asks the broker itself, in a thread of its own, since one that stands still answers late.
"""

import threading
import time

from tests.chaos.records import Gap
from tests.fault.rig import Rig

EVERY_S = 0.1


class Capacity:
    """Asks until told to stop."""

    def __init__(self, rig: Rig) -> None:
        self.gaps: list[Gap] = []
        """When that was not so, or nobody knows whether it was."""
        self._rig = rig
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="capacity", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> list[Gap]:
        """The gaps that there were."""
        self._stopping.set()
        self._thread.join()
        return self.gaps

    def _watch(self) -> None:
        open_gaps: dict[int, Gap] = {}
        could_s = dict.fromkeys(self._rig.ports, time.monotonic())  # when each gateway last could
        while not self._stopping.wait(EVERY_S):
            asked_s = time.monotonic()
            serving = self._serving()
            for port, since in could_s.items():
                if port in serving:
                    could_s[port] = asked_s
                    if (gap := open_gaps.pop(port, None)) is not None:
                        gap.until_s = time.monotonic()
                elif port not in open_gaps:
                    gap = open_gaps[port] = Gap(port, since)
                    self.gaps.append(gap)

    def _serving(self) -> set[int]:
        """The ports of those gateways whose requests can be served now."""
        status = self._rig.status()
        if not status or status["draining"]:
            return set()
        if not all(pipeline["ready"] for pipeline in status["pipelines"].values()):
            return set()
        joined = {gateway["pid"] for gateway in status["gateways"]}
        gateways = zip(self._rig.ports, self._rig.gateways, strict=True)
        return {port for port, role in gateways if role.pid in joined}

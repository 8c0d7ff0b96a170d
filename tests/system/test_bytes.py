"""What a pipeline holds stays within its bound, though its stages make uploads twenty times as
large and the one behind them stands still."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.system.deployment import Deployment, wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

PLUGIN = Path(__file__).parent / "plugins" / "swell.py"
MIB = 1 << 20
MAX_BYTES = 160 * MIB
BODY = bytes(range(256)) * (2 * MIB // 512 // 2)
TOTAL = sum(BODY) * 20
CLIENTS = 48
STANDSTILL_S = 0.5
"""How long it stands still when the room is used."""
PIPELINES = f"""
[pipelines.swell]
chain = ["unpack", "total"]
timeout_s = 60.0
max_bytes = {MAX_BYTES}
"""


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(pipelines=PIPELINES, env={"GATE": str(tmp_path / "gate")}) as deployment:
        deployment.broker()
        deployment.gateway()
        for stage in ("Unpack", "Total"):
            deployment.worker(f"{PLUGIN}:{stage}")
        deployment.wait_ready()
        yield deployment


class Clients:
    """Threads that upload one body after the other, and try again where there was no room."""

    def __init__(self, mill: Deployment) -> None:
        self.statuses: Counter[int] = Counter()
        self._mill = mill
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        with self._mill.client(timeout_s=60.0) as client:
            while not self._is_over.is_set():
                answer = client.post(
                    "/pipelines/swell", BODY, {"Content-Type": "application/octet-stream"}
                )
                self.statuses[answer.status] += 1
                assert answer.status == 429 or answer.json() == TOTAL
                if answer.status == 429:
                    self._is_over.wait(0.05)

    def stop(self) -> None:
        """No more, once what is under way has its answer."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()


def resident_bytes(mill: Deployment) -> int:
    """Of all processes together; what they share counts once."""
    total = 0
    for process in mill.processes():
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total


def test_bytes_stay_within_their_bound(mill: Deployment, tmp_path: Path) -> None:
    idle_bytes = resident_bytes(mill)
    gate = tmp_path / "gate"
    clients = Clients(mill)
    wait_until(lambda: clients.statuses[200] > 20, 30.0, "requests flow")
    gate.touch()
    held: list[int] = []
    resident: list[int] = []

    def is_full() -> bool:
        held.append(mill.status()["pipelines"]["swell"]["bytes"])
        resident.append(resident_bytes(mill) - idle_bytes)
        return held[-1] > 0.8 * MAX_BYTES

    wait_until(is_full, 30.0, "the room is used")
    end = time.monotonic() + STANDSTILL_S
    while time.monotonic() < end:
        is_full()
    gate.unlink()
    clients.stop()
    assert max(held) <= MAX_BYTES
    assert max(resident) <= 1.3 * MAX_BYTES
    assert set(clients.statuses) <= {200, 429}
    wait_until(lambda: not mill.status()["pipelines"]["swell"]["bytes"], 15.0, "nothing is held")

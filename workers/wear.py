"""How much a worker process has served, and whether that is all that it was to serve."""

from collections.abc import Callable
from pathlib import Path

from workers.task import Worn

_STATUS = Path("/proc/self/status")


def resident_bytes(status: str) -> int:
    """Resident memory, without shared memory, by the text of /proc/self/status; 0 if unknown.

    Arenas are left out, since their owner bounds them, and others' pages count in each reader.
    """
    kib = 0
    for line in status.splitlines():
        name, _, rest = line.partition(":")
        if name in ("RssAnon", "RssFile"):
            kib += int(rest.split()[0])
    return kib << 10


def own_resident_bytes() -> int:
    """That of this process."""
    return resident_bytes(_STATUS.read_text())


class Wear:
    """One process's time, and the limits that it was given."""

    def __init__(self, max_batches: int | None = None, max_rss_bytes: int | None = None) -> None:
        """None: as many, or as much, as it likes."""
        self.batches = 0
        """How many it has run."""
        self._max_batches = max_batches
        self._max_rss_bytes = max_rss_bytes
        self._is_worn = False

    def judge(
        self, give_back: Callable[[], None], resident: Callable[[], int] = own_resident_bytes
    ) -> Worn | None:
        """What to tell the supervisor, once: that this worker is to be recycled, and why.

        `give_back` gives freed memory back, of which a process may keep a lot that is no leak.
        """
        if self._is_worn:
            return None
        worn = None
        if self._max_batches is not None and self.batches >= self._max_batches:
            worn = Worn(f"it has run {self.batches} batches, --max-batches = {self._max_batches}")
        elif self._max_rss_bytes is not None and resident() > self._max_rss_bytes:
            give_back()
            size_bytes = resident()
            if size_bytes > self._max_rss_bytes:
                worn = Worn(_too_much(size_bytes, self._max_rss_bytes), drains_first=True)
        self._is_worn = worn is not None
        return worn


def _too_much(size_bytes: int, most_bytes: int) -> str:
    return f"it takes {size_bytes >> 20} MiB, --max-rss = {most_bytes >> 20} MiB"

"""The one stage of the workload with uploads."""

from benchmarks.plugins.uploads import functions
from millstream import Worker


class Look(Worker):
    """The bytes of a body to `{"bytes": int, "tail": int}`."""

    max_batch_size = 32

    def forward(self, batch: list[bytes]) -> list[dict[str, int]]:
        """Look at each item's body."""
        return [dict(zip(("bytes", "tail"), functions.look(body), strict=True)) for body in batch]

"""What has become of the requests of one version, counted since the broker began."""

from copy import copy

from msgspec import Struct


class Batches(Struct):
    """Those of one size that the last stage has run, and how long that took."""

    count: int = 0
    run_s: float = 0.0


class Tally(Struct):
    """Of requests that were admitted: answered with a result, or failed.

    The times are those that they spent in queues and in batches, all stages together.
    """

    answered: int = 0
    failed: int = 0
    answered_queue_s: float = 0.0
    answered_run_s: float = 0.0
    failed_s: float = 0.0
    batches: int = 0
    """That the last stage has run."""
    by_size: dict[int, Batches] = {}
    """The same by their size: no more than a batch may be large."""
    errors: dict[int, int] = {}
    """How many failed, by error code."""
    last_ago_s: float | None = None
    """Since the last of them, in a snapshot; None where there was none."""
    last: float | None = None
    """When that was, on the broker's own clock."""

    def count_batch(self, size: int, run_s: float, now: float) -> None:
        """The last stage has run a batch."""
        self.batches += 1
        self.last = now
        batches = self.by_size.get(size)
        if batches is None:
            batches = self.by_size[size] = Batches()
        batches.count += 1
        batches.run_s += run_s

    def snapshot(self, now: float) -> "Tally":
        """As it is now, and stays; without what is counted for comparison beside it."""
        copied = {name: getattr(self, name) for name in Tally.__struct_fields__}
        copied["by_size"] = {size: copy(batches) for size, batches in self.by_size.items()}
        copied["errors"] = dict(self.errors)
        copied["last_ago_s"] = None if self.last is None else now - self.last
        return Tally(**copied | {"last": None})

    def count(self, spans: list[float], code: int, key: int) -> None:
        """A request has its answer: a result, or the error `code`. `spans` is queue and run of each
        stage that ran, in seconds; `key` is what its version was chosen by.
        """
        if code:
            self.failed += 1
            self.failed_s += sum(spans)
            self.errors[code] = self.errors.get(code, 0) + 1
            return
        self.count_result(spans, key)

    def count_result(self, spans: list[float], key: int) -> None:
        """The same for a result."""
        self.answered += 1
        if len(spans) == 2:
            self.answered_queue_s += spans[0]
            self.answered_run_s += spans[1]
        else:
            self.answered_queue_s += sum(spans[::2])
            self.answered_run_s += sum(spans[1::2])

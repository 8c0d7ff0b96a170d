"""What has become of the requests of one version, counted since the broker began."""

from msgspec import Struct


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

    def count(self, spans: list[float], code: int, key: int) -> None:
        """A request has its answer: a result, or the error `code`. `spans` is queue and run of each
        stage that ran, in seconds; `key` is what its version was chosen by.
        """
        if code:
            self.failed += 1
            self.failed_s += sum(spans)
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


def plain(tally: Tally) -> Tally:
    """A copy with nothing but what a tally has."""
    return Tally(*(getattr(tally, name) for name in Tally.__struct_fields__))

"""One line per failed or slow request, key=value; floods are summed up instead.

Refusals (429, 503) come by the thousand when they come; they are only counted, and summed up every
few seconds. So is every other failure beyond a number of lines a second.
"""

from broker.wire import log

MAX_LINES_PER_S = 20
SUMMARY_EVERY_S = 5.0
_REFUSALS = frozenset({429, 503})


class Journal:
    """Decides which requests get a line. `tick` a few times a second."""

    __slots__ = ("_all", "_lines", "_lines_since_s", "_summed", "_summed_since_s", "results_from_s")

    def __init__(self, now: float, *, slow_s: float, log_all: bool) -> None:
        self.results_from_s = 0.0 if log_all else slow_s
        """A result that was there sooner gets no line."""
        self._all = log_all
        self._lines = 0
        self._lines_since_s = now
        self._summed: dict[tuple[str, int, str], int] = {}
        self._summed_since_s = now

    def ended(
        self,
        *,
        pipeline: str,
        version: str,
        status: int,
        code: str,
        request_id: str,
        duration_s: float,
        detail: str,
    ) -> None:
        """A request for inference has ended; `code` is "" where there was a result."""
        failed = status >= 500 or status in _REFUSALS
        if failed and not self._all and self._is_flood(pipeline, status, code):
            return
        if failed or duration_s >= self.results_from_s:
            write = log.warning if failed else log.info
            fields = {"code": code, "detail": detail} if code else {}
            write(
                "answered",
                pipeline=pipeline,
                version=version,
                status=status,
                request_id=request_id,
                ms=duration_s * 1000.0,
                **fields,
            )

    def _is_flood(self, pipeline: str, status: int, code: str) -> bool:
        """Whether a failure gets no line; it is then counted for the sum."""
        if status not in _REFUSALS and self._lines < MAX_LINES_PER_S:
            self._lines += 1
            return False
        key = (pipeline, status, code)
        self._summed[key] = self._summed.get(key, 0) + 1
        return True

    def turned_away(self, status: int) -> None:
        """A connection was one too many."""
        key = ("", status, "too_many_connections")
        self._summed[key] = self._summed.get(key, 0) + 1

    def page(self, *, method: str, target: str, status: int) -> None:
        """Any other request was answered."""
        if self._all:
            log.info("answered", method=method, target=target, status=status)

    def tick(self, now: float) -> None:
        """Write the sums that are due."""
        if now - self._lines_since_s >= 1.0:
            self._lines_since_s = now
            self._lines = 0
        if now - self._summed_since_s < SUMMARY_EVERY_S:
            return
        elapsed_s, self._summed_since_s = now - self._summed_since_s, now
        summed, self._summed = self._summed, {}
        for (pipeline, status, code), count in summed.items():
            log.warning(
                "refused",
                pipeline=pipeline,
                status=status,
                code=code,
                requests=count,
                seconds=elapsed_s,
            )

"""One line per failed or slow request, key=value; floods are summed up instead.

Refusals (429, 503) come by the thousand when they come; they are only counted, and summed up every
few seconds. So is every other failure beyond a number of lines a second.
"""

import logging

_log = logging.getLogger("millstream.gateway")

MAX_LINES_PER_S = 20
SUMMARY_EVERY_S = 5.0
_REFUSALS = frozenset({429, 503})


class Journal:
    """Decides which requests get a line. `tick` a few times a second."""

    __slots__ = ("_all", "_lines", "_lines_since_s", "_slow_s", "_summed", "_summed_since_s")

    def __init__(self, now: float, *, slow_s: float, log_all: bool) -> None:
        self._slow_s = slow_s
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
        if self._all:
            level = logging.INFO
        elif status < 500 and status not in _REFUSALS:
            if duration_s < self._slow_s:
                return
            level = logging.INFO
        else:
            if status in _REFUSALS or self._lines >= MAX_LINES_PER_S:
                key = (pipeline, status, code)
                self._summed[key] = self._summed.get(key, 0) + 1
                return
            self._lines += 1
            level = logging.WARNING
        _log.log(
            level,
            "action=answered pipeline=%s version=%s status=%d code=%s request_id=%s ms=%.1f%s",
            pipeline,
            version,
            status,
            code,
            request_id,
            duration_s * 1000.0,
            f" detail={detail!r}" if detail else "",
        )

    def page(self, *, method: str, target: str, status: int) -> None:
        """Any other request was answered."""
        if self._all:
            _log.info("action=answered method=%s target=%r status=%d", method, target, status)

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
            _log.warning(
                "action=refused pipeline=%s status=%d code=%s requests=%d seconds=%.1f",
                pipeline,
                status,
                code,
                count,
                elapsed_s,
            )

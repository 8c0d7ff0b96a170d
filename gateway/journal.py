"""One line per failed or slow request, or per request; floods are summed up instead.

Refusals (429, 503) come by the thousand when they come; they are only counted, and summed up every
few seconds. So is every other failure beyond a number of lines a second. Where every request is to
have its line, floods have theirs, too.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from broker.wire import log

MAX_LINES_PER_S = 20
SUMMARY_EVERY_S = 5.0
WRITE_S = 0.01
"""Lines of requests are gathered for so long: one write, and one wake-up of the reader, for all."""
_REFUSALS = frozenset({429, 503})


class Ended(Struct, omit_defaults=True):
    """The line of a request for inference. Payloads and headers have no place in it, but for the
    request's id, and for what the client is told of an error.
    """

    pipeline: str
    version: str
    status: int
    request_id: str
    ms: float
    timing: str = ""  # queue and run of each stage, as in the header Server-Timing
    bytes_in: int = 0  # as the client said before its body; 0 where it did not
    bytes_out: int = 0
    client: str = ""  # its address
    code: str = ""
    detail: str = ""
    trace_id: str = ""


class PageLine(Struct, omit_defaults=True):
    """The line of any other request."""

    method: str
    target: str
    status: int
    request_id: str = ""
    client: str = ""


Put: TypeAlias = Callable[[int, str, Struct], None]


class Journal:
    """Decides which requests get a line. `tick` a few times a second."""

    __slots__ = (
        "_all", "_lines", "_lines_since_s", "_put", "_summed", "_summed_since_s", "results_from_s",
    )  # fmt: skip

    def __init__(self, now: float, *, slow_s: float, log_all: bool, put: Put) -> None:
        self.results_from_s = 0.0 if log_all else slow_s
        """A result that was there sooner gets no line."""
        self._all = log_all
        self._put = put
        self._lines = 0
        self._lines_since_s = now
        self._summed: dict[tuple[str, int, str], int] = {}
        self._summed_since_s = now

    def wants(self, *, pipeline: str, status: int, code: str, duration_s: float) -> bool:
        """Whether a request for inference that has ended so gets a line: then `ended` writes it."""
        if status >= 500 or status in _REFUSALS:
            return self._all or not self._is_flood(pipeline, status, code)
        return duration_s >= self.results_from_s

    def ended(self, line: Ended) -> None:
        """Write the line of a request for inference."""
        failed = line.status >= 500 or line.status in _REFUSALS
        self._put(log.WARNING if failed else log.INFO, "answered", line)

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

    def page(
        self, *, method: str, target: str, status: int, request_id: str = "", client: str = ""
    ) -> None:
        """Any other request was answered. What follows its path may be anything, and stays out."""
        if self._all:
            path = target.partition("?")[0]
            self._put(log.INFO, "answered", PageLine(method, path, status, request_id, client))

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


class Gathering:
    """Gathers lines, and has the event loop that runs write them together."""

    __slots__ = ("_is_due",)

    def __init__(self) -> None:
        self._is_due = False

    def put(self, level: int, event: str, line: Struct) -> None:
        """See `log.put`."""
        log.put(level, event, line)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(WRITE_S, self._write_out)

    def _write_out(self) -> None:
        self._is_due = False
        log.write_out()

"""W3C Trace Context: what `traceparent` and `tracestate` say, and how it is said. Pure.

After the recommendation of 23 November 2021, https://www.w3.org/TR/trace-context-1/.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16
_UNKNOWN_VERSION = "ff"
_FIRST_VERSION = "00"
_SAMPLED = 1
MOST_STATE_CHARS = 512
"""A longer tracestate need not be passed on."""


class TraceContext(Struct, frozen=True):
    """A span that others may be children of."""

    trace_id: str
    span_id: str
    is_sampled: bool

    def header(self) -> str:
        """As `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"

    def key(self) -> bytes:
        """The two ids, as they travel between gateway and broker."""
        return bytes.fromhex(self.trace_id + self.span_id)


def parse_traceparent(value: str) -> TraceContext | None:
    """What the header says; None where that is nothing, which is then to be ignored."""
    found = _FORM.fullmatch(value.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == _UNKNOWN_VERSION or (more and version == _FIRST_VERSION):
        return None
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))


def tracestate(values: Iterable[str]) -> str:
    """One value of several headers; "" where it is longer than must be passed on, or no ASCII."""
    text = ",".join(values)
    return text if text.isascii() and len(text) <= MOST_STATE_CHARS else ""


def trace_id_of(traceparent: str) -> str:
    """The trace that a header names; "" where it names none."""
    context = parse_traceparent(traceparent) if traceparent else None
    return "" if context is None else context.trace_id

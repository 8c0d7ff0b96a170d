"""Trace Context as the recommendation has it."""

import pytest

from broker.wire.trace import TraceContext, parse_traceparent, trace_id_of, tracestate

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_span_is_read_and_written() -> None:
    context = parse_traceparent(f" 00-{TRACE}-{SPAN}-01 ")
    assert context == TraceContext(TRACE, SPAN, True)
    assert context.header() == f"00-{TRACE}-{SPAN}-01"
    assert context.key() == bytes.fromhex(TRACE + SPAN)


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("02", False), ("03", True)])
def test_the_last_bit_says_whether_it_is_sampled(flags: str, sampled: bool) -> None:
    context = parse_traceparent(f"00-{TRACE}-{SPAN}-{flags}")
    assert context is not None
    assert context.is_sampled is sampled


def test_a_later_version_may_have_more() -> None:
    assert parse_traceparent(f"cc-{TRACE}-{SPAN}-01-what") == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00-ab-cd-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"cc-{TRACE}-{SPAN}-01what",
    ],
)
def test_what_is_none_is_ignored(value: str) -> None:
    assert parse_traceparent(value) is None
    assert trace_id_of(value) == ""


def test_states_of_several_headers_are_joined() -> None:
    assert tracestate(["a=1", "b=2"]) == "a=1,b=2"
    assert tracestate([]) == ""
    assert tracestate(["a=" + "x" * 600]) == ""
    assert tracestate(["a=\udcff"]) == ""

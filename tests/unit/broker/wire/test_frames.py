"""Messages to frames and back, and what becomes of bytes that are no message."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.wire import frames
from broker.wire.errors import ProtocolError
from broker.wire.messages import (
    Answer,
    Answers,
    Batch,
    BatchItem,
    Beat,
    Blob,
    Cancel,
    Catalog,
    Compare,
    Compared,
    Declaration,
    Failure,
    FromBroker,
    GatewayBeat,
    MosecInfo,
    Name,
    Observations,
    Observed,
    Outcome,
    Pair,
    PipelineInfo,
    PluginSeries,
    Ref,
    Reference,
    RequestMeta,
    RequestTrace,
    Results,
    RoutingId,
    SpanKey,
    StageInfo,
    Step,
    Steps,
    Streamed,
    Submit,
    SubmitItem,
    SupervisorBeat,
    ToBroker,
    Traces,
    Value,
    Values,
    Verdict,
    VersionInfo,
    VersionReport,
    Visit,
    WorkerFigures,
    WorkerHello,
    WorkerReport,
)

# ------------------------------------------------------------------ strategies

INTS = st.integers(0, 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
TEXT = st.text(max_size=20)
BYTES = st.binary(max_size=40)
SPANS = st.binary(min_size=24, max_size=24)
REFS = st.builds(Ref, INTS, INTS, INTS, INTS, INTS)
BUFFERS = st.lists(st.binary(max_size=300) | REFS, max_size=4)
BLOBS = st.builds(frames.blob, BYTES, BUFFERS, TEXT)
PAYLOADS = BYTES | BLOBS
FAILURES = st.builds(Failure, INTS, TEXT, st.integers(0, 599), TEXT, FLOATS)
OUTCOMES = BYTES | BLOBS | FAILURES | st.builds(Streamed, INTS)


def lists(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=5)


BY_TYPE: dict[object, st.SearchStrategy[Any]] = {
    int: INTS,
    float: FLOATS,
    str: TEXT,
    bytes: BYTES,
    RoutingId: BYTES,
    Declaration: BYTES,
    Name: TEXT,
    bool: st.booleans(),
    list[int]: lists(INTS),
    list[str]: lists(TEXT),
    list[float]: lists(FLOATS),
    list[tuple[int, float]]: lists(st.tuples(INTS, FLOATS)),
    list[tuple[int, SpanKey]]: lists(st.tuples(INTS, SPANS)),
    list[SpanKey]: lists(SPANS),
    list[tuple[int, int]]: lists(st.tuples(INTS, INTS)),
    list[tuple[int, int, int]]: lists(st.tuples(INTS, INTS, INTS)),
    list[Outcome]: lists(OUTCOMES),
    list[Name]: lists(TEXT),
    dict[str, str]: st.dictionaries(TEXT, TEXT, max_size=3),
    dict[str, int]: st.dictionaries(TEXT, INTS, max_size=3),
}


def of(struct: type, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any value of a message: each field by its type, but for those that are named."""
    chosen = {
        field.name: fields[field.name] if field.name in fields else BY_TYPE[field.type]
        for field in msgspec.structs.fields(struct)
    }
    return st.builds(struct, **chosen)


NESTED: dict[str, st.SearchStrategy[Any]] = {
    "Submit": of(Submit, items=lists(of(SubmitItem, payload=PAYLOADS))),
    "Batch": of(Batch, items=lists(of(BatchItem, payload=PAYLOADS))),
    "Answers": of(
        Answers,
        answers=lists(of(Answer, outcome=OUTCOMES)),
        traces=lists(of(RequestTrace, visits=lists(of(Visit)))),
    ),
    "Steps": of(Steps, steps=lists(of(Step, outcome=OUTCOMES))),
    "Compare": of(Compare, pairs=lists(of(Pair, stable=PAYLOADS, shadow=PAYLOADS))),
    "Compared": of(Compared, verdicts=lists(of(Verdict, stable=TEXT, shadow=TEXT, note=TEXT))),
    "Values": of(Values, values=lists(of(Value, payload=PAYLOADS))),
    "Traces": of(Traces, traces=lists(of(RequestTrace, visits=lists(of(Visit))))),
    "SupervisorBeat": of(
        SupervisorBeat, reports=lists(of(WorkerReport)), versions=lists(of(VersionReport))
    ),
    "Observations": of(Observations, observed=lists(of(Observed)), references=lists(of(Reference))),
    "WorkerFigures": of(WorkerFigures, series=lists(of(PluginSeries))),
    "Catalog": of(
        Catalog,
        pipelines=lists(
            of(
                PipelineInfo,
                stages=lists(of(StageInfo)),
                states=lists(of(VersionInfo)),
                mosec=st.none() | of(MosecInfo),
            )
        ),
    ),
}
TO_BROKER = list(get_args(ToBroker))
FROM_BROKER = list(get_args(FromBroker))


def any_of(kind: type) -> st.SearchStrategy[Any]:
    return NESTED[kind.__name__] if kind.__name__ in NESTED else of(kind)


def any_message() -> st.SearchStrategy[Any]:
    return st.one_of([any_of(kind) for kind in TO_BROKER + FROM_BROKER])


def decoder_of(kind: type) -> Callable[[list[frames.Buffer]], Any]:
    return frames.decode_to_broker if kind in TO_BROKER else frames.decode_from_broker


def received(sent: list[frames.Buffer]) -> list[frames.Buffer]:
    """As frames arrive: copies, of which the buffers are views."""
    return [bytes(sent[0]), *(memoryview(bytes(frame)) for frame in sent[1:])]


# ------------------------------------------------------------------ round trips


@pytest.mark.parametrize("kind", TO_BROKER + FROM_BROKER, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_every_message_comes_back_as_it_was(kind: type, data: st.DataObject) -> None:
    message = data.draw(any_of(kind))
    again = decoder_of(kind)(received(frames.encode(message)))
    assert again == message
    assert type(again) is kind


def test_every_kind_has_its_own_number() -> None:
    tags = [kind.__struct_config__.tag for kind in TO_BROKER + FROM_BROKER]
    assert len(set(tags)) == len(tags)
    assert all(1 <= tag <= 32 for tag in tags[: len(TO_BROKER)])
    assert all(33 <= tag <= 64 for tag in tags[len(TO_BROKER) :])


def test_buffers_are_neither_copied_nor_kept_out_of_the_message() -> None:
    buffer = bytearray(b"x" * 1000)
    payload = frames.blob(b"body", [buffer, b"yy"])
    message = Submit(1, [SubmitItem(1, "p", payload, b"", 1.0)])
    sent = frames.encode(message)
    assert sent[1] is buffer
    assert payload.buffers == [buffer, b"yy"], "sending leaves it as it was"
    assert len(payload) == 4 + 1000 + 2
    again = frames.decode_to_broker(sent)
    assert isinstance(again, Submit)
    assert isinstance(again.items[0].payload, Blob)
    assert again.items[0].payload.buffers[0] is buffer


def test_buffers_keep_to_their_payloads() -> None:
    outcomes: list[Outcome] = [
        frames.blob(b"a", [b"1", b"22"]),
        b"plain",
        frames.blob(b"none", []),
        Failure(1, "no"),
        frames.blob(b"b", [b"", b"333"]),
    ]
    sent = frames.encode(Results(1, 2, outcomes, 0.5))
    assert [bytes(frame) for frame in sent[1:]] == [b"1", b"22", b"", b"333"]
    again = frames.decode_to_broker(sent)
    assert isinstance(again, Results)
    assert again.outcomes == outcomes


def test_one_payload_in_two_places() -> None:
    payload = frames.blob(b"body", [b"12", b"3"])
    message = Results(1, 2, [payload, payload], 0.5)
    for _ in range(2):
        again = frames.decode_to_broker(frames.encode(message))
        assert again == message
    assert payload.buffers == [b"12", b"3"]


def test_a_message_that_cannot_be_written_keeps_its_buffers() -> None:
    payload = frames.blob(b"body", [b"12"])
    message = Results(1 << 70, 2, [payload], 0.5)
    with pytest.raises(OverflowError):
        frames.encode(message)
    assert payload.buffers == [b"12"]


def test_views_of_many_dimensions_count_their_bytes() -> None:
    view = memoryview(b"x" * 24).cast("d", (3, 1))
    payload = frames.blob(b"", [view])  # type: ignore[list-item]  # any buffer will do
    assert payload.sizes == [24]
    again = frames.decode_from_broker(frames.encode(Answers(1, [Answer(1, payload)])))
    assert isinstance(again, Answers)
    assert len(again.answers[0].outcome) == 24  # type: ignore[arg-type]


# ------------------------------------------------------------------ older and newer peers


def test_a_newer_peer_may_say_more() -> None:
    header = msgspec.msgpack.encode([3, 7, [1, 2], "new", {"and": "more"}])
    assert frames.decode_to_broker([header]) == Cancel(7, [1, 2])


def test_an_older_peer_may_say_less() -> None:
    assert frames.decode_to_broker([msgspec.msgpack.encode([4, 7])]) == GatewayBeat(7, [])
    hello = frames.decode_to_broker([msgspec.msgpack.encode([5, 1, b"s", "stage"])])
    assert hello == WorkerHello(1, b"s", "stage")


def test_meta_round_trip() -> None:
    meta = RequestMeta("id", "application/json", "*/*", "00-1", {"x-user": "me"})
    assert frames.decode_meta(frames.encode_meta(meta)) == meta


def test_meta_that_many_requests_share() -> None:
    meta = RequestMeta("\N{SNOWMAN}" * 40, "text/plain", "*/*", "00-1", {"x-user": "me"})
    nameless = frames.encode_nameless(meta)
    assert frames.named(meta.request_id, nameless) == frames.encode_meta(meta)


@pytest.mark.parametrize("meta", [b"", b"\xc1", b"\x90", b"\x91\x01", b"\x91" * 5000])
def test_meta_that_is_none(meta: bytes) -> None:
    with pytest.raises(ProtocolError):
        frames.decode_meta(meta)


# ------------------------------------------------------------------ garbage


def refused(given: list[frames.Buffer]) -> None:
    """Neither way of reading may raise anything but ProtocolError, nor take long."""
    began = time.process_time()  # others may have the processor meanwhile
    for decode in (frames.decode_to_broker, frames.decode_from_broker):
        with pytest.raises(ProtocolError):
            decode(given)
    assert all(type(seq) is int for seq in frames.readable_seqs(given))
    assert time.process_time() - began < 1.0


def survives(given: list[frames.Buffer]) -> None:
    """A message or ProtocolError, and nothing else."""
    for decode in (frames.decode_to_broker, frames.decode_from_broker):
        with suppress(ProtocolError):
            decode(given)
    seqs = frames.readable_seqs(given)
    assert all(type(seq) is int for seq in seqs)


HUGE = b"\xdd\xff\xff\xff\xff"
"""The beginning of a msgpack array of four thousand million elements."""


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xc1",
        b"GET / HTTP/1.1\r\n\r\n",
        HUGE,
        HUGE + b"\x02\x01",
        b"\x93\x02\x01" + HUGE,
        b"\x93\x03\x01" + HUGE,
        b"\x93\x02\x01\xdf\xff\xff\xff\xff",
        b"\x93\x02\x01\xc6\xff\xff\xff\xff",
        b"\x91" * 100_000,
        b"\x81\x01" * 50_000,
        b"\x93\x02\x01" + b"\x91" * 100_000,
        msgspec.msgpack.encode([2, 1, [[1, "p", [1, b"", [], ""]]]])[:-1] + b"\x91" * 100_000,
        b"\x93\x02\x01\x91\x95\x01\xa2\xff\xfe\xc4\x00\xc4\x00\x01",
        b"\x93\x02\x01\x91\xd7\xff" + b"\xff" * 8,
        b"\x93\x02\x01\x91\xc7\x0c\xff" + b"\xff" * 12,
        b"\x93\x02\x01\x81\x90\x01",
        msgspec.msgpack.encode([200, 1]),
        msgspec.msgpack.encode(["Submit", 1, []]),
        msgspec.msgpack.encode([2, "epoch", []]),
        msgspec.msgpack.encode({"kind": 2}),
        msgspec.msgpack.encode(2),
        msgspec.msgpack.encode([2]),
        msgspec.msgpack.encode([]),
        msgspec.msgpack.encode([2, 1, [[1, "p", [9, b""], b"", 1.0]]]),
        msgspec.msgpack.encode([11, 1, [[b"w" * 256, 0]]]),
        msgspec.msgpack.encode([5, 1, b"s", "stage", "", "v" * 256]),
    ],
    ids=lambda header: repr(header[:24]),
)
def test_known_garbage(header: bytes) -> None:
    refused([header])
    refused([header, b"more"])


def test_no_frames_and_far_too_many() -> None:
    refused([])
    refused([frames.encode(Beat(1))[0]] + [b""] * frames.MAX_FRAMES)


@pytest.mark.parametrize("change", ["missing", "extra", "longer", "shorter", "swapped"])
def test_frames_that_are_not_as_the_header_says(change: str) -> None:
    payload = frames.blob(b"body", [b"1", b"22"])
    sent = frames.encode(Submit(1, [SubmitItem(1, "p", payload, b"", 1.0)]))
    altered = {
        "missing": sent[:-1],
        "extra": [*sent, b"?"],
        "longer": [sent[0], b"11", b"22"],
        "shorter": [sent[0], b"", b"22"],
        "swapped": [sent[0], b"22", b"1"],
    }[change]
    refused(altered)
    assert frames.readable_seqs(altered) == [1]


@pytest.mark.parametrize("sizes", [[-1], [1 << 62], [0, 0, 0], [2**64 - 1]])
def test_sizes_that_cannot_be(sizes: list[int]) -> None:
    header = msgspec.msgpack.encode([2, 1, [[1, "p", [1, b"", sizes, ""], b"", 1.0]]])
    refused([header])
    refused([header, b""])


def test_buffers_written_into_the_header_are_not_taken_for_frames() -> None:
    header = msgspec.msgpack.encode([2, 1, [[1, "p", [1, b"b", [], "", [b"x", 7]], b"", 1.0]]])
    message = frames.decode_to_broker([header])
    assert isinstance(message, Submit)
    assert message.items[0].payload == Blob(b"b", [], "", [])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=3))
def test_random_bytes(given_frames: list[frames.Buffer]) -> None:
    survives(given_frames)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_message(), st.data())
def test_valid_messages_with_one_thing_changed(message: Any, data: st.DataObject) -> None:
    sent = [bytearray(frame) for frame in frames.encode(message)]
    which = data.draw(st.integers(0, len(sent) - 1))
    frame = sent[which]
    place = data.draw(st.integers(0, max(len(frame) - 1, 0)))
    change = data.draw(st.sampled_from(["flip", "cut", "insert", "drop frame", "add frame"]))
    if change == "flip" and frame:
        frame[place] ^= 1 << data.draw(st.integers(0, 7))
    elif change == "cut":
        del frame[place:]
    elif change == "insert":
        frame[place:place] = data.draw(st.binary(min_size=1, max_size=8))
    elif change == "drop frame":
        del sent[which]
    else:
        sent.insert(which, bytearray(data.draw(st.binary(max_size=8))))
    survives([bytes(each) for each in sent])


JSONLIKE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | TEXT | BYTES,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 45), st.lists(JSONLIKE, max_size=6), BUFFERS)
def test_well_formed_nonsense(kind: int, fields: list[Any], buffers: list[bytes]) -> None:
    survives([msgspec.msgpack.encode([kind, *fields]), *buffers])


@pytest.mark.parametrize(
    ("items", "seqs"),
    [
        ([[5, "p"], [6]], [5, 6]),
        ([[True], ["x"], [1.5], [None]], []),
        ([b"abc", "abc", 7], []),
        ({"5": 1}, []),
        (b"\x01\x02", []),
        ([[]], []),
    ],
    ids=repr,
)
def test_ids_that_can_be_read_in_a_broken_submit(items: object, seqs: list[int]) -> None:
    assert frames.readable_seqs([msgspec.msgpack.encode([2, 1, items])]) == seqs


def test_only_a_submit_has_such_ids() -> None:
    assert frames.readable_seqs([msgspec.msgpack.encode([3, 1, [[5]]])]) == []
    assert frames.readable_seqs([]) == []

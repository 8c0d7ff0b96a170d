"""Any object makes the round trip, and any bytes are answered with the declared errors alone."""

import contextlib
import math
from datetime import UTC, timedelta, timezone
from typing import Any

import msgpack  # type: ignore[import-untyped]  # it ships no types
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from broker.payload.bodies import decode_body, encode_body
from broker.payload.errors import BadBody, BadPayload, CannotTravel, UnsupportedType
from broker.payload.objects import pack, unpack

few = settings(max_examples=150, deadline=None)

offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
keys = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
leaves = keys | st.datetimes(timezones=st.none() | st.just(UTC) | offsets, allow_imaginary=False)
objects = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=5)
    ),
    max_leaves=25,
)
arrays = hnp.arrays(
    hnp.scalar_dtypes() | hnp.unicode_string_dtypes(max_len=5) | hnp.byte_string_dtypes(max_len=5),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)
content_types = st.sampled_from(
    [
        "",
        "application/json",
        "application/msgpack",
        "text/plain",
        "text/plain; charset=utf-16",
        "multipart/form-data; boundary=B",
    ]
) | st.text(max_size=40)


@few
@given(objects, st.sampled_from([0, 1, 5, 4096]))
def test_objects_make_the_round_trip(sent: object, spill_bytes: int) -> None:
    body, buffers = pack(sent, spill_bytes=spill_bytes)
    assert all(len(buffer) >= spill_bytes for buffer in buffers)
    assert repr(unpack(body, buffers)) == repr(sent)


@few
@given(arrays, st.booleans(), st.sampled_from([0, 4096]))
def test_arrays_make_the_round_trip(
    sent: np.ndarray[Any, Any], backwards: bool, spill_bytes: int
) -> None:
    if backwards:
        sent = sent[(slice(None, None, -1),) * sent.ndim].T
    arrived: Any = unpack(*pack(sent, spill_bytes=spill_bytes))
    assert (arrived.dtype, arrived.shape) == (sent.dtype, sent.shape)
    assert arrived.tobytes() == sent.tobytes()


@few
@given(st.binary(max_size=200), st.lists(st.binary(max_size=20), max_size=2))
def test_any_bytes_into_unpack(body: bytes, buffers: list[bytes]) -> None:
    with_buffers: Any = buffers
    with contextlib.suppress(BadPayload):
        unpack(body, with_buffers)


@few
@given(st.data())
def test_damaged_payloads(data: st.DataObject) -> None:
    sent = data.draw(objects | arrays | st.tuples(arrays, objects))
    body, buffers = pack(sent, spill_bytes=data.draw(st.sampled_from([0, 8, 4096])))
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadPayload):
        unpack(damaged, buffers[: data.draw(st.integers(0, len(buffers)))])


@few
@given(st.data())
def test_a_damaged_array_alone_is_read_as_one_among_others(data: st.DataObject) -> None:
    array = data.draw(arrays.filter(lambda each: each.nbytes > 0))
    body, (buffer,) = pack(array, spill_bytes=1)
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    views = [memoryview(bytes(buffer))] * data.draw(st.sampled_from([1, 1, 1, 2]))
    try:
        among = unpack(b"\x91" + damaged, views)[0]  # type: ignore[index]
    except BadPayload:
        with pytest.raises(BadPayload):
            unpack(damaged, views)
    else:
        alone = unpack(damaged, views)
        assert type(alone) is type(among)
        assert repr(alone) == repr(among)


@few
@given(st.integers(1, 9), st.binary(max_size=80))
def test_any_bytes_in_our_ext_types(code: int, data: bytes) -> None:
    with contextlib.suppress(BadPayload):
        unpack(msgpack.packb([msgpack.ExtType(code, data)]), [b"1234"])


@few
@given(
    st.binary(max_size=120) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")),
    content_types,
)
def test_any_bytes_into_decode_body(body: bytes, content_type: str) -> None:
    with contextlib.suppress(BadBody, UnsupportedType):
        decode_body(body, content_type)


@few
@given(
    st.lists(
        st.sampled_from(
            [b"--B", b"\r\n", b"--", b" ", b"Content-Disposition: form-data; name=a", b"x", b'"']
        ),
        max_size=25,
    )
)
def test_any_pieces_into_multipart(pieces: list[bytes]) -> None:
    with contextlib.suppress(BadBody):
        decode_body(b"".join(pieces), "multipart/form-data; boundary=B")


@few
@given(st.dictionaries(st.text(max_size=5), st.binary(max_size=40), max_size=4))
def test_multipart_is_binary_exact(files: dict[str, bytes]) -> None:
    names = {name: f"n{number}" for number, name in enumerate(files)}
    parts = b"".join(
        b'--B\r\nContent-Disposition: form-data; name="%b"; filename="f"\r\n\r\n%b\r\n'
        % (names[name].encode(), content)
        for name, content in files.items()
        if b"--B" not in content
    )
    form: Any = decode_body(parts + b"--B--\r\n", "multipart/form-data; boundary=B")
    for name, content in files.items():
        if b"--B" not in content:
            assert form[names[name]]["body"] == content


@few
@given(objects, st.sampled_from(["", "application/msgpack"]))
def test_any_object_into_encode_body(result: object, accept: str) -> None:
    try:
        body, content_type = encode_body(result, accept)
    except CannotTravel:
        return
    decode_body(body, content_type)  # what we send, we would also take


@few
@given(st.integers() | st.integers(-(2**66), 2**66), st.text("[]{}0123456789", max_size=30))
def test_integers_of_64_bits_and_no_others(number: int, text: str) -> None:
    body = b'{"t":["%b"],"n":[%d]}' % (text.encode(), number)
    if -(2**63) <= number < 2**64:
        assert decode_body(body, "") == {"t": [text], "n": [number]}
    else:
        with pytest.raises(BadBody, match="64 bits"):
            decode_body(body, "")


@few
@given(st.floats())
def test_floats_are_exact(number: float) -> None:
    arrived: Any = unpack(*pack([number]))[0]  # type: ignore[index]
    assert math.copysign(1, arrived) == math.copysign(1, number)
    assert arrived == number or (math.isnan(arrived) and math.isnan(number))

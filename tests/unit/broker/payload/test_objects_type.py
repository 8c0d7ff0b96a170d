"""The media type of our own clients: bodies that keep arrays, both ways."""

import dataclasses
from datetime import UTC, datetime

import msgpack  # type: ignore[import-untyped]  # it ships no types
import numpy as np
import pytest

from broker.payload.bodies import decode_body, encode_body
from broker.payload.errors import BadBody, CannotTravel, UnsupportedType

OBJECTS = "application/vnd.millstream.objects"


def there_and_back(value: object) -> object:
    body, kind = encode_body({"value": value}, f"{OBJECTS}, application/json;q=0.5")
    assert kind == OBJECTS
    decoded = decode_body(body, kind)
    assert isinstance(decoded, dict)
    return decoded["value"]


@pytest.mark.parametrize("size", [0, 3, 100_000])
def test_arrays_stay_arrays(size: int) -> None:
    array = np.arange(size, dtype=np.float16).reshape(-1, 1)
    arrived = there_and_back(array)
    assert isinstance(arrived, np.ndarray)
    assert arrived.dtype == array.dtype
    np.testing.assert_array_equal(arrived, array)


def test_so_do_tuples_times_and_bytes() -> None:
    value = ((1, "a"), datetime(2030, 1, 2, tzinfo=UTC), b"x" * 100_000, [None, True, 0.5])
    assert there_and_back(value) == value


def test_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    arrived = there_and_back(tensor)
    assert isinstance(arrived, torch.Tensor)
    assert torch.equal(arrived, tensor)


def test_a_result_with_what_cannot_travel_is_written_like_msgpack() -> None:
    @dataclasses.dataclass
    class Box:
        corners: object

    assert there_and_back(Box(np.arange(2))) == {"corners": [0, 1]}
    with pytest.raises(CannotTravel, match=r'result\["value"\]: object cannot'):
        there_and_back(object())


def test_it_is_chosen_by_quality() -> None:
    assert encode_body([1], f"{OBJECTS};q=0.1, application/json")[1] == "application/json"
    assert encode_body([1], f"{OBJECTS};q=0.1, application/msgpack")[1] == "application/msgpack"
    assert encode_body([1], "*/*")[1] == "application/json"


def test_plain_msgpack_is_read_as_well() -> None:
    assert decode_body(msgpack.packb({"a": [1, 2.5, b"b"]}), OBJECTS) == {"a": [1, 2.5, b"b"]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x91",
        b"\xdd\xff\xff\xff\xff",
        b"\x01\x01",
        msgpack.packb(msgpack.ExtType(4, b"\xff\xff")),  # an array that ends in its header
        msgpack.packb(msgpack.ExtType(8, b"\0\0\0\0\0\0")),  # bytes apart, of which there are none
        msgpack.packb(msgpack.ExtType(99, b"")),
    ],
)
def test_what_is_none(body: bytes) -> None:
    with pytest.raises(BadBody, match=OBJECTS):
        decode_body(body, OBJECTS)


def test_where_there_is_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    body, _ = encode_body(torch.zeros(1), OBJECTS)

    def absent(*_: object) -> object:
        raise ImportError("No module named 'torch'")

    monkeypatch.setattr("broker.payload.tensors.read_tensor", absent)
    with pytest.raises(UnsupportedType, match="tensors are not read here"):
        decode_body(body, OBJECTS)

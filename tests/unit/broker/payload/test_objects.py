"""What travels between two stages arrives as it was sent; what cannot is named where it is sent."""

import collections
import contextlib
import enum
import gc
import math
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]  # it ships no types
import numpy as np
import pytest

from broker.payload.errors import BadPayload, CannotTravel
from broker.payload.limits import MAX_DEPTH, SPILL_BYTES
from broker.payload.objects import pack, pack_all, unpack


def trip(obj: object, **options: Any) -> Any:
    """There and back, the buffers as the memoryviews that a socket would hand over."""
    body, buffers = pack(obj, **options)
    return unpack(memoryview(bytes(body)), [memoryview(bytes(buffer)) for buffer in buffers])


def nested(levels: int, kind: type = list) -> Any:
    obj: Any = kind()
    for _ in range(levels - 1):
        obj = {"k": obj} if kind is dict else kind([obj])
    return obj


def assert_same(sent: Any, arrived: Any) -> None:
    assert type(arrived) is type(sent)
    assert repr(arrived) == repr(sent)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        2**64 - 1,
        -(2**63),
        1.5,
        math.nan,
        -math.inf,
        -0.0,
        "",
        "ok 😀",
        b"",
        b"\0\xff",
        [],
        (),
        {},
        [1, [2, (3, [4, ()])]],
        ((1, 2), ((3,), "x")),
        {"a": [1], 2: "int", b"k": 3, True: 4, None: 5, 2.5: 6, (0, (1, "x")): 7},
        "cut \ud83d",
        {"\udc00": ["\ud83d", "ok \ud83d\ude00"]},
        {"b": True, "n": None, "many": list(range(300)), "text": "wörd " * 500},
    ],
)
def test_plain_values(value: object) -> None:
    assert_same(value, trip(value))


def test_bytes_of_every_kind_arrive_as_bytes() -> None:
    array: Any = np.arange(16, dtype=np.uint8).reshape(4, 4)
    square = memoryview(array)
    large = b"x" * SPILL_BYTES
    values = [bytearray(b"ab"), memoryview(b"cd"), square, square[::2], bytearray(large), large]
    assert trip(values) == [bytes(value) for value in values]
    assert trip(memoryview(array[:0])) == b""


@pytest.mark.parametrize(
    "odd",
    [
        b"raw", bytearray(b"raw"), "x" * SPILL_BYTES, [b"x" * SPILL_BYTES], np.zeros(SPILL_BYTES),
        "\ud800", 2**64, object(), ValueError("no"), nested(MAX_DEPTH + 1),
    ],
)  # fmt: skip
def test_many_at_once_are_packed_as_each_alone_or_not_at_all(odd: object) -> None:
    usual = [None, 2.5, "text", {"a": [1, (2, "b")]}, np.arange(3), nested(MAX_DEPTH, dict)]
    bodies = [pack(each)[0] for each in usual]
    assert pack_all(usual) == bodies
    assert pack_all([*usual, odd, *usual]) is None
    assert pack_all(usual) == bodies, "nothing of it is left"


@pytest.mark.parametrize("wrap", [lambda b: b, lambda b: [b], lambda b: {"f": {"body": b}}])
def test_large_bytes_travel_apart_and_uncopied(wrap: Any) -> None:
    large = b"x" * SPILL_BYTES
    body, buffers = pack(wrap(large))
    assert buffers == [large]
    assert buffers[0] is large
    assert len(body) < 40
    assert unpack(body, buffers) == wrap(large)


def test_buffers_keep_their_order_and_the_threshold_is_exact() -> None:
    array = np.arange(SPILL_BYTES // 8, dtype=np.int64)
    sent = {"a": array, "b": b"1" * SPILL_BYTES, "c": (array[:-1], [array + 1]), "d": b"small"}
    body, buffers = pack(sent)
    assert [len(buffer) for buffer in buffers] == [SPILL_BYTES] * 3
    arrived: Any = unpack(body, buffers)
    assert (arrived["a"] == array).all()
    assert arrived["b"] == sent["b"]
    assert (arrived["c"][0] == array[:-1]).all()
    assert (arrived["c"][1][0] == array + 1).all()
    assert pack(b"abc", spill_bytes=3)[1] == [b"abc"]
    assert pack({b"x" * SPILL_BYTES: 1})[1] == []  # a key stays inside


class SummerTime(tzinfo):
    """UTC+2 until the clocks are set back, then UTC+1: which of the two, only fold tells."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1 if moment is not None and moment.fold else 2)

    def dst(self, moment: datetime | None) -> timedelta:
        return self.utcoffset(moment) - timedelta(hours=1)

    def tzname(self, moment: datetime | None) -> str:
        return "CET"


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2024, 2, 29, 12, 34, 56, 789012),  # noqa: DTZ001
        datetime.min,  # noqa: DTZ901
        datetime.max.replace(tzinfo=UTC),
        datetime(2024, 10, 27, 2, 30, fold=1),  # noqa: DTZ001
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-3, minutes=-30, microseconds=7))),
        datetime(2024, 10, 27, 2, 30, tzinfo=SummerTime()),
        datetime(2024, 10, 27, 2, 30, tzinfo=SummerTime(), fold=1),
    ],
)
def test_datetimes_keep_instant_offset_and_fold(moment: datetime) -> None:
    arrived = trip(moment)
    assert arrived.replace(tzinfo=None) == moment.replace(tzinfo=None)
    assert arrived.utcoffset() == moment.utcoffset()
    assert arrived.fold == moment.fold
    assert (arrived.tzinfo is None) == (moment.tzinfo is None)


DTYPES = [
    *("?", "i1", "u1", "<i2", ">i2", "<u4", ">i8", "<u8", "<f2", ">f4", "<f8", "g", "<c8", ">c16"),
    *("U3", ">U3", "S4", "M8[ns]", "M8[D]", ">M8[25s]", "m8[us]", "m8[Y]", "M8", "V5"),
]
BASE = np.arange(24, dtype=np.uint8).reshape(4, 6)
SHAPES = {
    "plain": BASE,
    "0-d": np.array(BASE[1, 1]),
    "fortran": np.asfortranarray(BASE),
    "every second": BASE[:, ::2],
    "backwards": BASE[::-1],
    "transposed": BASE.reshape(2, 3, 4).transpose(1, 0, 2),
    "one axis of none": BASE[:0, 0],
    "(2, 0)": np.zeros((2, 0), np.uint8),
    "(0, 4)": np.zeros((0, 4), np.uint8),
}


def in_layout(array: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """The values of `array` as `dtype`, with the strides going the same way."""
    kind = np.dtype(dtype).kind
    if kind == "V":
        return array.astype("S5", order="K").astype(dtype, order="K")
    through = "i8" if kind in "Mm" else array.dtype
    return array.astype(through, order="K").astype(dtype, order="K")


@pytest.mark.parametrize("spill_bytes", [0, SPILL_BYTES])
@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_keep_dtype_shape_and_values(dtype: str, layout: str, spill_bytes: int) -> None:
    source = SHAPES[layout]
    array = in_layout(source, dtype)
    if layout in ("every second", "backwards", "transposed"):
        twice = np.empty(tuple(2 * n for n in array.shape), dtype)
        view = twice[tuple(slice(None, None, -2) for _ in array.shape)]
        view[...] = array
        array = view
        assert not array.flags.c_contiguous
    arrived = trip(array, spill_bytes=spill_bytes)
    assert type(arrived) is np.ndarray
    assert arrived.dtype == array.dtype
    assert arrived.shape == array.shape
    assert arrived.tobytes() == array.tobytes()
    assert not arrived.flags.writeable
    if layout == "fortran":
        assert arrived.flags.f_contiguous


@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_alone_travels_as_one_among_others(dtype: str, layout: str) -> None:
    array = in_layout(SHAPES[layout], dtype)
    for spill_bytes in (1, array.nbytes, array.nbytes + 1):
        body, buffers = pack(array, spill_bytes=spill_bytes)
        listed, listed_buffers = pack([array], spill_bytes=spill_bytes)
        assert b"\x91" + body == listed
        assert [bytes(each) for each in buffers] == [bytes(each) for each in listed_buffers]
        views = [memoryview(bytes(each)) for each in buffers]
        alone: Any = unpack(body, views)
        among: Any = unpack(listed, views)[0]  # type: ignore[index]
        assert (alone.dtype, alone.shape, alone.strides) == (
            among.dtype,
            among.shape,
            among.strides,
        )
        assert alone.tobytes() == among.tobytes()
        assert not alone.flags.writeable


def test_an_array_apart_is_a_read_only_view() -> None:
    array = np.arange(SPILL_BYTES, dtype=np.float32)
    body, buffers = pack([array])
    assert np.shares_memory(np.asarray(buffers[0]), array)
    page = bytearray(buffers[0])
    arrived: Any = unpack(body, [memoryview(page)])[0]  # type: ignore[index]
    assert np.shares_memory(arrived, np.frombuffer(page, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        arrived += 1


def test_a_buffer_at_an_odd_address_gives_an_aligned_array() -> None:
    array = np.arange(SPILL_BYTES, dtype=np.float64)
    body, buffers = pack(array)
    arrived: Any = unpack(body, [memoryview(b"x" + bytes(buffers[0]))[1:]])
    assert arrived.flags.aligned
    assert not arrived.flags.writeable
    assert (arrived == array).all()


@pytest.mark.parametrize(
    "scalar",
    [
        np.float32(0.1),
        np.float16(65504),
        np.int64(-3),
        np.bool_(True),
        np.complex64(1 + 2j),
        np.str_("é"),
        np.str_("\0a\ud83d\0"),
        np.str_(""),
        np.bytes_(b"ab\0"),
        np.datetime64("2024-01-01", "D"),
        np.datetime64("NaT"),
        np.timedelta64(5, "ms"),
        np.float64("nan"),
    ],
)
def test_numpy_scalars_stay_scalars(scalar: Any) -> None:
    arrived = trip({"s": [scalar]})["s"][0]
    assert type(arrived) is type(scalar)
    assert arrived.dtype == scalar.dtype
    assert arrived.tobytes() == scalar.tobytes()
    assert repr(arrived) == repr(scalar)


def test_numpy_scalars_as_keys() -> None:
    assert trip({np.int64(1): "a", np.str_("k"): "b"}) == {1: "a", "k": "b"}


def test_a_memmap_travels_as_the_array_that_it_shows(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "m", np.int32, "w+", shape=(3,))
    mapped[:] = [1, 2, 3]
    assert trip(mapped).tolist() == [1, 2, 3]


class Colour(enum.IntEnum):
    RED = 1


class Name(enum.StrEnum):
    A = "a"


class Point(NamedTuple):
    x: int


class Owner:
    """Nothing that travels."""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Owner(), "result: Owner cannot travel between stages"),
        ({"boxes": [0, 1, {"o": Owner()}]}, 'result["boxes"][2]["o"]: Owner cannot'),
        ([(1, Owner())], "result[0][1]: Owner cannot"),
        ({"a": {1: "x", (Owner(), 2): "y"}}, 'result["a"].keys()[1][0]: Owner cannot'),
        ([2**64], "result[0]: int cannot travel between stages (only integers from"),
        ([-(2**63) - 1], "result[0]: int cannot"),
        ([Colour.RED], "result[0]: Colour cannot travel between stages (a subclass of int"),
        ({"n": Name.A}, 'result["n"]: Name cannot travel between stages (a subclass of str'),
        ([Point(1)], "result[0]: Point cannot"),
        ([collections.OrderedDict(a=1)], "result[0]: OrderedDict cannot"),
        ([{1, 2}], "result[0]: set cannot"),
        ([1j], "result[0]: complex cannot"),
        ([date(2024, 1, 1)], "result[0]: date cannot"),
        ([np.array([None])], "result[0]: numpy array of dtype object cannot"),
        ([np.zeros(2, "f4,i4")], "(send one array for each field"),
        ([np.array(["ab"], np.dtypes.StringDType())], "(convert it to a fixed width"),
        ([np.ma.masked_array([1])], "result[0]: MaskedArray cannot"),
        ({'a"b\n': Owner()}, 'result["a\\"b\\n"]: Owner cannot'),
        (["\ud83d", Owner()], "result[1]: Owner cannot"),
    ],
)
def test_what_cannot_travel_is_named_with_its_path(value: object, message: str) -> None:
    with pytest.raises(CannotTravel) as caught:
        pack(value)
    assert message in str(caught.value)


def test_a_refusal_leaves_nothing_behind() -> None:
    for _ in range(3):
        with pytest.raises(CannotTravel):
            pack([np.zeros(SPILL_BYTES), ([Owner()],)])
        body, buffers = pack({"x": 1})
        assert (body, buffers) == (msgpack.packb({"x": 1}), [])


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("pack_them", [pack, pack_all])
@pytest.mark.parametrize("length", [3, SPILL_BYTES])
@pytest.mark.parametrize("odd", [None, object(), "\ud800"])
def test_arrays_are_let_go_of_at_once_whatever_comes_of_them(
    pack_them: Callable[[list[object]], object], length: int, odd: object
) -> None:
    """Their memory may be a slot that is wanted again."""
    array = np.arange(length)
    gone = weakref.ref(array)
    with contextlib.suppress(CannotTravel):
        pack_them([array, odd])
    del array
    assert gone() is None


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_depth_limit_on_both_sides(kind: type) -> None:
    assert trip(nested(MAX_DEPTH, kind)) == nested(MAX_DEPTH, kind)
    for levels in (MAX_DEPTH + 1, 600, 1100, 20_000):
        with pytest.raises(CannotTravel, match="100 levels") as caught:
            pack(nested(levels, kind))
        assert len(str(caught.value)) < 400
    with pytest.raises(BadPayload, match="100 levels"):
        unpack(msgpack.packb(nested(MAX_DEPTH + 1, list if kind is tuple else kind)))
    for levels in (900, 1000, 1020, 1024, 1100, 100_000):
        with pytest.raises(BadPayload):
            unpack(b"\x91" * levels + b"\xc0")


def test_depth_counts_lists_tuples_and_keys_alike() -> None:
    alternating: Any = 1
    for level in range(MAX_DEPTH):
        alternating = [alternating] if level % 2 else (alternating,)
    assert trip(alternating) == alternating
    key: Any = 1
    for _ in range(MAX_DEPTH - 1):
        key = (key,)
    assert trip({key: 1}) == {key: 1}
    for one_more in ([alternating], {(key,): 1}):
        with pytest.raises(CannotTravel, match="100 levels"):
            pack(one_more)


def test_what_contains_itself_is_refused() -> None:
    ring: list[object] = []
    ring += [ring, ring]
    form: dict[str, object] = {}
    form["self"] = form
    knot: tuple[list[object]] = ([],)
    knot[0].extend([knot, knot])
    for value in (ring, form, knot):
        with pytest.raises(CannotTravel, match="contains itself"):
            pack(value)


@pytest.mark.parametrize(
    ("body", "buffers"),
    [
        (b"", ()),
        (b"\xc1", ()),
        (b"\x01\x02", ()),
        (b"\xdd\xff\xff\xff\xff", ()),
        (b"\xdf\xff\xff\xff\xff\x01", ()),
        (b"\xc6\xff\xff\xff\xff", ()),
        (b"\x81\x80\x01", ()),
        (b"\xa1\xff", ()),
        (msgpack.packb(msgpack.ExtType(99, b"")), ()),
        (msgpack.packb(msgpack.ExtType(1, b"\xdd\xff\xff\xff\xff")), ()),
        (msgpack.packb(msgpack.ExtType(3, b"\0" * 21)), ()),
        (msgpack.packb(msgpack.ExtType(4, b"")), ()),
        (pack(np.zeros(8))[0].replace(b"<f8", b"|O8"), ()),
        (pack(np.zeros(8))[0].replace(b"<f8", b"<f4"), ()),
        (pack(np.float32(1))[0].replace(b"<f4", b"<U1"), ()),
        (pack(np.zeros(SPILL_BYTES))[0], ()),
        (pack(np.zeros(SPILL_BYTES))[0], [b"short"]),
        (pack(b"x" * SPILL_BYTES)[0], ()),
        (msgpack.packb({1: 2}).replace(b"\x01", pack(np.zeros(1))[0]), ()),  # unhashable key
    ],
)
def test_bad_payloads(body: bytes, buffers: Any) -> None:
    with pytest.raises(BadPayload):
        unpack(body, buffers)


def test_threads_do_not_meet_in_one_packer() -> None:
    sent = [{"n": n, "t": [(n, np.full(3, n)) for _ in range(20)]} for n in range(8)]
    wrong: list[object] = []

    def run(value: dict[str, Any]) -> None:
        for _ in range(50):
            arrived = trip(value)
            if arrived["n"] != value["n"] or any(t[1][0] != value["n"] for t in arrived["t"]):
                wrong.append(arrived)

    threads = [threading.Thread(target=run, args=(value,)) for value in sent]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert wrong == []


def test_neither_numpy_nor_torch_is_imported_for_plain_values() -> None:
    code = (
        "import sys\n"
        "from broker.payload.bodies import decode_body, encode_body\n"
        "from broker.payload.objects import pack, unpack\n"
        "unpack(*pack({'x': (1, b'y' * 9999)})); decode_body(b'[1]', ''); encode_body([1], '')\n"
        "print([m for m in ('numpy', 'torch', 'zmq', 'aiohttp') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is an optional extra")


class TestTensors:
    """Tensors arrive on the CPU, detached, contiguous, writable."""

    @pytest.mark.parametrize("spill_bytes", [1, SPILL_BYTES])
    @pytest.mark.parametrize(
        "name",
        [
            *("bfloat16", "float16", "float32", "float64", "bool", "int8", "uint8", "int64"),
            *("uint16", "complex64", "float8_e4m3fn"),
        ],
    )
    def test_dtypes(self, torch: Any, name: str, spill_bytes: int) -> None:
        sent = torch.arange(12).reshape(3, 4).to(getattr(torch, name))[:, ::2]
        arrived = trip([sent], spill_bytes=spill_bytes)[0]
        assert type(arrived) is torch.Tensor
        assert arrived.dtype == sent.dtype
        assert arrived.shape == sent.shape
        wide = torch.complex64 if sent.is_complex() else torch.float64
        assert (arrived.to(wide) == sent.to(wide)).all()
        arrived.view(torch.uint8)[...] = 0  # writable

    def test_bfloat16_keeps_its_bits(self, torch: Any) -> None:
        arrived = trip(torch.tensor([1.5, -2.25, 0.01], dtype=torch.bfloat16))
        assert arrived.view(torch.uint8).numpy().tobytes() == bytes.fromhex("c03f10c0243c")
        halves = trip(torch.tensor([65504.0, 65520.0]).to(torch.float16))
        assert halves.tolist() == [65504.0, math.inf]

    @pytest.mark.parametrize("shape", [(), (0,), (2, 0), (0, 4)])
    def test_shapes(self, torch: Any, shape: tuple[int, ...]) -> None:
        assert trip(torch.ones(shape)).shape == shape

    def test_gradients_conjugates_and_parameters(self, torch: Any) -> None:
        parameter = torch.nn.Parameter(torch.ones(3))
        assert type(trip(parameter)) is torch.Tensor
        assert not trip(parameter * 2).requires_grad
        conjugate = torch.tensor([1 + 2j]).conj()
        assert trip(conjugate).tolist() == [1 - 2j]

    def test_what_arrives_shares_no_memory(self, torch: Any) -> None:
        sent = torch.zeros(SPILL_BYTES)
        body, buffers = pack(sent)
        arrived: Any = unpack(body, buffers)
        arrived += 1
        assert sent.sum() == 0

    def test_refused(self, torch: Any) -> None:
        sparse = torch.eye(3).to_sparse()
        meta = torch.empty(2, device="meta")
        for value, word in ((sparse, "sparse"), (meta, "meta")):
            with pytest.raises(CannotTravel, match=word) as caught:
                pack({"t": value})
            assert caught.value.path == '["t"]'

    @pytest.mark.parametrize("name", [b"float99", b"quint8x", b"version"])
    def test_unknown_dtype(self, torch: Any, name: bytes) -> None:
        body = pack(torch.zeros(3))[0].replace(b"float32", name)
        with pytest.raises(BadPayload):
            unpack(body)

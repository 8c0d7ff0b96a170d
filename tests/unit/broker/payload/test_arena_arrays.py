"""Arrays of every kind, packed into a real arena and looked at through a real mapping."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.payload.arena import ARENA_BYTES, Arena
from broker.payload.errors import CannotTravel
from broker.payload.folder import ArenaFolder
from broker.payload.limits import SPILL_BYTES
from broker.payload.mapping import Mappings
from broker.payload.objects import pack, unpack

DTYPES = [
    *("?", "i1", "u1", "<i2", ">i2", "<u4", ">i8", "<u8", "<f2", ">f4", "<f8", "g", "<c8", ">c16"),
    *("U3", ">U3", "S4", "M8[ns]", "M8[D]", ">M8[25s]", "m8[us]", "m8[Y]", "M8", "V5"),
]


class Hosts:
    """An arena and the consumer of what is put into it."""

    def __init__(self, folder: ArenaFolder) -> None:
        self.arena = Arena(folder, 4 << 20)
        self.mappings = Mappings(folder)
        self.generations: list[int] = []

    def trip(self, obj: object) -> Any:
        body, buffers = pack(obj, unwritten=True)
        return unpack(body, [self._pass(buffer) for buffer in buffers])

    def _pass(self, buffer: Any) -> memoryview | bytes:
        is_written = isinstance(buffer, bytes | bytearray | memoryview)
        size_bytes = len(buffer) if is_written else buffer.nbytes
        if size_bytes < ARENA_BYTES:
            return bytes(buffer) if is_written else buffer.tobytes()
        slot = self.arena.allocate(size_bytes)
        assert slot is not None
        if is_written:
            slot.memory[:] = buffer
        else:
            buffer.write_to(slot.memory)
        self.generations.append(slot.generation)
        self.arena.publish([slot.generation])
        self.arena.drop([slot.generation])
        return self.mappings.view(self.arena.ref(slot))

    def check_reusable(self) -> None:
        """Nobody looks at anything any longer, and the arena is empty again."""
        ended = sorted(generation for _, generation in self.mappings.ended)
        assert ended == self.generations
        self.arena.free(self.generations)
        assert self.arena.used_bytes == 0
        self.mappings.ended.clear()
        self.generations.clear()


@pytest.fixture
def hosts(folder: ArenaFolder) -> Iterator[Hosts]:
    hosts = Hosts(folder)
    yield hosts
    hosts.arena.close()


SIZES = st.one_of(
    st.integers(0, 300),
    st.builds(
        lambda threshold, beside: threshold + beside,
        st.sampled_from([SPILL_BYTES, ARENA_BYTES, 3 * ARENA_BYTES]),
        st.integers(-17, 17),
    ),
)


# Arrays of n rows of w items each, by how they lie in memory.
LAYOUTS: dict[str, Callable[[int, int, np.dtype[Any]], Any]] = {
    "0-d": lambda _n, _w, dtype: values(1, dtype).reshape(()),
    "plain": lambda n, w, dtype: values(n * w, dtype),
    "rows": lambda n, w, dtype: values(n * w, dtype).reshape(n, w),
    "fortran": lambda n, w, dtype: values(n * w, dtype).reshape(w, n).T,
    "backwards": lambda n, w, dtype: values(n * w, dtype).reshape(n, w)[::-1, ::-1],
    "strided": lambda n, w, dtype: values(n * w * 6, dtype).reshape(n * 2, w * 3)[::2, 1::3],
    "permuted": lambda n, w, dtype: values(n * w * 2, dtype).reshape(n, 2, w).transpose(1, 2, 0),
    "repeated": lambda n, w, dtype: np.broadcast_to(values(w, dtype), (n, w)),
}


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """An array of about the drawn number of bytes, exactly where its items are single bytes."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    width = draw(st.sampled_from([1, 2, 7]))
    rows = draw(SIZES) // dtype.itemsize // width
    return LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](rows, width, dtype)


def values(count: int, dtype: np.dtype[Any]) -> Any:
    pattern = np.arange(count * dtype.itemsize) % 251 % (2 if dtype.kind in "bU" else 251)
    return pattern.astype(np.uint8).view(dtype) if count else np.empty(0, dtype)


@given(sent=arrays())
@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_array_arrives_as_it_was(hosts: Hosts, sent: Any) -> None:
    arrived = hosts.trip({"x": [sent]})["x"][0]
    assert type(arrived) is np.ndarray
    assert arrived.dtype == sent.dtype
    assert arrived.shape == sent.shape
    assert arrived.tobytes() == sent.tobytes()
    assert not arrived.flags.writeable
    assert arrived.flags.aligned
    if sent.nbytes >= ARENA_BYTES:
        assert len(hosts.generations) == 1
        assert hosts.mappings.living((hosts.arena.id, hosts.generations[0]))
    del arrived
    hosts.check_reusable()


@pytest.mark.parametrize("beside", [-1, 0, 1])
@pytest.mark.parametrize("threshold", [SPILL_BYTES, ARENA_BYTES])
def test_around_the_thresholds(hosts: Hosts, threshold: int, beside: int) -> None:
    size_bytes = threshold + beside
    for sent in (
        values(size_bytes, np.dtype("u1")),
        values(size_bytes, np.dtype("u1"))[::-1],
        values(size_bytes, np.dtype("u1")).tobytes(),
    ):
        arrived = hosts.trip([sent])[0]
        assert bytes(arrived) == bytes(sent)
        is_array = not isinstance(sent, bytes)
        assert len(hosts.generations) == (size_bytes >= ARENA_BYTES)
        assert len(hosts.mappings.ended) == (0 if is_array else len(hosts.generations))
        del arrived  # bytes are a copy, which keeps nothing
        hosts.check_reusable()


def test_an_image_is_turned_once_into_its_slot(hosts: Hosts) -> None:
    turned = values(224 * 224 * 3, np.dtype("<f4")).reshape(224, 224, 3).transpose(2, 0, 1)
    body, (buffer,) = pack(turned, unwritten=True)
    assert not isinstance(buffer, bytes | bytearray | memoryview)
    assert buffer.nbytes == turned.nbytes
    slot = hosts.arena.allocate(buffer.nbytes)
    assert slot is not None
    buffer.write_to(slot.memory)
    arrived: Any = unpack(body, [hosts.mappings.view(hosts.arena.ref(slot))])
    assert arrived.flags.c_contiguous
    assert np.shares_memory(arrived, np.frombuffer(hosts.mappings.view(hosts.arena.ref(slot))))
    assert (arrived == turned).all()
    assert buffer.tobytes() == arrived.tobytes()


def test_contiguous_arrays_are_views_all_the_same() -> None:
    square = values(SPILL_BYTES, np.dtype("u1")).reshape(64, -1)
    for array in (square, square.T, square[::1]):
        _, (buffer,) = pack([array], unwritten=True)
        assert isinstance(buffer, memoryview)
        assert np.shares_memory(np.asarray(buffer), square)


@pytest.mark.parametrize("obj", [{"a": 1}, b"x" * SPILL_BYTES, {"f": b"x" * SPILL_BYTES}])
def test_without_being_asked_everything_is_written(obj: object) -> None:
    scattered = values(2 * SPILL_BYTES, np.dtype("u1"))[::2]
    for sent in ([scattered], {"a": scattered, "b": obj}, (scattered, "\ud83d")):
        body, buffers = pack(sent)
        assert all(isinstance(buffer, bytes | memoryview) for buffer in buffers)
        assert bytes(buffers[0]) == scattered.tobytes()
        assert repr(unpack(body, buffers)) == repr(sent)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros(ARENA_BYTES, "f4,i4"), "one array for each field"),
        (np.zeros(ARENA_BYTES, "f4,i4")[::2], "one array for each field"),
        (np.array([None] * ARENA_BYTES)[::2], "Python objects"),
    ],
)
def test_what_cannot_travel_is_refused_before_anything_is_written(array: Any, reason: str) -> None:
    with pytest.raises(CannotTravel, match=reason):
        pack([array], unwritten=True)


def test_many_in_one_message_end_each_for_itself(hosts: Hosts) -> None:
    sent = [values(ARENA_BYTES + number, np.dtype("u1")) for number in range(5)]
    arrived = hosts.trip(sent)
    last = arrived[2]
    del arrived
    assert len(hosts.mappings.ended) == 4
    assert bytes(last) == bytes(sent[2])
    del last
    assert hosts.mappings.ended[-1] == (hosts.arena.id, hosts.generations[2])
    hosts.check_reusable()

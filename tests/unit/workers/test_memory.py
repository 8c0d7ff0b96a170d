"""A worker's shared memory over real arenas: what is copied, what is not, and when it is free."""

import gc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.payload.arena import ARENA_BYTES
from broker.payload.errors import PayloadLost
from broker.payload.folder import ArenaFolder, folder_name
from broker.payload.objects import pack, unpack
from broker.wire.frames import blob, refs_of
from broker.wire.messages import Blob, Payload, Ref
from workers.memory import SharedMemory
from workers.outcomes import pack_payload, packed_parts, raw_body

SIZE = ARENA_BYTES // 4
"""Elements of a float32 array that just goes into an arena."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArenaFolder:
    monkeypatch.setenv("MILLSTREAM_SHM", str(tmp_path))
    return ArenaFolder.make(folder_name("ipc:///tmp/somewhere/broker.sock"))


@pytest.fixture
def maker(folder: ArenaFolder) -> Iterator[SharedMemory]:
    yield from joined(folder)


@pytest.fixture
def taker(folder: ArenaFolder) -> Iterator[SharedMemory]:
    yield from joined(folder)


def joined(folder: ArenaFolder) -> Iterator[SharedMemory]:
    memory = SharedMemory(1 << 22)
    assert memory.join(folder.name, folder.token)
    yield memory
    memory.close()


def send(memory: SharedMemory, result: object) -> Payload:
    """What becomes of a batch of one."""
    return send_batch(memory, [result])[0]


def send_batch(memory: SharedMemory, results: Iterable[object]) -> list[Payload]:
    """What a session does with the results of a batch."""
    payloads = [pack_payload(result, memory) for result in results]
    del results
    memory.seal(payloads)
    refs = [ref for payload in payloads for ref in refs_of(payload)]
    memory.publish(refs)
    memory.drop(refs)
    return payloads


def receive(memory: SharedMemory, payload: Payload) -> object:
    return unpack(*packed_parts(payload, memory))


def used(memory: SharedMemory) -> int:
    arena = memory._arena
    assert arena is not None
    return arena.used_bytes


def keys(payload: Payload) -> list[tuple[int, int]]:
    return [(ref.arena, ref.generation) for ref in refs_of(payload)]


def test_a_large_array_is_read_where_it_was_written(
    maker: SharedMemory, taker: SharedMemory
) -> None:
    array = np.arange(SIZE, dtype=np.float32)
    payload = send(maker, {"image": array, "label": 3})
    (ref,) = refs_of(payload)
    assert (ref.arena, ref.length) == (maker.arena, array.nbytes)
    result = receive(taker, payload)
    assert isinstance(result, dict)
    np.testing.assert_array_equal(result["image"], array)
    assert not result["image"].flags.writeable
    assert taker.kept(keys(payload)) == keys(payload)
    del result
    assert taker.gone() == keys(payload)
    maker.free([ref.generation])
    assert used(maker) == 0


def test_small_buffers_never_touch_the_arena(maker: SharedMemory) -> None:
    payload = send(maker, np.zeros(SIZE - 1, np.float32))
    assert isinstance(payload, Blob)
    assert refs_of(payload) == []
    assert maker.generation == 0


def test_what_was_given_goes_on_without_a_copy(maker: SharedMemory, taker: SharedMemory) -> None:
    payload = send(maker, np.arange(4 * SIZE, dtype=np.float32))
    array = receive(taker, payload)
    assert isinstance(array, np.ndarray)
    (whole,) = refs_of(send(taker, array))
    (part,) = refs_of(send(taker, array.reshape(4, SIZE)[2]))
    assert whole == refs_of(payload)[0]
    assert (part.arena, part.generation) == (whole.arena, whole.generation)
    assert (part.start, part.length) == (2 * SIZE * 4, SIZE * 4)
    assert taker.generation == 0
    row = receive(taker, blob(pack(array[:SIZE])[0], [part]))
    assert isinstance(row, np.ndarray)
    np.testing.assert_array_equal(row, np.arange(2 * SIZE, 3 * SIZE))


def test_a_view_with_gaps_is_written_once_more(maker: SharedMemory, taker: SharedMemory) -> None:
    array = receive(taker, send(maker, np.arange(4 * SIZE, dtype=np.float32)))
    assert isinstance(array, np.ndarray)
    payload = send(taker, array[::-2])
    assert [ref.arena for ref in refs_of(payload)] == [taker.arena]
    again = receive(maker, payload)
    np.testing.assert_array_equal(again, array[::-2])


def test_a_plug_in_that_keeps_an_array_is_counted(maker: SharedMemory, taker: SharedMemory) -> None:
    payload = send(maker, np.arange(SIZE, dtype=np.float32))
    array = receive(taker, payload)
    assert isinstance(array, np.ndarray)
    view = array[3:5].T
    del array
    assert taker.kept(keys(payload)) == keys(payload)
    assert taker.all_kept() == keys(payload)
    assert taker.gone() == []
    again = receive(taker, payload)  # the same slot twice: one root
    del view
    assert taker.gone() == []
    del again
    assert taker.gone() == keys(payload)
    assert taker.gone() == []
    assert taker.all_kept() == []


def filled(memory: SharedMemory) -> np.ndarray[Any, Any]:
    out = memory.lending.empty((2, SIZE), "float32")
    out[0], out[1] = 1.0, 2.0
    assert isinstance(out, np.ndarray)
    return out


def test_output_memory_travels_without_a_copy(maker: SharedMemory, taker: SharedMemory) -> None:
    payloads = send_batch(maker, list(filled(maker)))
    assert {ref.generation for payload in payloads for ref in refs_of(payload)} == {1}
    assert [ref.start for payload in payloads for ref in refs_of(payload)] == [0, SIZE * 4]
    second = receive(taker, payloads[1])
    np.testing.assert_array_equal(second, np.full(SIZE, 2.0, np.float32))
    del second
    assert used(maker) > 0  # the broker holds it
    maker.free([1])
    assert used(maker) == 0


def test_output_memory_that_the_plug_in_keeps_is_copied(
    maker: SharedMemory, taker: SharedMemory
) -> None:
    out = filled(maker)
    payloads = send_batch(maker, list(out))
    out[:] = 7.0  # it may: it was never given away
    second = receive(taker, payloads[1])
    np.testing.assert_array_equal(second, np.full(SIZE, 2.0, np.float32))
    again = receive(taker, send(maker, out[1]))
    np.testing.assert_array_equal(again, np.full(SIZE, 7.0, np.float32))
    maker.settle(maker.generation, [])
    assert used(maker) >= 2 * SIZE * 4  # still the plug-in's
    del out
    maker.tick()
    assert used(maker) == 0


def test_output_memory_that_is_never_sent_comes_back(maker: SharedMemory) -> None:
    out = maker.lending.empty(SIZE, np.float32)
    assert used(maker) > 0
    del out
    maker.tick()
    assert used(maker) == 0


def test_output_memory_that_is_small_or_finds_no_room_is_ordinary(maker: SharedMemory) -> None:
    assert maker.lending.empty(4, np.float32).shape == (4,)
    large = maker.lending.empty((1 << 22,), np.float32)
    assert large.shape == (1 << 22,)
    assert used(maker) == 0
    assert maker.found_full()
    assert not maker.found_full()


def test_what_finds_no_room_goes_in_frames(maker: SharedMemory, taker: SharedMemory) -> None:
    array = np.arange(1 << 21, dtype=np.float32)
    for result in (array, array[::-1], array.tobytes()):
        payload = send(maker, result)
        assert refs_of(payload) == []
        np.testing.assert_array_equal(receive(taker, payload), result)
    assert maker.found_full()


def test_what_cannot_be_packed_holds_nothing(maker: SharedMemory) -> None:
    class Broken:
        nbytes = ARENA_BYTES

        def write_to(self, memory: memoryview) -> None:
            raise RuntimeError("the device is gone")

        def tobytes(self) -> bytes:
            raise RuntimeError("the device is gone")

    with pytest.raises(RuntimeError):
        maker.place([memoryview(bytes(ARENA_BYTES)), Broken()])
    assert used(maker) == 0


def test_small_results_show_that_arrays_in_the_arena_pay_no_longer(maker: SharedMemory) -> None:
    def state() -> tuple[bool, bool]:
        return maker.lending.is_on, maker.needs_seal

    assert state() == (False, False)
    send(maker, np.zeros(4 * SIZE, np.float32))
    assert state() == (True, True)
    maker.lending.begin()
    small = [np.ones(4) for _ in range(8)]
    maker.lending.end()
    send(maker, small)
    assert state() == (False, False)


def test_an_upload_is_read_in_place(maker: SharedMemory, taker: SharedMemory) -> None:
    body = bytes(range(256)) * (ARENA_BYTES // 256)
    placed = maker.place([body])
    maker.publish([ref for ref in placed if isinstance(ref, Ref)])
    view = raw_body(blob(b"", placed), taker)
    assert isinstance(view, memoryview)
    assert view.readonly
    assert view == body


def test_a_reference_to_what_is_no_more_is_said_to_be_lost(
    maker: SharedMemory, taker: SharedMemory
) -> None:
    payload = send(maker, np.arange(SIZE, dtype=np.float32))
    maker.free([1])
    send(maker, np.zeros(SIZE, np.float32))  # in the same place
    with pytest.raises(PayloadLost):
        receive(taker, payload)
    with pytest.raises(PayloadLost):
        receive(SharedMemory(0), payload)


def test_a_broker_of_another_host_is_not_joined(folder: ArenaFolder) -> None:
    memory = SharedMemory()
    assert not memory.join(folder.name, "another token")
    assert not memory.join("", "")
    assert memory.arena == 0
    off = SharedMemory(0)
    assert not off.join(folder.name, folder.token)


def test_joining_twice_changes_nothing(maker: SharedMemory, folder: ArenaFolder) -> None:
    arena = maker.arena
    assert not maker.join(folder.name, folder.token)
    assert maker.arena == arena


def test_an_arena_in_use_outlives_its_worker(folder: ArenaFolder, taker: SharedMemory) -> None:
    memory = SharedMemory(1 << 22)
    memory.join(folder.name, folder.token)
    payload = send(memory, np.arange(SIZE, dtype=np.float32))
    arena = memory.arena
    memory.close()
    del memory
    gc.collect()
    assert folder.arena_path(arena).exists()
    np.testing.assert_array_equal(receive(taker, payload), np.arange(SIZE))


def test_an_unused_arena_goes_with_its_worker(folder: ArenaFolder) -> None:
    memory = SharedMemory(1 << 22)
    memory.join(folder.name, folder.token)
    path = folder.arena_path(memory.arena)
    assert path.exists()
    memory.close()
    assert not path.exists()

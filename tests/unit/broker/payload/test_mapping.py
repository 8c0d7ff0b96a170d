"""Others' slots are seen without a copy, and their end is told when the last view has died."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from broker.payload.arena import Arena, Slot
from broker.payload.errors import PayloadLost
from broker.payload.folder import ArenaFolder
from broker.payload.mapping import Mappings
from broker.wire.messages import Ref

MIB = 1 << 20


@pytest.fixture
def arena(folder: ArenaFolder) -> Iterator[Arena]:
    arena = Arena(folder, 8 * MIB)
    yield arena
    arena.close()


@pytest.fixture
def mappings(folder: ArenaFolder) -> Mappings:
    return Mappings(folder)


def take(arena: Arena, data: bytes = b"0123456789" * 10_000) -> Slot:
    slot = arena.allocate(len(data))
    assert slot is not None
    slot.memory[:] = data
    arena.publish([slot.generation])
    return slot


def address(memory: Any) -> int:
    where: int = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    return where


def test_a_view_is_the_bytes_read_only_aligned_and_no_copy(
    arena: Arena, mappings: Mappings
) -> None:
    slot = take(arena)
    view = mappings.view(arena.ref(slot))
    assert bytes(view) == bytes(slot.memory)
    assert view.readonly
    assert view.contiguous
    assert address(view) % 64 == 0
    slot.memory[:3] = b"new"
    assert bytes(view[:3]) == b"new"
    assert bytes(mappings.view(arena.ref(slot, 5, 10))) == b"5678901234"
    assert bytes(mappings.view(arena.ref(slot, 5, 0))) == b""


KEEPERS: dict[str, Callable[[Any], Any]] = {
    "the view": lambda view: view,
    "a slice of it": lambda view: view[10:20],
    "a view of it": memoryview,
    "read-only": lambda view: view.toreadonly().cast("B"),
    "an array": lambda view: np.ndarray((10,), np.uint8, view),
    "a part of an array": lambda view: np.frombuffer(view, np.uint8)[3:8],
    "another shape": lambda view: np.frombuffer(view, np.uint8).reshape(100, -1).T,
    "another type": lambda view: np.frombuffer(view, np.uint8).view(">u4")[::-2],
    "asarray": lambda view: np.asarray(np.asarray(view)[1:]),
    "broadcast": lambda view: np.broadcast_to(np.frombuffer(view, np.uint8), (3, len(view))),
    "memory of an array": lambda view: np.frombuffer(view, np.uint8)[1:].data,
    "a list of rows": lambda view: list(np.frombuffer(view, np.uint8).reshape(100, -1)),
    "an iterator": lambda view: iter(np.frombuffer(view, np.uint8)),
    "a closure": lambda view: lambda: view[0],
}


@pytest.mark.parametrize("name", KEEPERS)
def test_whatever_is_made_of_a_view_keeps_the_slot(
    arena: Arena, mappings: Mappings, name: str
) -> None:
    slot = take(arena)
    key = (arena.id, slot.generation)
    kept = KEEPERS[name](mappings.view(arena.ref(slot)))
    gc.collect()
    assert mappings.living(key)
    assert not mappings.ended
    del kept
    assert not mappings.living(key)
    assert list(mappings.ended) == [key]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_a_tensor_keeps_the_slot(arena: Arena, mappings: Mappings) -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional extra")
    slot = take(arena)
    kept = torch.from_numpy(np.frombuffer(mappings.view(arena.ref(slot)), np.uint8))[5:].view(-1, 5)
    assert mappings.living((arena.id, slot.generation))
    assert bytes(kept[0].tolist()) == b"56789"
    del kept
    assert list(mappings.ended) == [(arena.id, slot.generation)]


@pytest.mark.parametrize("copy", [bytes, np.array, lambda view: np.frombuffer(view, np.uint8) + 1])
def test_a_copy_does_not_keep_the_slot(
    arena: Arena, mappings: Mappings, copy: Callable[[Any], Any]
) -> None:
    slot = take(arena)
    kept = copy(mappings.view(arena.ref(slot)))
    assert list(mappings.ended) == [(arena.id, slot.generation)]
    del kept


def test_parts_of_one_slot_end_together(arena: Arena, mappings: Mappings) -> None:
    slot = take(arena)
    key = (arena.id, slot.generation)
    parts = [mappings.view(arena.ref(slot, start, 10)) for start in range(5)]
    while parts:
        assert not mappings.ended
        parts.pop()
    assert list(mappings.ended) == [key]
    view = mappings.view(arena.ref(slot))  # looked at anew
    assert mappings.living(key)
    del view
    assert list(mappings.ended) == [key, key]


def test_slots_end_for_themselves(arena: Arena, mappings: Mappings) -> None:
    slots = [take(arena) for _ in range(5)]
    views = [mappings.view(arena.ref(slot)) for slot in slots]
    for index in (3, 0, 4, 1, 2):
        views[index] = memoryview(b"")
    assert [generation for _, generation in mappings.ended] == [
        slots[index].generation for index in (3, 0, 4, 1, 2)
    ]


def test_views_may_end_in_any_thread(arena: Arena, mappings: Mappings) -> None:
    slots = [take(arena, b"x" * 1000) for _ in range(200)]
    views = [mappings.view(arena.ref(slot)) for slot in slots]
    thread = threading.Thread(target=views.clear)
    thread.start()
    for slot in slots:
        assert bytes(mappings.view(arena.ref(slot))[:1]) == b"x"
    thread.join(timeout=10)
    assert not any(mappings.living((arena.id, slot.generation)) for slot in slots)
    assert {generation for _, generation in mappings.ended} == {s.generation for s in slots}


def test_what_is_gone_is_lost(folder: ArenaFolder, arena: Arena, mappings: Mappings) -> None:
    slot = take(arena)
    ref = arena.ref(slot)
    arena.free([slot.generation])
    arena.drop([slot.generation])
    with pytest.raises(PayloadLost, match="is gone"):
        mappings.view(ref)
    take(arena)  # the same memory, another slot
    with pytest.raises(PayloadLost, match="is gone"):
        mappings.view(ref)
    arena.trim()
    with pytest.raises(PayloadLost, match="No such file"):
        mappings.view(Ref(arena.id + 2, 0, 1, 0, 1))
    folder.arena_path(arena.id + 4).touch()
    with pytest.raises(PayloadLost, match="cannot be mapped"):
        mappings.view(Ref(arena.id + 4, 0, 1, 0, 1))
    folder.arena_path(arena.id + 6).symlink_to(folder.arena_path(arena.id))
    with pytest.raises(PayloadLost, match="cannot be mapped"):
        mappings.view(Ref(arena.id + 6, 0, 1, 0, 1))


@pytest.mark.parametrize("is_looked_at", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        {"start": 1},
        {"length": 100_001},
        {"start": 100_000, "length": 1},
        {"start": -1},
        {"length": -1},
        {"start": 5, "length": -5},
        {"slot": 64},
        {"slot": 1},
        {"slot": -64},
        {"slot": 8 * MIB},
        {"slot": 8 * MIB - 64},
        {"slot": 1 << 63},
        {"slot": (1 << 64) - 64},
        {"generation": 0},
        {"generation": 2},
        {"generation": 1 << 63},
        {"arena": 0},
        {"arena": (1 << 64) - 1},
        {"start": 1 << 63, "length": 1 << 63},
    ],
)
def test_references_to_elsewhere_are_lost(
    arena: Arena, mappings: Mappings, change: dict[str, int], is_looked_at: bool
) -> None:
    slot = take(arena)
    ref = arena.ref(slot)
    view = mappings.view(ref) if is_looked_at else None
    fields = {name: getattr(ref, name) for name in ref.__struct_fields__}
    with pytest.raises(PayloadLost):
        mappings.view(Ref(**(fields | change)))
    del view


def test_a_header_that_leads_beyond_the_file_is_lost(
    folder: ArenaFolder, arena: Arena, mappings: Mappings
) -> None:
    ref = arena.ref(take(arena))
    with open(folder.arena_path(arena.id), "r+b") as file:
        file.seek(ref.slot + 8)
        file.write((1 << 40).to_bytes(8, "little"))
    with pytest.raises(PayloadLost):
        mappings.view(ref)


def test_what_lies_in_a_slot_is_found(arena: Arena, mappings: Mappings) -> None:
    other, slot = take(arena), take(arena)
    ref = arena.ref(slot)
    start = address(mappings.view(ref))
    assert mappings.find(start, 100_000) is None  # nobody looks at it any longer
    view, other_view = mappings.view(ref), mappings.view(arena.ref(other))
    start = address(view)
    assert mappings.find(start, 100_000) == ref
    assert mappings.find(start + 8, 10) == arena.ref(slot, 8, 10)
    array = np.frombuffer(view, np.uint8)[1000:2000]
    assert mappings.find(address(array), array.nbytes) == arena.ref(slot, 1000, 1000)
    for position, size_bytes in ((-1, 10), (0, 100_001), (100_000, 1)):
        assert mappings.find(start + position, size_bytes) is None
    assert mappings.find(address(bytearray(10)), 10) is None
    del other_view
    assert mappings.find(start - 100_032, 1) is None  # between them, and before


def test_what_others_could_not_map_is_not_passed_on(arena: Arena, mappings: Mappings) -> None:
    view = mappings.view(arena.ref(take(arena)))
    assert mappings.find(address(view), 10) is not None
    arena.close()
    assert mappings.find(address(view), 10) is None
    assert bytes(view[:4]) == b"0123"


def maps() -> int:
    with open("/proc/self/maps") as file:
        return sum(".arena" in line for line in file)


def test_arenas_of_the_dead_are_let_go(folder: ArenaFolder) -> None:
    mappings = Mappings(folder)
    files_before, maps_before = len(os.listdir("/proc/self/fd")), maps()
    kept: list[memoryview] = []
    for number in range(6):
        arena = Arena(folder, MIB)
        view = mappings.view(arena.ref(take(arena)))
        if number == 1:
            kept.append(view)
        del view
        arena.close()
        del arena
    assert maps() - maps_before == 2  # the newest, and the one that is looked at
    assert bytes(kept[0][:4]) == b"0123"
    kept.clear()
    last = Arena(folder, MIB)
    mappings.view(last.ref(take(last)))
    last.close()
    del last
    assert maps() - maps_before == 1
    assert len(mappings.ended) == 7
    del mappings
    gc.collect()
    assert maps() == maps_before
    assert len(os.listdir("/proc/self/fd")) == files_before


CONSUMER = """
import sys
import numpy as np
from broker.payload.folder import ArenaFolder
from broker.payload.mapping import Mappings
from broker.wire.messages import Ref

mappings = Mappings(ArenaFolder.join(*sys.argv[1:3]))
view = mappings.view(Ref(*map(int, sys.argv[3:])))
print(bytes(view[:10]).decode(), len(view), view.readonly, flush=True)
sys.stdin.readline()
print(bytes(view[:10]).decode(), flush=True)
"""

OWNER = """
import sys
from broker.payload.arena import Arena
from broker.payload.folder import ArenaFolder

arena = Arena(ArenaFolder.join(*sys.argv[1:3]), 1 << 20)
slot = arena.allocate(100_000)
slot.memory[:] = b"0123456789" * 10_000
arena.publish([slot.generation])
print(*(getattr(arena.ref(slot), name) for name in arena.ref(slot).__struct_fields__), flush=True)
sys.stdin.read()
"""


def start(code: str, folder: ArenaFolder, *arguments: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", code, folder.name, folder.token, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


@pytest.mark.system
def test_another_process_sees_the_bytes(folder: ArenaFolder, arena: Arena) -> None:
    slot = take(arena)
    ref = arena.ref(slot)
    fields = [getattr(ref, name) for name in ref.__struct_fields__]
    with start(CONSUMER, folder, *fields) as consumer:
        assert consumer.stdin is not None
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == b"0123456789 100000 True\n"
        slot.memory[:10] = b"9876543210"
        arena.close()  # what it looks at stays
        consumer.stdin.write(b"\n")
        consumer.stdin.flush()
        assert consumer.stdout.readline() == b"9876543210\n"
        assert consumer.wait(timeout=10) == 0


@pytest.mark.system
def test_what_a_killed_owner_wrote_is_there_until_it_is_removed(
    folder: ArenaFolder, mappings: Mappings
) -> None:
    with start(OWNER, folder) as owner:
        assert owner.stdout is not None
        ref = Ref(*map(int, owner.stdout.readline().split()))
        owner.kill()
        owner.wait(timeout=10)
    assert folder.is_dead(ref.arena)
    view = mappings.view(ref)
    assert bytes(view) == b"0123456789" * 10_000
    assert mappings.find(address(view), view.nbytes) == ref
    folder.remove(ref.arena)
    assert folder.arenas() == []
    assert mappings.find(address(view), view.nbytes) is None
    assert bytes(view) == b"0123456789" * 10_000

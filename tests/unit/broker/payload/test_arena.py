"""A slot's memory is used again when neither its owner nor the broker holds it, and not before."""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from broker.payload.arena import ARENA_BYTES, HEADER_BYTES, Arena, Slot
from broker.payload.folder import ArenaError, ArenaFolder
from broker.wire.messages import Ref

MIB = 1 << 20


@pytest.fixture
def arena(folder: ArenaFolder) -> Iterator[Arena]:
    arena = Arena(folder, 8 * MIB)
    yield arena
    arena.close()


def take(arena: Arena, size_bytes: int = ARENA_BYTES) -> Slot:
    slot = arena.allocate(size_bytes)
    assert slot is not None
    return slot


def address(memory: memoryview) -> int:
    where: int = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    return where


def header(folder: ArenaFolder, arena: Arena, slot: Slot) -> tuple[int, int]:
    with open(folder.arena_path(arena.id), "rb") as file:
        file.seek(slot.offset)
        generation, length = struct.unpack("<QQ", file.read(16))
        return generation, length


def test_the_file_is_private_locked_and_takes_no_memory(folder: ArenaFolder) -> None:
    arena = Arena(folder, 64 * MIB + 5)
    assert arena.limit_bytes == 64 * MIB
    assert 0 < arena.id < 1 << 63
    assert folder.arenas() == [arena.id]
    about = folder.arena_path(arena.id).stat()
    assert about.st_mode & 0o777 == 0o600
    assert (about.st_size, about.st_blocks) == (64 * MIB, 0)
    assert not folder.is_dead(arena.id)


def test_a_slot_is_a_header_and_its_bytes(folder: ArenaFolder, arena: Arena) -> None:
    first, second = take(arena, 100_000), take(arena, 1)
    assert (first.generation, second.generation) == (1, 2)
    assert first.offset == 0
    assert second.offset == HEADER_BYTES + 100_032  # rounded up to 64
    assert (first.memory.nbytes, second.memory.nbytes) == (100_000, 1)
    assert address(first.memory) % 64 == address(second.memory) % 64 == 0
    assert header(folder, arena, first) == (1, 100_000)
    assert arena.used_bytes == second.offset + HEADER_BYTES + 64
    first.memory[:3] = b"abc"
    with open(folder.arena_path(arena.id), "rb") as file:
        assert file.read(HEADER_BYTES + 3)[HEADER_BYTES:] == b"abc"


def test_references(arena: Arena) -> None:
    take(arena)
    slot = take(arena, 1000)
    where = (arena.id, slot.offset, slot.generation)
    assert arena.ref(slot) == Ref(*where, 0, 1000)
    assert arena.ref(slot, 100) == Ref(*where, 100, 900)
    assert arena.ref(slot, 100, 5) == Ref(*where, 100, 5)


@pytest.mark.parametrize("order", ["drop first", "free first"])
def test_a_slot_is_reused_when_nobody_holds_it(
    folder: ArenaFolder, arena: Arena, order: str
) -> None:
    slot = take(arena)
    arena.publish([slot.generation])
    if order == "drop first":
        arena.drop([slot.generation])
        assert arena.used_bytes
        arena.free([slot.generation])
    else:
        arena.free([slot.generation])
        assert arena.used_bytes
        arena.drop([slot.generation])
    assert arena.used_bytes == 0
    assert header(folder, arena, slot)[0] == 0  # a late reader sees that it is gone
    again = take(arena)
    assert again.offset == slot.offset
    assert again.generation > slot.generation


def test_a_slot_that_is_never_published_ends_with_its_owner(arena: Arena) -> None:
    slot = take(arena)
    arena.free([slot.generation])
    assert arena.used_bytes
    arena.drop([slot.generation])
    assert arena.used_bytes == 0


def test_unknown_and_late_words_are_no_errors(arena: Arena) -> None:
    slot = take(arena)
    for _ in range(2):
        arena.publish([slot.generation, 999])
        arena.free([slot.generation, 999, 0])
        arena.drop([slot.generation, 999])
    assert arena.used_bytes == 0


def test_a_request_submitted_again_is_held_again(arena: Arena) -> None:
    slot = take(arena)
    arena.publish([slot.generation])
    arena.free([slot.generation])
    arena.publish([slot.generation])
    arena.drop([slot.generation])
    assert arena.used_bytes
    arena.free([slot.generation])
    assert arena.used_bytes == 0


def test_claims_free_what_the_broker_does_not_hold(arena: Arena) -> None:
    lost, held, unsent = take(arena), take(arena), take(arena)
    arena.publish([lost.generation, held.generation])
    arena.drop([lost.generation, held.generation])
    said = arena.generation  # HELLO
    later = take(arena)
    arena.publish([later.generation])
    arena.drop([later.generation])
    arena.settle(said, [held.generation])
    used = HEADER_BYTES + ARENA_BYTES
    assert arena.used_bytes == 3 * used
    arena.free([held.generation, later.generation])
    arena.drop([unsent.generation])
    assert arena.used_bytes == 0


def test_claims_do_not_know_what_was_published_after_hello(arena: Arena) -> None:
    """Results that were packed before HELLO and sent right after it: the broker answers HELLO
    first.
    """
    slot = take(arena)
    said = arena.generation  # HELLO
    arena.publish([slot.generation])
    arena.drop([slot.generation])
    arena.settle(said, [])
    assert arena.used_bytes
    arena.settle(arena.generation, [])
    assert arena.used_bytes == 0


def test_claims_do_not_know_what_was_published_again_after_hello(arena: Arena) -> None:
    slot = take(arena)
    arena.publish([slot.generation])
    said = arena.generation  # HELLO, to the next broker
    arena.publish([slot.generation])
    arena.drop([slot.generation])
    arena.settle(said, [])
    assert arena.used_bytes


def test_full_is_none_and_counted(arena: Arena) -> None:
    slots = []
    while (slot := arena.allocate(MIB)) is not None:
        slots.append(slot)
    assert len(slots) == 7
    assert arena.full == 1
    assert arena.allocate(9 * MIB) is None
    assert arena.full == 2
    arena.drop([slots[3].generation])
    assert take(arena, MIB).offset == slots[3].offset
    rest = arena.limit_bytes - arena.used_bytes - HEADER_BYTES
    assert arena.allocate(rest + 1) is None
    take(arena, rest).memory[-1:] = b"x"
    assert arena.used_bytes == arena.limit_bytes


def test_too_small_a_limit_is_refused(folder: ArenaFolder) -> None:
    for limit_bytes in (0, 1, ARENA_BYTES):
        with pytest.raises(ArenaError, match="could hold no payload"):
            Arena(folder, limit_bytes)
    shutil.rmtree(folder.path)
    with pytest.raises(ArenaError, match="No such file"):
        Arena(folder, MIB)


def test_find_knows_its_own_slots(arena: Arena) -> None:
    first, slot = take(arena, 100), take(arena, 1000)
    start = address(slot.memory)
    assert arena.find(start, 1000) == arena.ref(slot)
    assert arena.find(start + 8, 10) == arena.ref(slot, 8, 10)
    for position, size_bytes in ((0, 1001), (-1, 10), (991, 10), (1000, 1), (64 * 1000, 1)):
        assert arena.find(start + position, size_bytes) is None
    assert arena.find(address(memoryview(bytearray(100))), 100) is None
    arena.drop([first.generation])
    assert arena.find(address(first.memory), 100) is None


def test_a_published_slot_is_not_found(arena: Arena) -> None:
    """A word of the broker that it is free may be under way, about the first time it was sent."""
    slot = take(arena)
    arena.publish([slot.generation])
    assert arena.find(address(slot.memory), 10) is None
    arena.free([slot.generation])
    assert arena.find(address(slot.memory), 10) is None


def blocks_bytes(folder: ArenaFolder, arena: Arena) -> int:
    return folder.arena_path(arena.id).stat().st_blocks * 512


def test_memory_is_taken_as_needed_used_again_and_given_back(
    folder: ArenaFolder, arena: Arena
) -> None:
    for _ in range(20):
        slot = take(arena, 2 * MIB)
        slot.memory[:] = bytes(2 * MIB)
        arena.drop([slot.generation])
    arena.trim()
    assert blocks_bytes(folder, arena) == 3 * MIB
    slots = [take(arena, 2 * MIB) for _ in range(3)]
    for slot in slots:
        slot.memory[:] = b"y" * (2 * MIB)
        arena.drop([slot.generation])
    arena.trim()
    assert blocks_bytes(folder, arena) == 7 * MIB, "it was used until just now"
    arena.trim()
    assert blocks_bytes(folder, arena) == 4 * MIB, "a little is kept for the next"


def test_closing_leaves_what_is_looked_at(folder: ArenaFolder, arena: Arena) -> None:
    slot = take(arena)
    array = np.frombuffer(slot.memory, np.uint8)
    slot.memory[:2] = b"ab"
    arena.close()
    assert folder.arenas() == []
    assert bytes(array[:2]) == b"ab"
    assert arena.allocate(ARENA_BYTES) is None
    assert arena.find(address(slot.memory), 1) is None
    arena.publish([slot.generation])
    arena.drop([slot.generation])
    arena.trim()
    arena.close()
    assert arena.used_bytes == 0


def test_closing_gives_back_its_files(folder: ArenaFolder) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for remove in (True, False):
        arena = Arena(folder, MIB)
        slot = take(arena)
        arena.drop([slot.generation])
        del slot
        arena.close(remove=remove)
        assert folder.is_dead(arena.id)
        assert folder.arena_path(arena.id).exists() is not remove
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_sweep_between_making_and_locking_is_survived(
    folder: ArenaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    swept: list[object] = []

    def sweep_first(file: int, operation: int) -> None:
        if not swept:
            swept.append(file)
            folder.remove_unborn()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    arena = Arena(folder, MIB)
    assert swept
    assert folder.arenas() == [arena.id]
    assert len(os.listdir(folder.path)) == 2  # it and the token


OWNER = (
    "import os, sys, time\n"
    "from broker.payload.arena import Arena\n"
    "from broker.payload.folder import ArenaFolder\n"
)


@pytest.mark.system
def test_neither_numpy_nor_torch_is_needed() -> None:
    code = OWNER + "print([m for m in ('numpy', 'torch', 'zmq') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.system
def test_a_forked_child_keeps_no_owner_alive(folder: ArenaFolder) -> None:
    """Plug-ins may fork, such as a data loader does; its child must not look like the owner."""
    code = OWNER + (
        "folder = ArenaFolder.join(*sys.argv[1:])\n"
        "arena = Arena(folder, 1 << 20)\n"
        "slot = arena.allocate(100)\n"
        "reader, writer = os.pipe()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os.write(writer, b'.')\n"
        "    arena.drop([slot.generation])\n"
        "    assert arena.allocate(1) is None\n"
        "    arena.close()\n"
        "    time.sleep(30)\n"
        "    os._exit(0)\n"
        "os.read(reader, 1)\n"  # it lives, and has had its chance to let go
        "print(arena.id, child, os.path.exists(folder.arena_path(arena.id)), flush=True)\n"
        "os._exit(0)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, folder.name, folder.token], stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        id, child, exists = owner.stdout.readline().split()
        try:
            owner.wait(timeout=10)
            assert exists == b"True"
            assert folder.is_dead(int(id))
        finally:
            os.kill(int(child), signal.SIGKILL)


FULL = OWNER + (
    "os.environ['MILLSTREAM_SHM'] = sys.argv[1]\n"
    "folder = ArenaFolder.make(sys.argv[2])\n"
    "arena = Arena(folder, 64 << 20)\n"
    "slots = []\n"
    "while (slot := arena.allocate(300_000)) is not None:\n"
    "    slot.memory[:] = bytes(300_000)\n"
    "    slots.append(slot)\n"
    "arena.drop([slots[0].generation])\n"
    "slot = arena.allocate(300_000)\n"
    "slot.memory[:] = bytes(300_000)\n"
    "print(len(slots), arena.full)\n"
)


@pytest.mark.system
def test_a_full_host_is_none_and_no_bus_error(folder: ArenaFolder, shm: Path) -> None:
    tmpfs = f"mount -t tmpfs -o size=4m none {shm} && exec "
    command = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    if subprocess.run([*command, tmpfs + "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mounts in this place")
    quoted = f'"{sys.executable}" -c "$0" "$@"'
    done = subprocess.run(
        [*command, tmpfs + quoted, FULL, str(shm), folder.name.replace(str(os.getuid()), "0")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["13", "1"]

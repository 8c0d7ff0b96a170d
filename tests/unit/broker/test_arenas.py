"""The broker's side of arenas: the dead are swept, and bytes are copied for those without them."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.arenas import Arenas
from broker.payload.arena import Arena
from broker.payload.folder import ArenaFolder, folder_name
from broker.wire.errors import ErrorCode
from broker.wire.frames import blob
from broker.wire.messages import Answer, Answers, Batch, BatchItem, Beat, Blob, Failure, Ref

NAME = folder_name("ipc:///tmp/test_arenas")
DATA = os.urandom(100_000)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shared memory of our own, on a file system that is none."""
    monkeypatch.setenv("MILLSTREAM_SHM", str(tmp_path))
    return tmp_path


@pytest.fixture
def arenas() -> Iterator[Arenas]:
    arenas = Arenas.open(NAME)
    yield arenas
    arenas.close()


@pytest.fixture
def folder(arenas: Arenas) -> ArenaFolder:
    """The same folder, as a peer finds it."""
    folder = ArenaFolder.join(arenas.name, arenas.token)
    assert folder is not None
    return folder


@pytest.fixture
def arena(folder: ArenaFolder) -> Iterator[Arena]:
    arena = Arena(folder, 1 << 20)
    yield arena
    arena.close()


def put(arena: Arena, data: bytes = DATA) -> Ref:
    slot = arena.allocate(len(data))
    assert slot is not None
    slot.memory[:] = data
    return arena.ref(slot)


def dead_arena(folder: ArenaFolder, id: int) -> Path:
    """A file as a killed owner leaves it."""
    path = folder.arena_path(id)
    path.write_bytes(b"\0" * 4096)
    path.chmod(0o600)
    return path


def batch(*payloads: bytes | Blob) -> Batch:
    return Batch(7, 1, "p", False, False, [BatchItem(each, b"", 1.0) for each in payloads])


def payloads(message: object) -> list[Blob]:
    assert isinstance(message, Batch)
    return [item.payload for item in message.items if isinstance(item.payload, Blob)]


# ------------------------------------------------------------------ fetching


def test_references_become_bytes(arenas: Arenas, arena: Arena) -> None:
    ref = put(arena)
    part = Ref(ref.arena, ref.slot, ref.generation, 1000, 70_000)
    payload = blob(b"body", [ref, b"frame", part], "text/plain")
    message = batch(b"small", payload)

    fetched = arenas.fetch(message)

    (got,) = payloads(fetched)
    assert got.buffers == [DATA, b"frame", DATA[1000:71_000]]
    assert got.refs == []
    assert (got.body, got.sizes, got.content_type) == (b"body", payload.sizes, "text/plain")
    assert payload.refs == [ref, None, part], "the item's own payload stays as it was"
    assert payload.buffers == [None, b"frame", None]


@pytest.mark.parametrize(
    "wrong",
    [
        {"generation": 99},
        {"arena": 12345},
        {"start": 90_000},
        {"slot": 64},
        {"slot": 1 << 40},
        {"slot": (1 << 64) - 1},
        {"length": (1 << 63) - 1},
    ],
)
def test_what_cannot_be_read_stays_a_reference(
    arenas: Arenas, arena: Arena, wrong: dict[str, int]
) -> None:
    good = put(arena)
    fields = {"arena": good.arena, "slot": good.slot, "generation": good.generation}
    bad = Ref(**{**fields, "start": 0, "length": 50_000, **wrong})
    (got,) = payloads(arenas.fetch(batch(blob(b"", [good, bad]))))
    assert got.buffers == [DATA, None]
    assert got.refs == [None, bad]


def test_a_link_is_not_followed(arenas: Arenas, folder: ArenaFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"\1" + b"\0" * 200_000)
    folder.arena_path(5).symlink_to(elsewhere)
    ref = Ref(5, 0, 1, 0, 0)
    (got,) = payloads(arenas.fetch(batch(blob(b"", [ref]))))
    assert got.refs == [ref]


def test_an_answer_comes_as_bytes_or_as_a_failure(arenas: Arenas, arena: Arena) -> None:
    ref = put(arena)
    lost = Ref(ref.arena, ref.slot, ref.generation + 1, 0, ref.length)
    message = Answers(
        7,
        [
            Answer(1, blob(b"", [ref]), "1", [0.5]),
            Answer(2, blob(b"", [lost])),
            Answer(3, b"small"),
            Answer(4, Failure(ErrorCode.WORKER_ERROR, "it raised")),
        ],
    )
    fetched = arenas.fetch(message)
    assert isinstance(fetched, Answers)
    first, second, *others = fetched.answers
    assert isinstance(first.outcome, Blob)
    assert first.outcome.buffers == [DATA]
    assert (first.seq, first.version, first.spans) == (1, "1", [0.5])
    assert isinstance(second.outcome, Failure)
    assert second.outcome.code == ErrorCode.WORKER_LOST
    assert others == message.answers[2:]


def test_other_messages_pass(arenas: Arenas) -> None:
    beat = Beat(7)
    assert arenas.fetch(beat) is beat


def test_no_descriptor_is_left_open(arenas: Arenas, arena: Arena) -> None:
    ref = put(arena)
    before = os.listdir("/proc/self/fd")
    arenas.fetch(batch(blob(b"", [ref]), blob(b"", [ref])))
    assert os.listdir("/proc/self/fd") == before


# ------------------------------------------------------------------ sweeping


def test_the_dead_are_removed_and_the_living_stay(
    arenas: Arenas, folder: ArenaFolder, arena: Arena
) -> None:
    gone, needed = dead_arena(folder, 1), dead_arena(folder, 2)
    dead, alive = arenas.sweep(needed=[2, arena.id], doubtful=[])
    assert sorted(dead) == [1, 2]
    assert alive == [arena.id]
    assert not gone.exists()
    assert needed.exists()
    assert folder.arena_path(arena.id).exists()
    assert arenas.sweep(needed=[], doubtful=[]) == ([2], [arena.id])
    assert not needed.exists()
    assert arenas.sweep(needed=[], doubtful=[]) == ([], [arena.id])


def test_doubts_end_when_the_lock_can_be_had(
    arenas: Arenas, folder: ArenaFolder, arena: Arena
) -> None:
    assert arenas.sweep(needed=[arena.id], doubtful=[arena.id]) == ([], [arena.id])
    dead, _ = arenas.sweep(needed=[9], doubtful=[9])
    assert dead == [9], "nobody owns what has no file"
    path = dead_arena(folder, 3)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        dead, alive = arenas.sweep(needed=[3], doubtful=[3])
        assert dead == []
        assert sorted(alive) == sorted([3, arena.id])
    assert arenas.sweep(needed=[3], doubtful=[3]) == ([3], [arena.id])
    assert path.exists()


def test_a_new_broker_removes_what_the_dead_have_left(arenas: Arenas, folder: ArenaFolder) -> None:
    path = dead_arena(folder, 4)
    assert arenas._folder is not None
    arenas._folder.close()  # as when it is killed
    again = Arenas.open(NAME)
    assert not path.exists()
    assert again.token == arenas.token, "its peers need not join anew"
    again.close()


def test_nothing_is_left_in_the_end(root: Path) -> None:
    arenas = Arenas.open(NAME)
    folder = ArenaFolder.join(arenas.name, arenas.token)
    assert folder is not None
    arena = Arena(folder, 1 << 20)
    put(arena)
    dead_arena(folder, 4)
    arena.close()
    arenas.close()
    assert list(root.iterdir()) == []


def test_the_last_peer_tidies_up(arenas: Arenas, folder: ArenaFolder, root: Path) -> None:
    arena = Arena(folder, 1 << 20)
    arenas.close()
    assert folder.arena_path(arena.id).exists()
    arena.close()
    folder.leave()
    assert list(root.iterdir()) == []


def test_there_is_one_broker(arenas: Arenas, caplog: pytest.LogCaptureFixture) -> None:
    assert arenas.name == NAME
    assert Arenas.open(NAME).name == ""
    assert "another broker" in caplog.text


def test_peers_that_stay_keep_what_they_own(arenas: Arenas, arena: Arena) -> None:
    ref = put(arena)
    arenas.close()
    again = Arenas.open(NAME)
    assert again.token == arenas.token
    (got,) = payloads(again.fetch(batch(blob(b"", [ref]))))
    assert got.buffers == [DATA]
    again.close()


# ------------------------------------------------------------------ hosts without


def test_a_host_without_shared_memory(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MILLSTREAM_SHM", str(root / "none"))
    arenas = Arenas.open(NAME)
    assert (arenas.name, arenas.token) == ("", "")
    assert "no shared memory" in caplog.text
    ref = Ref(1, 0, 1, 0, 10)
    (got,) = payloads(arenas.fetch(batch(blob(b"", [ref]))))
    assert got.refs == [ref]
    assert arenas.sweep(needed=[], doubtful=[1]) == ([1], [])
    arenas.close()

"""The gateway's arena: when there is one, which one, how large, and what is said about it."""

import logging
import shutil
from pathlib import Path

import pytest

from broker.payload import folder as folders
from broker.payload.arena import TRIM_EVERY_S
from broker.payload.folder import ArenaFolder
from broker.wire.messages import Ref
from gateway.memory import UploadMemory
from tests.unit.gateway.uploads import joined, make_folder

MEBIBYTE = 1 << 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArenaFolder:
    return make_folder(tmp_path, monkeypatch)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What is logged."""
    caplog.set_level(logging.INFO, "millstream")
    return caplog


def test_an_arena_from_the_first_welcome_to_the_end(
    folder: ArenaFolder, said: pytest.LogCaptureFixture
) -> None:
    memory = UploadMemory(MEBIBYTE)
    assert (memory.arena, memory.generation, memory.limit_bytes, memory.used_bytes) == (0, 0, 0, 0)
    assert memory.join(folder.name, folder.token)
    assert not memory.join(folder.name, folder.token)
    assert folder.arenas() == [memory.arena]
    assert memory.limit_bytes == MEBIBYTE
    assert [record.getMessage() for record in said.records] == ["event=arena_ready limit_mib=1"]
    memory.close()
    assert memory.arena == 0
    assert folder.arenas() == []


def test_another_token_is_another_arena(folder: ArenaFolder) -> None:
    memory = joined(folder)
    stored = memory.store(b"x" * 1000)
    assert stored is not None
    old = memory.arena
    shutil.rmtree(folder.path)
    anew = ArenaFolder.make(folder.name)
    assert memory.join(anew.name, anew.token)
    assert memory.arena not in (0, old)
    assert memory.fetch(stored.ref) == b"x" * 1000
    assert memory.used_bytes == 0
    other = memory.store(b"y" * 1000)
    assert other is not None
    memory.drop([stored.ref])
    assert memory.used_bytes > 0  # of the same generation, but another arena's
    memory.settle(1000, [])  # said of the old arena, which was busier
    assert memory.fetch(other.ref) == b"y" * 1000
    with pytest.raises(KeyError):
        memory.fetch(stored.ref)
    memory.close()


@pytest.mark.parametrize(
    ("name", "token"), [("", ""), ("millstream-0-000000000000", "0" * 32), ("../etc", "x" * 32)]
)
def test_where_nothing_is_shared_there_is_none(
    folder: ArenaFolder, said: pytest.LogCaptureFixture, name: str, token: str
) -> None:
    memory = joined(folder)
    assert memory.join(name, token)
    assert memory.arena == 0
    assert folder.arenas() == []
    assert memory.allocate(1000) is None
    assert memory.store(b"x" * 1000) is None
    assert memory.overflows == 0
    memory.publish([Ref(1, 0, 1, 0, 5)])
    memory.drop([Ref(1, 0, 1, 0, 5)])
    memory.free([1])
    memory.settle(5, [])
    memory.tick(0.0)
    memory.close()


def test_no_arena_is_said_with_its_reason(
    folder: ArenaFolder, said: pytest.LogCaptureFixture
) -> None:
    assert not UploadMemory(0).join(folder.name, folder.token)
    assert not UploadMemory(None).join("", "")
    assert [record.getMessage() for record in said.records] == [
        'event=no_arena reason="the options allow no shared memory"',
        'event=no_arena reason="the broker has no shared memory"',
    ]
    said.clear()
    memory = UploadMemory(10)
    assert not memory.join(folder.name, folder.token)
    assert not memory.join(folder.name, folder.token)
    assert not UploadMemory(None).join(folder.name, "0" * 32)
    lines = [(record.levelname, record.getMessage()) for record in said.records]
    assert len(lines) == 2
    assert lines[0][0] == "WARNING"
    assert "10 bytes" in lines[0][1]
    assert lines[1] == (
        "INFO",
        'event=no_arena reason="the broker is on another host, or another user\'s"',
    )


def test_small_shared_memory_is_warned_of(
    folder: ArenaFolder, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.memory.default_limit_bytes", lambda: 8 * MEBIBYTE)
    memory = UploadMemory(None)
    assert memory.join(folder.name, folder.token)
    assert memory.limit_bytes == 8 * MEBIBYTE
    assert "--shm-size" in said.records[-1].getMessage()
    memory.close()
    monkeypatch.setattr("gateway.memory.default_limit_bytes", lambda: 0)
    assert not UploadMemory(None).join(folder.name, folder.token)
    assert "no shared memory" in said.records[-1].getMessage()
    assert folders.default_limit_bytes() > 0


def test_a_slot_is_used_again_when_nobody_holds_it(folder: ArenaFolder) -> None:
    memory = joined(folder)
    held = [memory.store(b"x" * 100_000) for _ in range(4)]
    refs = [stored.ref for stored in held if stored is not None]
    memory.publish(refs)
    memory.free([refs[0].generation])
    memory.drop(refs[:3])
    full_bytes = memory.used_bytes
    memory.settle(memory.generation, [refs[2].generation])
    assert full_bytes / 3 * 1.9 < memory.used_bytes < full_bytes / 3 * 2.1
    memory.drop(refs[3:])
    memory.free([refs[2].generation])
    assert memory.used_bytes == 0
    memory.close()


def test_memory_goes_back_to_the_system_when_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MILLSTREAM_SHM", raising=False)
    if not Path("/dev/shm").is_dir():
        pytest.skip("no shared memory here")
    folder = ArenaFolder.make(folders.folder_name("a test of trimming"))
    memory = joined(folder, 16 * MEBIBYTE)
    file = folder.arena_path(memory.arena)
    stored = memory.store(b"x" * (8 * MEBIBYTE))
    assert stored is not None
    memory.tick(1.0)
    memory.tick(1.0 + TRIM_EVERY_S)
    memory.drop([stored.ref])
    memory.tick(1.1 + TRIM_EVERY_S)
    assert file.stat().st_blocks * 512 >= 8 * MEBIBYTE
    memory.tick(1.0 + 2 * TRIM_EVERY_S)
    memory.tick(1.0 + 3 * TRIM_EVERY_S)
    assert file.stat().st_blocks * 512 <= 4 * MEBIBYTE
    memory.close()
    folder.leave()

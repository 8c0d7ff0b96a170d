"""For tests of the gateway's memory: a folder of the test's own, and an arena in it."""

from pathlib import Path

import pytest

from broker.payload.folder import ArenaFolder, folder_name
from gateway.memory import UploadMemory


def make_folder(root: Path, monkeypatch: pytest.MonkeyPatch, address: str = "a") -> ArenaFolder:
    """The folder of the broker at an address, below `root`, which stands for the shared memory."""
    monkeypatch.setenv("MILLSTREAM_SHM", str(root))
    return ArenaFolder.make(folder_name(address))


def joined(folder: ArenaFolder, limit_bytes: int = 1 << 20) -> UploadMemory:
    """Memory that has an arena."""
    memory = UploadMemory(limit_bytes)
    assert memory.join(folder.name, folder.token)
    return memory

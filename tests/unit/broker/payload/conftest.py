"""A folder for arenas in the host's own shared memory, gone after the test."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.payload.folder import ArenaFolder, folder_name


@pytest.fixture
def shm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What MILLSTREAM_SHM says during the test."""
    root = Path(tempfile.mkdtemp(prefix="millstream-test-", dir="/dev/shm"))
    monkeypatch.setenv("MILLSTREAM_SHM", str(root))
    yield root
    shutil.rmtree(root)


@pytest.fixture
def folder(shm: Path) -> ArenaFolder:
    folder = ArenaFolder.make(folder_name("ipc:///run/test.sock"))
    assert folder.path.parent == shm
    return folder

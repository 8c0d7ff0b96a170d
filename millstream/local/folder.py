"""The runtime folder of a deployment: pipeline file, broker's socket and state. Gone with it.

Each process of the deployment holds a shared lock on it; whoever gets the exclusive one is the
last, and removes the folder and the shared memory that belongs to it. So nothing is left, whoever
is killed first, and what was left when all were killed at once, the next one removes.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from broker.payload.folder import ArenaFolder, folder_name
from broker.wire.address import MAX_IPC_PATH_BYTES, default_address, parse_address

_PREFIX = "millstream-serve-"
_LOCK = "lock"


class Membership:
    """One process's share of the lock on a runtime folder."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError where the folder is gone."""
        self._folder = folder
        self._fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def leave(self) -> None:
        """Have no more to do with it; the last one removes all. May be said again."""
        if self._fd < 0:
            return
        try:
            # Not one step: of two that try at once, the one that fails has let go of its share.
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
        else:
            _remove(self._folder)
        os.close(self._fd)
        self._fd = -1


def make() -> Path:
    """A new one, of mode 0700; what others have left is removed."""
    root = _root()
    _sweep(root)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    (folder / _LOCK).touch(mode=0o600)
    return folder


def address_in(folder: Path) -> str:
    """Where the broker of this deployment listens, unless another address is named."""
    return f"ipc://{folder}/broker.sock"


def _root() -> Path:
    """As for the default address, but that its folder need not be there."""
    root = Path(parse_address(default_address(os.environ)).path).parent.parent
    longest = f"{root}/{_PREFIX}12345678/broker.sock.lock"
    return root if len(os.fsencode(longest)) <= MAX_IPC_PATH_BYTES else Path("/tmp")


def _sweep(root: Path) -> None:
    """Remove the folders of those who were all killed at once."""
    for folder in root.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if os.lstat(folder).st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    """With its shared memory: nobody lives who could use it."""
    ArenaFolder(folder_name(address_in(folder)), "").leave()
    shutil.rmtree(folder, ignore_errors=True)

"""The entry of one role: `python -m millstream.local.role FOLDER PARENT FD COMMAND…`.

Runs `millstream COMMAND…` in this process, and ends it when its parent dies. What a person has to
read goes to FD, apart from the log: the parent tells it once, whoever else says the same.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from millstream.local.folder import Membership

_ORPHAN_S = 5.0
"""Without a parent: one that has not drained by then hangs."""


def main() -> int:
    """Runs the command; returns its exit code."""
    folder, parent, complaints, *argv = sys.argv[1:]
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, _end_early)
    try:
        membership = Membership(Path(folder))
    except OSError:  # it is over before it began
        return 1
    try:
        _end_with(int(parent), membership)
        sys.stderr = os.fdopen(int(complaints), "w", buffering=1, errors="backslashreplace")
        os.set_inheritable(int(complaints), False)
        sys.argv = ["millstream", *argv]
        from millstream.__main__ import main as run  # noqa: PLC0415  only now: it takes a while

        return run(argv)
    finally:
        membership.leave()


def _end_early(signum: int, _frame: FrameType | None) -> None:
    """Until the command has its own handlers."""
    sys.exit(128 + signum)


def _end_with(parent: int, membership: Membership) -> None:
    """Drain when the parent dies, however that happens."""
    # Not PR_SET_PDEATHSIG, which tells of the thread that started us.
    try:
        pidfd = os.pidfd_open(parent)
    except ProcessLookupError:
        sys.exit(1)
    if os.getppid() != parent:
        sys.exit(1)
    threading.Thread(target=_watch, args=(pidfd, membership), daemon=True).start()


def _watch(pidfd: int, membership: Membership) -> None:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(_ORPHAN_S)
    with contextlib.suppress(OSError):
        membership.leave()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())

"""The entry of one worker process, started by its supervisor: `python -m workers TASK`."""

import ctypes
import faulthandler
import os
import signal
import sys

from workers import wakeups
from workers.task import decode_task

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Runs the worker that the one argument describes; returns its exit code."""
    task = decode_task(sys.argv[1])
    _die_with(task.supervisor_pid)
    wakeups.be_woken_when_due()
    faulthandler.enable()  # a crash in native code leaves a traceback in the log
    sys.argv[1:] = []  # scripts that read arguments have none
    from workers.runtime import run_worker  # noqa: PLC0415  only now: imports take a while

    return run_worker(task)


def _die_with(supervisor_pid: int) -> None:
    """Has the kernel kill this process when its supervisor dies, however that happens."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor_pid:  # it died before the kernel knew
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())

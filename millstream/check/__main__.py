"""The entry of a check's child: `python -m millstream.check SPEC FD PARENT`."""

import ctypes
import faulthandler
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Returns the exit code of the process; what was found goes to the descriptor."""
    spec, fd, parent = sys.argv[1:]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it died before the kernel knew
        return 1
    faulthandler.enable()
    sys.argv[1:] = []  # scripts that read arguments have none
    from millstream.check.child import run  # noqa: PLC0415  only now: imports take a while

    try:
        run(spec, int(fd))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

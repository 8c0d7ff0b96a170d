"""`millstream` and `python -m millstream`: runs the command line and answers with its exit code."""

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; `argv` is sys.argv[1:] where None, and then the process ends with the exit
    code, which is returned otherwise.

    2 for a wrong option, file or key, told in one line; 130 after Ctrl-C.
    """
    try:
        # Loading takes its time, in which Ctrl-C may come.
        from millstream.cli.app import run  # noqa: PLC0415

        code = run(sys.argv[1:] if argv is None else list(argv))
        if argv is None:
            _be_deaf()
        if sys.stdout is not None:  # as it is where a daemon starts us with it closed
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # Whoever read our output has gone. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    if argv is None:
        _end(code)
    return code


def _be_deaf() -> None:
    """The process is about to end, and its exit code is decided: a signal said twice would make of
    a drain a death.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _end(code: int) -> NoReturn:
    """To have Python take itself apart costs a fifth of what the start did, and frees nothing that
    the kernel does not.
    """
    _be_deaf()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())

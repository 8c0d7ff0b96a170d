"""`millstream` and `python -m millstream`: runs the command line and answers with its exit code."""

import os
import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; `argv` is sys.argv[1:] where None. Returns its exit code.

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
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _be_deaf() -> None:
    """The process is about to end, and its exit code is decided. Python takes its handlers back a
    little earlier: a signal said twice would then make of a drain a death.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())

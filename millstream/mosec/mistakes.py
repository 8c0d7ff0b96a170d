"""What a script does that cannot be: told in one line, with the line of the script."""

import sys
from types import TracebackType
from typing import NoReturn

from millstream.local.mistakes import Mistake, caller


class mistakes_in:
    """Ends the script where something in its block cannot be. (No generator: the frame that is
    looked for is the script's, and not contextlib's.)
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, Mistake):
            give_up(str(exc))
        if isinstance(exc, AssertionError | ValueError):
            give_up(f"{caller()}: {self._what}: {exc}")


def give_up(line: str) -> NoReturn:
    """Ends the script (SystemExit) with exit code 2."""
    sys.stderr.write(f"{line}\n")
    sys.exit(2)

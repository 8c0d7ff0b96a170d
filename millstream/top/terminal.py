"""Keys as they are pressed, and a sign when the terminal has another size."""

import os
import select
import signal
import termios
import tty
from contextlib import suppress
from types import FrameType
from typing import Any, Self

ARROWS = {b"\x1b[C": "RIGHT", b"\x1b[D": "LEFT", b"\x1bOC": "RIGHT", b"\x1bOD": "LEFT"}
ENDED = "ENDED"
"""What stands for the end of the input."""


class Terminal:
    """Standard input without echo and line by line, for as long as the context lasts."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_terminal = os.isatty(fd)
        self._before: list[Any] = []
        self._sign, self._raise = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if self._is_terminal:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        for number, handler in ((signal.SIGWINCH, self._resized), (signal.SIGTERM, _ended)):
            self._handlers[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._sign)
        os.close(self._raise)
        if self._is_terminal:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def _resized(self, _signum: int, _frame: FrameType | None) -> None:
        with suppress(BlockingIOError):  # it is known already
            os.write(self._raise, b"x")

    def wait(self, seconds: float) -> list[str]:
        """The keys that were pressed, as soon as there is one, the size changes, or time is up."""
        watched = [self._sign, *([self._fd] if self._is_terminal else [])]
        ready, _, _ = select.select(watched, [], [], max(seconds, 0.0))
        if self._sign in ready:
            os.read(self._sign, 1024)
        return _keys(os.read(self._fd, 1024)) if self._fd in ready else []


def _ended(_signum: int, _frame: FrameType | None) -> None:
    """SIGTERM leaves the terminal as it was, as Ctrl-C does."""
    raise KeyboardInterrupt


def _keys(data: bytes) -> list[str]:
    if not data:
        return [ENDED]
    if data in ARROWS:
        return [ARROWS[data]]
    if data.startswith(b"\x1b"):
        return []  # another key that is none of ours
    return list(data.decode("utf-8", "ignore"))

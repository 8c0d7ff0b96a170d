"""The lines of all roles, each behind the name of its role, on one terminal or into one file."""

import os
import sys
from collections.abc import Iterable, Mapping

from broker.wire.outlet import Outlet

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_MOST_BYTES = 1 << 16
"""A line that is longer comes in pieces."""
_FAREWELL_S = 0.5
_STDERR = 2


class Console:
    """Writes to stderr without waiting for whoever reads it."""

    def __init__(self, names: Iterable[str], environ: Mapping[str, str]) -> None:
        self._outlet = Outlet(_STDERR)
        self._is_coloured = _is_terminal(_STDERR) and "NO_COLOR" not in environ
        # Lines that machines read say themselves who has written them.
        self._is_bare = environ.get("MILLSTREAM_LOG_FORMAT") == "json"
        self._prefixes: dict[str, bytes] = {}
        self._rest: dict[str, bytes] = {}
        self._names = list(names)

    def add(self, name: str, data: bytes) -> None:
        """What a role has written; the beginning of a line waits for its end."""
        *lines, rest = (self._rest.get(name, b"") + data).split(b"\n")
        if len(rest) > _MOST_BYTES:
            lines.append(rest)
            rest = b""
        self._rest[name] = rest
        if lines:
            prefix = self._prefix(name)
            self._outlet.write(b"".join(prefix + line + b"\n" for line in lines))

    def end(self, name: str) -> None:
        """It writes no more."""
        if self._rest.get(name):
            self.add(name, b"\n")

    def say(self, text: str) -> None:
        """Lines of our own, for a person, behind no name."""
        self._outlet.write(f"{text.rstrip()}\n".encode(errors="backslashreplace"))

    def flush(self) -> None:
        """Now and then: what a slow reader had no room for."""
        self._outlet.flush()

    def close(self) -> None:
        """Give a slow reader a moment."""
        self._outlet.close(_FAREWELL_S)

    def _prefix(self, name: str) -> bytes:
        if self._is_bare:
            return b""
        prefix = self._prefixes.get(name)
        if prefix is None:
            if name not in self._names:
                self._names.append(name)
            text = f"{name:<{max(map(len, self._names))}} | "
            if self._is_coloured:
                colour = _COLOURS[self._names.index(name) % len(_COLOURS)]
                text = f"\x1b[{colour}m{text}\x1b[0m"
            prefix = self._prefixes[name] = text.encode()
        return prefix


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def say_on_stdout(text: str) -> None:
    """What whoever started us waits for; nobody may be there to read it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        pass

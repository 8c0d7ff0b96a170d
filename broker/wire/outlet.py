"""A descriptor to write a log to, without ever waiting for whoever reads it.

What cannot be written at once is kept, within a bound, and goes first the next time; beyond the
bound whole lines are dropped and counted. Decides nothing about what a line is but its end.
"""

import contextlib
import os
import select
import socket
import stat
import time
from collections import deque

BACKLOG_BYTES = 1 << 20
"""Kept for a reader that is slow: at 20,000 lines a second about a sixth of a second."""
_PIECE_BYTES = select.PIPE_BUF
"""So much can be written to a pipe that is said to have room."""
_LINE_END = ord("\n")


class Outlet:
    """See the module. Not for several threads at once."""

    def __init__(self, fd: int) -> None:
        """`fd` stays the caller's, and open."""
        self.dropped = 0
        """Lines that nobody will read."""
        self._fd = fd
        self._own: int | None = None
        self._socket: socket.socket | None = None
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._poll: select.poll | None = None
        self._is_cut = False
        """Whether what is out ends within a line."""
        self._open(fd)

    def _open(self, fd: int) -> None:
        """A way to write that does not wait, and that changes nothing for others who have `fd`."""
        with contextlib.suppress(OSError):
            mode = os.fstat(fd).st_mode
            if stat.S_ISSOCK(mode):
                self._socket = socket.socket(fileno=os.dup(fd))
            elif stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
                # The same pipe or terminal by an opening of our own: O_NONBLOCK belongs to that.
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                try:
                    self._own = os.open(f"/proc/self/fd/{fd}", flags)
                except OSError:  # another user's terminal, or nobody reads it
                    self._poll = select.poll()
                    self._poll.register(fd, select.POLLOUT)

    def write(self, lines: bytes) -> None:
        """Whole lines, each with its end. Never waits, and never raises for what is at the end."""
        begun = 0
        if not self._backlog or self.flush():
            if self._is_cut:  # the disk was full, and nothing of that line is left
                lines = b"\n" + lines
            begun = self._try(memoryview(lines))
            if begun == len(lines):
                return
        rest = lines[begun:]
        if self._backlog_bytes + len(rest) > BACKLOG_BYTES:
            # A line that has begun to go out gets its end.
            kept = rest.find(b"\n") + 1 if begun and lines[begun - 1] != _LINE_END else 0
            self.dropped += rest.count(b"\n", kept)
            rest = rest[:kept]
        if rest:
            self._backlog.append(memoryview(rest))
            self._backlog_bytes += len(rest)

    def flush(self) -> bool:
        """Write what was kept, as far as that goes; whether it is all out."""
        while self._backlog:
            first = self._backlog[0]
            written = self._try(first)
            self._backlog_bytes -= written
            if written < len(first):
                self._backlog[0] = first[written:]
                return False
            self._backlog.popleft()
        return True

    def close(self, wait_s: float) -> None:
        """Give the reader so long for what was kept, and let go."""
        until = time.monotonic() + wait_s
        while not self.flush() and (left_s := until - time.monotonic()) > 0:
            select.select([], [self._target], [], left_s)
        self._backlog.clear()
        self._backlog_bytes = 0
        if self._own is not None:
            os.close(self._own)
            self._own = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def _target(self) -> int:
        return self._fd if self._own is None else self._own

    def _try(self, data: memoryview) -> int:
        """How many bytes were taken; all of them where nobody is there to read, ever."""
        try:
            if self._socket is not None:
                taken = self._socket.send(data, socket.MSG_DONTWAIT)
            elif self._poll is not None:
                taken = self._write_where_room(data)
            else:
                taken = os.write(self._target, data)
        except BlockingIOError:
            return 0
        except OSError:  # the reader has gone, or the disk is full
            self.dropped += data.tobytes().strip(b"\n").count(b"\n") + 1
            return len(data)
        if taken:
            self._is_cut = data[taken - 1] != _LINE_END
        return taken

    def _write_where_room(self, data: memoryview) -> int:
        assert self._poll is not None
        done = 0
        while done < len(data) and self._poll.poll(0):
            done += os.write(self._fd, data[done : done + _PIECE_BYTES])
        return done

"""What a worker's process writes to its stdout and stderr, read by its supervisor as lines.

It comes through a pipe from whatever writes there, native code included, and is always read, so
that nobody who writes has to wait; how much of it becomes lines of the log is bounded.
"""

import contextlib
import fcntl
import os

PIPE_BYTES = 1 << 20
"""So much may be on its way, where the system allows it: the supervisor may be busy for a while."""
READS_AT_ONCE = 16
MOST_LINE_BYTES = 8192
"""A longer line is cut; a line that has no end by then begins anew."""
LINES_PER_S = 200.0
BURST_LINES = 2000.0
LINE_BYTES = 256
"""A line counts as so many as it has of these."""
_READ_BYTES = 1 << 16


def make_pipe() -> tuple[int, int]:
    """The descriptors to read from and to write to. Raises OSError."""
    read_fd, write_fd = os.pipe()
    with contextlib.suppress(OSError):  # its user may have no more of this memory
        fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(read_fd, False)
    return read_fd, write_fd


class Prints:
    """The supervisor's end of that pipe."""

    def __init__(self, fd: int, now: float) -> None:
        self.fd = fd
        self._lines = _Splitter()
        self._allowance = BURST_LINES
        self._counted_at = now
        self._dropped = 0

    def read(self, now: float) -> tuple[list[str], int, bool]:
        """The lines that have come, how many were too many since that was last said, and whether
        the pipe has ended. A bounded amount: call again as long as it is readable.
        """
        self._allow(now)
        kept: list[str] = []
        has_ended = False
        for _ in range(READS_AT_ONCE):
            try:
                data = os.read(self.fd, _READ_BYTES)
            except BlockingIOError:
                break
            has_ended = not data
            self._keep(self._lines.feed(data) if data else self._lines.end(), kept)
            if has_ended:
                break
        return kept, self._take_dropped(), has_ended

    def rest(self, now: float) -> tuple[list[str], int]:
        """What is left when its process has ended, without an end of its line too."""
        kept, _, _ = self.read(now)
        self._keep(self._lines.end(), kept)
        self._allowance = BURST_LINES
        return kept, self._take_dropped()

    def close(self) -> None:
        """Let go of the pipe. Whoever still writes there is told by the system."""
        os.close(self.fd)

    def _allow(self, now: float) -> None:
        more = (now - self._counted_at) * LINES_PER_S
        self._allowance = min(self._allowance + more, BURST_LINES)
        self._counted_at = now

    def _keep(self, lines: list[bytes], kept: list[str]) -> None:
        for line in lines:
            if self._allowance < 1.0:
                self._dropped += 1
                continue
            self._allowance -= 1.0 + len(line) // LINE_BYTES
            kept.append(line.decode("utf-8", "backslashreplace"))

    def _take_dropped(self) -> int:
        """Said when there is room for lines again, so that it is not said all the time."""
        if not self._dropped or self._allowance < LINES_PER_S:
            return 0
        dropped, self._dropped = self._dropped, 0
        return dropped


class _Splitter:
    """Bytes to lines, as a terminal would show them in the end: without empty ones, and of a line
    that was written over and over, as progress bars are, the last state.
    """

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, data: bytes) -> list[bytes]:
        *ended, begun = (self._begun + data).split(b"\n")
        if len(begun) > MOST_LINE_BYTES:
            _, written_over, last = begun.rpartition(b"\r")
            if written_over and len(last) <= MOST_LINE_BYTES:
                begun = last
            else:
                ended.append(begun)
                begun = b""
        self._begun = begun
        return [line for each in ended if (line := _shown(each))]

    def end(self) -> list[bytes]:
        """What has no end yet."""
        line, self._begun = _shown(self._begun), b""
        return [line] if line else []


def _shown(line: bytes) -> bytes:
    line = line.rstrip()
    if b"\r" in line:
        line = line.rpartition(b"\r")[2]
    if len(line) > MOST_LINE_BYTES:
        more = len(line) - MOST_LINE_BYTES
        return line[:MOST_LINE_BYTES] + f"[\u2026 {more} more bytes]".encode()
    return line

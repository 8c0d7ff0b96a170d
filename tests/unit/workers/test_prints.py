"""What a worker's process prints becomes lines, within bounds."""

import os
from collections.abc import Iterator

import pytest

from workers.prints import BURST_LINES, LINES_PER_S, MOST_LINE_BYTES, Prints, make_pipe


class Printer:
    """Both ends of the pipe."""

    def __init__(self) -> None:
        read_fd, self.fd = make_pipe()
        self.prints = Prints(read_fd, 0.0)

    def lines(self, data: bytes, now: float = 0.0) -> list[str]:
        """What is read when this has been written."""
        os.write(self.fd, data)
        return self.prints.read(now)[0]


@pytest.fixture
def printer() -> Iterator[Printer]:
    printer = Printer()
    yield printer
    printer.prints.close()
    os.close(printer.fd)


def test_lines_come_whole(printer: Printer) -> None:
    assert printer.lines(b"one\ntwo\nth") == ["one", "two"]
    assert printer.lines(b"") == []
    assert printer.lines(b"ree\n\n  \n") == ["three"]


def test_what_has_no_end_comes_at_the_end(printer: Printer) -> None:
    assert printer.lines(b"segmentation fau") == []
    assert printer.prints.rest(0.0) == (["segmentation fau"], 0)
    assert printer.prints.rest(0.0) == ([], 0)


def test_the_end_of_the_pipe_is_told() -> None:
    read_fd, fd = make_pipe()
    prints = Prints(read_fd, 0.0)
    os.write(fd, b"last words")
    os.close(fd)
    assert prints.read(0.0) == (["last words"], 0, True)
    prints.close()


def test_of_a_progress_bar_the_last_state_is_kept(printer: Printer) -> None:
    assert printer.lines(b"\r10 %\r50 %\r100 %\n") == ["100 %"]
    assert printer.lines(b"1 %\r" * MOST_LINE_BYTES) == []
    assert printer.lines(b"100 %\r\n") == ["100 %"]


def test_odd_bytes_are_shown(printer: Printer) -> None:
    assert printer.lines(b"\xff\xc3\xa9\n") == ["\\xff\u00e9"]


def test_a_long_line_is_cut(printer: Printer) -> None:
    (line,) = printer.lines(b"x" * (MOST_LINE_BYTES + 10) + b"\n")
    assert line.endswith("x[\u2026 10 more bytes]")
    (line,) = printer.lines(b"y" * 3 * MOST_LINE_BYTES)  # it may never end
    assert line.startswith("yyy")


def test_a_flood_is_cut_off_and_counted(printer: Printer) -> None:
    burst = int(BURST_LINES)
    os.write(printer.fd, b"line\n" * (burst + 500))
    lines, dropped, _ = printer.prints.read(0.0)
    assert (len(lines), dropped) == (burst, 0)
    os.write(printer.fd, b"line\n")
    lines, dropped, _ = printer.prints.read(0.5)  # not enough yet to speak of it
    assert (len(lines), dropped) == (1, 0)
    lines, dropped, _ = printer.prints.read(2.0)
    assert (len(lines), dropped) == (0, 500)
    assert len(printer.lines(b"line\n" * burst, 2.0)) < 3 * LINES_PER_S
    assert printer.prints.rest(2.0)[1] > 0


def test_long_lines_use_more_of_what_is_allowed(printer: Printer) -> None:
    line = b"x" * (MOST_LINE_BYTES - 1) + b"\n"
    found = sum(len(printer.lines(line * 100)) for _ in range(10))
    assert 0 < found * len(line) < BURST_LINES * 300

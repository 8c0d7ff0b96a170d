"""A log that nobody reads, or too slowly, holds nobody up."""

import fcntl
import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire import outlet
from broker.wire.outlet import Outlet

LINE = b"x" * 99 + b"\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_fd, write_fd = os.pipe()
    yield read_fd, write_fd
    for fd in (read_fd, write_fd):
        try:
            os.close(fd)
        except OSError:
            continue


def drain(fd: int) -> bytes:
    """All that is in a pipe."""
    os.set_blocking(fd, False)
    found = b""
    while True:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return found
        if not data:
            return found
        found += data


def test_lines_come_as_they_are_and_others_are_not_made_to_wait_less(
    pipe: tuple[int, int],
) -> None:
    read_fd, write_fd = pipe
    out = Outlet(write_fd)
    out.write(LINE)
    assert os.read(read_fd, 1000) == LINE
    assert not fcntl.fcntl(write_fd, fcntl.F_GETFL) & os.O_NONBLOCK
    out.close(0.0)


def test_a_full_pipe_keeps_then_drops_whole_lines(pipe: tuple[int, int]) -> None:
    read_fd, write_fd = pipe
    out = Outlet(write_fd)
    count = 3 * outlet.BACKLOG_BYTES // len(LINE)
    for _ in range(count // 10):
        out.write(LINE * 10)
    assert out.dropped > 0
    found = b""
    while True:
        found += drain(read_fd)
        if out.flush():
            break
    found += drain(read_fd)
    assert found == LINE * (len(found) // len(LINE))
    assert len(found) // len(LINE) + out.dropped == count // 10 * 10
    out.write(b"last\n")
    assert drain(read_fd) == b"last\n"
    out.close(0.0)


def test_a_line_that_has_begun_gets_its_end(pipe: tuple[int, int]) -> None:
    read_fd, write_fd = pipe
    out = Outlet(write_fd)
    out.write(LINE * (outlet.BACKLOG_BYTES // 50))  # one write that is more than all room
    found = drain(read_fd)
    while not out.flush():
        found += drain(read_fd)
    found += drain(read_fd)
    assert found == LINE * (len(found) // len(LINE))
    assert len(found) // len(LINE) + out.dropped == outlet.BACKLOG_BYTES // 50
    out.close(0.0)


def test_a_reader_that_is_gone_is_no_error(pipe: tuple[int, int]) -> None:
    read_fd, write_fd = pipe
    out = Outlet(write_fd)
    os.close(read_fd)
    out.write(LINE * 2)
    assert out.dropped == 2
    out.close(0.1)


def test_nor_one_that_was_gone_before(pipe: tuple[int, int]) -> None:
    read_fd, write_fd = pipe
    os.close(read_fd)
    out = Outlet(write_fd)
    out.write(LINE)
    assert out.dropped == 1
    out.close(0.0)


def test_the_end_waits_for_a_slow_reader_but_not_for_ever(pipe: tuple[int, int]) -> None:
    read_fd, write_fd = pipe
    lines = LINE * 2000
    found = bytearray()

    def read() -> None:
        while len(found) < len(lines):
            found.extend(os.read(read_fd, 1 << 14))

    out = Outlet(write_fd)
    out.write(lines)
    reader = threading.Thread(target=read)
    reader.start()
    out.close(30.0)
    reader.join()
    assert found == lines
    again = Outlet(write_fd)
    again.write(lines)
    again.close(0.05)
    assert drain(read_fd)


def test_sockets_and_files_are_written_to(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        out = Outlet(ours.fileno())
        out.write(LINE)
        assert theirs.recv(1000) == LINE
        for _ in range(10_000):
            out.write(LINE * 10)
        assert out.dropped > 0
        out.close(0.0)
    path = tmp_path / "log"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    out = Outlet(fd)
    out.write(LINE)
    out.close(0.0)
    os.close(fd)
    assert path.read_bytes() == LINE


def test_a_line_that_a_full_disk_has_cut_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "log"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    out = Outlet(fd)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, before[1]))
    try:
        out.write(LINE * 2)
        out.write(LINE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    out.write(LINE)
    out.write(LINE)
    out.close(0.0)
    os.close(fd)
    assert path.read_bytes() == LINE + LINE[:50] + b"\n" + LINE * 2
    assert out.dropped == 2


def test_a_pipe_that_cannot_be_opened_again_is_asked_for_room(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_fd, write_fd = pipe

    def refuse(*_: object) -> int:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        out = Outlet(write_fd)
    for _ in range(10_000):
        out.write(LINE)
    found = drain(read_fd)
    assert found
    while not out.flush():
        found += drain(read_fd)
    found += drain(read_fd)
    assert len(found) // len(LINE) + out.dropped == 10_000
    out.close(0.0)

"""A broker that is short of files lets nobody in, and opens again when there are enough."""

import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.door import LOOK_S, MANY_FILES, NEEDED_FILES, Door

Counters = Counter[str]


class Files:
    """Opens files, so that just so many are open in this process."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def open_until(self, count: int) -> None:
        while len(os.listdir("/proc/self/fd")) - 1 < count:
            self._stack.enter_context(open("/dev/null"))  # noqa: SIM115

    def close_all(self) -> None:
        self._stack.close()


@pytest.fixture
def files() -> Iterator[Files]:
    with ExitStack() as stack:
        yield Files(stack)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        yield path


def is_open(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except FileNotFoundError:
            return False
        return True


def test_it_shuts_in_time_and_opens_again(listening: str, files: Files) -> None:
    limit = max(NEEDED_FILES, 4 * len(os.listdir("/proc/self/fd")))
    counters: Counters = Counter()
    door = Door(listening, limit, counters)
    door.tend(0.0)
    assert is_open(listening)
    files.open_until(limit - limit // 4)
    door.tend(LOOK_S / 2)
    assert is_open(listening), "it is not looked at all the time"
    door.tend(LOOK_S)
    assert not is_open(listening)
    door.tend(2 * LOOK_S)
    assert counters["short_of_files"] == 1
    files.close_all()
    door.tend(3 * LOOK_S)
    assert is_open(listening)
    door.close()
    assert is_open(listening)


def test_where_many_are_left_it_is_looked_at_less_often(listening: str, files: Files) -> None:
    door = Door(listening, 1024, Counter())  # 256 are to be kept free
    door.tend(0.0)
    files.open_until(800)
    door.tend(1.5 * LOOK_S)
    assert is_open(listening)
    door.tend(3 * LOOK_S)
    assert not is_open(listening)
    door.close()


def test_nothing_is_left_behind(listening: str, files: Files) -> None:
    limit = max(NEEDED_FILES, 4 * len(os.listdir("/proc/self/fd")))
    door = Door(listening, limit, Counter())
    files.open_until(limit - limit // 4)
    door.tend(0.0)
    door.close()
    assert os.listdir(Path(listening).parent) == []


def test_without_a_path_it_is_told_of(files: Files) -> None:
    limit = max(NEEDED_FILES, 4 * len(os.listdir("/proc/self/fd")))
    counters: Counters = Counter()
    door = Door("", limit, counters)
    files.open_until(limit - limit // 4)
    door.tend(0.0)
    door.close()
    assert counters["short_of_files"] == 1


def test_where_there_are_many_nothing_is_counted(
    listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "listdir", None)
    Door(listening, MANY_FILES, Counter()).tend(1e9)

"""Bodies as they come in: where they end up, and that shared memory comes back."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.payload.arena import ARENA_BYTES
from gateway.body import PLEDGE, Body
from gateway.memory import Stored, UploadMemory
from tests.unit.gateway.uploads import joined, make_folder


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UploadMemory]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        memory = joined(make_folder(tmp_path_factory.mktemp("shm"), monkeypatch))
        yield memory
        memory.close()


def filled(memory: UploadMemory, data: bytes, cuts: list[int], *, expected_bytes: int) -> Body:
    """A body that has come in, cut at these places."""
    body = Body(memory, expected_bytes)
    places = [0, *sorted(cut % len(data) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        if start < end:
            body.add(data[start:end])
    assert body.size_bytes == len(data)
    return body


@given(
    size_bytes=st.integers(1, 3 * ARENA_BYTES),
    cuts=st.lists(st.integers(0, 3 * ARENA_BYTES), max_size=8),
    known=st.booleans(),
)
def test_however_it_is_cut_it_is_the_same(
    memory: UploadMemory, size_bytes: int, cuts: list[int], known: bool
) -> None:
    data = (bytes(range(251)) * 800)[:size_bytes]
    body = filled(memory, data, cuts, expected_bytes=size_bytes if known else 0)
    whole = body.finish()
    body.drop()  # takes nothing from who has the whole
    if known and size_bytes >= ARENA_BYTES:
        assert isinstance(whole, Stored)
        assert whole.memory == memory.fetch(whole.ref) == data
        memory.drop([whole.ref])
    else:
        assert whole == data
    assert memory.used_bytes == 0


def test_a_beginning_takes_no_memory(memory: UploadMemory) -> None:
    body = Body(memory, ARENA_BYTES)
    body.add(bytes(ARENA_BYTES // PLEDGE - 1))
    assert memory.used_bytes == 0
    body.add(b"x")
    assert memory.used_bytes > ARENA_BYTES
    body.drop()
    body.drop()
    assert memory.used_bytes == 0


def test_a_full_arena_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = joined(make_folder(tmp_path, monkeypatch), limit_bytes=2 * ARENA_BYTES)
    first = filled(memory, b"a" * ARENA_BYTES, [], expected_bytes=ARENA_BYTES)
    second = filled(memory, b"b" * ARENA_BYTES, [7], expected_bytes=ARENA_BYTES)
    assert second.finish() == b"b" * ARENA_BYTES
    assert memory.overflowed()
    assert not memory.overflowed()
    first.drop()
    memory.close()


def test_no_arena_is_no_trouble() -> None:
    memory = UploadMemory(None)
    body = filled(memory, b"a" * ARENA_BYTES, [5], expected_bytes=ARENA_BYTES)
    assert body.finish() == b"a" * ARENA_BYTES
    assert not memory.overflowed()

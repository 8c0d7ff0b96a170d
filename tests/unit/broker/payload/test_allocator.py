"""Ranges never overlap, and what is free is whole again."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.payload.allocator import ALIGNMENT_BYTES, Allocator, rounded_up

SIZE = 64 * 64


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("allocate"), st.integers(1, SIZE // 3)),
            st.tuples(st.just("release"), st.integers(0, 1000)),
        ),
        max_size=80,
    )
)
@settings(deadline=None)
def test_against_a_map_of_cells(steps: list[tuple[str, int]]) -> None:
    allocator = Allocator(SIZE)
    cells: list[int | None] = [None] * (SIZE // ALIGNMENT_BYTES)  # which range each belongs to
    taken: list[int] = []
    for step, number in steps:
        if step == "allocate":
            want = rounded_up(number) // ALIGNMENT_BYTES
            fits = [
                first
                for first in range(len(cells) - want + 1)
                if all(cell is None for cell in cells[first : first + want])
            ]
            offset = allocator.allocate(number)
            assert offset == (fits[0] * ALIGNMENT_BYTES if fits else None)  # the lowest there is
            if offset is not None:
                first = offset // ALIGNMENT_BYTES
                cells[first : first + want] = [offset] * want
                taken.append(offset)
        elif taken:
            offset = taken.pop(number % len(taken))
            allocator.release(offset)
            cells = [None if cell == offset else cell for cell in cells]
        used = [index for index, cell in enumerate(cells) if cell is not None]
        assert allocator.used_bytes == len(used) * ALIGNMENT_BYTES
        assert allocator.top == (used[-1] + 1 if used else 0) * ALIGNMENT_BYTES
        for index, cell in enumerate(cells):
            assert allocator.around(index * ALIGNMENT_BYTES + 7) == cell
    for offset in taken:
        allocator.release(offset)
    assert allocator.used_bytes == allocator.top == 0
    assert allocator.allocate(SIZE) == 0  # one range again


def test_the_whole_and_not_a_byte_more() -> None:
    allocator = Allocator(SIZE + 63)
    assert allocator.allocate(SIZE + 1) is None
    assert allocator.allocate(SIZE) == 0
    assert allocator.allocate(1) is None
    assert Allocator(63).allocate(1) is None
    assert Allocator(0).around(0) is None


def test_only_what_is_taken_can_be_released() -> None:
    allocator = Allocator(SIZE)
    allocator.allocate(128)
    with pytest.raises(KeyError):
        allocator.release(64)
    allocator.release(0)
    with pytest.raises(KeyError):
        allocator.release(0)


def test_holes_cost_no_time() -> None:
    allocator = Allocator(1 << 30)
    offsets = [allocator.allocate(1 << 16) for _ in range(2000)]
    for offset in offsets[::2]:
        assert offset is not None
        allocator.release(offset)
    started = time.process_time()
    for _ in range(200):
        offset = allocator.allocate(1 << 17)  # beyond a thousand holes that are too small
        assert offset is not None
        allocator.release(offset)
    assert time.process_time() - started < 1.0

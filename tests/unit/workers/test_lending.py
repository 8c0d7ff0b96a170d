"""Arrays that a plug-in makes are made in the arena, where that pays; and nothing breaks by it."""

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.payload.arena import ARENA_BYTES, Arena
from broker.payload.folder import ArenaFolder, folder_name
from workers.lending import RESULT_BYTES_PER_CALL, TRY_AGAIN_BATCHES, TRY_FROM_BYTES, Lending

SIZE = ARENA_BYTES // 4


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    monkeypatch.setenv("MILLSTREAM_SHM", str(tmp_path))
    arena = Arena(ArenaFolder.make(folder_name("ipc:///tmp/lending/broker.sock")), 1 << 23)
    yield arena
    arena.close()


@pytest.fixture
def lending(arena: Arena) -> Lending:
    """Lends slots, and has seen a batch that makes it worth a try."""
    lending = Lending()
    lending.use(arena)
    lending.copied_bytes = TRY_FROM_BYTES
    lending.decide()
    return lending


def made(lending: Lending, make: Callable[[], Any]) -> Any:
    """What a plug-in makes while it runs."""
    lending.begin()
    try:
        return make()
    finally:
        lending.end()


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def ref_to(lending: Lending, array: Any) -> Any:
    return lending.find(address(array), array.nbytes)


MAKERS: dict[str, Callable[[], Any]] = {
    "full": lambda: np.full(SIZE, 3, np.float32),
    "zeros": lambda: np.zeros(SIZE, np.float32),
    "product": lambda: np.ones(SIZE, np.float32) * 2,
    "copy": lambda: np.arange(SIZE, dtype=np.float32).copy(),
    "stack": lambda: np.stack([np.ones(SIZE // 2, np.float32)] * 2),
    "cast": lambda: np.arange(SIZE).astype(np.float32),
    "random": lambda: np.random.default_rng(1).random(SIZE, np.float32),
    "resized": lambda: _resized(2 * SIZE),
}


def _resized(size: int) -> Any:
    array = np.arange(SIZE, dtype=np.float32)
    array.resize(size, refcheck=False)
    return array


@pytest.mark.parametrize("name", MAKERS)
def test_what_numpy_makes_lies_in_the_arena_and_is_as_ever(
    name: str, lending: Lending, arena: Arena
) -> None:
    make = MAKERS[name]
    array = made(lending, make)
    np.testing.assert_array_equal(array, make())
    ref = ref_to(lending, array)
    assert ref is not None
    assert bytes(arena.read(ref)) == array.tobytes()
    assert lending.is_written(ref.generation), "the array lives"
    del array
    lending.take_back()
    assert not lending.is_written(ref.generation)
    assert arena.used_bytes > 0, "a result lies there"
    lending.drop(ref.generation)
    assert arena.used_bytes == 0


def test_only_while_the_plug_in_runs(lending: Lending) -> None:
    assert ref_to(lending, np.zeros(SIZE, np.float32)) is None
    assert ref_to(lending, made(lending, lambda: np.zeros(SIZE - 1, np.float32))) is None


def test_what_is_no_result_goes_back(lending: Lending, arena: Arena) -> None:
    def total() -> Any:
        return (np.ones(SIZE, np.float32) * 2).sum()

    for _ in range(50):
        assert made(lending, total) == 2 * SIZE
    lending.take_back()
    assert arena.used_bytes == 0


def test_a_full_arena_is_no_reason_to_fail(lending: Lending, arena: Arena) -> None:
    arrays = [made(lending, lambda: np.full(1 << 18, 5, np.float32)) for _ in range(12)]
    refs = [ref_to(lending, array) for array in arrays]
    assert refs[0] is not None
    assert refs[-1] is None
    assert all((array == 5).all() for array in arrays)


def test_arrays_may_end_in_any_thread(lending: Lending, arena: Arena) -> None:
    arrays = [made(lending, lambda: np.zeros(SIZE, np.float32)) for _ in range(20)]

    def end() -> None:
        while arrays:
            arrays.pop()

    threads = [threading.Thread(target=end) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lending.take_back()
    assert arena.used_bytes == 0


def test_arrays_outlive_their_arena(lending: Lending, arena: Arena) -> None:
    array = made(lending, lambda: np.full(SIZE, 4, np.float32))
    arena.close()
    lending.use(None)
    assert (array == 4).all()
    array += 1
    assert (array == 5).all()
    del array
    lending.take_back()


def test_it_is_given_up_where_it_does_not_pay(lending: Lending) -> None:
    def many_small() -> Any:
        for _ in range(100):
            np.ones(4)
        return np.zeros(SIZE, np.float32)

    array = made(lending, many_small)
    assert ref_to(lending, array) is not None
    assert array.nbytes < 100 * RESULT_BYTES_PER_CALL
    lending.decide()
    for _ in range(TRY_AGAIN_BATCHES):
        lending.copied_bytes = TRY_FROM_BYTES
        lending.decide()
        assert ref_to(lending, made(lending, lambda: np.zeros(SIZE, np.float32))) is None
    lending.copied_bytes = TRY_FROM_BYTES
    lending.decide()
    assert ref_to(lending, made(lending, lambda: np.zeros(SIZE, np.float32))) is not None


def test_it_is_not_tried_for_a_little(arena: Arena) -> None:
    lending = Lending()
    lending.use(arena)
    lending.copied_bytes = TRY_FROM_BYTES - 1
    lending.decide()
    assert ref_to(lending, made(lending, lambda: np.zeros(SIZE, np.float32))) is None


def test_a_process_ends_in_order_with_arrays_that_are_still_there(tmp_path: Path) -> None:
    code = """
        import os, sys, threading
        import numpy as np
        from broker.payload.arena import Arena
        from broker.payload.folder import ArenaFolder, folder_name
        from workers.lending import Lending
        arena = Arena(ArenaFolder.make(folder_name("ipc:///tmp/x")), 1 << 23)
        lending = Lending()
        lending.use(arena)
        lending.copied_bytes = 1 << 30
        lending.decide()
        lending.begin()
        kept = [np.zeros(1 << 18, np.float32), np.ones(3), {"cycle": np.ones(1 << 18)}]
        kept.append(kept)
        np.millstream_kept = [np.ones(1 << 16), np.ones(5)]
        threading.kept = np.ones(1 << 16)
        lending.end()
        arena.close()
        print("done", flush=True)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        env={"MILLSTREAM_SHM": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")

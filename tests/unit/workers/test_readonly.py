"""Whoever writes into a read-only array is told what to do, in numpy's own words and ours."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from workers.readonly import NOTE, note_readonly

WRITES: dict[str, Callable[[Any], object]] = {
    "item": lambda array: array.__setitem__(0, 1),
    "in place": lambda array: array.__iadd__(1),
    "out": lambda array: np.add(array, 1, out=array),
    "reduced": lambda array: np.mean(np.ones((10, 10)), axis=0, out=array),
    "sort": lambda array: array.sort(),
    "partition": lambda array: array.partition(3),
    "fill": lambda array: array.fill(0),
    "put": lambda array: array.put([0], 1),
    "place": lambda array: np.place(array, array == 0, [1]),
    "putmask": lambda array: np.putmask(array, array == 0, 1),
    "flags": lambda array: setattr(array.flags, "writeable", True),
    "setflags": lambda array: array.setflags(write=True),
    "copyto": lambda array: np.copyto(array, 1),
    "resize": lambda array: array.resize(20),
    "byteswap": lambda array: array.byteswap(inplace=True),
    "shuffle": lambda array: np.random.default_rng().shuffle(array),
    "shuffle of Python": random.shuffle,
    "flat": lambda array: array.flat.__setitem__(0, 1),
    "diagonal": lambda array: np.fill_diagonal(array.reshape(2, 5), 1),
    "einsum": lambda array: np.einsum("i,i->i", array, array, out=array),
    "nan_to_num": lambda array: np.nan_to_num(array, copy=False),
    "memoryview": lambda array: array.data.__setitem__(0, 1.0),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_every_way_to_write_gets_the_note(write: Callable[[Any], object]) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        write(np.frombuffer(bytes(80), np.float64))
    note_readonly(caught.value)
    note_readonly(caught.value)
    assert caught.value.__notes__ == [NOTE]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("buffer source array is read-only"),
        RuntimeError("img marked as output argument, but provided NumPy array marked as readonly"),
    ],
)
def test_what_is_built_on_numpy_too(error: Exception) -> None:
    note_readonly(error)
    assert error.__notes__ == [NOTE]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("operands could not be broadcast together"),
        OSError(30, "Read-only file system, or read-only"),
        AttributeError("property 'x' is read-only"),
        SystemExit(3),
        KeyError("model"),
    ],
)
def test_others_get_none(error: BaseException) -> None:
    note_readonly(error)
    assert not hasattr(error, "__notes__")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_nothing_is_raised() -> None:
    note_readonly(Mute())
    crowded = ValueError("output array is read-only")
    crowded.__notes__ = None  # type: ignore[assignment]
    note_readonly(crowded)

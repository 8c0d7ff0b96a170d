"""Want of memory: how it is recognised, and what comes of a batch that meets it."""

import asyncio
import errno
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import Batch, Failure
from tests.unit.workers.batches import item, run_batch, values
from workers.api import Worker
from workers.checks import shape_of
from workers.execute import Done, run_async
from workers.memory import SharedMemory
from workers.shortage import is_out_of_memory
from workers.work import Hooks, Work, raised

GONE = ErrorCode.OUT_OF_MEMORY
GUILTY = ErrorCode.WORKER_ERROR


def error_of(call: Callable[[], object]) -> BaseException:
    """What it raises."""
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing raised")


# ------------------------------------------------------------------ which errors mean it


def test_what_numpy_and_python_raise() -> None:
    assert is_out_of_memory(error_of(lambda: np.empty(1 << 60, np.uint8)))
    assert is_out_of_memory(error_of(lambda: [0] * (1 << 60)))
    assert is_out_of_memory(OSError(errno.ENOMEM, "Cannot allocate memory"))


def test_what_torch_raises() -> None:
    torch = pytest.importorskip("torch")
    on_cpu = error_of(lambda: torch.empty(1 << 50, dtype=torch.uint8))
    assert type(on_cpu) is RuntimeError
    assert is_out_of_memory(on_cpu)
    assert is_out_of_memory(torch.OutOfMemoryError("as it pleases"))
    assert is_out_of_memory(torch.AcceleratorError("CUDA error: out of memory"))


@pytest.mark.parametrize(
    "words",
    [
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79 GiB",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes.",
    ],
)
def test_what_the_libraries_below_say(words: str) -> None:
    assert is_out_of_memory(RuntimeError(words))
    assert not is_out_of_memory(ValueError(words))  # words alone prove nothing


def test_other_errors_are_none() -> None:
    for error in (
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        OSError(errno.ENOENT, "no such file"),
        RecursionError(),
        KeyboardInterrupt(),
    ):
        assert not is_out_of_memory(error)


def test_what_an_error_was_caused_by_counts() -> None:
    wrapped = ValueError("prediction failed")
    wrapped.__cause__ = RuntimeError("model failed")
    wrapped.__cause__.__cause__ = MemoryError()
    assert is_out_of_memory(wrapped)
    assert is_out_of_memory(ExceptionGroup("tasks", [ValueError(), MemoryError()]))
    ring = ValueError()
    ring.__cause__ = RuntimeError()
    ring.__cause__.__cause__ = ring
    assert not is_out_of_memory(ring)


def test_the_memory_of_the_call_is_free_before_its_traceback_is_written() -> None:
    class Tensor:
        pass

    def forward() -> None:
        activations = Tensor()
        taken.append(weakref.ref(activations))
        raise MemoryError

    taken: list[weakref.ref[Tensor]] = []
    error = error_of(forward)
    call = raised(error)
    assert taken[0]() is None
    assert "in forward" in call.trace


# ------------------------------------------------------------------ batches


class Hungry(Worker):
    """Has memory for items of so much together; `leaks` is what it never lets go of."""

    max_batch_size = 32

    def __init__(self, *, room: int, example: int | None = None, leaks: int = 0) -> None:
        self.room = room
        self.leaks = leaks
        self.sizes: list[int] = []
        self.example = example

    def forward(self, batch: list[Any]) -> list[Any]:
        self.sizes.append(len(batch))
        if sum(batch) + self.leaks > self.room:
            raise MemoryError
        return batch


def run(plugin: Worker, *needs: int) -> tuple[list[object], Done]:
    """The outcomes (a failure by its code) of a batch of items that need so much each."""
    done = run_batch(plugin, [item(need) for need in needs]).done
    return coded(done), done


def coded(done: Done) -> list[object]:
    return [out.code if isinstance(out, Failure) else out for out in values(done)]


def test_the_batch_is_halved_and_the_fewest_are_told() -> None:
    plugin = Hungry(room=2)
    outcomes, done = run(plugin, 1, 1, 1, 1, 1, 1, 1, 1)
    assert outcomes == [1] * 8
    assert plugin.sizes == [8, 4, 2, 2, 4, 2, 2]
    assert (done.shortage.fewest, done.shortage.alone) == (4, 0)
    assert not done.sample
    assert not done.useless


def test_other_errors_tell_of_no_shortage() -> None:
    class Bad(Worker):
        def forward(self, batch: list[Any]) -> list[Any]:
            raise ValueError

    assert run(Bad(), 1, 1)[1].shortage.fewest == 0


def test_the_items_of_a_failed_call_are_free_before_its_halves_run() -> None:
    class Array:
        pass

    class Decodes(Worker):
        max_batch_size = 2

        def __init__(self) -> None:
            self.items: list[weakref.ref[Array]] = []

        def decode(self, body: bytes, content_type: str) -> Array:
            if len(self.items) >= 2:
                assert self.items[0]() is self.items[1]() is None
            array = Array()
            self.items.append(weakref.ref(array))
            return array

        def forward(self, batch: list[Any]) -> list[Any]:
            if len(batch) > 1:
                raise MemoryError
            return [1]

    done = run_batch(Decodes(), [item(b"1"), item(b"1")], first=True).done
    assert values(done) == [1, 1]


def test_an_item_too_large_is_to_blame_where_the_example_still_works() -> None:
    plugin = Hungry(room=4, example=1)
    outcomes, done = run(plugin, 1, 9, 1)
    assert outcomes == [1, GUILTY, 1]
    assert plugin.sizes == [3, 2, 1, 1, 1, 1]  # the last is the example
    assert (done.shortage.fewest, done.shortage.is_broken) == (1, False)


def test_several_too_large_cost_one_trial() -> None:
    plugin = Hungry(room=4, example=1)
    outcomes, done = run(plugin, 9, 9)
    assert outcomes == [GUILTY, GUILTY]
    assert plugin.sizes == [2, 1, 1, 1]
    assert done.useless
    assert done.shortage.alone == 2


def test_a_worker_whose_example_fails_too_is_to_blame() -> None:
    outcomes, done = run(Hungry(room=4, example=1, leaks=4), 2, 1)
    assert outcomes == [GONE, GONE]
    assert done.shortage.is_broken
    assert not done.useless  # nobody is to blame for these


def test_without_an_example_it_may_be_either() -> None:
    outcomes, done = run(Hungry(room=4), 1, 9)
    assert outcomes == [1, GONE]
    assert (done.shortage.alone, done.shortage.worked, done.shortage.is_broken) == (1, True, False)
    assert run(Hungry(room=4), 9, 1)[1].shortage.alone == 0  # one that worked came after it


def test_what_may_not_run_twice_fails_at_once() -> None:
    plugin = Hungry(room=4, example=1)
    plugin.repeatable = False
    outcomes, done = run(plugin, 3, 3)
    assert outcomes == [GUILTY, GUILTY]
    assert plugin.sizes == [2]
    assert done.shortage.fewest == 2


# ------------------------------------------------------------------ several batches in flight


@pytest.mark.parametrize(("crowd", "code"), [([False], GUILTY), ([True], GONE)])
def test_an_item_that_had_no_room_beside_others_is_not_to_blame(
    crowd: list[bool], code: ErrorCode
) -> None:
    done = run_crowded(crowd)
    assert coded(done) == [code]
    assert done.shortage.alone == (code == GUILTY)


def test_a_trial_beside_others_proves_nothing_where_it_fails() -> None:
    done = run_crowded([False, True], leaks=9)
    assert coded(done) == [GONE]
    assert not done.shortage.is_broken


def run_crowded(crowd: list[bool], leaks: int = 0) -> Done:
    """An item that is too large; `crowd` says for each call whether others ran beside it."""

    class Async(Worker):
        example = 1

        async def forward(self, batch: list[int]) -> list[int]:
            await asyncio.sleep(0)
            if sum(batch) + leaks > 4:
                raise MemoryError
            return batch

    plugin = Async()
    hooks = Hooks(plugin, shape_of(plugin), SharedMemory(0))
    batch = Batch(1, 1, "p", False, False, [item(9)])
    beside = iter(crowd)
    return asyncio.run(
        run_async(hooks, Work(hooks, batch, 0.0), lambda: None, lambda: next(beside))
    )

"""Warms `forward` up with the plug-in's example, and times it, before the worker is ready."""

import time
from collections.abc import Generator
from typing import Any, TypeAlias

from workers.results import WrongResult, complaint, split
from workers.work import PLAIN, Hooks, is_stream

Timings: TypeAlias = list[tuple[int, float]]
"""(batch size, seconds) of one call of `forward` each."""

Rounds: TypeAlias = Generator[tuple[Any, ...], Any, Timings]


def rounds(hooks: Hooks) -> Rounds:
    """Yields the arguments of each call to make, and is sent what it returned.

    A batch of one, then a full one; each twice, for the first time pays for what is made only once.
    Of streams the first value is taken, where that needs no event loop; they are not timed, since
    how long it takes to begin them says nothing. Raises WrongResult where `forward` does not return
    one result per item.
    """
    timings = []
    for size in sorted({1, hooks.shape.max_batch_size}):
        run_s = 0.0
        for _ in range(2):
            call = hooks.examples(size)
            started = time.perf_counter()
            returned = yield call
            try:
                results = split(returned, size)  # where a GPU's work has to be waited for
            except WrongResult as wrong:
                text = complaint(hooks.name, hooks.where, wrong, size)
                raise WrongResult(text) from None
            run_s = time.perf_counter() - started
            streams = [each for each in results if type(each) not in PLAIN and is_stream(each)]
            for stream in streams:
                if hasattr(stream, "__next__"):
                    next(stream, None)
        if not streams:
            timings.append((size, run_s))
    return timings


def warm_up(hooks: Hooks) -> Timings:
    """For a plain `forward`. Raises what it raises."""
    calls = rounds(hooks)
    try:
        call = next(calls)
        while True:
            call = calls.send(hooks.forward(*call))
    except StopIteration as stop:
        timings: Timings = stop.value
        return timings


async def warm_up_async(hooks: Hooks) -> Timings:
    """For an `async def forward`."""
    calls = rounds(hooks)
    try:
        call = next(calls)
        while True:
            call = calls.send(await hooks.forward(*call))
    except StopIteration as stop:
        timings: Timings = stop.value
        return timings

"""Runs one batch: halves it when `forward` raises, so that only the guilty items fail.

Pure of sockets. `steps` is a generator that yields the arguments of each call of `forward` and is
sent what it returned, so that a plain loop and an event loop share every decision.
"""

from collections.abc import Callable, Generator, Sequence
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from broker.wire import log
from broker.wire.messages import Failure, Outcome
from workers.heap import relieve
from workers.shortage import Shortage
from workers.work import Hooks, Raised, Work, raised

Steps: TypeAlias = Generator[tuple[Any, ...], Any, bool]


class Phases(NamedTuple):
    """How long a batch was decoded, and run, and its results encoded, in seconds."""

    decode_s: float = 0.0
    forward_s: float = 0.0
    encode_s: float = 0.0


class Done(Struct):
    """What has become of a batch: one outcome per item, in order, and what else `Results` say."""

    outcomes: list[Outcome]
    content_type: str
    sample: bool
    """Whether the time that it took says how long a batch of its size takes."""
    useless: bool
    """Whether `forward` failed, and no item has a result."""
    shortage: Shortage
    streams: dict[int, Any]
    """By place, results that are iterators: to be advanced once the results are sent."""
    phases: Phases = Phases()


def run(hooks: Hooks, work: Work, renew: Callable[[], None]) -> Done:
    """Run a batch through a plain `forward`.

    `renew` is called before each call of `forward` but the first. Raises nothing.
    """
    calls = steps(work, len(work.outcomes), repeatable=hooks.shape.repeatable)
    forward, lending = hooks.forward, hooks.memory.lending
    sample = False
    phases = _Phases()
    try:
        arguments = next(calls)
        phases.decoded()
        while True:
            is_on = lending.is_on
            if is_on:
                lending.begin()
            try:
                returned = forward(*arguments)
            except BaseException as error:  # SystemExit too: a plug-in may not end the process
                returned = raised(error)
            finally:
                if is_on:
                    lending.end()
            phases.ran()
            del arguments  # after want of memory that of its items is wanted, too
            arguments = calls.send(returned)
            phases.encoded()
            renew()
    except StopIteration as stop:
        sample = stop.value
    except Exception as error:
        work.fail_rest(error)
    return _done(work, phases, sample=sample)


async def run_async(
    hooks: Hooks,
    work: Work,
    renew: Callable[[], None],
    is_crowded: Callable[[], bool],
) -> Done:
    """The same for an `async def forward`; `is_crowded` says whether others run beside it."""
    calls = steps(work, len(work.outcomes), repeatable=hooks.shape.repeatable)
    forward = hooks.forward
    sample = False
    phases = _Phases()
    try:
        arguments = next(calls)
        phases.decoded()
        while True:
            try:
                returned = await forward(*arguments)
            except BaseException as error:
                returned = raised(error)
                returned.is_crowded = is_crowded()
            phases.ran()
            del arguments  # after want of memory that of its items is wanted, too
            arguments = calls.send(returned)
            phases.encoded()
            renew()
    except StopIteration as stop:
        sample = stop.value
    except Exception as error:
        work.fail_rest(error)
    return _done(work, phases, sample=sample)


class _Phases:
    """Takes the time of each phase. The halves of a batch are decoded with the results before."""

    __slots__ = ("_at", "decode_s", "encode_s", "forward_s")

    def __init__(self) -> None:
        self._at = monotonic()
        self.decode_s = self.forward_s = self.encode_s = 0.0

    def decoded(self) -> None:
        now = monotonic()
        self.decode_s = now - self._at
        self._at = now

    def ran(self) -> None:
        now = monotonic()
        self.forward_s += now - self._at
        self._at = now

    def encoded(self) -> None:
        now = monotonic()
        self.encode_s += now - self._at
        self._at = now

    def ended(self) -> Phases:
        """What has no end of its own yet is the last encoding."""
        self.encoded()
        return Phases(self.decode_s, self.forward_s, self.encode_s)


def steps(work: Work, count: int, *, repeatable: bool) -> Steps:
    """Yields the arguments of each call of `forward`, is sent what it returned or `Raised`.

    Returns whether the batch ran whole and at once. Its payloads are read anew for each half, so
    that what a failed call did to its items is not seen by the next. Where an item ran out of
    memory alone, the example is run in the end, if there is one: it tells whose fault that was.
    """
    todo: list[Sequence[int]] = [range(count)]
    whole = True
    while todo:
        asked = todo.pop()
        inputs, places = work.read(asked)
        whole = whole and len(places) == len(asked)
        if not places:
            continue
        arguments = work.arguments(inputs, places)
        del inputs  # `forward` may want the memory of what it has dealt with
        returned = yield arguments
        del arguments
        if type(returned) is not Raised:
            whole = work.take(returned, places) and whole
            continue
        whole = False
        if returned.out_of_memory:
            work.ran_out(returned, places)
            relieve()
        if not repeatable:
            work.fail_raised(returned, places)
        elif len(places) > 1:
            if len(places) == count and not returned.out_of_memory:
                log.info("batch halved", items=count, error=returned.summary)
            middle = (len(places) + 1) // 2
            todo += (places[middle:], places[:middle])
        elif returned.out_of_memory:
            work.put_off(returned, places[0])
        else:
            work.fail_raised(returned, places)
    if work.alone:
        trial = work.trial
        work.blame(works=None if trial is None else _works((yield trial)))
    return whole


def _works(returned: Any) -> bool | None:
    """What came of a trial; None where others that ran beside it may be why it failed."""
    if type(returned) is not Raised:
        return True
    return None if returned.is_crowded else False


def _done(work: Work, phases: _Phases, *, sample: bool) -> Done:
    outcomes = work.outcomes
    useless = work.faults > 0 and not has_result(outcomes)
    sample = sample and not work.streams
    return Done(
        outcomes,
        work.content_type,
        sample,
        useless,
        work.shortage,
        work.streams,
        phases.ended(),
    )


def has_result(outcomes: Sequence[Outcome]) -> bool:
    """Whether any item did not fail."""
    return any(type(outcome) is not Failure for outcome in outcomes)

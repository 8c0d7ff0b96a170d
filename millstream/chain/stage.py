"""One stage in this process: its plug-in set up and warmed up as in a worker, and batches run."""

import time
from collections.abc import Callable
from typing import Any

from broker.wire.messages import Batch, Outcome
from millstream.chain.complaints import without_place
from millstream.chain.findings import ChainError, Finding, place_of_hook
from millstream.chain.loop import LoopThread
from millstream.chain.parts import Part
from workers import making, steps, warmup
from workers.checks import ContractError, Shape, shape_of
from workers.execute import Done, run, run_async
from workers.loader import trimmed_trace
from workers.memory import SharedMemory
from workers.missing import advice_for
from workers.observations import Gathering
from workers.results import WrongResult
from workers.steps import Driven
from workers.streams import OpenStream
from workers.warmup import Timings
from workers.work import Hooks, Work

NO_MEMORY = SharedMemory(0)


class Stage:
    """See the module. `close` it in the end, also where `set_up` has raised."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.name = part.name
        self.plugin = part.plugin
        self.hooks: Hooks
        self._gathering = Gathering()
        self._loop: LoopThread | None = None
        self._is_set_up = False
        self._interrupt: KeyboardInterrupt | None = None

    @property
    def shape(self) -> Shape:
        """Once it is set up."""
        return self.hooks.shape

    @property
    def cap(self) -> int:
        """Most items of a batch."""
        most = self.part.config.max_batch_size
        own = self.shape.max_batch_size
        return own if most is None else min(own, most)

    # -------------------------------------------------------------- its life

    def set_up(self) -> None:
        """What a worker does before its warm-up. Raises ChainError."""
        plugin = self.plugin
        plugin._empty = NO_MEMORY.lending.empty
        try:
            self._call(plugin.setup)
            self._is_set_up = True
            making.count(plugin, on=False)
            self.hooks = Hooks(plugin, shape_of(plugin), NO_MEMORY)
            if not self.shape.is_async:
                self.hooks.forward = self._noting_interrupts(plugin.forward)
        except ContractError as error:
            raise ChainError([Finding(self.part.place, str(error))]) from None
        except (Exception, SystemExit) as error:
            raise self._failed("setup", error) from None

    def warm_up(self) -> Timings:
        """What a worker does then; [] where there is no example. Raises ChainError."""
        hooks = self.hooks
        try:
            if hooks.example is None:
                return []
            if self.shape.is_async:
                return self.loop.run(warmup.warm_up_async(hooks))
            return warmup.warm_up(hooks)
        except (Exception, SystemExit) as error:
            raise self._failed("forward", error) from None
        finally:
            making.count(self.plugin, on=True)
            self.plugin._observe = self._gathering.observe

    def _failed(self, hook: str, error: BaseException) -> ChainError:
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError):
            said += advice_for(said)
        where = place_of_hook(type(self.plugin), hook)
        if isinstance(error, WrongResult):
            return ChainError(
                [Finding(where, f"{without_place(str(error))}; it was given its own example")]
            )
        what = f"{type(self.plugin).__name__}.{hook} raised {said}"
        if hook == "forward":
            what += ", given its own example"
        return ChainError([Finding(where, what, trace=trimmed_trace(error))])

    def close(self) -> None:
        """`teardown`, if `setup` was there. Raises what that raises."""
        try:
            if self._is_set_up:
                self._is_set_up = False
                self._call(self.plugin.teardown)
        finally:
            if self._loop is not None:
                self._loop.close()
                self._loop = None

    def _call(self, hook: Callable[[], Any]) -> None:
        if self.part.shape.is_async:
            self.loop.run(_called(hook))
        else:
            hook()

    @property
    def loop(self) -> LoopThread:
        """Made when first asked for."""
        if self._loop is None:
            self._loop = LoopThread()
        return self._loop

    # -------------------------------------------------------------- batches

    def run(self, batch: Batch) -> Done:
        """One batch; raises nothing of the plug-in's but KeyboardInterrupt."""
        return self.run_work(Work(self.hooks, batch, time.monotonic()))

    def run_work(self, work: Work) -> Done:
        """The same for one that is read already, or otherwise."""
        try:
            if self.shape.is_async:
                return self.loop.run(run_async(self.hooks, work, _nothing, _never))
            done = run(self.hooks, work, _nothing)
        finally:
            self._gathering.take()
        if self._interrupt is not None:
            raise self._interrupt
        return done

    def _noting_interrupts(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """To the runtime whatever `forward` raises is the plug-in's; here Ctrl-C may be, too."""

        def noting(*args: Any) -> Any:
            try:
                return forward(*args)
            except KeyboardInterrupt as interrupt:
                self._interrupt = interrupt
                raise

        return noting

    def drive(self, stream: OpenStream) -> None:
        """Have a stream of this stage ready for `step`."""
        if hasattr(stream.iterator, "__anext__") and not self.shape.is_async:
            stream.iterator = Driven(stream.iterator, self.loop)

    def step(self, stream: OpenStream) -> Outcome:
        """Its next value, its end, or what became of an error."""
        encode = self.hooks.encode_value
        stream.number += 1
        if self.shape.is_async:
            return self.loop.run(steps.step_async(stream, encode))
        return steps.step(stream, encode)

    def end(self, stream: OpenStream) -> None:
        """Nobody wants more of it."""
        if self.shape.is_async:
            self.loop.run(steps.close_async(stream))
        else:
            steps.close(stream)


async def _called(hook: Callable[[], Any]) -> None:
    await making.maybe(hook())


def _nothing() -> None:
    """There is no lease to renew."""


def _never() -> bool:
    """Nothing runs beside it."""
    return False

"""The loop of a worker with an `async def forward`: several batches in flight in one event loop."""

import asyncio
import contextlib
import time

from workers.execute import run_async
from workers.results import split
from workers.serving import Serving
from workers.session import Held
from workers.signals import SignalCounter
from workers.work import Hooks


async def serve(hooks: Hooks, serving: Serving, stop: SignalCounter) -> None:
    """Runs batches, at most `concurrency` at once, until the session is closed."""
    worker = _Concurrent(hooks, serving, stop)
    loop = asyncio.get_running_loop()
    for fd in (serving.link.fd, stop.fd):
        loop.add_reader(fd, worker.awake.set)
    try:
        await worker.serve()
    finally:
        for fd in (serving.link.fd, stop.fd):
            loop.remove_reader(fd)


class _Concurrent:
    def __init__(self, hooks: Hooks, serving: Serving, stop: SignalCounter) -> None:
        self.awake = asyncio.Event()
        self._hooks = hooks
        self._serving = serving
        self._stop = stop
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_example = hooks.example is not None
        self._is_warm = self._has_example

    async def serve(self) -> None:
        serving, session = self._serving, self._serving.session
        while True:
            self.awake.clear()
            self._stop.clear()
            serving.pump(self._stop)
            if session.closed:
                return
            self._begin()
            if serving.is_suspicious():
                serving.conclude(works=self._has_example and await self._works())
            # The socket's descriptor tells of changes alone, and sending may have seen to them.
            if serving.link.has_input():
                await asyncio.sleep(0)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.awake.wait(), serving.wait_s())

    def _begin(self) -> None:
        """Starts what is there to run, as far as that is allowed."""
        while len(self._tasks) < self._hooks.shape.concurrency:
            held = self._serving.session.take()
            if held is None:
                return
            # Beside others a batch takes longer, which says nothing about the next.
            for other in self._tasks:
                other.set_name("beside")
            name = "beside" if self._tasks or not self._is_warm else "alone"
            self._is_warm = True
            task = asyncio.create_task(self._run(held), name=name)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, held: Held) -> None:
        def renew() -> None:
            self._serving.send(self._serving.session.renew(held))

        started = time.monotonic()
        done = await run_async(self._hooks, held.batch, held.received, renew, self._is_crowded)
        task = asyncio.current_task()
        alone = task is not None and task.get_name() == "alone"
        self._serving.finish(held, done, time.monotonic() - started, sample=alone)
        self.awake.set()

    def _is_crowded(self) -> bool:
        return len(self._tasks) > 1

    async def _works(self) -> bool:
        """Whether `forward` still does what it did when it was warmed up."""
        try:
            split(await self._hooks.forward(*self._hooks.examples(1)), 1)
        except BaseException:
            return False
        return True

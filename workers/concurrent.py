"""The loop of a worker with an `async def forward`: several batches in flight in one event loop."""

import asyncio
import contextlib
import time

from workers import steps
from workers.execute import run_async
from workers.plugin_log import running
from workers.results import split
from workers.serving import Serving
from workers.session import Held
from workers.signals import SignalCounter
from workers.streams import OpenStream, nobody
from workers.work import Hooks, Work


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
        self._streams: set[asyncio.Task[None]] = set()
        self._is_flushing = False
        self._has_example = hooks.example is not None
        self._is_warm = self._has_example

    async def serve(self) -> None:
        serving, session = self._serving, self._serving.session
        while True:
            self.awake.clear()
            self._stop.clear()
            serving.pump(self._stop)
            if session.closed:
                await self._close_streams()
                return
            if session.streams.has_unsent:  # the link was stuck
                serving.send_steps()
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
        shape = self._hooks.shape
        streams = self._serving.session.streams
        while len(self._tasks) < shape.concurrency and len(streams) < shape.max_streams:
            held = self._serving.session.take()
            if held is None:
                return
            # Beside others a batch takes longer, which says nothing about the next.
            for other in self._tasks:
                other.set_name("beside")
            if streams:
                self._serving.send(self._serving.session.renew(held))
            name = "beside" if self._tasks or not self._is_warm else "alone"
            self._is_warm = True
            task = asyncio.create_task(self._run(held), name=name)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, held: Held) -> None:
        def renew() -> None:
            self._serving.send(self._serving.session.renew(held))

        running.set(held.batch)
        started = time.monotonic()
        work = Work(self._hooks, held.batch, held.received)
        done = await run_async(self._hooks, work, renew, self._is_crowded)
        del work  # `finish` looks at what the plug-in keeps
        task = asyncio.current_task()
        alone = task is not None and task.get_name() == "alone"
        run_s = time.monotonic() - started
        running.set(None)
        for stream in self._serving.finish(held, done, run_s, sample=alone):
            driving = asyncio.create_task(self._drive(stream))
            self._streams.add(driving)
            driving.add_done_callback(self._streams.discard)
        self.awake.set()

    # -------------------------------------------------------------- streams

    async def _drive(self, stream: OpenStream) -> None:
        """Advances one stream to its end, as far as its client keeps up. Whoever ends it from
        outside cancels what it waits for.
        """
        running.set(stream)
        task = asyncio.current_task()
        assert task is not None
        may_go_on = asyncio.Event()

        def wake() -> None:
            if stream.is_over:
                task.cancel()
            else:
                may_go_on.set()

        stream.wake = wake
        streams, encode = self._serving.session.streams, self._hooks.encode_value
        try:
            while not stream.is_over:
                if not stream.window.is_open:
                    may_go_on.clear()
                    await may_go_on.wait()
                    continue
                streams.advance(stream, await steps.step_async(stream, encode))
                self._flush_soon()
                await asyncio.sleep(0)  # one that never waits leaves room for the others
        except asyncio.CancelledError:
            pass  # it is over
        stream.wake = nobody
        await steps.close_async(stream)
        self.awake.set()  # there may be room for a batch

    def _flush_soon(self) -> None:
        """What all streams have come to in one turn of the loop travels together."""
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        self._serving.send_steps()
        if self._serving.link.has_input():  # sending may have swallowed the sign of it
            self.awake.set()

    async def _close_streams(self) -> None:
        self._serving.session.streams.stop_all()
        if self._streams:
            await asyncio.wait(self._streams)

    def _is_crowded(self) -> bool:
        return len(self._tasks) > 1

    async def _works(self) -> bool:
        """Whether `forward` still does what it did when it was warmed up."""
        try:
            split(await self._hooks.forward(*self._hooks.examples(1)), 1)
        except BaseException:
            return False
        return True

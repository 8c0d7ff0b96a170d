"""Streams of MOSEC's kind: `forward` runs, and pushes events; a plug-in's is asked for values.

So `forward` runs in a thread of its own, one batch at a time, and what it sends is taken by one
iterator for each item. A client that is gone holds up nobody: its events are dropped, and where all
of a batch are, the next event ends `forward`.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from millstream.mosec.errors import ClientError, MosecError, MosecTimeoutError
from millstream.mosec.worker import SSEWorker

MOST_WAITING = 256
"""Events of one item that its client has not taken: then `forward` waits."""


class Item:
    """One item's events, between the thread of `forward` and the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, batch: "Batch") -> None:
        self._loop = loop
        self._batch = batch
        self._events: deque[str] = deque()
        self._changed = asyncio.Event()
        self._room = threading.Semaphore(MOST_WAITING)
        self.is_over = False

    def send(self, text: str) -> None:
        """Called in the thread of `forward`."""
        if self.is_over:
            return
        self._room.acquire()
        self._events.append(text)
        self._loop.call_soon_threadsafe(self._changed.set)
        if not self._batch.has_begun:
            self._loop.call_soon_threadsafe(self._batch.begin)

    def wake(self) -> None:
        """`forward` has ended."""
        self._changed.set()

    async def events(self) -> AsyncIterator[str]:
        """One after the other, until `forward` has ended. Raises what that has raised."""
        try:
            while True:
                self._changed.clear()
                while self._events:
                    text = self._events.popleft()
                    self._room.release()
                    yield text
                if self._batch.has_ended:
                    break
                await self._changed.wait()
        finally:
            self.is_over = True
            self._room.release()  # whoever waits to send is told that nobody wants it
        if self._batch.error is not None:
            raise self._batch.error


class Batch:
    """One call of `forward`."""

    def __init__(self, size: int, told: Callable[[Any], Exception]) -> None:
        loop = asyncio.get_running_loop()
        self.items = [Item(loop, self) for _ in range(size)]
        self.has_begun = False
        self.has_ended = False
        self.error: BaseException | None = None
        self._told = told
        self._until = asyncio.Event()

    def send(self, text: str, index: int) -> None:
        """See `SSEWorker.send_stream_event`."""
        if not isinstance(text, str):
            raise TypeError(f"an event is a text, not {type(text).__name__}")
        self.items[index].send(text)
        if all(item.is_over for item in self.items):
            raise ClientError("every client of this batch is gone")  # to no one: the work ends

    def begin(self) -> None:
        """The first event is there."""
        self.has_begun = True
        self._until.set()

    def end(self, future: "asyncio.Future[Any]") -> None:
        """`forward` has returned, or raised."""
        error = future.exception()
        if isinstance(error, MosecError | MosecTimeoutError):
            error = self._told(error)
        self.error = error
        self.has_ended = True
        for item in self.items:
            item.wake()
        self._until.set()

    async def until_begun(self) -> None:
        """Until there is an event, or there will be none."""
        await self._until.wait()


def adapter(base: type[Any], told: Callable[[Any], Exception]) -> type[Any]:
    """The adapter of `SSEWorker`s."""

    class Streaming(base):  # type: ignore[misc]
        """One batch at a time: the next one begins when all streams of the last have ended."""

        streams = True
        max_streams = 1

        def _prepare(self) -> None:
            worker: SSEWorker = self.worker
            worker._send = lambda text, index: None  # of examples
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="forward")

        async def forward(self, batch: list[Any]) -> Any:
            """See `millstream.Worker`. Where `forward` raises before it has sent anything, that is
            an error of the whole batch, which is run in halves.
            """
            worker: SSEWorker = self.worker
            items = self.passing.received(batch)
            running = Batch(len(items), told)
            data = items if self.setting.max_batch_size > 1 else items[0]

            def run() -> None:
                worker._send = running.send  # not before: another call may not have ended yet
                worker.forward(data)

            call = asyncio.get_running_loop().run_in_executor(self._thread, run)
            call.add_done_callback(running.end)
            await running.until_begun()
            if running.error is not None and not running.has_begun:
                raise running.error
            return [item.events() for item in running.items]

    return Streaming

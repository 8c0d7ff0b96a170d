"""An event loop in a thread of its own, for hooks that are coroutines.

The caller may be in an event loop itself, as asynchronous tests are.
"""

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """See the module. `close` it in the end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="millstream-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """To its end. Raises what it raises; where the caller is interrupted, it is cancelled."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Whatever still runs in it is cancelled first."""
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()

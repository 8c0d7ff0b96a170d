"""Both clients behind one face, so that each test is a test of both."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from millstream import AsyncClient, Client
from millstream.client import Answer

T = TypeVar("T")


class Blocking:
    """Client."""

    def __init__(self, url: str, **options: Any) -> None:
        self._client = Client(url, **options)

    def ask(self, *args: Any, **options: Any) -> Answer:
        return self._client.ask(*args, **options)

    def stream(self, *args: Any, most: int = 1000, into: list[Any], **options: Any) -> None:
        values = self._client.stream(*args, **options)
        for value in values:
            into.append(value)
            if len(into) == most:
                break
        values.close()  # type: ignore[attr-defined]  # it is a generator

    def close(self) -> None:
        self._client.close()


class Asynchronous:
    """AsyncClient, in a loop that runs while it is asked."""

    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = AsyncClient(url, **options)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def ask(self, *args: Any, **options: Any) -> Answer:
        return self._run(self._client.ask(*args, **options))

    def stream(self, *args: Any, most: int = 1000, into: list[Any], **options: Any) -> None:
        async def collect() -> None:
            values = self._client.stream(*args, **options)
            try:
                async for value in values:
                    into.append(value)
                    if len(into) == most:
                        break
            finally:
                await values.aclose()  # type: ignore[attr-defined]  # it is a generator

        self._run(collect())

    def close(self) -> None:
        self._run(self._client.close())
        self._run(self._loop.shutdown_asyncgens())
        self._loop.close()

"""`AsyncClient`: calls for asyncio, on aiohttp. See `blocking` for the same without a loop."""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from millstream.client.attempts import Attempts
from millstream.client.blocking import DEFAULT_RETRIES, DEFAULT_TIMEOUT_S, DEFAULT_URL
from millstream.client.errors import CallFailed, NoAnswer
from millstream.client.events import Events, is_stream
from millstream.client.message import (
    ACCEPT,
    ACCEPT_STREAM,
    GRACE_S,
    Answer,
    Message,
    answer,
    failure,
    message,
    place,
)


class AsyncClient:
    """Calls the pipelines of one gateway. Any number of tasks of one loop may share it.

    Connections are kept and used again: close it, or use it as an async context manager.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """As `Client` takes them."""
        to = self._place = place(url)
        scheme = "https" if to.tls else "http"
        host = f"[{to.host}]" if ":" in to.host else to.host
        self._base = f"{scheme}://{host}:{to.port or 80}{to.prefix}"
        self._timeout_s = timeout_s
        self._retries = retries
        self._headers = dict(headers or {})
        self._session: aiohttp.ClientSession | None = None  # made in the loop that calls

    async def call(self, pipeline: str, value: Any, **options: Any) -> Any:
        """See `Client.call`."""
        return (await self.ask(pipeline, value, **options)).value

    async def ask(
        self,
        pipeline: str,
        value: Any,
        *,
        version: str = "",
        content_type: str = "",
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """See `Client.ask`."""
        request = message(
            pipeline,
            value,
            version=version,
            content_type=content_type,
            accept=ACCEPT,
            headers=self._headers_with(headers),
        )
        attempts = self._attempts(timeout_s)
        while True:
            try:
                async with self._limit(attempts), self._open(request, attempts) as response:
                    body = await response.read()
                return answer(response.status, _headers(response), body)
            except (CallFailed, NoAnswer) as error:
                await asyncio.sleep(attempts.pause_s(error, time.monotonic()))

    async def stream(
        self,
        pipeline: str,
        value: Any,
        *,
        version: str = "",
        content_type: str = "",
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Any]:
        """See `Client.stream`; to stop early, `aclose()` it."""
        request = message(
            pipeline,
            value,
            version=version,
            content_type=content_type,
            accept=ACCEPT_STREAM,
            headers=self._headers_with(headers),
        )
        attempts = self._attempts(timeout_s)
        response = None
        while response is None:
            try:
                response = await self._begin(request, attempts)
            except (CallFailed, NoAnswer) as error:
                await asyncio.sleep(attempts.pause_s(error, time.monotonic()))
        came = _headers(response)
        try:
            if not is_stream(response.status, came):
                async with self._limit(attempts):
                    body = await response.read()
                yield answer(response.status, came, body).value
                return
            events = Events(came["content-type"])
            waiting = self._attempts(timeout_s)
            while not (events.ended or events.failure):
                async with self._limit(waiting):
                    piece = await response.content.readany()
                if not piece:
                    events.finish()
                    return
                for each in events.feed(piece):
                    yield each
                    waiting = self._attempts(timeout_s)
            if events.failure:
                raise events.failure
        finally:
            response.close()

    async def close(self) -> None:
        """Close the connections; no call may follow."""
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------ one attempt

    def _headers_with(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        return {"X-Request-Id": uuid.uuid4().hex, **self._headers, **(headers or {})}

    def _attempts(self, timeout_s: float | None) -> Attempts:
        return Attempts(
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            retries=self._retries,
            now=time.monotonic(),
            chance=random.random,
        )

    def _open(self, request: Message, attempts: Attempts) -> Any:
        """A request's response, as aiohttp's context manager or to be awaited."""
        if self._session is None:
            path = self._place.socket_path
            # The number of calls at once is the caller's choice, so there is no limit here.
            connector = (
                aiohttp.UnixConnector(path, limit=0) if path else aiohttp.TCPConnector(limit=0)
            )
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=None)
            )
        return self._session.post(
            self._base + request.target,
            data=request.body,
            headers=request.timed(attempts.left_s(time.monotonic())),
            allow_redirects=False,
        )

    async def _begin(self, request: Message, attempts: Attempts) -> aiohttp.ClientResponse:
        """A response whose head is no error."""
        async with self._limit(attempts):
            response: aiohttp.ClientResponse = await self._open(request, attempts)
            if 200 <= response.status <= 299:
                return response
            async with response:
                body = await response.read()
        raise failure(response.status, _headers(response), body)

    @contextlib.asynccontextmanager
    async def _limit(self, attempts: Attempts) -> AsyncIterator[None]:
        """What waits in here keeps the deadline, and raises our errors in place of aiohttp's."""
        try:
            async with asyncio.timeout(attempts.left_s(time.monotonic()) + GRACE_S):
                yield
        except TimeoutError as error:
            raise attempts.too_late() from error
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(str(error) or type(error).__name__) from error


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): text for name, text in response.headers.items()}

"""One step of a stream: its next value as bytes, its end, or what became of an error.

Never raises. After an error, and when nobody wants more of it, the plug-in's generator is closed,
so that what it holds is let go of at once.
"""

import os
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Protocol, TypeVar

from broker.payload.errors import CannotTravel
from broker.wire import log
from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, Outcome, Streamed
from workers.loader import trimmed_trace
from workers.outcomes import ValueEncoder, answer_payload
from workers.streams import OpenStream
from workers.work import FAILED, raised, rejected

_T = TypeVar("_T")


class Runner(Protocol):
    """An event loop that is there when it is needed, such as `asyncio.Runner`."""

    def run(self, coro: Coroutine[Any, Any, _T], /) -> _T:
        """To its end."""


class Driven:
    """An async iterator as a plain one, for a plug-in whose `forward` has no event loop."""

    __slots__ = ("_runner", "_source")

    def __init__(self, source: AsyncIterator[Any], runner: Runner) -> None:
        self._source = source
        self._runner = runner

    def __iter__(self) -> "Driven":
        return self

    def __next__(self) -> Any:
        try:
            return self._runner.run(_anext(self._source))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """As of a generator."""
        aclose = getattr(self._source, "aclose", None)
        if aclose is not None:
            self._runner.run(_awaited(aclose))


async def _anext(source: AsyncIterator[Any]) -> Any:
    return await anext(source)


async def _awaited(call: Any) -> None:
    await call()


def step(stream: OpenStream, encode: ValueEncoder) -> Outcome:
    """Advance a plain iterator by one value."""
    try:
        return _outcome(next(stream.iterator), encode, stream)
    except StopIteration:
        return Streamed(stream.number)
    except BaseException as error:  # SystemExit too: a plug-in may not end the process
        return _failure(error, stream)


async def step_async(stream: OpenStream, encode: ValueEncoder) -> Outcome:
    """The same for an iterator of either kind, in an event loop."""
    try:
        if hasattr(stream.iterator, "__anext__"):
            return _outcome(await anext(stream.iterator), encode, stream)
        return _outcome(next(stream.iterator), encode, stream)
    except (StopIteration, StopAsyncIteration):
        return Streamed(stream.number)
    except BaseException as error:
        if stream.is_over and _is_cancellation(error):
            raise
        return _failure(error, stream)


def _is_cancellation(error: BaseException) -> bool:
    import asyncio  # noqa: PLC0415  a plain worker does without

    return isinstance(error, asyncio.CancelledError)


def close(stream: OpenStream) -> None:
    """Have a plug-in's plain generator let go of what it holds."""
    try:
        end = getattr(stream.iterator, "close", None)
        if end is not None:
            end()
    except BaseException as error:
        _note_unclosed(error, stream)


async def close_async(stream: OpenStream) -> None:
    """The same for either kind."""
    end = getattr(stream.iterator, "aclose", None)
    if end is None:
        close(stream)
        return
    try:
        await end()
    except BaseException as error:
        _note_unclosed(error, stream)


def _note_unclosed(error: BaseException, stream: OpenStream) -> None:
    log.error(
        "a stream raised when it was closed",
        error=error, request_id=stream.request_id, trace=trimmed_trace(error),
    )  # fmt: skip


def _outcome(value: Any, encode: ValueEncoder, stream: OpenStream) -> Outcome:
    """Raises what encoding raises, and a value that is an exception."""
    if isinstance(value, BaseException):
        raise value
    return answer_payload(*encode(value, stream.accept), "")


def _failure(error: BaseException, stream: OpenStream) -> Failure:
    told = raised(error)
    if told.reject is not None:
        return rejected(told.reject)
    error_id = os.urandom(6).hex()
    log.error(
        "stream failed",
        where="encode" if isinstance(error, CannotTravel) else "stream",
        error=told.summary, values=stream.number, error_id=error_id,
        request_id=stream.request_id, trace=told.trace,
    )  # fmt: skip
    return Failure(ErrorCode.WORKER_ERROR, FAILED, 0, error_id)

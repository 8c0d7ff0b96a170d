"""Calls a gateway from Python: arrays in, arrays out. `docs/client.md` has examples.

`Client` is for threads, `AsyncClient` for asyncio; what can go wrong is in `errors`. What to send,
what an answer means and whether to send again is decided without sockets (`message`, `attempts`,
`events`), once for both.
"""

from typing import TYPE_CHECKING

from millstream.client.blocking import Client
from millstream.client.errors import BadAnswer, CallFailed, ClientError, NoAnswer, TooLate
from millstream.client.message import Answer

if TYPE_CHECKING:
    from millstream.client.asynchronous import AsyncClient as AsyncClient
else:

    def __getattr__(name: str) -> object:
        if name != "AsyncClient":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from millstream.client.asynchronous import AsyncClient  # noqa: PLC0415  imports aiohttp

        return AsyncClient


__all__ = [
    "Answer",
    "AsyncClient",
    "BadAnswer",
    "CallFailed",
    "Client",
    "ClientError",
    "NoAnswer",
    "TooLate",
]

"""Which pages of other sites may call this gateway from a browser (CORS), and read its answers.

A browser asks beforehand, by OPTIONS, whether a page may send what is no plain form, and hides from
a page each answer, errors included, that does not name its origin. Cookies are none of ours.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence

from broker.wire.frames import Buffer
from gateway.connection import Connection, Service
from gateway.options import GatewayOptions

PREFLIGHT_S = 600
"""How long a browser may remember what it was told."""
_EXPOSED = "X-Request-Id, X-Model-Version, Server-Timing, Retry-After"
_NAMES = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z, -]*")


class Cors:
    """The header lines for a request by the origin of its page. Pure."""

    __slots__ = ("_any", "_lines")

    def __init__(self, origins: Sequence[str]) -> None:
        """`origins` as browsers write them; "*" stands for all."""
        self._any = _lines("*", "") if "*" in origins else ""
        self._lines = {origin: _lines(origin, "Vary: Origin\r\n") for origin in origins}

    def lines(self, origin: str) -> str:
        """For any answer; "" where pages of this origin may not read it."""
        return self._any or self._lines.get(origin, "")

    def preflight(self, headers: Mapping[str, str], allow: str) -> str:
        """For the answer to OPTIONS, which goes without `lines`; "" where it is none of CORS.

        `allow` are the methods of the route. Whichever headers a page wants to send it may.
        """
        wanted = headers.get("Access-Control-Request-Headers", "")
        is_asked = "Access-Control-Request-Method" in headers
        if (
            not is_asked
            or not self.lines(headers.get("Origin", ""))
            or not _NAMES.fullmatch(wanted)
        ):
            return ""
        return (
            f"Access-Control-Allow-Methods: {allow}\r\n"
            f"Access-Control-Allow-Headers: {wanted}\r\n"
            f"Access-Control-Max-Age: {PREFLIGHT_S}\r\n"
        )


def _lines(origin: str, vary: str) -> str:
    return (
        f"Access-Control-Allow-Origin: {origin}\r\n{vary}"
        f"Access-Control-Expose-Headers: {_EXPOSED}\r\n"
    )


class CorsConnection(Connection):
    """A connection whose every answer names the origin that may read it."""

    __slots__ = ("_cors",)

    def __init__(
        self,
        service: Service,
        options: GatewayOptions,
        loop: asyncio.AbstractEventLoop,
        cors: Cors,
    ) -> None:
        super().__init__(service, options, loop)
        self._cors = cors

    def answer(self, head: bytes, body: Buffer | list[Buffer], *, close: bool = False) -> None:
        """See `Connection`."""
        super().answer(head + self._allowed(), body, close=close)

    def begin(self, head: bytes) -> None:
        """See `Connection`."""
        super().begin(head + self._allowed())

    def _allowed(self) -> bytes:
        asked = self._head
        origin = asked.headers.get("Origin", "") if asked is not None else ""
        return self._cors.lines(origin).encode("latin-1")

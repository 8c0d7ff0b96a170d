"""Who calls: what one RPC's metadata and context say about the requests that come by it."""

import math
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from gateway import headers
from gateway.headers import clean


class Caller:
    """The same keys as the HTTP headers, in lower case, as gRPC has them."""

    __slots__ = ("_context", "address", "client", "metadata", "request_id")

    def __init__(self, context: Any) -> None:
        """`context` is that of a gRPC server call."""
        self._context = context
        self.metadata: Mapping[str, str] = _texts(context.invocation_metadata() or ())
        self.request_id = headers.request_id(self.metadata.get("x-request-id", ""))
        key = self.metadata.get("x-api-key")
        self.address = _address(context.peer())
        self.client = headers.client_number(self.address if key is None else key)
        """Stands for whom this is in fair shares: the same as over HTTP."""

    def in_trace(self, traceparent: str, tracestate: str) -> "Caller":
        """The same, of a request that is a span of ours: plug-ins are told of that one."""
        other = Caller.__new__(Caller)
        other._context, other.address = self._context, self.address
        other.client, other.request_id = self.client, self.request_id
        ours = {"traceparent": traceparent, "tracestate": tracestate}
        other.metadata = {**self.metadata, **ours}
        return other

    def get(self, name: str, default: str = "", /) -> str:
        """What a plug-in may see of a key, whatever its case."""
        return clean(self.metadata.get(name.lower(), default))

    def asked_s(self) -> float:
        """How long the client wants to wait from now on, 0 where it does not say.

        Raises BadHeader.
        """
        left_s = self._context.time_remaining()
        # One that is over already is not "no deadline": the smallest there is.
        asked_s = math.inf if left_s is None else max(left_s, 1e-6)
        value = self.metadata.get("x-timeout-ms")
        if value is not None:
            asked_s = min(asked_s, headers.timeout_s(value))
        return 0.0 if asked_s == math.inf else asked_s

    def priority(self) -> int | None:
        """The number that travels. Raises BadHeader."""
        value = self.metadata.get("x-priority")
        return None if value is None else headers.priority(value)


def _texts(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Keys that come more than once are joined, as in HTTP; those that end in -bin are no text."""
    texts: dict[str, str] = {}
    for key, value in metadata:
        if isinstance(value, str):
            texts[key] = f"{texts[key]}, {value}" if key in texts else value
    return texts


def _address(peer: str) -> str:
    """The host in what gRPC calls a peer: `ipv4:127.0.0.1:5000` or `ipv6:%5B::1%5D:5000`."""
    _, _, rest = peer.partition(":")
    return unquote(rest.rpartition(":")[0]).strip("[]")

"""The head of a request, read once: what its header lines say to us.

Pure. Clients that keep a connection send much the same head again and again, so what was read is
kept by its bytes (`KnownHeads`): the same bytes mean the same. For a small request that spares a
third of what it costs a gateway beside the system's calls.
"""

from collections.abc import Callable
from typing import Final

from broker.wire import frames
from broker.wire.errors import ErrorCode
from broker.wire.messages import RequestMeta
from broker.wire.trace import tracestate
from gateway import headers
from gateway.headers import BadHeader
from gateway.inflate import ENCODINGS
from gateway.parser import HttpVersion10, HttpVersion11, RawRequestMessage

MAX_KNOWN = 512
MAX_KNOWN_BYTES = 2048
"""A longer head is read each time; so the memory of those that are known is some megabytes."""
BLANK_LINE: Final = b"\r\n\r\n"

_READ: Final = frozenset(
    {
        "accept",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "traceparent",
        "x-api-key",
        "x-priority",
        "x-request-id",
        "x-timeout-ms",
    }
)


class Head:
    """See the module. Many requests may have the same."""

    __slots__ = (
        "accept",
        "asked_s",
        "bad",
        "client",
        "content_type",
        "encoding",
        "expects_continue",
        "headers",
        "is_plain",
        "is_spoken",
        "is_unique",
        "keeps",
        "message",
        "meta",
        "method",
        "path",
        "priority",
        "request_id",
        "size_bytes",
        "target",
        "traceparent",
        "tracestate",
        "unmet",
        "version",
    )

    def __init__(self, message: RawRequestMessage) -> None:
        method, path, version = message.method, message.path, message.version
        self.message = message
        self.method = method
        self.path = path
        self.headers = message.headers
        self.version = version
        is_newest = version == HttpVersion11
        self.is_spoken = is_newest or version == HttpVersion10
        self.target = path if method == "POST" and self.is_spoken else None
        """Of a request that may be for inference."""
        self.keeps = not (message.should_close or message.upgrade)
        """Whether the connection may be kept behind the answer."""
        self.is_plain = is_newest and self.keeps and method != "HEAD"
        """Whether its answer needs nothing said about the connection, and has a body."""
        found: dict[str, str] = {}  # the first of each
        for name, value in message.headers.items():
            if (known := name.lower()) in _READ and known not in found:
                found[known] = value
        self._read(found.get)
        self.tracestate = ""
        if self.traceparent:
            self.tracestate = tracestate(message.headers.getall("tracestate", ()))

    def _read(self, get: Callable[[str], str | None]) -> None:
        self.size_bytes = int(get("content-length") or 0)
        value = get("x-request-id")
        self.request_id = headers.request_id(value) if value else ""
        """What may be echoed of the client's own; "" where there is none."""
        value = get("x-api-key")
        self.client = None if value is None else headers.client_number(value)
        self.content_type = headers.clean(value) if (value := get("content-type")) else ""
        self.accept = headers.clean(value) if (value := get("accept")) else ""
        self.traceparent = headers.clean(value) if (value := get("traceparent")) else ""
        self.meta = b""
        """What plug-ins learn of it, but for the request's id; b"" in a head that is not kept."""
        self.is_unique = bool(self.request_id or self.traceparent)
        """Whether the same will hardly come again."""
        self.asked_s = 0.0  # 0 where it names no deadline
        self.priority = 1
        self.bad = ""
        """Which header has a value that it cannot have."""
        try:
            if (value := get("x-timeout-ms")) is not None:
                self.asked_s = headers.timeout_s(value)
            if (value := get("x-priority")) is not None:
                self.priority = headers.priority(value)
        except BadHeader as error:
            self.bad = str(error)
        self.unmet: tuple[ErrorCode, str] | None = None
        """What it asks for that cannot be."""
        self.expects_continue = False
        self.encoding = ""
        if (value := get("content-encoding")) is not None:
            self._read_encoding(value.strip().lower())
        if (value := get("expect")) is not None:
            self.expects_continue = self.version == HttpVersion11
            if value.strip().lower() != "100-continue":
                self.unmet = ErrorCode.EXPECTATION_FAILED, "only Expect: 100-continue is known"

    def _read_encoding(self, encoding: str) -> None:
        if encoding in ENCODINGS:
            self.encoding = encoding
        elif encoding not in ("identity", ""):
            text = "Content-Encoding must be gzip, deflate or zstd"
            self.unmet = ErrorCode.UNSUPPORTED_TYPE, text


class KnownHeads:
    """Heads by their bytes, blank line included. Such a head was a whole request together with as
    many bytes behind it as its length says, on a connection that is kept.
    """

    __slots__ = ("_heads", "get")

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}
        self.get = self._heads.get

    def keep(self, data: bytes, head: Head, body: bytes) -> bool:
        """`head` and `body` were read from the beginning of `data`, which came at once: keep the
        head if it may come again. Returns whether there was nothing else in `data`.
        """
        end = data.find(BLANK_LINE) + len(BLANK_LINE)
        if not len(body) == head.size_bytes == len(data) - end:
            return False
        if end <= MAX_KNOWN_BYTES and head.is_plain and not head.is_unique:
            if len(self._heads) >= MAX_KNOWN:
                self._heads.clear()
            head.meta = frames.encode_nameless(
                RequestMeta("", head.content_type, head.accept, head.traceparent)
            )
            self._heads[data[:end]] = head
        return True

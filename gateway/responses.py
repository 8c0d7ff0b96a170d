"""Response heads as ready bytes.

A head ends before its blank line: the connection adds `Connection` where it must, and the end.
"""

from email.utils import formatdate
from http import HTTPStatus

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in HTTPStatus}


class Heads:
    """Makes heads; `renew` at least once a second keeps their Date right."""

    __slots__ = ("_common", "_ok", "_server_line")

    def __init__(self, wall_s: float, server: str = "") -> None:
        """`server`: what the header of that name says; "": there is none."""
        self._server_line = f"Server: {server}\r\n" if server else ""
        self.renew(wall_s)

    def renew(self, wall_s: float) -> None:
        """Take over the time, in seconds since 1970."""
        self._common = f"\r\nDate: {formatdate(wall_s, usegmt=True)}\r\n{self._server_line}"
        self._ok = _STATUS_LINES[200] + self._common + "Content-Type: "

    def result(  # every part of it is on the path of each request
        self,
        content_type: str,
        size_bytes: int,
        request_id: str,
        version: str,
        server_timing: str,
    ) -> bytes:
        """The head of a result. All values must be fit for a header."""
        version_line = f"X-Model-Version: {version}\r\n" if version else ""
        timing_line = f"Server-Timing: {server_timing}\r\n" if server_timing else ""
        return (
            f"{self._ok}{content_type}\r\nContent-Length: {size_bytes}\r\n"
            f"X-Request-Id: {request_id}\r\n{version_line}{timing_line}"
        ).encode("latin-1")

    def empty(self, extra: str) -> bytes:
        """The head of an answer that has no body (204), and therefore no length."""
        return f"{_STATUS_LINES[204]}{self._common}{extra}".encode("latin-1")

    def stream(self, content_type: str, request_id: str, version: str, server_timing: str) -> bytes:
        """The head of a result that goes out value by value; how that is framed is added later."""
        version_line = f"X-Model-Version: {version}\r\n" if version else ""
        timing_line = f"Server-Timing: {server_timing}\r\n" if server_timing else ""
        return (
            f"{self._ok}{content_type}\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"
            f"X-Request-Id: {request_id}\r\n{version_line}{timing_line}"
        ).encode("latin-1")

    def plain(
        self,
        status: int,
        size_bytes: int,
        *,
        content_type: str = "application/json",
        request_id: str = "",
        extra: str = "",
    ) -> bytes:
        """Any other head; `extra` are whole header lines."""
        line = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Status"
        id_line = f"X-Request-Id: {request_id}\r\n" if request_id else ""
        return (
            f"{line}{self._common}Content-Type: {content_type}\r\n"
            f"Content-Length: {size_bytes}\r\n{id_line}{extra}"
        ).encode("latin-1")

"""A gateway that is scripted: it answers each request with the next bytes of a list."""

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import NamedTuple

PATIENCE_S = 15.0
HANG_UP = b""
"""In a script: the connection ends without an answer."""


class Seen(NamedTuple):
    """A request that came in; header names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


def reply(
    body: bytes = b'"done"',
    status: str = "200 OK",
    content_type: str = "application/json",
    *extra: str,
) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *extra, "", ""]).encode() + body


def refusal(code: str, status: str, *extra: str) -> bytes:
    """An error in the usual form."""
    body = f'{{"error":{{"code":"{code}","message":"so it is","request_id":"r1"}}}}'
    return reply(body.encode(), status, "application/json", *extra)


def chunked(content_type: str, *pieces: bytes, whole: bool = True) -> bytes:
    """A streamed answer, with its end or without."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
    return head.encode() + b"".join(chunks) + (b"0\r\n\r\n" if whole else b"")


class ScriptedServer:
    """A context manager. After the last answer of its script a connection stays open, unless the
    next line is `HANG_UP`; a request beyond the script gets no answer.
    """

    def __init__(self, script: Sequence[bytes], *, path: str = "") -> None:
        self.seen: list[Seen] = []
        self.hung_up = threading.Event()
        """A client has ended its connection."""
        self._script = list(script)
        if path:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(path)
            self._listener.listen()
            self.url = f"unix:{path}"
        else:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._connections: list[socket.socket] = []

    def __enter__(self) -> "ScriptedServer":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(PATIENCE_S)
        for connection in self._connections:
            with contextlib.suppress(OSError):  # it has ended already
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            number = len(self._connections)
            self._threads.append(threading.Thread(target=self._serve, args=(connection, number)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection.makefile("rb") as stream:
            while line := stream.readline():
                headers = {}
                while header := stream.readline().decode().strip():
                    name, _, value = header.partition(": ")
                    headers[name.lower()] = value
                body = stream.read(int(headers.get("content-length", 0)))
                self.seen.append(Seen(line.decode().strip(), headers, body, number))
                if not self._script:
                    continue
                answer = self._script.pop(0)
                hangs_up = answer == HANG_UP
                if self._script[:1] == [HANG_UP] and not hangs_up:
                    hangs_up = True
                    self._script.pop(0)  # now: once it has the answer, the client may ask another
                if answer != HANG_UP:
                    connection.sendall(answer)
                if hangs_up:
                    with contextlib.suppress(OSError):  # the client may have been quicker
                        connection.shutdown(socket.SHUT_RDWR)
                    return
        self.hung_up.set()

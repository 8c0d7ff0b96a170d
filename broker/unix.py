"""The broker's ROUTER on a Unix socket, without libzmq's threads: for peers on this host.

What libzmq's ROUTER does with ROUTER_MANDATORY and ROUTER_HANDOVER: a peer that is not there is
told of, and one that comes back under its routing id takes its own place again. Never blocks.
"""

import os
import select
import socket
import time
from collections import deque
from collections.abc import KeysView, Sequence
from contextlib import suppress

from broker.awake import AWAKE_S, Wakefulness
from broker.router import NoRoute
from broker.wire import zmtp
from broker.wire.cores import usable_cores
from broker.wire.errors import ProtocolError
from broker.wire.frames import Buffer

BACKLOG = 1024
HIGH_WATER_MESSAGES = 2000
"""Messages that wait for a peer that does not read, before it `send`s no more to it."""
MOST_MESSAGES = 64
"""Taken of one peer before the others get their turn."""
HANDSHAKE_S = 30.0
"""Who has not shaken hands by then is cut off."""
LINGER_S = 2.0
_AT_ONCE = 1000
"""Buffers that the system takes at once, at most: IOV_MAX is 1024."""
_ACCEPT_AGAIN_S = 0.1
_PEERS = (b"DEALER", b"REQ", b"ROUTER")


class _Connection:
    """One peer's, from its first byte to its last."""

    __slots__ = ("fd", "identity", "opened", "reader", "sends", "stream", "unsent", "wants_room")

    def __init__(self, stream: socket.socket, reader: zmtp.Reader, now: float) -> None:
        self.stream = stream
        self.fd = stream.fileno()
        self.reader = reader
        self.opened = now
        self.identity = b""
        self.unsent: deque[list[Buffer]] = deque()  # each a message, the first one perhaps in part
        self.wants_room = False


class UnixRouter:
    """A bound ROUTER."""

    def __init__(self, path: str) -> None:
        """Raises OSError where it cannot listen there."""
        self._listener = _listen(path)
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._accepts_at = 0.0  # while there are no files left: when to try again
        self._scratch = memoryview(bytearray(zmtp.ROOM_BYTES))
        self._connections: dict[int, _Connection] = {}  # by descriptor
        self._strangers: dict[int, _Connection] = {}  # have not shaken hands yet
        self._peers: dict[bytes, _Connection] = {}
        self._incoming: deque[tuple[bytes, list[Buffer]]] = deque()
        self._wakefulness = Wakefulness(usable_cores())
        self._held: list[_Connection] = []  # have said more than it is their turn to

    # -------------------------------------------------------------- waiting

    def watch(self, fd: int) -> None:
        """Have `wait` also end when this descriptor is readable."""
        self._poll.register(fd, select.EPOLLIN)

    def forget(self, fd: int) -> None:
        """The reverse of `watch`."""
        self._poll.unregister(fd)

    def wait(self, timeout_s: float, *, is_quiet: bool = False) -> list[int]:
        """Blocks until something has come, at most so long; the watched ones that are readable."""
        if self._incoming:
            return []
        if self._held:
            timeout_s = 0.0
            held, self._held = self._held, []
            for one in held:
                self._read(one)
        elif self._accepts_at:
            timeout_s = min(timeout_s, _ACCEPT_AGAIN_S)
        watched = []
        for fd, events in self._stirred(timeout_s, is_quiet):
            connection = self._connections.get(fd)
            if connection is None:
                if fd == self._listener.fileno():
                    self._accept()
                else:
                    watched.append(fd)
                continue
            if events & select.EPOLLOUT:
                self._flush(connection)
            if events & ~select.EPOLLOUT and not connection.reader.is_held:
                self._read(connection)
        if self._accepts_at or self._strangers:
            self._tend(time.monotonic())
        return watched

    def _stirred(self, timeout_s: float, is_quiet: bool) -> list[tuple[int, int]]:
        """What epoll tells."""
        wakefulness = self._wakefulness
        began = time.monotonic()
        if wakefulness.pays and is_quiet and timeout_s > 0.0:
            until = began + min(timeout_s, AWAKE_S)
            while time.monotonic() < until:
                if found := self._poll.poll(0.0):
                    wakefulness.caught()
                    return found
            wakefulness.missed()
        found = self._poll.poll(timeout_s)
        wakefulness.slept(time.monotonic() - began)
        return found

    def _tend(self, now: float) -> None:
        if self._accepts_at and now >= self._accepts_at:
            self._accepts_at = 0.0
            self._poll.register(self._listener, select.EPOLLIN)
        for stranger in list(self._strangers.values()):
            if now - stranger.opened >= HANDSHAKE_S:
                self._end(stranger)

    # -------------------------------------------------------------- peers

    @property
    def peers(self) -> KeysView[bytes]:
        """The routing ids of those who are there."""
        return self._peers.keys()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            except OSError:  # no files are left; who waits in the backlog goes on waiting
                self._poll.unregister(self._listener)
                self._accepts_at = time.monotonic() + _ACCEPT_AGAIN_S
                return
            stream.setblocking(False)
            self._begin(stream)

    def _begin(self, stream: socket.socket) -> None:
        connection: _Connection

        def take(frames: list[Buffer]) -> None:
            if not connection.identity:
                self._welcome(connection)
            self._incoming.append((connection.identity, frames))

        reader = zmtp.Reader(self._scratch, _PEERS, take, MOST_MESSAGES)
        connection = _Connection(stream, reader, time.monotonic())
        self._connections[connection.fd] = self._strangers[connection.fd] = connection
        self._poll.register(connection.fd, select.EPOLLIN)
        self._write(connection, [zmtp.opening(zmtp.ROUTER)])

    def _welcome(self, connection: _Connection) -> None:
        """It has shaken hands."""
        del self._strangers[connection.fd]
        identity = connection.reader.identity or b"\0" + os.urandom(4)
        connection.identity = identity
        before = self._peers.get(identity)
        self._peers[identity] = connection
        if before is not None:
            self._end(before)

    def _end(self, connection: _Connection) -> None:
        if self._connections.get(connection.fd) is not connection:
            return  # it has ended; the descriptor may be another's by now
        del self._connections[connection.fd]
        self._strangers.pop(connection.fd, None)
        self._forget(connection)
        self._poll.unregister(connection.fd)
        connection.stream.close()

    def _forget(self, connection: _Connection) -> None:
        """Nothing is sent to it any more."""
        connection.unsent.clear()
        if self._peers.get(connection.identity) is connection:
            del self._peers[connection.identity]

    # -------------------------------------------------------------- in

    def _read(self, connection: _Connection) -> None:
        reader = connection.reader
        count = 1
        try:
            if reader.is_held:
                reader.resume()
            else:
                count = connection.stream.recv_into(reader.space())
                if count:
                    reader.received(count)
        except BlockingIOError:
            return
        except (OSError, ProtocolError):
            count = 0
        if not count:
            self._end(connection)
            return
        if reader.is_held:
            self._held.append(connection)
        if reader.replies:
            self._reply(connection)
        if not connection.identity and reader.is_ready:
            self._welcome(connection)

    def _reply(self, connection: _Connection) -> None:
        for reply in connection.reader.replies:
            self._push(connection, [reply])
        connection.reader.replies.clear()

    def receive(self) -> tuple[bytes, list[Buffer]] | None:
        """The next message that `wait` has found: its sender's routing id, and its frames."""
        return self._incoming.popleft() if self._incoming else None

    # -------------------------------------------------------------- out

    def send(self, peer: bytes, frames: Sequence[Buffer]) -> bool:
        """Whether it is taken: not where the peer does not read. The frames must not change. Raises
        NoRoute.
        """
        connection = self._peers.get(peer)
        if connection is None:
            raise NoRoute
        if len(connection.unsent) >= HIGH_WATER_MESSAGES:
            return False
        self._push(connection, zmtp.framed(frames))
        if self._peers.get(peer) is not connection:
            raise NoRoute
        return True

    def _push(self, connection: _Connection, buffers: list[Buffer]) -> None:
        if connection.unsent:
            connection.unsent.append(buffers)
        else:
            self._write(connection, buffers)

    def _write(self, connection: _Connection, buffers: list[Buffer]) -> bool:
        """Whether all of it has left; the rest is the first of what waits."""
        stream = connection.stream
        while buffers:
            now = buffers[:_AT_ONCE]
            try:
                sent = stream.send(now[0]) if len(now) == 1 else stream.sendmsg(now)
            except BlockingIOError:
                break
            except OSError:  # what it said before is still to be read, and then the end
                with suppress(OSError):
                    stream.shutdown(socket.SHUT_WR)
                self._forget(connection)
                return False
            if len(buffers) == 1 and sent == len(buffers[0]):
                return True
            buffers = zmtp.rest_of(now, sent) + buffers[_AT_ONCE:]
        if not buffers:
            return True
        connection.unsent.appendleft(buffers)
        if not connection.wants_room:
            connection.wants_room = True
            self._poll.modify(connection.fd, select.EPOLLIN | select.EPOLLOUT)
        return False

    def _flush(self, connection: _Connection) -> None:
        unsent = connection.unsent
        while unsent and self._write(connection, unsent.popleft()):
            pass
        if unsent:
            return
        connection.wants_room = False
        self._poll.modify(connection.fd, select.EPOLLIN)

    # -------------------------------------------------------------- end

    def close(self) -> None:
        """Ends all connections; what is unsent still leaves, within `LINGER_S`."""
        until = time.monotonic() + LINGER_S
        self._incoming.clear()
        while any(connection.unsent for connection in self._connections.values()):
            left_s = until - time.monotonic()
            if left_s <= 0.0:
                break
            self.wait(left_s)
            self._incoming.clear()
        for connection in list(self._connections.values()):
            self._end(connection)
        self._listener.close()
        self._poll.close()


def _listen(path: str) -> socket.socket:
    """In the place of a socket that a broker left there."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)
        listener.setblocking(False)
        listener.bind(path)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener

"""A worker's DEALER on a Unix socket: what `Link` needs of it, and the waiting."""

import select
import socket
import time
from collections.abc import Sequence

from broker.wire.dealer import Dealer
from broker.wire.frames import Buffer

PATIENCE_S = 0.2
"""A broker that takes nothing for so long has stopped, or is lost; until then its messages are
waited with, since nothing leaves while `forward` runs."""
LINGER_S = 1.0
_RETRY_S = 0.01
_NEVER = float("inf")


class UnixDealer:
    """The socket to a broker on this host, and what else its owner waits for."""

    def __init__(self, path: str, identity: bytes) -> None:
        self._path = path
        self._dealer = Dealer(self._connect, identity, ending=lambda: self._arm(-1, 0))
        self._poll = select.poll()
        self._armed = (-1, 0)
        self._epoll: select.epoll | None = None
        self._is_stalled = False  # it was waited for in vain
        self._dealer.connect()

    def _connect(self) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.setblocking(False)
            stream.connect(self._path)
        except OSError:
            stream.close()
            raise
        if self._epoll is not None:
            self._epoll.register(stream, select.EPOLLIN)
        return stream

    @property
    def fd(self) -> int:
        """For event loops: readable when something has come, whatever becomes of the connection."""
        if self._epoll is None:
            self._epoll = select.epoll()
            if self._dealer.fd >= 0:
                self._epoll.register(self._dealer.fd, select.EPOLLIN)
        return self._epoll.fileno()

    @property
    def trouble(self) -> str:
        """Why what listens there is of no use; "" as long as nothing is known against it."""
        return self._dealer.trouble

    def next_due(self, *, wants_to_send: bool) -> float:
        """When event loops should come back though nothing has come."""
        if (wants_to_send or self._dealer.has_unsent) and self._dealer.is_ready:
            return time.monotonic() + _RETRY_S
        return self._dealer.due

    def watch(self, fd: int) -> None:
        """Have `wait` also end when this descriptor is readable."""
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        """The reverse of `watch`."""
        self._poll.unregister(fd)

    def wait(self, timeout_s: float, *, wants_to_send: bool) -> list[int]:
        """Blocks until there may be something to do, at most so long; the watched ones readable."""
        dealer = self._dealer
        dealer.connect()
        wanted = select.POLLIN
        if dealer.has_more:
            timeout_s = 0.0
        elif dealer.due < _NEVER:
            timeout_s = min(timeout_s, dealer.due - time.monotonic())
        elif (wants_to_send or dealer.has_unsent) and dealer.is_ready:
            wanted |= select.POLLOUT
        fd = dealer.fd
        if self._armed != (fd, wanted):
            self._arm(fd, wanted)
        # Rounded up, or the last millisecond before a moment that is due would be spent spinning.
        ready = self._poll.poll(max(0, int(timeout_s * 1000 + 0.999)))
        if not dealer.is_ready:
            dealer.has_input()  # it shakes hands
        elif dealer.has_unsent:
            dealer.flush()
        return [each for each, _ in ready if each != fd]

    def _arm(self, fd: int, wanted: int) -> None:
        before, _ = self._armed
        if before >= 0:
            self._poll.unregister(before)
        if fd >= 0:
            self._poll.register(fd, wanted)
        self._armed = (fd, wanted)

    def wait_to_send(self, timeout_s: float) -> bool:
        """Whether something can be sent, at the latest after so long."""
        dealer = self._dealer
        until = time.monotonic() + timeout_s
        while True:
            dealer.connect()
            if dealer.is_ready:
                return self._has_room(max(0.0, until - time.monotonic()))
            now = time.monotonic()
            if now >= until:
                return False
            if dealer.fd < 0:
                time.sleep(max(0.0, min(until, dealer.due) - now))
            elif _stirs(dealer.fd, select.POLLIN, until - now):
                dealer.has_input()  # it shakes hands

    def _has_room(self, timeout_s: float) -> bool:
        return _stirs(self._dealer.fd, select.POLLOUT, timeout_s)

    def receive(self) -> list[Buffer] | None:
        """The next message that has come, if one has."""
        parts = self._dealer.receive()
        if parts is None:
            self._dealer.connect()
        return parts

    def has_input(self) -> bool:
        """Whether `receive` has something to return."""
        return self._dealer.has_input()

    def send(self, parts: Sequence[Buffer]) -> bool:
        """Whether it is taken. Waits for the whole of it to leave, within bounds; the buffers may
        change afterwards.
        """
        dealer = self._dealer
        taken = dealer.send(parts)
        if not taken and dealer.is_ready and not self._is_stalled:
            self._is_stalled = not self._has_room(PATIENCE_S)
            taken = dealer.send(parts)
        if dealer.has_unsent:
            self._finish(PATIENCE_S)
        elif taken:
            self._is_stalled = False
        return taken

    def _finish(self, patience_s: float) -> None:
        dealer = self._dealer
        while dealer.has_unsent and not self._is_stalled:
            self._is_stalled = not self._has_room(patience_s)
            dealer.flush()
        if dealer.has_unsent:
            dealer.own_unsent()
        else:
            self._is_stalled = False

    def close(self) -> None:
        """Ends the connection; what was sent last still leaves, if the broker reads."""
        self._is_stalled = False
        self._finish(LINGER_S)
        self._dealer.close()
        if self._epoll is not None:
            self._epoll.close()


def _stirs(fd: int, wanted: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, wanted)
    return bool(poll.poll(int(timeout_s * 1000 + 0.999)))

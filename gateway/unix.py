"""The gateway's DEALER on a Unix socket, in its event loop."""

import asyncio
import select
import socket
import time
from collections.abc import Callable, Sequence

from broker.wire.dealer import Dealer
from broker.wire.frames import Buffer

LINGER_S = 0.3
"""For the last answers and the goodbye, within what a process manager allows for an exit."""


class UnixDealer:
    """The socket to a broker on this host; connects again by itself, once it was started."""

    def __init__(self, path: str, identity: bytes) -> None:
        self._path = path
        self._dealer = Dealer(self._connect, identity, ending=self._lost)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._readable: Callable[[], None] = _ignore
        self._writable: Callable[[], None] = _ignore
        self._writes = False  # waits for room
        self._timer: asyncio.TimerHandle | None = None

    def _connect(self) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.setblocking(False)
            stream.connect(self._path)
        except OSError:
            stream.close()
            raise
        return stream

    @property
    def trouble(self) -> str:
        """Why what listens there is of no use; "" as long as nothing is known against it."""
        return self._dealer.trouble

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        readable: Callable[[], None],
        writable: Callable[[], None],
    ) -> None:
        """Begin: the loop calls these when something has come, and when there is a connection, or
        room in it, after there was none.
        """
        self._loop = loop
        self._readable = readable
        self._writable = writable
        self._try()

    def _try(self) -> None:
        self._timer = None
        if self._loop is None:
            return
        self._dealer.connect()
        if self._dealer.fd < 0:
            wait_s = max(0.001, self._dealer.due - time.monotonic())
            self._timer = self._loop.call_later(wait_s, self._try)
            return
        self._loop.add_reader(self._dealer.fd, self._shake_hands)

    def _shake_hands(self) -> None:
        dealer = self._dealer
        has_input = dealer.has_input()
        if self._loop is None or not dealer.is_ready:
            return
        self._loop.add_reader(dealer.fd, self._readable)
        self._writable()
        if has_input:
            self._readable()

    def _lost(self) -> None:
        """The connection is about to end."""
        if self._loop is None:
            return
        fd = self._dealer.fd
        if fd >= 0:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
        self._writes = False
        if self._timer is None:
            self._timer = self._loop.call_later(0.001, self._try)

    def receive(self) -> list[Buffer] | None:
        """The next message that has come, if one has."""
        return self._dealer.receive()

    @property
    def has_more(self) -> bool:
        """Whether another message is there that the loop may not tell of."""
        return self._dealer.has_more

    def send(self, parts: Sequence[Buffer]) -> bool:
        """False where it takes nothing at present."""
        dealer = self._dealer
        taken = dealer.send(parts)
        if (not taken or dealer.has_unsent) and not self._writes:
            self._wait_for_room()
        return taken

    def _wait_for_room(self) -> None:
        if self._loop is not None and self._dealer.is_ready:
            self._writes = True
            self._loop.add_writer(self._dealer.fd, self._has_room)

    def _has_room(self) -> None:
        if not self._dealer.flush():
            return
        if self._loop is not None:
            self._loop.remove_writer(self._dealer.fd)
        self._writes = False
        self._writable()

    def close(self) -> None:
        """The end; what is unsent still leaves, within bounds."""
        dealer = self._dealer
        until = time.monotonic() + LINGER_S
        while dealer.has_unsent and dealer.fd >= 0:
            poll = select.poll()
            poll.register(dealer.fd, select.POLLOUT)
            left_s = until - time.monotonic()
            if left_s <= 0.0 or not poll.poll(int(left_s * 1000 + 0.999)):
                break
            dealer.flush()
        self.stop()
        dealer.close()

    def stop(self) -> None:
        """The loop is told of nothing any more."""
        fd = self._dealer.fd
        if self._loop is not None and fd >= 0:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop = None


def _ignore() -> None:
    """Before `start` nothing comes."""

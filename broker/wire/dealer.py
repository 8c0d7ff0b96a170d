"""A DEALER to the broker's ROUTER on this host, on a Unix socket and without libzmq's threads.

With libzmq each hop wakes a thread of its own on either side, which costs a request on an idle
machine more than all that we do with it. So peers and broker of one host speak ZMTP themselves;
over tcp, and with keys, they have libzmq. Never blocks, and opens no socket: its owner gives it the
means to.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from broker.wire import zmtp
from broker.wire.errors import ProtocolError
from broker.wire.frames import Buffer

RECONNECT_S = 0.05
RECONNECT_MOST_S = 0.5
_AT_ONCE = 1000
"""Buffers that the system takes at once, at most: IOV_MAX is 1024."""
_NEVER = float("inf")


class Stream(Protocol):
    """What a dealer needs of a connected, non-blocking stream socket."""

    def fileno(self) -> int:
        """Its descriptor."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Bytes that have come; 0 at the end."""

    def send(self, buffer: Buffer, /) -> int:
        """Bytes that were taken."""

    def sendmsg(self, buffers: Sequence[Buffer], /) -> int:
        """Bytes that were taken."""

    def close(self) -> None:
        """The end."""


class Dealer:
    """A connection that is made again whenever it is lost; what was under way then is lost, too."""

    def __init__(
        self, connect: Callable[[], Stream], identity: bytes, *, ending: Callable[[], None]
    ) -> None:
        """`connect` raises OSError where nobody listens. `ending` is called before a connection is
        closed, as its descriptor may be somebody else's the moment after.
        """
        self.trouble = ""
        """Why what listens there is of no use; "" as long as nothing is known against it."""
        self.due = 0.0
        """When it is worth trying to connect again: never while there is a connection."""
        self._connect = connect
        self._ending = ending
        self._opening = zmtp.opening(zmtp.DEALER, identity)
        self._messages: deque[list[Buffer]] = deque()
        self._scratch = memoryview(bytearray(zmtp.ROOM_BYTES))
        self._reader = self._make_reader()
        self._stream: Stream | None = None
        self._unsent: list[Buffer] = []
        self._pause_s = RECONNECT_S

    # -------------------------------------------------------------- life

    def connect(self) -> None:
        """Tries to make a connection, if there is none and it is time to."""
        if self._stream is not None or (now := time.monotonic()) < self.due:
            return
        self._delay(now)
        try:
            self._stream = self._connect()
        except OSError:
            return
        self.due = _NEVER
        self._reader = self._make_reader()
        self._write([self._opening])

    @property
    def is_ready(self) -> bool:
        """Whether there is a connection, and the other end has shaken hands: before, ZMTP forbids
        to send messages.
        """
        return self._stream is not None and self._reader.is_ready

    def _make_reader(self) -> zmtp.Reader:
        return zmtp.Reader(self._scratch, (zmtp.ROUTER,), self._messages.append)

    def _delay(self, now: float) -> None:
        self.due = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, RECONNECT_MOST_S)

    def _lose(self) -> None:
        if self._stream is None:
            return
        self.close()
        self._unsent = []
        if self._reader.is_ready:
            self._pause_s = RECONNECT_S
            self.due = 0.0
        else:  # it is no broker, or one that ends
            self._delay(time.monotonic())

    def close(self) -> None:
        """Ends the connection. What was sent can still be read at the other end."""
        if self._stream is not None:
            self._ending()
            self._stream.close()
            self._stream = None

    @property
    def fd(self) -> int:
        """The descriptor of the connection; -1 without one."""
        return -1 if self._stream is None else self._stream.fileno()

    # -------------------------------------------------------------- out

    @property
    def has_unsent(self) -> bool:
        """Whether part of a message waits for room in the connection."""
        return bool(self._unsent)

    def send(self, parts: Sequence[Buffer]) -> bool:
        """False where nothing of it is taken at present. What is taken may be `has_unsent` in part:
        those buffers must stay as they are until `flush` is through, or `own_unsent` called.
        """
        if not self.is_ready or (self._unsent and not self.flush()):
            return False
        return self._write(zmtp.framed(parts)) > 0

    def own_unsent(self) -> None:
        """Copies what waits to be sent."""
        self._unsent = [bytes(buffer) for buffer in self._unsent]

    def flush(self) -> bool:
        """Sends what waits, as far as there is room; whether there may be more."""
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            if not self._write(unsent) and self._stream is not None:
                self._unsent = unsent
        return self.is_ready and not self._unsent

    def _write(self, buffers: list[Buffer]) -> int:
        """Bytes that were taken; the rest of them waits if there are any."""
        assert self._stream is not None
        total = 0
        while buffers:
            now = buffers[:_AT_ONCE]
            try:
                sent = self._stream.send(now[0]) if len(now) == 1 else self._stream.sendmsg(now)
            except BlockingIOError:
                break
            except OSError:
                self._lose()
                return 0
            total += sent
            if len(buffers) == 1 and sent == len(buffers[0]):
                return total
            buffers = zmtp.rest_of(now, sent) + buffers[_AT_ONCE:]
        if total:
            self._unsent = buffers
        return total

    # -------------------------------------------------------------- in

    def receive(self) -> list[Buffer] | None:
        """The next message that has come, if one has."""
        if not self._messages and not self.has_input():
            return None
        return self._messages.popleft()

    @property
    def has_more(self) -> bool:
        """Whether `receive` has something to return that came together with what it has."""
        return bool(self._messages)

    def has_input(self) -> bool:
        """Whether `receive` has something to return."""
        while not self._messages:
            if self._stream is None:
                return False
            reader = self._reader
            try:
                count = self._stream.recv_into(reader.space())
            except BlockingIOError:
                return False
            except OSError:
                count = 0
            if not count:
                self._lose()
                return False
            try:
                reader.received(count)
            except ProtocolError as error:
                self.trouble = str(error)
                self._lose()
                return False
            if reader.replies:
                self._reply()
            if self.trouble and reader.is_ready:
                self.trouble = ""
        return True

    def _reply(self) -> None:
        replies, self._reader.replies = self._reader.replies, []
        if not self._unsent:  # else it does not read, and asks for nothing but a sign of life
            self._write(list(replies))

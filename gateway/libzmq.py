"""The gateway's DEALER of libzmq, for a broker on another host, or one that asks for keys."""

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import zmq

from broker.wire.address import Address
from broker.wire.frames import MAX_MESSAGE_BYTES, Buffer
from broker.wire.keys import ClientKeys

HIGH_WATER_MESSAGES = 10_000
RECONNECT_MS = 50
RECONNECT_MAX_MS = 500
LINGER_MS = 300
"""For the last answers and the goodbye, within what a process manager allows for an exit."""
# Plain numbers: pyzmq's flags are enums, and joining two of those costs more than sending.
_DONTWAIT = int(zmq.DONTWAIT)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)


class LibzmqDealer:
    """The socket to a broker anywhere. Its descriptor signals edges only, so that after every send
    one must look whether something `has_more`.
    """

    trouble = ""
    """libzmq keeps to itself what it finds at the other end."""

    def __init__(self, address: Address, identity: bytes, keys: ClientKeys | None) -> None:
        """Opens the socket and connects it; raises OSError where that cannot be."""
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.DEALER)
        _configure(self._socket, identity, keys)
        self._socket.set(zmq.IPV6, address.ipv6)
        try:
            self._socket.connect(address.text)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise OSError(error.errno, str(error)) from None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        readable: Callable[[], None],
        writable: Callable[[], None],
    ) -> None:
        """Begin: the loop calls `readable` when something has come."""
        self._loop = loop
        loop.add_reader(self._descriptor(), readable)
        writable()

    def receive(self) -> list[Buffer] | None:
        """The next message that has come, if one has: a header that is copied, and buffers that
        are not.
        """
        try:
            frame = self._socket.recv(_DONTWAIT, copy=False)
        except zmq.Again:
            return None
        parts: list[Buffer] = [frame.bytes]
        while frame.more:
            frame = self._socket.recv(_DONTWAIT, copy=False)
            parts.append(frame.buffer)
        return parts

    @property
    def has_more(self) -> bool:
        """Whether another message is there that the loop may not tell of."""
        return bool(int(self._socket.get(_EVENTS)) & _POLLIN)

    def send(self, parts: Sequence[Buffer]) -> bool:
        """False where it takes nothing at present."""
        try:
            if len(parts) == 1:
                self._socket.send(parts[0], _DONTWAIT)
            else:
                self._socket.send_multipart(parts, _DONTWAIT, copy=False)
        except zmq.Again:
            return False
        return True

    def stop(self) -> None:
        """The loop is told of nothing any more."""
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor())
            self._loop = None

    def close(self) -> None:
        """The end; what is unsent still leaves, within bounds."""
        self.stop()
        self._socket.close()
        self._context.term()

    def _descriptor(self) -> int:
        return cast(int, self._socket.get(zmq.FD))


def _configure(socket: "zmq.Socket[bytes]", identity: bytes, keys: ClientKeys | None) -> None:
    socket.set(zmq.IDENTITY, identity)
    socket.set(zmq.SNDHWM, HIGH_WATER_MESSAGES)
    socket.set(zmq.RCVHWM, HIGH_WATER_MESSAGES)
    socket.set(zmq.LINGER, LINGER_MS)
    socket.set(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    socket.set(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.set(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    socket.set(zmq.IMMEDIATE, 0)
    if keys is not None:
        socket.set(zmq.CURVE_PUBLICKEY, keys.public)
        socket.set(zmq.CURVE_SECRETKEY, keys.secret)
        socket.set(zmq.CURVE_SERVERKEY, keys.server)

"""A worker's DEALER of libzmq, for a broker on another host, or one that asks for keys."""

import select
from collections.abc import Sequence

import zmq

from broker.wire.address import Address
from broker.wire.frames import MAX_MESSAGE_BYTES, Buffer
from broker.wire.keys import ClientKeys

_COPY_BELOW_BYTES = 1 << 16
"""Received frames below this are copied, so that no message stays in memory for a small view of it.
Measured, with a copy and without: 4 and 4 µs at 16 KiB, 8 and 4 at 64 KiB, 130 and 4 at 1 MiB."""
_LINGER_MS = 1000
# Plain numbers: pyzmq's flags are enums, and joining two of those costs more than sending.
_NOBLOCK = int(zmq.NOBLOCK)
_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)
_POLLOUT = int(zmq.POLLOUT)
_NEVER = float("inf")


class LibzmqDealer:
    """The socket to a broker anywhere, and what else its owner waits for."""

    trouble = ""
    """libzmq keeps to itself what it finds at the other end."""

    def __init__(self, address: Address, identity: bytes, keys: ClientKeys | None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, identity)
        # The broker sends us no more than our credit, and small beats while we are busy: those may
        # be many in a long setup, and a full queue would look to it as if we were lost.
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.SNDHWM, 1000)
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        socket.setsockopt(zmq.LINGER, _LINGER_MS)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        # Without a broker nothing queues up for it; see `Link.send`.
        socket.setsockopt(zmq.IMMEDIATE, 1)
        if not address.path:
            # A peer that vanishes without a word, as behind a NAT, is found and connected anew.
            socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
            socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 5000)
        if address.ipv6:
            socket.setsockopt(zmq.IPV6, 1)
        if keys is not None:
            socket.curve_publickey = keys.public
            socket.curve_secretkey = keys.secret
            socket.curve_serverkey = keys.server
        socket.connect(address.text)
        self._socket = socket
        # The socket's own descriptor costs a third of what zmq_poll does. It signals edges only,
        # and any use of the socket may swallow one: so the socket is asked before each sleep.
        self._fd = int(socket.get(zmq.FD))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._is_dry = False  # there was nothing to read, and the socket was not used since
        self._is_woken = False

    @property
    def fd(self) -> int:
        """For event loops: readable when there may be something to do; edge-triggered."""
        return self._fd

    def next_due(self, *, wants_to_send: bool) -> float:
        """When event loops should come back though nothing has come."""
        return _NEVER

    def watch(self, fd: int) -> None:
        """Have `wait` also end when this descriptor is readable."""
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        """The reverse of `watch`."""
        self._poll.unregister(fd)

    def wait(self, timeout_s: float, *, wants_to_send: bool) -> list[int]:
        """Blocks until there may be something to do, at most so long; the watched ones readable."""
        if wants_to_send:
            if self._events() & (_POLLIN | _POLLOUT):
                timeout_s = 0.0
        elif not self._is_dry and self.has_input():
            timeout_s = 0.0
        self._is_dry = False
        # Rounded up, or the last millisecond before a moment that is due would be spent spinning.
        ready = self._poll.poll(max(0, int(timeout_s * 1000 + 0.999)))
        self._is_woken = bool(ready)
        return [fd for fd, _ in ready if fd != self._fd]

    def wait_to_send(self, timeout_s: float) -> bool:
        """Whether something can be sent, at the latest after so long."""
        return bool(self._socket.poll(int(timeout_s * 1000), zmq.POLLOUT))

    def receive(self) -> list[Buffer] | None:
        """The next message that has come, if one has."""
        if not self._is_woken and not self.has_input():
            return None
        self._is_woken = False  # then it is worth a try without asking first
        try:
            return self._read()
        except zmq.Again:
            return self._read() if self.has_input() else None

    def has_input(self) -> bool:
        """Whether `receive` has something to return."""
        has_input = bool(self._events() & _POLLIN)
        self._is_dry = not has_input
        return has_input

    def _events(self) -> int:
        return int(self._socket.get(_EVENTS))

    def _read(self) -> list[Buffer]:
        self._is_dry = False
        parts: list[Buffer] = []
        more = True
        while more:
            part = self._socket.recv(_NOBLOCK, copy=False)
            more = part.more
            size = len(part)
            parts.append(
                part.bytes if not parts or size < _COPY_BELOW_BYTES else part.buffer.toreadonly()
            )
        return parts

    def send(self, parts: Sequence[Buffer]) -> bool:
        """Whether it is taken; the buffers may change afterwards."""
        self._is_dry = False
        try:
            for part in parts[:-1]:
                self._socket.send(part, _MORE)
            self._socket.send(parts[-1], _NOBLOCK)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """Closes the socket; what was sent last still leaves within its LINGER."""
        self._socket.close()
        self._context.term()

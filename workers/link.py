"""The socket to the broker: messages in and out, never blocking. Decides nothing else.

A message that cannot leave, as no broker is there, is dropped: the protocol makes up for it. Three
things are kept instead until one is: the newest hello, results, which cost work, and steps of
streams, which no further steps should follow while the link is stuck.
"""

import select
from collections import deque
from collections.abc import Iterator

import zmq

from broker.wire import frames, log
from broker.wire.address import parse_address
from broker.wire.errors import ProtocolError
from broker.wire.keys import ClientKeys
from broker.wire.messages import (
    Batch,
    FromBroker,
    Results,
    Steps,
    SupervisorHello,
    ToBroker,
    WorkerHello,
)

_COPY_BELOW_BYTES = 1 << 16
"""Received frames below this are copied, so that no message stays in memory for a small view of it.
Measured, with a copy and without: 4 and 4 µs at 16 KiB, 8 and 4 at 64 KiB, 130 and 4 at 1 MiB."""
_MOST_RESULTS = 256
"""Results kept while no broker is there. Those of a broker that is gone are of no use for long."""
_READ_AT_ONCE = 64
# Plain numbers: pyzmq's flags are enums, and joining two of those costs more than sending.
_NOBLOCK = int(zmq.NOBLOCK)
_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)
_POLLOUT = int(zmq.POLLOUT)


class Link:
    """One DEALER, connected to the broker, and what else its owner waits for."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, identity: bytes,
        keys: ClientKeys | None,
    ) -> None:  # fmt: skip
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.ROUTING_ID, identity)
        # The broker sends us no more than our credit, and small beats while we are busy: those may
        # be many in a long setup, and a full queue would look to it as if we were lost.
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.SNDHWM, 1000)
        socket.setsockopt(zmq.MAXMSGSIZE, frames.MAX_MESSAGE_BYTES)
        socket.setsockopt(zmq.LINGER, 1000)
        socket.setsockopt(zmq.RECONNECT_IVL, 50)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        # Without a broker nothing queues up for it; see `send`.
        socket.setsockopt(zmq.IMMEDIATE, 1)
        if address.startswith("tcp://"):
            # A peer that vanishes without a word, as behind a NAT, is found and connected anew.
            socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
            socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 5000)
        if parse_address(address).ipv6:
            socket.setsockopt(zmq.IPV6, 1)
        if keys is not None:
            socket.curve_publickey = keys.public
            socket.curve_secretkey = keys.secret
            socket.curve_serverkey = keys.server
        socket.connect(address)
        self._socket = socket
        # The socket's own descriptor costs a third of what zmq_poll does. It signals edges only,
        # and any use of the socket may swallow one: so the socket is asked before each sleep.
        self._fd = int(socket.get(zmq.FD))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._waits_to_send = False
        self._is_dry = False  # there was nothing to read, and the socket was not used since
        self._is_woken = False
        self._hello: list[frames.Buffer] | None = None
        self._results: deque[list[frames.Buffer]] = deque(maxlen=_MOST_RESULTS)
        self._ahead: deque[FromBroker] = deque()  # read, and not yet received

    @property
    def fd(self) -> int:
        """For event loops: readable when there may be something to do; edge-triggered."""
        return self._fd

    def watch(self, fd: int) -> None:
        """Have `wait` also end when this descriptor is readable."""
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        """The reverse of `watch`."""
        self._poll.unregister(fd)

    def wait(self, timeout_s: float) -> list[int]:
        """Blocks until there is something to do, at most so long; the watched ones readable."""
        if self._waits_to_send:
            if int(self._socket.get(_EVENTS)) & (_POLLIN | _POLLOUT):
                timeout_s = 0.0
        elif not self._is_dry and self.has_input():
            timeout_s = 0.0
        self._is_dry = False
        # Rounded up, or the last millisecond before a moment that is due would be spent spinning.
        ready = self._poll.poll(max(0, int(timeout_s * 1000 + 0.999)))
        self._is_woken = bool(ready)
        if self._waits_to_send:
            self._flush()
        return [fd for fd, _ in ready if fd != self._fd]

    def flush(self, timeout_s: float) -> None:
        """Gives what is kept a last chance to leave, while nothing is received."""
        if self._waits_to_send and self._socket.poll(int(timeout_s * 1000), zmq.POLLOUT):
            self._flush()

    def receive(self) -> Iterator[FromBroker]:
        """What has come, a bounded number of messages at a time. What is no message is dropped."""
        while self._ahead:
            yield self._ahead.popleft()
        for _ in range(_READ_AT_ONCE):
            if not self._is_woken and not self.has_input():
                return
            self._is_woken = False  # then it is worth a try without asking first
            try:
                yield frames.decode_from_broker(self._read())
            except zmq.Again:
                continue
            except ProtocolError as error:
                log.warning("message dropped", reason=str(error))

    def read_ahead(self) -> Batch | None:
        """Keeps what has come for `receive`, up to a batch and with it; returns that one."""
        read: list[FromBroker] = []
        for message in self.receive():
            read.append(message)
            if type(message) is Batch:
                break
        self._ahead.extend(read)
        self._is_dry = False
        return read[-1] if read and type(read[-1]) is Batch else None

    def has_input(self) -> bool:
        """Whether `receive` would yield something now."""
        if self._ahead:
            return True
        has_input = bool(int(self._socket.get(_EVENTS)) & _POLLIN)
        self._is_dry = not has_input
        return has_input

    def _read(self) -> list[frames.Buffer]:
        parts: list[frames.Buffer] = []
        more = True
        while more:
            part = self._socket.recv(_NOBLOCK, copy=False)
            more = part.more
            size = len(part)
            parts.append(
                part.bytes if not parts or size < _COPY_BELOW_BYTES else part.buffer.toreadonly()
            )
        return parts

    def send(self, message: ToBroker) -> None:
        """Sends a message, or does with it what this module says about those that cannot leave.

        Buffers are copied: a plug-in may well use the memory of a result again for the next, long
        before the socket is done with it.
        """
        parts = frames.encode(message)
        self._is_dry = False
        if self._waits_to_send:
            self._flush()
        if not self._send(parts):
            if isinstance(message, WorkerHello | SupervisorHello):
                self._hello = parts
            elif isinstance(message, Results | Steps):
                self._results.append([bytes(part) for part in parts])
            self._waits_to_send = self._hello is not None or bool(self._results)

    def _send(self, parts: list[frames.Buffer]) -> bool:
        try:
            for part in parts[:-1]:
                self._socket.send(part, _MORE)
            self._socket.send(parts[-1], _NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _flush(self) -> None:
        if self._hello is not None:
            if not self._send(self._hello):
                return
            self._hello = None
        while self._results:
            if not self._send(self._results[0]):
                return
            self._results.popleft()
        self._waits_to_send = False

    @property
    def is_stuck(self) -> bool:
        """Whether something waits to leave."""
        return self._waits_to_send

    def close(self) -> None:
        """Closes the socket; what was sent last still leaves within its LINGER."""
        self._socket.close()

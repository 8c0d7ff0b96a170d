"""The socket to the broker: messages in and out, never blocking. Decides nothing else.

A message that cannot leave, as no broker is there, is dropped: the protocol makes up for it. Three
things are kept instead until one is: the newest hello, results, which cost work, and steps of
streams, which no further steps should follow while the link is stuck.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

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
from workers.unix import UnixDealer

_MOST_RESULTS = 256
"""Results kept while no broker is there. Those of a broker that is gone are of no use for long."""
_READ_AT_ONCE = 64


class Socket(Protocol):
    """A DEALER that never blocks, and the waiting for it and for others."""

    @property
    def fd(self) -> int:
        """For event loops: readable when something may have come."""

    @property
    def trouble(self) -> str:
        """Why what listens there is of no use; "" as long as nothing is known against it."""

    def next_due(self, *, wants_to_send: bool) -> float:
        """When event loops should come back though nothing has come."""

    def watch(self, fd: int) -> None:
        """Have `wait` also end when this descriptor is readable."""

    def forget(self, fd: int) -> None:
        """The reverse of `watch`."""

    def wait(self, timeout_s: float, *, wants_to_send: bool) -> list[int]:
        """Blocks until there may be something to do, at most so long; the watched ones readable."""

    def wait_to_send(self, timeout_s: float) -> bool:
        """Whether something can be sent, at the latest after so long."""

    def receive(self) -> list[frames.Buffer] | None:
        """The next message that has come, if one has."""

    def has_input(self) -> bool:
        """Whether `receive` has something to return."""

    def send(self, parts: Sequence[frames.Buffer]) -> bool:
        """Whether it is taken; the buffers may change afterwards."""

    def close(self) -> None:
        """The end; what was sent last still leaves, within a second."""


def make_socket(address: str, identity: bytes, keys: ClientKeys | None) -> Socket:
    """The lightest one that reaches the broker: libzmq need not be loaded on its own host."""
    parsed = parse_address(address)
    if parsed.path and keys is None:
        return UnixDealer(parsed.path, identity)
    from workers.libzmq import LibzmqDealer  # noqa: PLC0415

    return LibzmqDealer(parsed, identity, keys)


class Link:
    """One DEALER, connected to the broker, and what else its owner waits for."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._trouble = ""
        self._waits_to_send = False
        self._hello: list[frames.Buffer] | None = None
        self._results: deque[list[frames.Buffer]] = deque(maxlen=_MOST_RESULTS)
        self._ahead: deque[FromBroker] = deque()  # read, and not yet received

    @property
    def fd(self) -> int:
        """For event loops: readable when there may be something to do; it may tell of changes
        alone.
        """
        return self._socket.fd

    def next_due(self) -> float:
        """When event loops should come back though nothing has come."""
        return self._socket.next_due(wants_to_send=self._waits_to_send)

    def watch(self, fd: int) -> None:
        """Have `wait` also end when this descriptor is readable."""
        self._socket.watch(fd)

    def forget(self, fd: int) -> None:
        """The reverse of `watch`."""
        self._socket.forget(fd)

    def wait(self, timeout_s: float) -> list[int]:
        """Blocks until there is something to do, at most so long; the watched ones readable."""
        if self._ahead:
            timeout_s = 0.0
        ready = self._socket.wait(timeout_s, wants_to_send=self._waits_to_send)
        if self._waits_to_send:
            self._flush()
        return ready

    def flush(self, timeout_s: float) -> None:
        """Gives what is kept a last chance to leave, while nothing is received."""
        if self._waits_to_send and self._socket.wait_to_send(timeout_s):
            self._flush()

    def receive(self) -> Iterator[FromBroker]:
        """What has come, a bounded number of messages at a time. What is no message is dropped."""
        while self._ahead:
            yield self._ahead.popleft()
        for _ in range(_READ_AT_ONCE):
            parts = self._socket.receive()
            if parts is None:
                self._complain()
                return
            try:
                yield frames.decode_from_broker(parts)
            except ProtocolError as error:
                log.warning("message dropped", reason=str(error))

    def _complain(self) -> None:
        """Once, when what listens at the broker's address turns out to be something else."""
        trouble = self._socket.trouble
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                log.warning("no broker listens at its address", reason=trouble)

    def read_ahead(self) -> Batch | None:
        """Keeps what has come for `receive`, up to a batch and with it; returns that one."""
        read: list[FromBroker] = []
        for message in self.receive():
            read.append(message)
            if type(message) is Batch:
                break
        self._ahead.extend(read)
        return read[-1] if read and type(read[-1]) is Batch else None

    def has_input(self) -> bool:
        """Whether `receive` would yield something now."""
        return bool(self._ahead) or self._socket.has_input()

    def send(self, message: ToBroker) -> None:
        """Sends a message, or does with it what this module says about those that cannot leave.

        Buffers are copied: a plug-in may well use the memory of a result again for the next, long
        before the socket is done with it.
        """
        parts = frames.encode(message)
        if self._waits_to_send:
            self._flush()
        if not self._socket.send(parts):
            if isinstance(message, WorkerHello | SupervisorHello):
                self._hello = parts
            elif isinstance(message, Results | Steps):
                self._results.append([bytes(part) for part in parts])
            self._waits_to_send = self._hello is not None or bool(self._results)

    def _flush(self) -> None:
        if self._hello is not None:
            if not self._socket.send(self._hello):
                return
            self._hello = None
        while self._results:
            if not self._socket.send(self._results[0]):
                return
            self._results.popleft()
        self._waits_to_send = False

    @property
    def is_stuck(self) -> bool:
        """Whether something waits to leave."""
        return self._waits_to_send

    def close(self) -> None:
        """Closes the socket; what was sent last still leaves, within a second."""
        self._socket.close()

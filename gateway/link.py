"""The gateway's socket to the broker, and the timers that drive the pending table.

A plain DEALER, never blocking: it is read in a drain loop when its file descriptor stirs, and
written once per turn of the event loop.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from broker.wire import frames, log
from broker.wire.address import Address
from broker.wire.errors import ProtocolError
from broker.wire.keys import ClientKeys
from broker.wire.messages import (
    Answers,
    Catalog,
    GatewayBeat,
    GatewayHello,
    Report,
    ToBroker,
    Traces,
    Value,
)
from gateway.pending import PendingTable, Settled
from gateway.request import Request
from gateway.unix import UnixDealer

READS_PER_TURN = 64
"""Messages read before the clients get their turn."""
_NEVER = float("inf")


class Socket(Protocol):
    """A DEALER that never blocks, in an event loop."""

    @property
    def trouble(self) -> str:
        """Why what listens there is of no use; "" as long as nothing is known against it."""

    @property
    def has_more(self) -> bool:
        """Whether another message is there that the loop may not tell of."""

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

    def receive(self) -> list[frames.Buffer] | None:
        """The next message that has come, if one has."""

    def send(self, parts: Sequence[frames.Buffer]) -> bool:
        """False where it takes nothing at present."""

    def stop(self) -> None:
        """The loop is told of nothing any more."""

    def close(self) -> None:
        """The end; what is unsent still leaves, within bounds."""


def make_socket(address: Address, keys: ClientKeys | None) -> Socket:
    """The lightest one that reaches the broker; raises OSError where it cannot be."""
    identity = b"g" + os.urandom(16)
    if address.path and keys is None:
        return UnixDealer(address.path, identity)
    from gateway.libzmq import LibzmqDealer  # noqa: PLC0415  not needed on the broker's own host

    return LibzmqDealer(address, identity, keys)


class Link:
    """Between one pending table and one broker address."""

    def __init__(self, socket: Socket, *, table: PendingTable[Request]) -> None:
        self.counts = {"garbage": 0}
        """Messages dropped, by reason."""
        self._table = table
        self._deliver: Callable[[list[Settled[Request]]], None] = _ignore
        self._stream: Callable[[list[tuple[Request, Value]]], None] = _ignore
        self._others: dict[type, Callable[[Any], None]] = {}  # of what is not for the table alone
        self._outbox: deque[list[frames.Buffer]] = deque()
        self._hello: list[frames.Buffer] | None = None  # the newest, as long as it cannot leave
        self._socket = socket
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = _NEVER
        self._was_up = False
        self._refusal = ""
        self._trouble = ""
        self._epoch = table.epoch

    # -------------------------------------------------------------- life

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        deliver: Callable[[list[Settled[Request]]], None],
        stream: Callable[[list[tuple[Request, Value]]], None],
        catalog_changed: Callable[[], None],
        reported: Callable[[Report], None],
        traced: Callable[[Answers | Traces], None] | None,
    ) -> None:
        """Begin to listen, and say hello. What comes in goes to the others."""
        self._loop = loop
        self._deliver = deliver
        self._stream = stream
        self._others = {
            Catalog: lambda _: catalog_changed(),
            Report: reported,
        }
        if traced is not None:
            self._others |= {Answers: traced, Traces: traced}
        self._socket.start(loop, readable=self._read, writable=self._empty_outbox)
        self._schedule_flush()

    def close(self) -> None:
        """Say goodbye, and end the socket; waits for what is unsent, within bounds."""
        if self._loop is not None:
            self._socket.stop()
            self._loop = None
            if self._timer is not None:
                self._timer.cancel()
            self._flush()
            self._socket.send(frames.encode(self._table.farewell()))
        self._outbox.clear()
        self._socket.close()

    def wake(self, due: float) -> None:
        """The table changed, and has something to do by `due`: see to it in this turn's end."""
        if not self._flushing:
            self._schedule_flush()
        if due < self._timer_s:
            self._arm(due)

    # -------------------------------------------------------------- out

    def _schedule_flush(self) -> None:
        if self._loop is not None:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        now = time.monotonic()
        for message in self._table.outgoing(now):
            self._post(message)
        if self._timer_s == _NEVER:
            self._arm(self._table.next_due())
        if self._loop is not None and self._socket.has_more:
            self._read()

    def _post(self, message: ToBroker) -> None:
        encoded = frames.encode(message)
        if self._outbox or not self._socket.send(encoded):
            if isinstance(message, GatewayHello):
                self._hello = encoded
            elif not isinstance(message, GatewayBeat):  # it would be of no use later
                self._outbox.append(encoded)
            self._empty_outbox()

    def _empty_outbox(self) -> None:
        if self._hello is not None and self._socket.send(self._hello):
            self._hello = None
        while self._outbox and self._socket.send(self._outbox[0]):
            self._outbox.popleft()

    # -------------------------------------------------------------- in

    def _read(self) -> None:
        """Read what is there, up to a number of messages; come back for the rest."""
        socket = self._socket
        table = self._table
        for _ in range(READS_PER_TURN):
            parts = socket.receive()
            if parts is None:
                break
            now = time.monotonic()
            try:
                message = frames.decode_from_broker(parts)
            except ProtocolError:
                self.counts["garbage"] += 1
                continue
            settled = table.receive(message, now)
            if table.epoch != self._epoch:  # what waited for the last broker is said anew
                self._epoch = table.epoch
                self._outbox.clear()
            if (also := self._others.get(type(message))) is not None:
                also(message)
            if table.has_streamed:
                self._stream(table.take_streamed())
            if settled:
                self._deliver(settled)
            if not socket.has_more:
                break
        else:
            if self._loop is not None:
                self._loop.call_soon(self._read)
        self._report()
        if table.has_outgoing and not self._flushing:
            self._schedule_flush()

    # -------------------------------------------------------------- time

    def _arm(self, due: float) -> None:
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = due
        self._timer = self._loop.call_later(max(due - time.monotonic(), 0.001), self._on_timer)

    def _on_timer(self) -> None:
        self._timer_s = _NEVER
        self._deliver(self._table.tick(time.monotonic()))
        self._empty_outbox()
        self._report()
        self._flush()

    def _report(self) -> None:
        """Log what has changed about the broker."""
        table = self._table
        trouble = self._socket.trouble
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                log.warning("no broker listens at its address", reason=trouble)
        if table.up != self._was_up:
            self._was_up = table.up
            if table.up:
                log.info("broker_up", epoch=table.epoch)
            else:
                reason = table.trouble(time.monotonic())
                log.warning("broker_down", reason=reason, waiting=len(table))
        if table.refusal != self._refusal:
            self._refusal = table.refusal
            if self._refusal:
                log.warning("refused_by_broker", reason=self._refusal)


def _ignore(*_: object) -> None:
    """Before `start` nothing comes in."""

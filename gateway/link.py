"""The gateway's socket to the broker, and the timers that drive the pending table.

A plain DEALER, never blocking: it is read in a drain loop when its file descriptor stirs, and
written once per turn of the event loop. The descriptor signals edges only, so that after every send
one must look whether something has come in meanwhile.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import zmq

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

HIGH_WATER_MESSAGES = 10_000
READS_PER_TURN = 64
"""Messages read before the clients get their turn."""
RECONNECT_MS = 50
RECONNECT_MAX_MS = 500
LINGER_MS = 300
"""For the last answers and the goodbye, within what a process manager allows for an exit."""
_NEVER = float("inf")

# Plain numbers: pyzmq's flags are enums, and joining two of those costs more than sending.
_DONTWAIT = int(zmq.DONTWAIT)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)


class Link:
    """Between one pending table and one broker address."""

    def __init__(
        self, address: Address, *, table: PendingTable[Request], keys: ClientKeys | None
    ) -> None:
        """Opens the socket and connects it; raises zmq.ZMQError where that cannot be."""
        self.counts = {"garbage": 0}
        """Messages dropped, by reason."""
        self._table = table
        self._deliver: Callable[[list[Settled[Request]]], None] = _ignore
        self._stream: Callable[[list[tuple[Request, Value]]], None] = _ignore
        self._others: dict[type, Callable[[Any], None]] = {}  # of what is not for the table alone
        self._outbox: deque[list[frames.Buffer]] = deque()
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.DEALER)
        _configure(self._socket, keys)
        self._socket.set(zmq.IPV6, address.ipv6)
        try:
            self._socket.connect(address.text)
        except zmq.ZMQError:
            self._context.destroy(linger=0)
            raise
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = _NEVER
        self._was_up = False
        self._refusal = ""
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
        loop.add_reader(self._descriptor(), self._read)
        self._schedule_flush()

    def close(self) -> None:
        """Say goodbye, and end the socket; waits for what is unsent, within bounds."""
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor())
            self._loop = None
            if self._timer is not None:
                self._timer.cancel()
            self._flush()
            self._send(frames.encode(self._table.farewell()))
        self._outbox.clear()
        self._socket.close()
        self._context.term()

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
        if self._loop is not None and self._events() & _POLLIN:
            self._read()

    def _post(self, message: ToBroker) -> None:
        encoded = frames.encode(message)
        if self._outbox or not self._send(encoded):
            # A beat or hello that cannot go out now would be of no use later.
            if not isinstance(message, GatewayBeat | GatewayHello):
                self._outbox.append(encoded)
            self._empty_outbox()

    def _empty_outbox(self) -> None:
        while self._outbox and self._send(self._outbox[0]):
            self._outbox.popleft()

    def _send(self, encoded: list[frames.Buffer]) -> bool:
        """False where the socket takes nothing at present."""
        try:
            if len(encoded) == 1:
                self._socket.send(encoded[0], _DONTWAIT)
            else:
                self._socket.send_multipart(encoded, _DONTWAIT, copy=False)
        except zmq.Again:
            return False
        return True

    def _descriptor(self) -> int:
        return cast(int, self._socket.get(zmq.FD))

    def _events(self) -> int:
        return int(self._socket.get(_EVENTS))

    # -------------------------------------------------------------- in

    def _read(self) -> None:
        """Read what is there, up to a number of messages; come back for the rest."""
        socket = self._socket
        table = self._table
        for _ in range(READS_PER_TURN):
            try:
                parts = _receive(socket)
            except zmq.Again:
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
            if not self._events() & _POLLIN:
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


def _configure(socket: "zmq.Socket[bytes]", keys: ClientKeys | None) -> None:
    socket.set(zmq.IDENTITY, b"g" + os.urandom(16))
    socket.set(zmq.SNDHWM, HIGH_WATER_MESSAGES)
    socket.set(zmq.RCVHWM, HIGH_WATER_MESSAGES)
    socket.set(zmq.LINGER, LINGER_MS)
    socket.set(zmq.MAXMSGSIZE, frames.MAX_MESSAGE_BYTES)
    socket.set(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.set(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    socket.set(zmq.IMMEDIATE, 0)
    if keys is not None:
        socket.set(zmq.CURVE_PUBLICKEY, keys.public)
        socket.set(zmq.CURVE_SECRETKEY, keys.secret)
        socket.set(zmq.CURVE_SERVERKEY, keys.server)


def _receive(socket: "zmq.Socket[bytes]") -> list[frames.Buffer]:
    """One message: a header that is copied, and buffers that are not. Raises zmq.Again."""
    frame = socket.recv(_DONTWAIT, copy=False)
    parts: list[frames.Buffer] = [frame.bytes]
    while frame.more:
        frame = socket.recv(_DONTWAIT, copy=False)
        parts.append(frame.buffer)
    return parts

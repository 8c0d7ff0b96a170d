"""The socket shell around the core: one ROUTER, one loop, no decisions.

Each turn it takes in what has come, up to a bound, hands it to the scheduler, ends the turn with a
tick, and performs the actions. It never blocks on a peer: what cannot be sent at once goes into the
outbox of that peer, and a peer that does not read is lost.
"""

import select
import time
from collections import Counter, deque
from collections.abc import Callable

import zmq
from msgspec.structs import replace

from broker.arenas import Arenas
from broker.comparer import ComparerProcess
from broker.core.events import (
    Action,
    Asked,
    Comparing,
    DrainAsked,
    Event,
    Misbehaved,
    Note,
    PeerLost,
    Recall,
    Received,
    Reply,
    Save,
    Send,
    Stop,
    Swept,
    Unreadable,
)
from broker.core.scheduler import Scheduler
from broker.core.snapshot import Extent
from broker.desk import Desk
from broker.wire import log
from broker.wire.errors import ProtocolError
from broker.wire.frames import Buffer, decode_to_broker, encode, readable_seqs
from broker.wire.messages import PROTOCOL_VERSION, Ask, Batch, Beat, FromBroker, Refused, Report

MESSAGES_A_TURN = 64
"""Bound of what is taken in before the scheduler gets to dispatch."""

ZERO_COPY_BYTES = 65536
"""Frames from this size on are handed over, not copied (pyzmq's own threshold for sending)."""

OUTBOX_BYTES = 256 << 20
OUTBOX_S = 2.0
"""A peer whose outbox grows beyond the one, or is not emptied within the other, is lost."""
OUTBOX_RETRY_S = 0.01

# Plain numbers: pyzmq's flags are enums, and joining two of those costs more than sending.
NOBLOCK = int(zmq.NOBLOCK)
MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
EVENTS = int(zmq.EVENTS)
POLLIN = int(zmq.POLLIN)

STRIKES = 5
"""So many broken messages in a row, and a peer is not heard for `MUTE_S`."""
MUTE_S = 10.0
LOG_EVERY_S = 1.0

SHOWN_S = 0.4
"""How old may be what is shown to those who watch: however many, they cost no more than this."""
MOST_SHOWN = 8

SWEEP_S = 1.0
"""How often arenas are looked at whose owners may be dead."""


class _Outbox:
    """What waits for a peer that does not read: frames, each with the lease of its batch, 0 where
    it is none.
    """

    __slots__ = ("bytes", "messages", "since")

    def __init__(self, now: float) -> None:
        self.messages: deque[tuple[list[Buffer], int]] = deque()
        self.bytes = 0
        self.since = now


class _NoRoute(Exception):
    """The peer is not there."""


class Router:
    """Runs a scheduler on a bound ROUTER socket until it is drained."""

    def __init__(
        self,
        scheduler: Scheduler,
        socket: "zmq.Socket[bytes]",
        *,
        arenas: Arenas,
        desk: Desk,
        comparer: ComparerProcess,
        wakeup_fd: int,
        on_turn: Callable[[float], None],
    ) -> None:
        """`wakeup_fd` becomes readable when a drain is asked; `on_turn` is told of each turn."""
        self.scheduler = scheduler
        self.counters: Counter[str] = Counter()
        self._socket = socket
        self._arenas = arenas
        self._desk = desk
        self._comparer = comparer
        self._finished = desk.finished  # looked at in each turn
        self._sweep_due = 0.0
        self._wakeup_fd = wakeup_fd
        self._on_turn = on_turn
        self._outboxes: dict[bytes, _Outbox] = {}
        self._lost: dict[bytes, PeerLost] = {}
        self._strikes: Counter[bytes] = Counter()
        self._muted: dict[bytes, float] = {}
        self._logged_at = 0.0
        self._shown: dict[Extent, tuple[Report, float]] = {}
        self._stopped = False

    def run(self) -> None:
        """Serve until a drain is over.

        Sleeps on the socket's own descriptor, which costs a third of what zmq_poll does. It signals
        edges only, and sending may swallow one: so the socket is asked before each sleep.
        """
        poll = select.poll()
        poll.register(int(self._socket.get(zmq.FD)), select.POLLIN)
        poll.register(self._wakeup_fd, select.POLLIN)
        poll.register(self._desk.fd, select.POLLIN)
        draining = False
        while not self._stopped:
            if self._has_input():
                woken = []
                most = MESSAGES_A_TURN
            else:
                woken = [fd for fd, _ in poll.poll(self._timeout_ms())]
                most = 1  # who comes alone is not kept waiting while others are looked for
            now = time.monotonic()
            self._take_in(now, most)
            if self._wakeup_fd in woken and not draining:  # what came before it is taken in
                draining = True
                poll.unregister(self._wakeup_fd)
                self._handle(DrainAsked(), now)
            if self._finished or self._desk.fd in woken:
                self._send_all(self._desk.news(), now)
            if self._outboxes:
                self._retry(now)
            if now >= self._sweep_due:
                self._sweep(now)
            actions = self.scheduler.tick(now)
            if actions:
                self._perform(actions, now)
            self._on_turn(now)
        self._send_all(self._desk.close(), time.monotonic())

    def _has_input(self) -> bool:
        return bool(int(self._socket.get(EVENTS)) & POLLIN)

    def _timeout_ms(self) -> int:
        left_s = self.scheduler.next_deadline() - time.monotonic()
        if self._outboxes:
            left_s = min(left_s, OUTBOX_RETRY_S)
        return max(0, int(left_s * 1000 + 0.999))

    # -------------------------------------------------------------- in

    def _take_in(self, now: float, most: int) -> None:
        """A frame tells whether another follows at a tenth of the cost of asking the socket."""
        socket = self._socket
        while most:
            most -= 1
            try:
                peer = socket.recv(NOBLOCK)
            except zmq.Again:  # woken for something else, or its sender is gone
                return
            more = True  # behind the routing id there is at least one frame
            frames: list[Buffer] = []
            while more:
                frame = socket.recv(NOBLOCK, copy=False)
                more = frame.more
                frames.append(frame.buffer if len(frame) >= ZERO_COPY_BYTES else frame.bytes)
            self._decode(peer, frames, now)
            if most and not self._has_input():
                return

    def _decode(self, peer: bytes, frames: list[Buffer], now: float) -> None:
        if self._muted and self._muted.get(peer, 0.0) > now:
            self.counters["muted"] += 1
            return
        try:
            message = decode_to_broker(frames)
        except ProtocolError as error:
            self._strike(peer, str(error), now)
            self._handle(Unreadable(peer, readable_seqs(frames)), now)
            return
        if self._strikes:
            self._strikes.pop(peer, None)
        if type(message) is Ask:
            self._asked(peer, message, now)
        else:
            self._handle(Received(peer, message), now)

    def _asked(self, peer: bytes, ask: Ask, now: float) -> None:
        self.counters["asked"] += 1
        if ask.protocol != PROTOCOL_VERSION:
            text = f"this broker speaks protocol {PROTOCOL_VERSION}, not {ask.protocol}"
            self._send(peer, Refused(self.scheduler.ledger.epoch, text), now)
        elif ask.what == "status":
            self._send(peer, self._status(ask, now), now)
        else:
            self._handle(Asked(self._desk.name(peer, ask), ask), now)

    def _status(self, ask: Ask, now: float) -> Report:
        """Whoever asks for something of the past watches, and gets what another one got a moment
        ago; who just asks gets how things are now.
        """
        extent = self._desk.extent(ask)
        if isinstance(extent, Report):
            return extent
        shown, at = self._shown.get(extent, (None, 0.0))
        if shown is None or not ask.body or now - at >= SHOWN_S:
            snapshot = self.scheduler.snapshot(now, extent)
            snapshot.counters.update(self.counters)
            if len(self._shown) >= MOST_SHOWN:
                self._shown.clear()
            shown = self._desk.status(snapshot, ask)
            self._shown[extent] = (shown, now)
        return replace(shown, id=ask.id)

    def _strike(self, peer: bytes, reason: str, now: float) -> None:
        self.counters["bad_messages"] += 1
        self._strikes[peer] += 1
        if self._strikes[peer] >= STRIKES:
            del self._strikes[peer]
            self._muted = {who: until for who, until in self._muted.items() if until > now}
            self._muted[peer] = now + MUTE_S
            log.warning("peer_muted", peer=peer.hex()[:16], for_s=MUTE_S, reason=reason)
        elif now - self._logged_at >= LOG_EVERY_S:
            self._logged_at = now
            log.warning("bad_message", peer=peer.hex()[:16], reason=reason)
        if len(self._strikes) > 10_000:
            self._strikes.clear()

    # -------------------------------------------------------------- decide, act

    def _handle(self, event: Event, now: float) -> None:
        actions = self.scheduler.handle(event, now)
        if actions:
            self._perform(actions, now)

    def _perform(self, actions: list[Action], now: float) -> None:
        for action in actions:
            if type(action) is Send:
                message = action.message
                if action.fetch:
                    message = self._arenas.fetch(message)
                self._send(action.peer, message, now)
            elif type(action) is Note:
                log.info(action.what, trace="", **action.fields)
            elif type(action) is Reply:
                self._send(*self._desk.address(action.asker, action.message), now)
            elif type(action) is Save:
                self._desk.keep(action)
            elif type(action) is Recall:
                self._desk.recall(action)
            elif type(action) is Comparing:
                self._comparer.want(action.wanted, now)
            elif type(action) is Misbehaved:
                self._strike(action.peer, action.reason, now)
            elif type(action) is Stop:
                self._stopped = True
        while self._lost:
            _, lost = self._lost.popitem()
            self.counters["peers_unreachable"] += 1
            self._handle(lost, now)

    def _sweep(self, now: float) -> None:
        self._sweep_due = now + SWEEP_S
        self._comparer.tend(now)
        log.flush()
        slots = self.scheduler.ledger.slots
        dead, alive = self._arenas.sweep(needed=slots.needed(), doubtful=slots.doubtful())
        self._handle(Swept(dead, alive), now)

    # -------------------------------------------------------------- out

    def _send_all(self, messages: list[tuple[bytes, FromBroker]], now: float) -> None:
        for peer, message in messages:
            self._send(peer, message, now)

    def _send(self, peer: bytes, message: FromBroker, now: float) -> None:
        outbox = self._outboxes.get(peer)
        if outbox is not None and type(message) is Beat:
            return  # it is no news that somebody is there who does not listen
        frames = encode(message)
        lease = message.lease if type(message) is Batch else 0
        if outbox is None:
            try:
                if self._try(peer, frames):
                    return
            except _NoRoute:
                self._lose(peer, "no connection", lease)
                return
            outbox = self._outboxes[peer] = _Outbox(now)
            self.counters["outboxes"] += 1
        outbox.messages.append((frames, lease))
        outbox.bytes += sum(len(memoryview(frame)) for frame in frames)
        if outbox.bytes > OUTBOX_BYTES:
            self._give_up(peer, "it does not read, and its outbox is full")

    def _try(self, peer: bytes, frames: list[Buffer]) -> bool:
        """Send now; False where the peer does not read. Raises _NoRoute."""
        try:
            socket = self._socket
            socket.send(peer, MORE)
            for frame in frames[:-1]:
                socket.send(frame, MORE, copy=False)
            socket.send(frames[-1], NOBLOCK, copy=len(frames) == 1)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            raise _NoRoute from error
        return True

    def _retry(self, now: float) -> None:
        for peer, outbox in list(self._outboxes.items()):
            try:
                while outbox.messages and self._try(peer, outbox.messages[0][0]):
                    outbox.messages.popleft()
            except _NoRoute:
                self._give_up(peer, "no connection")
                continue
            if not outbox.messages:
                del self._outboxes[peer]
            elif now - outbox.since > OUTBOX_S:
                self._give_up(peer, f"it has not read for {OUTBOX_S:g} s")

    def _give_up(self, peer: bytes, reason: str) -> None:
        outbox = self._outboxes.pop(peer)
        self._lose(peer, reason, *(lease for _, lease in outbox.messages))

    def _lose(self, peer: bytes, reason: str, *unsent: int) -> None:
        """A peer is lost, whose turn comes when all has been sent; what could not be is named."""
        before = self._lost.get(peer)
        known = () if before is None else before.unsent
        self._lost[peer] = PeerLost(peer, reason, (*known, *unsent))

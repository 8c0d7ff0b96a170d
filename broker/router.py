"""The socket shell around the core: one ROUTER, one loop, no decisions.

Each turn it takes in what has come, up to a bound, hands it to the scheduler, ends the turn with a
tick, and performs the actions. It never blocks on a peer: what cannot be sent at once goes into the
outbox of that peer, and a peer that does not read is lost.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Protocol

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

FEW_ITEMS = 8
"""With more of them messages come together, and who is awake for the next gains nothing."""

OUTBOX_BYTES = 256 << 20
OUTBOX_S = 2.0
"""A peer whose outbox grows beyond the one, or is not emptied within the other, is lost."""
OUTBOX_RETRY_S = 0.01

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


class NoRoute(Exception):
    """The peer is not there."""


class Socket(Protocol):
    """A bound ROUTER that never blocks, and the waiting for it and for others."""

    def watch(self, fd: int) -> None:
        """Have `wait` also end when this descriptor is readable."""

    def forget(self, fd: int) -> None:
        """The reverse of `watch`."""

    def wait(self, timeout_s: float, *, is_quiet: bool = False) -> list[int]:
        """Blocks until something has come, at most so long; the watched ones that are readable.
        `is_quiet`: there is little under way.
        """

    def receive(self) -> tuple[bytes, list[Buffer]] | None:
        """The next message that `wait` has found: its sender's routing id, and its frames."""

    def send(self, peer: bytes, frames: Sequence[Buffer]) -> bool:
        """Whether it is taken: not where the peer does not read. The frames must not change. Raises
        NoRoute.
        """


class Router:
    """Runs a scheduler on a bound ROUTER socket until it is drained."""

    def __init__(
        self,
        scheduler: Scheduler,
        socket: Socket,
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
        """Serve until a drain is over."""
        socket, ledger = self._socket, self.scheduler.ledger
        socket.watch(self._wakeup_fd)
        socket.watch(self._desk.fd)
        draining = False
        while not self._stopped:
            woken = socket.wait(self._timeout_s(), is_quiet=ledger.held <= FEW_ITEMS)
            now = time.monotonic()
            self._take_in(now)
            if self._wakeup_fd in woken and not draining:  # what came before it is taken in
                draining = True
                socket.forget(self._wakeup_fd)
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

    def _timeout_s(self) -> float:
        left_s = self.scheduler.next_deadline() - time.monotonic()
        if self._outboxes:
            left_s = min(left_s, OUTBOX_RETRY_S)
        return max(0.0, left_s)

    # -------------------------------------------------------------- in

    def _take_in(self, now: float) -> None:
        for _ in range(MESSAGES_A_TURN):
            message = self._socket.receive()
            if message is None:
                return
            self._decode(*message, now)

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
                if self._socket.send(peer, frames):
                    return
            except NoRoute:
                self._lose(peer, "no connection", lease)
                return
            outbox = self._outboxes[peer] = _Outbox(now)
            self.counters["outboxes"] += 1
        outbox.messages.append((frames, lease))
        outbox.bytes += sum(len(memoryview(frame)) for frame in frames)
        if outbox.bytes > OUTBOX_BYTES:
            self._give_up(peer, "it does not read, and its outbox is full")

    def _retry(self, now: float) -> None:
        for peer, outbox in list(self._outboxes.items()):
            try:
                while outbox.messages and self._socket.send(peer, outbox.messages[0][0]):
                    outbox.messages.popleft()
            except NoRoute:
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

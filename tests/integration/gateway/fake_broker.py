"""A scripted broker for the gateway's tests: the protocol's other end, on a real ROUTER socket.

It welcomes gateways, tells them what is served, and answers each item as `respond` says. Tests
steer it: hold answers back, fall silent, stop, and start again as another epoch on the same
address. It runs in a thread of its own; what it saw is safe to read at any time.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import zmq

from broker.payload.folder import ArenaFolder
from broker.wire import frames
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    BEAT_S,
    PROTOCOL_VERSION,
    Answer,
    Answers,
    Ask,
    Beat,
    Blob,
    Bye,
    Cancel,
    Catalog,
    Failure,
    FromBroker,
    GatewayBeat,
    GatewayHello,
    Outcome,
    PipelineInfo,
    Report,
    StageInfo,
    Submit,
    SubmitItem,
    ToBroker,
    Unknown,
    Welcome,
    Who,
)

PATIENCE_S = 15.0

Respond = Callable[[SubmitItem], Outcome | Answer | None]


def digits(**changes: object) -> PipelineInfo:
    """A pipeline of two stages, ready, with whatever a test wants otherwise."""
    stages = [
        StageInfo("prepare", 1, 1, 8, ["v1"]),
        StageInfo("infer", 2, 2, 32, ["v1"]),
    ]
    info = PipelineInfo("digits", stages, versions=["v1"], headers=["X-Tenant"])
    for name, value in changes.items():
        setattr(info, name, value)
    return info


def echo(item: SubmitItem) -> Answer:
    """The request's body, as a result of version v1 that ran through both stages."""
    return Answer(item.seq, item.payload, "v1", [0.001, 0.002, 0.003, 0.004])


def body_of(item: SubmitItem) -> bytes:
    """The request body that an item carries."""
    payload = item.payload
    if isinstance(payload, Blob):
        return payload.body + b"".join(bytes(buffer) for buffer in payload.buffers)  # type: ignore[call-overload]
    return payload


class FakeBroker:
    """One life of a broker at an address; a context manager."""

    def __init__(
        self,
        address: str,
        *,
        epoch: int = 1,
        pipelines: list[PipelineInfo] | None = None,
        respond: Respond = echo,
        secret: bytes = b"",
        folder: ArenaFolder | None = None,
    ) -> None:
        self.address = address
        self.epoch = epoch
        self.pipelines = [digits()] if pipelines is None else pipelines
        self.respond = respond
        """What an item is answered with; None leaves it open."""
        self.secret = secret
        """Of a CURVE pair; b"" speaks in the clear."""
        self.folder = folder
        """Where arenas are; None: it shares no memory."""
        self.report: Callable[[Ask], Report | None] = lambda ask: Report(epoch, b"{}", id=ask.id)
        """What a question is answered with; None leaves it open."""
        self.draining = False
        self.silent = False
        """Reads on, but says nothing and acts on nothing."""
        self.seen: list[ToBroker] = []
        self.items: list[SubmitItem] = []
        self.gateways: list[bytes] = []
        self._known: set[int] = set()
        self._changed = threading.Condition()
        self._to_send: list[FromBroker | list[bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake broker", daemon=True)
        self._started = threading.Event()

    def __enter__(self) -> "FakeBroker":
        self._thread.start()
        assert self._started.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End at once, without a word, as by SIGKILL."""
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    # -------------------------------------------------------------- what tests ask and tell

    def send(self, message: FromBroker) -> None:
        """Send this to every gateway."""
        with self._changed:
            self._to_send.append(message)

    def send_raw(self, parts: list[bytes]) -> None:
        """Send these frames, whatever they are, to every gateway."""
        with self._changed:
            self._to_send.append(parts)

    def announce(self, *, draining: bool = False) -> None:
        """Send the catalog as it is now."""
        self.draining = draining
        self.send(self._catalog())

    def answer(self, item: SubmitItem, outcome: Outcome) -> None:
        """Send the answer to one item."""
        self.send(Answers(self.epoch, [Answer(item.seq, outcome, "v1")]))

    def wait_for(self, condition: Callable[[], object], what: str = "") -> None:
        """Until the condition holds, as messages come in; fails the test where it never does."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S), what or "it never came to that"

    def wait_for_items(self, count: int) -> list[SubmitItem]:
        """The first items, once that many have come in."""
        self.wait_for(lambda: len(self.items) >= count, f"no {count} items")
        return self.items[:count]

    def hellos(self) -> list[GatewayHello]:
        """Every HELLO so far."""
        return [message for message in self.seen if isinstance(message, GatewayHello)]

    def asked(self) -> list[Ask]:
        """Every question so far."""
        return [message for message in self.seen if isinstance(message, Ask)]

    def cancelled(self) -> set[int]:
        """The sequence numbers of every Cancel so far."""
        return {seq for message in self.seen if isinstance(message, Cancel) for seq in message.seqs}

    def said_goodbye(self) -> bool:
        """Whether a gateway has left in order."""
        return any(isinstance(message, Bye) for message in self.seen)

    # -------------------------------------------------------------- the thread

    def _run(self) -> None:
        context = zmq.Context()
        socket = context.socket(zmq.ROUTER)
        socket.linger = 0
        if self.secret:
            socket.curve_server = True
            socket.curve_secretkey = self.secret
        path = self.address.removeprefix("ipc://")
        if path != self.address:
            Path(path).unlink(missing_ok=True)
        socket.bind(self.address)
        self._started.set()
        beat_s = 0.0
        try:
            while not self._stop.is_set():
                if socket.poll(5):
                    sender, *parts = socket.recv_multipart()
                    self._receive(socket, sender, frames.decode_to_broker(parts))
                now = time.monotonic()
                if now - beat_s >= BEAT_S:
                    beat_s = now
                    self.send(Beat(self.epoch))
                self._flush(socket)
        finally:
            socket.close(0)
            context.term()

    def _receive(self, socket: "zmq.Socket[bytes]", sender: bytes, message: ToBroker) -> None:
        with self._changed:
            self.seen.append(message)
            if not self.silent:
                for reply in self._react(sender, message):
                    socket.send_multipart([sender, *frames.encode(reply)])
            self._changed.notify_all()

    def _react(self, sender: bytes, message: ToBroker) -> list[FromBroker]:
        if isinstance(message, GatewayHello):
            if sender not in self.gateways:
                self.gateways.append(sender)
            return [self._welcome(), self._catalog()]
        if isinstance(message, Submit | Cancel | GatewayBeat) and (
            sender not in self.gateways or message.epoch != self.epoch
        ):
            return [Who(self.epoch)]
        if isinstance(message, Submit):
            self.items += message.items
            self._known |= {item.seq for item in message.items}
            answers = [answer for item in message.items if (answer := self._answer(item))]
            return [Answers(self.epoch, answers)] if answers else []
        if isinstance(message, Ask):
            report = self.report(message)
            return [report] if report is not None else []
        if isinstance(message, GatewayBeat):
            unknown = [seq for seq in message.waiting if seq not in self._known]
            return [Unknown(self.epoch, unknown)] if unknown else []
        return []

    def _answer(self, item: SubmitItem) -> Answer | None:
        if self.draining:
            return Answer(item.seq, Failure(ErrorCode.DRAINING, "the broker is shutting down"))
        outcome = self.respond(item)
        if outcome is None or isinstance(outcome, Answer):
            return outcome
        return Answer(item.seq, outcome, "v1")

    def _welcome(self) -> Welcome:
        name, token = (self.folder.name, self.folder.token) if self.folder else ("", "")
        return Welcome(self.epoch, PROTOCOL_VERSION, name, token)

    def _catalog(self) -> Catalog:
        return Catalog(self.epoch, self.pipelines, self.draining)

    def _flush(self, socket: "zmq.Socket[bytes]") -> None:
        with self._changed:
            messages, self._to_send = self._to_send, []
            if not self.silent:
                for message in messages:
                    parts = message if isinstance(message, list) else frames.encode(message)
                    for gateway in self.gateways:
                        socket.send_multipart([gateway, *parts])

"""A broker that does what a test says: a real ROUTER that speaks through the wire contract."""

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import zmq

from broker.payload.objects import pack, unpack
from broker.wire import frames
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Batch,
    BatchItem,
    Beat,
    Blob,
    Bye,
    FromBroker,
    Outcome,
    RequestMeta,
    Results,
    SupervisorBeat,
    SupervisorHello,
    ToBroker,
    Welcome,
    Who,
    WorkerHealth,
    WorkerHello,
    WorkerReport,
)

M = TypeVar("M")


class ScriptedBroker:
    """Welcomes every hello by itself, beats, and keeps what it hears until a test asks for it."""

    def __init__(self, folder: Path, *, epoch: int = 7, welcomes: bool = True) -> None:
        self.address = f"ipc://{folder}/broker.sock"
        self.epoch = epoch
        self.welcomes = welcomes
        self.heard: list[tuple[bytes, ToBroker]] = []
        self.every_hello: list[WorkerHello] = []
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._beat_due = 0.0
        self._peers: set[bytes] = set()
        self._next_lease = 1
        self._open()

    def _open(self) -> None:
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(self.address)

    def restart(self, epoch: int) -> None:
        """Dies without a word, and comes back as one that knows nobody."""
        self._socket.close()
        self._peers.clear()
        self.heard.clear()
        self.epoch = epoch
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        self._context.term()

    # -------------------------------------------------------------- speaking

    def send(self, peer: bytes, message: FromBroker) -> None:
        self._socket.send_multipart([peer, *frames.encode(message)])

    def send_nap(self, peer: bytes, seconds: float, mark: Path) -> int:
        """A batch for `echo.py` that takes so long, and has begun; returns the lease."""
        lease = self.send_batch(peer, [{"nap": seconds, "begun": str(mark)}])
        deadline = time.monotonic() + 20.0
        while not mark.exists():
            assert time.monotonic() < deadline, "it has not begun"
            self.pump(0.01)
        return lease

    def serve(self, peer: bytes) -> None:
        """One batch, there and back: then the worker knows that it is welcome."""
        self.wait_results(self.send_batch(peer, [1]))

    def send_batch(
        self,
        peer: bytes,
        values: list[object],
        *,
        first: bool = False,
        last: bool = False,
    ) -> int:
        """Sends packed values (raw bodies to a first stage); returns the lease."""
        lease = self._next_lease
        self._next_lease += 1
        items = []
        for number, value in enumerate(values):
            meta = frames.encode_meta(RequestMeta(f"request-{number}"))
            if first:
                assert isinstance(value, bytes)
                items.append(BatchItem(value, meta, 10.0))
            else:
                body, buffers = pack(value)
                payload = frames.blob(body, buffers) if buffers else body
                items.append(BatchItem(payload, meta, 10.0))
        self.send(peer, Batch(self.epoch, lease, "p", first, last, items))
        return lease

    # -------------------------------------------------------------- listening

    def pump(self, timeout_s: float = 0.0) -> None:
        """Hears what there is, and does what a broker does by itself."""
        now = time.monotonic()
        if now >= self._beat_due:
            self._beat_due = now + 0.5
            for peer in self._peers:
                self.send(peer, Beat(self.epoch))
        while self._socket.poll(int(timeout_s * 1000)):
            timeout_s = 0
            peer, *parts = self._socket.recv_multipart()
            message = frames.decode_to_broker(parts)
            self.heard.append((peer, message))
            if isinstance(message, WorkerHello):
                self.every_hello.append(message)
            if isinstance(message, WorkerHello | SupervisorHello) and self.welcomes:
                self._peers.add(peer)
                self.send(peer, Welcome(self.epoch, PROTOCOL_VERSION))
            elif peer not in self._peers and not isinstance(message, Results | Bye):
                self.send(peer, Who(self.epoch))

    def wait_for(
        self, kind: type[M], matches: Callable[[M], bool] = lambda _: True, timeout_s: float = 20.0
    ) -> tuple[bytes, M]:
        """The first message of this kind (and what came before it is forgotten)."""
        deadline = time.monotonic() + timeout_s
        while True:
            while self.heard:
                peer, message = self.heard.pop(0)
                if isinstance(message, kind) and matches(message):
                    return peer, message
            assert time.monotonic() < deadline, f"no {kind.__name__} within {timeout_s} s"
            self.pump(0.05)

    def wait_ready(
        self, count: int = 1, timeout_s: float = 20.0
    ) -> list[tuple[bytes, WorkerHello]]:
        """The first hellos of so many workers that are ready."""
        return [
            self.wait_for(WorkerHello, lambda hello: hello.ready, timeout_s) for _ in range(count)
        ]

    def wait_results(self, lease: int, timeout_s: float = 20.0) -> Results:
        """The results of one lease."""
        return self.wait_for(Results, lambda results: results.lease == lease, timeout_s)[1]

    def wait_states(self, counts: dict[str, int], timeout_s: float = 20.0) -> None:
        """Until supervisors report so many living workers in these states of a process."""
        states: dict[bytes, str] = {}
        deadline = time.monotonic() + timeout_s
        while any(list(states.values()).count(state) < count for state, count in counts.items()):
            assert time.monotonic() < deadline, states
            _, beat = self.wait_for(SupervisorBeat)
            for report in beat.reports:
                states[report.worker] = report.detail
                stopped = report.detail == "T"
                assert report.health == (WorkerHealth.STOPPED if stopped else WorkerHealth.ALIVE)

    def wait_death(self, worker: bytes, timeout_s: float = 20.0) -> WorkerReport:
        """What a supervisor says of this worker's end."""

        def reports(beat: SupervisorBeat) -> bool:
            return any(r.worker == worker and r.health == WorkerHealth.GONE for r in beat.reports)

        _, beat = self.wait_for(SupervisorBeat, reports, timeout_s)
        return next(report for report in beat.reports if report.worker == worker)

    def wait_report(self, worker: bytes, health: int, timeout_s: float = 20.0) -> str:
        """What a supervisor says when it reports this worker's health as this."""

        def reports(beat: SupervisorBeat) -> bool:
            return any(r.worker == worker and r.health == health for r in beat.reports)

        _, beat = self.wait_for(SupervisorBeat, reports, timeout_s)
        return next(r.detail for r in beat.reports if r.worker == worker and r.health == health)


def value_of(outcome: Outcome) -> Any:
    """The object in an outcome that goes on to another stage."""
    if isinstance(outcome, bytes):
        return unpack(outcome)
    assert isinstance(outcome, Blob), outcome
    body, buffers = outcome.body, outcome.buffers
    return unpack(body or buffers[0], buffers if body else buffers[1:])  # type: ignore[arg-type]

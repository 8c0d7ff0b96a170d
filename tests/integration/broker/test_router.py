"""The router's socket: what it tells the core of peers that are not there."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from broker.arenas import Arenas
from broker.comparer import ComparerProcess
from broker.core.config import PipelineConfig
from broker.core.scheduler import Scheduler
from broker.database import IN_MEMORY
from broker.desk import Desk
from broker.router import Router
from broker.store import Store
from broker.unix import UnixRouter
from broker.wire.errors import ErrorCode
from broker.wire.frames import decode_from_broker, encode
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Answers,
    Ask,
    Batch,
    Bye,
    FromBroker,
    GatewayHello,
    Refused,
    Report,
    Results,
    Submit,
    SubmitItem,
    ToBroker,
    Welcome,
    WorkerHello,
)

EPOCH = 7
ANSWER_S = 10.0
PIPELINES = {"p": PipelineConfig(chain=("a",), attempts=1)}

Connect = Callable[[bytes], "Peer"]


class Peer:
    """A DEALER that says what a test has it say."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", address: str, id: bytes) -> None:
        self.id = id
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.set(zmq.IDENTITY, id)
        self.socket.set(zmq.RCVTIMEO, int(ANSWER_S * 1e3))
        self.socket.connect(address)

    def say(self, message: ToBroker) -> None:
        self.socket.send_multipart(encode(message))

    def hear(self, kind: type[FromBroker]) -> FromBroker:
        """The next message of this kind; others are passed over."""
        while not isinstance(message := decode_from_broker(self.socket.recv_multipart()), kind):
            pass
        return message


class Running:
    """A router in a thread, and its peers."""

    def __init__(self, folder: Path) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        path = folder / "broker.sock"
        self.address = f"ipc://{path}"
        self._socket = UnixRouter(str(path))
        self._wakeup, self._asleep = socket.socketpair()
        self.router = Router(
            Scheduler(PIPELINES, epoch=EPOCH, now=time.monotonic()),
            self._socket,
            arenas=Arenas(None),
            desk=Desk(Store(IN_MEMORY), EPOCH),
            comparer=ComparerProcess(self.address, None),
            wakeup_fd=self._asleep.fileno(),
            on_turn=lambda _now: None,
        )
        self._thread = threading.Thread(target=self.router.run)
        self._thread.start()
        self._peers: list[Peer] = []

    def connect(self, id: bytes) -> Peer:
        peer = Peer(self.context, self.address, id)
        self._peers.append(peer)
        return peer

    def worker(self, id: bytes) -> Peer:
        """One that is ready, and knows that the broker knows it."""
        peer = self.connect(id)
        peer.say(WorkerHello(PROTOCOL_VERSION, b"s", "a", ready=True))
        peer.hear(Welcome)
        return peer

    def lose(self, peer: Peer) -> None:
        """Its connection ends without a word; returns once the router's socket has seen it."""
        peer.socket.close()
        until = time.monotonic() + ANSWER_S
        while peer.id in self._socket.peers:
            assert time.monotonic() < until
            time.sleep(0.001)

    def close(self) -> None:
        for peer in self._peers:
            if not peer.socket.closed:
                peer.say(Bye(EPOCH, "ended"))
        self._wakeup.send(b"\0")
        self._thread.join(ANSWER_S)
        assert not self._thread.is_alive()
        for peer in self._peers:
            peer.socket.close()
        self._socket.close()
        self.context.term()
        self._wakeup.close()
        self._asleep.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A router that drains at the end."""
    running = Running(tmp_path)
    yield running
    running.close()


def test_a_batch_for_a_worker_that_is_gone_uses_no_attempt(running: Running) -> None:
    gateway = running.connect(b"gateway")
    gateway.say(GatewayHello(PROTOCOL_VERSION))
    gateway.hear(Welcome)
    for worker in [running.worker(b"w%d" % n) for n in range(3)]:
        running.lose(worker)
    gateway.say(Submit(EPOCH, [SubmitItem(1, "p", b"body", b"", 60.0)]))
    alive = running.worker(b"alive")
    batch = alive.hear(Batch)
    assert isinstance(batch, Batch)
    assert [item.attempt for item in batch.items] == [1]
    alive.say(Results(EPOCH, batch.lease, [b"result"], 0.001))
    answers = gateway.hear(Answers)
    assert isinstance(answers, Answers)
    assert [answer.outcome for answer in answers.answers] == [b"result"]


@pytest.mark.parametrize("id", [0, 5, -1, 2**64 - 1, -(2**63)])
def test_answers_have_the_id_of_their_question(running: Running, id: int) -> None:
    asker = running.connect(b"c1")
    for what in ("status", "traffic", "history"):
        asker.say(Ask(PROTOCOL_VERSION, what, id=id))
        report = asker.hear(Report)
        assert isinstance(report, Report)
        assert (report.id, report.code, report.epoch) == (id, 0, EPOCH)
    asker.say(Ask(PROTOCOL_VERSION, "rollback", b"{", id))
    report = asker.hear(Report)
    assert isinstance(report, Report)
    assert (report.id, report.code) == (id, ErrorCode.BAD_REQUEST)


def test_what_is_not_known_is_refused_in_the_way_that_the_asker_knows(running: Running) -> None:
    asker = running.connect(b"c1")
    asker.say(Ask(PROTOCOL_VERSION, "the time"))
    assert isinstance(asker.hear(Refused), Refused)
    asker.say(Ask(PROTOCOL_VERSION, "the time", id=3))
    report = asker.hear(Report)
    assert isinstance(report, Report)
    assert (report.id, report.code) == (3, ErrorCode.NOT_FOUND)

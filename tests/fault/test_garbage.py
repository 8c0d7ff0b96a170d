"""Foreign and broken peers at the broker's address: they are counted, and harm nobody."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec
import pytest
import zmq

from broker.wire.frames import decode_from_broker, encode
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Ask,
    ComparerHello,
    GatewayHello,
    Refused,
    SupervisorHello,
    ToBroker,
    Welcome,
    WorkerHello,
)
from tests.fault.rig import WAIT_S, Rig, under_load
from tests.system.deployment import wait_until

pytestmark = pytest.mark.fault

Socket = zmq.Socket[bytes]


@pytest.fixture
def connect(rig: Rig) -> Iterator[Callable[..., Socket]]:
    """Connects foreign sockets to the broker."""
    with zmq.Context() as context, ExitStack() as stack:

        def connect(kind: int = zmq.DEALER, **options: int) -> Socket:
            foreign: Socket = stack.enter_context(context.socket(kind))
            foreign.linger = 0
            if kind in (zmq.DEALER, zmq.REQ):
                foreign.setsockopt(zmq.ROUTING_ID, b"x" + os.urandom(8))
            for name, value in options.items():
                foreign.setsockopt(getattr(zmq, name), value)
            foreign.connect(rig.mill.address)
            return foreign

        yield connect


def bad_messages() -> list[list[bytes]]:
    """Multipart messages of which none is one of this protocol, each wrong in a way of its own."""
    pack = msgspec.msgpack.encode
    nested = b"\x91" * 5000 + b"\xc0"
    return [
        [b""],
        [b"", b""],
        [b"\xc1"],
        [os.urandom(64)],
        [b"GET / HTTP/1.1\r\n\r\n"],
        [pack([99, 1, 2])],
        [pack([2, 1, "no items"])],
        [pack([2, -1, [[1, "chain"]]])],
        [pack([6, 1, 1, [[1, b"body", [1 << 62]]], 0.1])],
        [pack({"kind": 2})],
        [pack([36, 1])],  # what only a broker says
        [nested],
        [pack([13, 1, "status"]), *[b"x"] * 50],  # frames that no payload claims
    ]


def test_messages_that_are_none(rig: Rig, connect: Callable[..., Socket]) -> None:
    before = rig.counter("bad_messages")
    messages = bad_messages()

    def fault() -> None:
        for message in messages:  # each from a peer of its own, or it would soon be muted
            connect().send_multipart(message)
        wait_until(
            lambda: rig.counter("bad_messages") - before >= len(messages), WAIT_S, "each is counted"
        )

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    assert rig.counter("bad_messages") - before == len(messages)


def test_a_peer_that_goes_on_is_muted(rig: Rig, connect: Callable[..., Socket]) -> None:
    before = rig.counter("muted")
    foreign = connect()

    def fault() -> None:
        for _ in range(5000):
            foreign.send(b"\xc1")
        wait_until(
            lambda: rig.counter("muted") - before >= 4990, WAIT_S, "it is not heard any more"
        )

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()


def test_a_wrong_protocol_version_is_refused(rig: Rig, connect: Callable[..., Socket]) -> None:
    before = rig.counter("protocol_versions_refused")
    hellos: list[ToBroker] = [
        GatewayHello(99),
        SupervisorHello(99, "second"),
        WorkerHello(99, b"s" * 17, "second", ready=True),
        ComparerHello(99),
    ]
    for hello in hellos:
        foreign = connect()
        foreign.send_multipart(encode(hello))
        assert foreign.poll(20_000)
        answer = decode_from_broker(foreign.recv_multipart())
        assert isinstance(answer, Refused)
        assert "99" in answer.reason
    assert rig.counter("protocol_versions_refused") - before == len(hellos)
    rig.wait_whole()


@pytest.mark.parametrize("ask", [Ask(99, "status"), Ask(PROTOCOL_VERSION, "the time")])
def test_a_question_that_it_does_not_know_is_refused(
    rig: Rig, connect: Callable[..., Socket], ask: Ask
) -> None:
    foreign = connect()
    foreign.send_multipart(encode(ask))
    assert foreign.poll(20_000)
    assert isinstance(decode_from_broker(foreign.recv_multipart()), Refused)
    rig.wait_whole()


def test_other_programs_at_the_address(rig: Rig, connect: Callable[..., Socket]) -> None:
    path = rig.mill.address.removeprefix("ipc://")

    def fault() -> None:
        connect(zmq.SUB).setsockopt(zmq.SUBSCRIBE, b"")
        connect(zmq.REQ).send(b"hello?")
        connect(zmq.PULL)
        for greeting in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(4096), b"\xff", b""):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.settimeout(WAIT_S)
                raw.connect(path)
                raw.sendall(greeting)
                time.sleep(0.05)

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    rig.wait_whole()


def test_a_peer_that_never_reads(rig: Rig, connect: Callable[..., Socket]) -> None:
    """It asks for more and more: what is to be sent to it piles up, and it is lost at last."""
    before = rig.counter("peers_unreachable")
    deaf = connect(RCVHWM=1)
    deaf.send_multipart(encode(GatewayHello(PROTOCOL_VERSION)))
    assert deaf.poll(20_000)
    welcome = decode_from_broker(deaf.recv_multipart())
    assert isinstance(welcome, Welcome)
    hello = encode(GatewayHello(PROTOCOL_VERSION))

    def fault() -> None:
        end = time.monotonic() + WAIT_S
        while rig.counter("peers_unreachable") == before:
            assert time.monotonic() < end, "it is not given up"
            for _ in range(500):
                deaf.send_multipart(hello)
            time.sleep(0.02)

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    deaf.close()
    rig.wait_whole()

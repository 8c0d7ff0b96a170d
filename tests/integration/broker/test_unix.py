"""Our sockets for peers on one host: with libzmq at the other end, and with each other."""

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import zmq

from broker import unix
from broker.router import NoRoute
from broker.unix import HIGH_WATER_MESSAGES, UnixRouter
from broker.wire import zmtp
from broker.wire.dealer import Dealer

WAIT_S = 20.0
MESSAGES = [
    [b""],
    [b"x"],
    [b"y" * 255, b"", b"z" * 256],
    [b"head", *(bytes([number]) * 70_000 for number in range(5))],
    [b"head", os.urandom(3_000_000)],
]
Open = Callable[[int], "zmq.Socket[bytes]"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


@pytest.fixture
def router(path: str) -> Iterator[UnixRouter]:
    router = UnixRouter(path)
    yield router
    router.close()


@pytest.fixture
def opened() -> Iterator[Callable[[int], "zmq.Socket[bytes]"]]:
    """Opens sockets of libzmq, until the end of the test."""
    with zmq.Context() as context, ExitStack() as stack:

        def open_socket(kind: int) -> "zmq.Socket[bytes]":
            opened: zmq.Socket[bytes] = stack.enter_context(context.socket(kind))
            opened.linger = 0
            opened.setsockopt(zmq.RCVTIMEO, int(WAIT_S * 1000))
            return opened

        yield open_socket


@pytest.fixture
def dealer(path: str) -> Iterator[Dealer]:
    def connect() -> socket.socket:
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(path)
        stream.setblocking(False)
        return stream

    dealer = Dealer(connect, b"d", ending=lambda: None)
    yield dealer
    dealer.close()


def until(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happens():
        assert time.monotonic() < deadline


def next_of(router: UnixRouter) -> tuple[bytes, list[bytes]]:
    """The next message that comes in."""
    deadline = time.monotonic() + WAIT_S
    while (message := router.receive()) is None:
        assert time.monotonic() < deadline
        router.wait(0.1)
    peer, frames = message
    return peer, [bytes(frame) for frame in frames]


# ------------------------------------------------------------------ with libzmq


def test_a_dealer_of_libzmq_is_answered(router: UnixRouter, opened: Open, path: str) -> None:
    dealer = opened(zmq.DEALER)  # which asks for no routing id
    dealer.connect(f"ipc://{path}")
    for message in MESSAGES:
        dealer.send_multipart(message)
    for message in MESSAGES:
        peer, frames = next_of(router)
        assert frames == message
        assert len(peer) == 5
        assert router.send(peer, frames)
    for message in MESSAGES:
        until(lambda: router.wait(0.0) or dealer.poll(1))
        assert dealer.recv_multipart() == message


def test_heartbeats_of_libzmq_are_answered(router: UnixRouter, opened: Open, path: str) -> None:
    dealer = opened(zmq.DEALER)
    dealer.setsockopt(zmq.HEARTBEAT_IVL, 20)
    dealer.setsockopt(zmq.HEARTBEAT_TIMEOUT, 1000)
    ends = dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    dealer.connect(f"ipc://{path}")
    dealer.send(b"x")
    peer, _ = next_of(router)
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        router.wait(0.02)
    assert router.send(peer, [b"still there"])
    assert dealer.recv() == b"still there"
    assert not ends.poll(0)
    dealer.disable_monitor()
    ends.close()


def test_a_dealer_meets_a_router_of_libzmq(opened: Open, path: str, dealer: Dealer) -> None:
    router = opened(zmq.ROUTER)
    router.setsockopt(zmq.HEARTBEAT_IVL, 20)
    router.setsockopt(zmq.HEARTBEAT_TIMEOUT, int(WAIT_S * 1000))
    router.bind(f"ipc://{path}")
    for message in MESSAGES:

        def sent(message: list[bytes] = message) -> bool:
            dealer.connect()
            dealer.has_input()
            return dealer.send(message)

        until(sent)
        until(lambda: router.poll(1) or (dealer.flush() and False))
        assert router.recv_multipart() == [b"d", *message]
        router.send_multipart([b"d", *message])
        until(dealer.has_input)
        received = dealer.receive()
        assert received is not None
        assert [bytes(frame) for frame in received] == message


# ------------------------------------------------------------------ with each other


def ready(dealer: Dealer, router: UnixRouter) -> None:
    def is_ready() -> bool:
        dealer.connect()
        router.wait(0.0)
        dealer.has_input()
        return dealer.is_ready and b"d" in router.peers

    until(is_ready)


def test_who_is_not_there_is_told_of(router: UnixRouter, dealer: Dealer) -> None:
    with pytest.raises(NoRoute):
        router.send(b"d", [b"x"])
    ready(dealer, router)
    assert dealer.send([b"last words"])
    dealer.close()
    with pytest.raises(NoRoute):
        router.send(b"d", [b"x"])
    assert next_of(router) == (b"d", [b"last words"])


def test_who_comes_back_takes_its_own_place_again(router: UnixRouter, path: str) -> None:
    places = []
    for _ in range(2):
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(path)
        stream.sendall(zmtp.opening(zmtp.DEALER, b"same"))
        places.append(stream)
        until(lambda: router.wait(0.01) or b"same" in router.peers)
    first, second = places
    first.settimeout(WAIT_S)
    until(lambda: router.wait(0.01) or first.recv(4096) == b"")
    assert router.send(b"same", [b"x"])
    assert second.recv(4096).endswith(b"\0\x01x")
    for stream in places:
        stream.close()


def test_a_peer_that_does_not_read_gets_all_of_it_later(router: UnixRouter, dealer: Dealer) -> None:
    ready(dealer, router)
    sent = 0
    while router.send(b"d", [b"%d" % sent, bytes(1000)]):
        sent += 1
    assert sent > HIGH_WATER_MESSAGES
    for number in range(sent):
        until(lambda: dealer.has_input() or router.wait(0.0))
        received = dealer.receive()
        assert received is not None
        assert received[0] == b"%d" % number
    assert router.send(b"d", [b"again"])


def test_a_router_that_does_not_read_takes_no_more(router: UnixRouter, dealer: Dealer) -> None:
    ready(dealer, router)
    payload = os.urandom(100_000)
    sent = 0
    while dealer.send([b"%d" % sent, payload]):
        sent += 1
    assert dealer.has_unsent
    for number in range(sent):
        assert next_of(router) == (b"d", [b"%d" % number, payload])
        dealer.flush()
    assert dealer.send([b"again"])


def test_who_talks_on_and_on_keeps_nobody_waiting(
    router: UnixRouter, dealer: Dealer, path: str
) -> None:
    ready(dealer, router)
    talker = socket.socket(socket.AF_UNIX)
    talker.connect(path)
    talker.sendall(zmtp.opening(zmtp.DEALER, b"talker") + b"\0\0" * 30_000)
    until(lambda: router.wait(0.01) or b"talker" in router.peers)
    assert dealer.send([b"x"])
    before = 0
    while (message := next_of(router))[0] != b"d":
        before += 1
    assert message == (b"d", [b"x"])
    assert before < 1000
    talker.close()


def test_what_is_left_of_one_that_is_gone_harms_nobody_at_its_descriptor(
    router: UnixRouter, path: str
) -> None:
    first, second, other = streams = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    heard: list[bytes] = []

    def join(stream: socket.socket, name: bytes, said: bytes = b"") -> None:
        stream.connect(path)
        stream.sendall(zmtp.opening(zmtp.DEALER, name) + said)

    def pump() -> int:
        router.wait(0.01)
        while (message := router.receive()) is not None:
            heard.append(bytes(message[1][0]))
        return len(heard)

    join(first, b"same", b"\0\x01a" * 2000 + b"\x08\0")  # at the end what is no frame
    until(pump)
    join(second, b"same")
    until(lambda: pump() > 640)  # it has its place by now
    join(other, b"other")  # and this one the descriptor of the first
    until(lambda: pump() == 2000 and b"other" in router.peers)
    other.sendall(b"\0\x01b")
    until(lambda: pump() and heard[-1] == b"b")
    for stream in streams:
        stream.close()


def test_who_does_not_shake_hands_is_cut_off(
    router: UnixRouter, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix, "HANDSHAKE_S", 0.01)
    for said in (b"", zmtp.opening(zmtp.DEALER)[:50], b"GET / HTTP/1.1\r\n\r\n" + bytes(64)):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(path)
            stranger.sendall(said)
            stranger.setblocking(False)
            heard: list[bytes] = []

            def ended(stranger: socket.socket = stranger, heard: list[bytes] = heard) -> bool:
                router.wait(0.01)
                try:
                    heard.append(stranger.recv(4096))
                except BlockingIOError:
                    return False
                except ConnectionError:
                    heard.append(b"")
                return heard[-1] == b""

            until(ended)
    assert not router.peers


def test_who_comes_while_no_files_are_left_is_let_in_later(
    router: UnixRouter, dealer: Dealer
) -> None:
    dealer.connect()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(dealer.fd)  # the lowest that there is
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        for _ in range(3):
            assert router.wait(0.01) == []
        assert not router.peers
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    ready(dealer, router)


def test_a_dealer_says_what_listens_there(path: str, dealer: Dealer) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        dealer.connect()
        other, _ = listener.accept()
        other.sendall(b"220 mail.example ESMTP\r\n".ljust(64))
        until(lambda: dealer.has_input() or dealer.trouble)
        assert dealer.trouble == "it does not speak ZMTP"
        assert dealer.fd == -1
        assert dealer.due > time.monotonic()  # and is not tried again at once
        other.close()
    os.unlink(path)
    router = UnixRouter(path)
    ready(dealer, router)
    assert dealer.trouble == ""
    router.close()

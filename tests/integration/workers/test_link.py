"""The socket to the broker: what waits for a broker, what is dropped, and keys."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zmq

from broker.wire import frames, zmtp
from broker.wire.keys import KeyPair, load_client_keys, write_keys
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Batch,
    BatchItem,
    Blob,
    Results,
    WorkerBeat,
    WorkerHello,
)
from tests.ports import free_port
from workers.link import Link, make_socket
from workers.unix import PATIENCE_S

NAME = b"w0123456789abcdef"


@pytest.fixture
def context() -> Iterator["zmq.Context[zmq.Socket[bytes]]"]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture(params=["ipc", "tcp"])
def address(request: pytest.FixtureRequest, folder: Path) -> str:
    """Of a broker on this host, and of one that might be on another."""
    return f"ipc://{folder}/b.sock" if request.param == "ipc" else f"tcp://127.0.0.1:{free_port()}"


@pytest.fixture
def router(context: "zmq.Context[zmq.Socket[bytes]]") -> Iterator["zmq.Socket[bytes]"]:
    with context.socket(zmq.ROUTER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        yield socket


def hello(index: int) -> WorkerHello:
    return WorkerHello(PROTOCOL_VERSION, b"s", "infer", index=index)


def heard(router: "zmq.Socket[bytes]", link: Link, count: int) -> list[object]:
    """So many messages, while the link is given the chance to send them."""
    messages: list[object] = []
    deadline = time.monotonic() + 10
    while len(messages) < count:
        assert time.monotonic() < deadline, messages
        link.wait(0.02)
        while router.poll(0):
            messages.append(frames.decode_to_broker(router.recv_multipart()[1:]))
    return messages


def test_the_newest_hello_and_all_results_wait_for_a_broker(
    router: "zmq.Socket[bytes]", address: str
) -> None:
    link = Link(make_socket(address, NAME, None))
    buffer = bytearray(b"x" * 1_000_000)
    results = Results(1, 1, [frames.blob(b"", [buffer])], 0.1)
    for message in (hello(1), WorkerBeat(1, []), results, hello(2)):
        link.send(message)
    buffer[:] = b"y" * 1_000_000  # the plug-in goes on to use its memory
    router.bind(address)
    first, second = heard(router, link, 2)
    assert first == hello(2)
    assert isinstance(second, Results)
    (outcome,) = second.outcomes
    assert isinstance(outcome, Blob)
    assert outcome.buffers == [b"x" * 1_000_000]
    link.send(WorkerBeat(1, [3]))
    assert heard(router, link, 1) == [WorkerBeat(1, [3])]
    link.close()


def test_waiting_without_a_broker_is_no_spinning(address: str) -> None:
    link = Link(make_socket(address, NAME, None))
    link.send(hello(1))
    began, used = time.monotonic(), time.thread_time()
    while time.monotonic() - began < 0.2:
        assert link.wait(0.2) == []
    assert time.thread_time() - used < 0.1
    link.close()


def test_large_frames_are_not_copied_and_small_ones_are(
    router: "zmq.Socket[bytes]", address: str
) -> None:
    router.bind(address)
    link = Link(make_socket(address, NAME, None))
    link.send(hello(1))
    heard(router, link, 1)
    payload = frames.blob(b"b", [b"s" * 5000, b"l" * 700_000])
    batch = Batch(1, 1, "p", False, False, [BatchItem(payload, b"", 1.0)])
    router.send_multipart([NAME, b"rubbish"])
    router.send_multipart([NAME, *frames.encode(batch)])
    received: list[object] = []
    while not received:
        link.wait(1.0)
        received += link.receive()
    (got,) = received
    assert isinstance(got, Batch)
    assert isinstance(got.items[0].payload, Blob)
    small, large = got.items[0].payload.buffers
    assert isinstance(small, bytes)
    assert isinstance(large, memoryview)
    assert large.readonly
    link.close()


def test_a_broker_that_stands_still_keeps_nobody_for_long(folder: Path) -> None:
    """And all that it was to be told is told when it goes on."""
    payload = b"x" * 100_000
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "b.sock"))
        listener.listen()
        link = Link(make_socket(f"ipc://{folder}/b.sock", NAME, None))
        stream, _ = listener.accept()
    with stream:
        stream.sendall(zmtp.opening(zmtp.ROUTER))
        link.wait(1.0)
        began = time.monotonic()
        for lease in range(20):
            link.send(Results(1, lease, [frames.blob(b"", [payload])], 0.1))
        is_stuck = link.is_stuck
        assert is_stuck
        assert time.monotonic() - began < 5 * PATIENCE_S
        messages: list[list[frames.Buffer]] = []
        scratch = memoryview(bytearray(zmtp.ROOM_BYTES))
        reader = zmtp.Reader(scratch, (zmtp.DEALER,), messages.append)
        stream.setblocking(False)
        deadline = time.monotonic() + 10
        while len(messages) < 20:
            assert time.monotonic() < deadline
            with suppress(BlockingIOError):
                reader.received(stream.recv_into(reader.space()))
            link.wait(0.0)
        assert not link.is_stuck
        results = [frames.decode_to_broker(parts) for parts in messages]
        assert [result.lease for result in results if isinstance(result, Results)] == [*range(20)]
        assert [bytes(part) for parts in messages for part in parts[1:]] == [payload] * 20
        link.close()


def test_a_descriptor_of_a_lost_connection_may_be_used_again(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "b.sock"))
        listener.listen()
        link = Link(make_socket(f"ipc://{folder}/b.sock", NAME, None))
        link.wait(0.0)
        broker, _ = listener.accept()
        (folder / "b.sock").unlink()
        broker.shutdown(socket.SHUT_RDWR)
        assert list(link.receive()) == []  # now it is lost
        reading, writing = os.pipe()
    link.watch(reading)
    link.wait(0.0)
    os.write(writing, b"x")
    assert link.wait(5.0) == [reading]
    link.forget(reading)
    link.close()
    broker.close()
    for fd in (reading, writing):
        os.close(fd)


def test_keys_are_used(router: "zmq.Socket[bytes]", folder: Path) -> None:
    pair, client = KeyPair(*zmq.curve_keypair()), KeyPair(*zmq.curve_keypair())
    write_keys(folder / "keys", broker=pair, client=client)
    router.curve_server = True
    router.curve_secretkey = pair.secret
    port = router.bind_to_random_port("tcp://127.0.0.1")
    address = f"tcp://127.0.0.1:{port}"
    plain = Link(make_socket(address, b"w-without-keys", None))
    link = Link(make_socket(address, NAME, load_client_keys(folder / "keys")))
    for each, index in ((plain, 1), (link, 2)):
        each.send(hello(index))
    assert heard(router, link, 1) == [hello(2)]
    plain.wait(0.1)
    assert not router.poll(50)
    plain.close()
    link.close()

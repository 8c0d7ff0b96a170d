"""ZMTP: what one side frames the other reads, however it is cut; what is no ZMTP is refused."""

import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire import zmtp
from broker.wire.errors import ProtocolError
from broker.wire.frames import Buffer

GREETING = zmtp.opening(zmtp.ROUTER)[:64]
SIZES = [0, 1, 254, 255, 256, 5000, zmtp.LARGE_BYTES, zmtp.LARGE_BYTES + 1, zmtp.ROOM_BYTES + 7]


class Other:
    """The reading end of a connection, given what arrives."""

    def __init__(self, kind: bytes = zmtp.ROUTER, most: int = 1 << 30) -> None:
        self.messages: list[list[bytes]] = []
        scratch = memoryview(bytearray(zmtp.ROOM_BYTES))
        self.reader = zmtp.Reader(scratch, (kind,), self._take, most)

    def _take(self, parts: list[Buffer]) -> None:
        assert type(parts[0]) is bytes or len(parts[0]) > zmtp.LARGE_BYTES
        assert all(memoryview(part).readonly for part in parts)
        self.messages.append([bytes(part) for part in parts])

    def feed(self, data: bytes, step: int = 1 << 30) -> None:
        """In pieces of at most so many bytes, as they would be received."""
        left = memoryview(data)
        while left:
            space = self.reader.space()
            piece = left[: min(step, len(space))]
            space[: len(piece)] = piece
            self.reader.received(len(piece))
            left = left[len(piece) :]


def over_the_wire(messages: list[list[bytes]]) -> bytes:
    return b"".join(bytes(buffer) for parts in messages for buffer in zmtp.framed(parts))


frame = st.one_of(st.binary(max_size=300), st.sampled_from(SIZES).map(bytes))
message = st.lists(frame, min_size=1, max_size=5)


small = st.lists(st.binary(max_size=300), min_size=1, max_size=5)


@given(st.lists(small, max_size=6), st.sampled_from([1, 2, 9, 63, 64, 65]))
def test_messages_arrive_in_small_pieces(messages: list[list[bytes]], step: int) -> None:
    other = Other()
    other.feed(zmtp.opening(zmtp.ROUTER) + over_the_wire(messages), step)
    assert other.messages == messages


@given(st.lists(message, max_size=6), st.sampled_from([1000, 65_536, zmtp.ROOM_BYTES, 1 << 30]))
def test_messages_arrive_in_large_pieces(messages: list[list[bytes]], step: int) -> None:
    other = Other()
    other.feed(zmtp.opening(zmtp.ROUTER) + over_the_wire(messages), step)
    assert other.messages == messages


@given(st.lists(message, min_size=1, max_size=4), st.integers(0, 200_000))
def test_the_rest_of_what_was_sent_in_part(messages: list[list[bytes]], sent: int) -> None:
    buffers = [buffer for parts in messages for buffer in zmtp.framed(parts)]
    whole = b"".join(bytes(buffer) for buffer in buffers)
    assert b"".join(bytes(left) for left in zmtp.rest_of(buffers, sent)) == whole[sent:]


def test_small_messages_are_one_buffer() -> None:
    assert zmtp.framed([b"abc"]) == [b"\0\x03abc"]
    assert len(zmtp.framed([b"x" * 1000, b"", b"y"])) == 1
    assert len(zmtp.framed([b"x", bytes(zmtp.JOIN_BYTES)])) > 1


@given(st.binary(max_size=2000), st.booleans())
def test_any_bytes_are_messages_or_a_protocol_error(data: bytes, greets: bool) -> None:
    other = Other()
    with contextlib.suppress(ProtocolError):
        other.feed((zmtp.opening(zmtp.ROUTER) if greets else b"") + data, 700)


def commands(*bodies: bytes) -> bytes:
    return b"".join(bytes((4, len(body))) + body for body in bodies)


def mistakes() -> Iterator[tuple[bytes, str]]:
    yield b"GET / HTTP/1.1\r\n" + bytes(64), "does not speak ZMTP"
    yield b"\xff" + bytes(8) + b"\x7f\x01" + bytes(60), "ZMTP 1, not 3"
    yield GREETING[:12] + b"CURVE".ljust(52, b"\0"), r"asks for keys \(CURVE\)"
    yield zmtp.opening(zmtp.DEALER, b"x"), "another type of socket"
    yield GREETING + b"\0\x01x", "before the handshake"
    yield GREETING + commands(b"\x05READY\x0bSocket-Type\0\0\0\x09ROUTER"), "a READY that is none"
    yield GREETING + commands(b"\x05ERROR\x07refused"), "it refuses us: refused"
    yield GREETING + b"\x08\0", "a frame that is none"
    yield GREETING + b"\x02" + (1 << 40).to_bytes(8, "big"), "a frame that is none"


@pytest.mark.parametrize(("data", "says"), list(mistakes()))
def test_what_is_wrong_with_the_other_end_is_said(data: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        Other().feed(data)


def test_the_names_of_properties_may_be_written_in_any_case() -> None:
    other = Other(zmtp.DEALER)
    other.feed(
        GREETING + commands(b"\x05READY\x0bsocket-TYPE\0\0\0\x06DEALER\x08identity\0\0\0\x02me")
    )
    assert other.reader.is_ready
    assert other.reader.identity == b"me"


def test_a_ping_is_answered_and_what_is_unknown_is_passed_over() -> None:
    other = Other()
    other.feed(zmtp.opening(zmtp.ROUTER))
    other.feed(commands(b"\x04PING\x00\x10ctx", b"\x09SUBSCRIBEx", b""))
    assert other.reader.replies == [commands(b"\x04PONGctx")]
    assert other.messages == []


def test_frames_of_a_message_are_counted() -> None:
    other = Other()
    other.feed(zmtp.opening(zmtp.ROUTER))
    with pytest.raises(ProtocolError, match="more than"):
        other.feed(b"\x01\0" * 70_000)


def test_what_is_held_back_comes_when_it_is_asked_for() -> None:
    other = Other(most=3)
    messages = [[b"%d" % number] for number in range(8)]
    data = zmtp.opening(zmtp.ROUTER) + over_the_wire(messages)
    other.feed(data)
    turns = []
    while other.reader.is_held:
        turns.append(len(other.messages))
        other.reader.resume()
    assert turns == [3, 6]
    assert other.messages == messages

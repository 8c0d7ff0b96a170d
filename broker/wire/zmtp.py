"""ZMTP 3.0 between a DEALER and a ROUTER of the same host: bytes in, messages out. Pure.

Greeting, handshake and framing are those of RFC 23 (ZMTP 3.0), of which a peer on this host needs
the NULL mechanism alone; a PING, of RFC 37 (ZMTP 3.1), is answered. Either end may be libzmq.
"""

import struct
import sys
from collections.abc import Callable, Collection, Sequence

from broker.wire.errors import ProtocolError
from broker.wire.frames import MAX_FRAMES, MAX_MESSAGE_BYTES, Buffer

DEALER = b"DEALER"
ROUTER = b"ROUTER"
LARGE_BYTES = 1 << 15
"""A frame that is longer is received into memory of its own, if it does not come at one go."""
ROOM_BYTES = 1 << 17
"""What comes at one go, at most: about half of it is what a Unix socket holds by default."""
JOIN_BYTES = 1 << 16
"""Up to so many bytes a message is joined to one buffer: the system takes that for less than many.
"""

_MORE, _LONG, _COMMAND = 1, 2, 4
_FLAGS = _MORE | _LONG | _COMMAND
_SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
_GREETING_BYTES = 64
_NULL = b"NULL".ljust(20, b"\0")
_MECHANISM = slice(12, 32)
_MAJOR = 10  # its place in a greeting
_MAJOR_LEAST = 3
_SHORT_HEAD = 2
_LONG_HEAD = struct.Struct(">BQ")
_SHORT_BYTES = 255
_HEADS = [bytes((0, size)) for size in range(_SHORT_BYTES + 1)]
_PING_TTL_BYTES = 2


def opening(socket_type: bytes, identity: bytes = b"") -> bytes:
    """What a socket says first: greeting and READY, with no need to wait for the other end."""
    properties = [(b"Socket-Type", socket_type)]
    if socket_type == DEALER:
        properties.append((b"Identity", identity))
    ready = b"\x05READY" + b"".join(
        bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value
        for name, value in properties
    )
    greeting = _SIGNATURE + b"\x03\x00" + _NULL
    return greeting.ljust(_GREETING_BYTES, b"\0") + _command(ready)


def framed(parts: Sequence[Buffer]) -> list[Buffer]:
    """A message as it goes over the wire, in as few buffers as is cheap; none of them is empty."""
    if len(parts) == 1 and len(parts[0]) <= _SHORT_BYTES and type(parts[0]) is bytes:
        return [_HEADS[len(parts[0])] + parts[0]]
    buffers: list[Buffer] = []
    total = 0
    last = len(parts) - 1
    for place, part in enumerate(parts):
        size = len(part) if type(part) is bytes else memoryview(part).nbytes
        buffers.append(_LONG_HEAD.pack(_LONG | (place < last), size))
        if size:
            buffers.append(part)
        total += size
    return [b"".join(buffers)] if total <= JOIN_BYTES else buffers


def rest_of(buffers: Sequence[Buffer], sent: int) -> list[Buffer]:
    """What is left of these when so many bytes have gone; nothing is copied."""
    left: list[Buffer] = []
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        if sent < len(view):
            left.append(view[sent:])
        sent = max(sent - len(view), 0)
    return left


class Reader:
    """One connection's incoming side: receive into `space()`, tell how much came by `received`."""

    def __init__(
        self,
        scratch: memoryview,
        expected: Collection[bytes],
        take: Callable[[list[Buffer]], None],
        most: int = sys.maxsize,
    ) -> None:
        """`scratch` is this reader's only between `space` and `received`: many may share one.
        `expected` are the types of socket that may be at the other end. `take` gets each message:
        its first frame is bytes, and large ones are read-only. After `most` of them at a time, what
        else has come `is_held` back until `resume`.
        """
        self.identity = b""
        """The routing id that the other end asks for, once it `is_ready`."""
        self.is_ready = False
        """Whether the other end has shaken hands."""
        self.replies: list[bytes] = []
        """Commands to be sent back."""
        self.is_held = False
        self._most = self._left = most
        self._scratch = scratch
        self._expected = expected
        self._take_message = take
        self._rest = b""  # of what came last: the beginning of a frame
        self._is_greeted = False
        self._parts: list[Buffer] = []
        self._large: memoryview | None = None  # a frame that comes in its own memory
        self._large_end = 0
        self._large_flags = 0

    def space(self) -> memoryview:
        """Where the next bytes go; not empty unless something `is_held`."""
        if self._large is not None:
            return self._large[self._large_end :]
        rest = len(self._rest)
        if not rest:
            return self._scratch
        self._scratch[:rest] = self._rest
        return self._scratch[rest:]

    def received(self, count: int) -> None:
        """So many bytes have come. Raises ProtocolError where they are no ZMTP, or not for us."""
        if self._large is not None:
            self._large_end += count
            if self._large_end == len(self._large):
                whole, self._large = self._large, None
                self._take(self._large_flags, whole.toreadonly())
            return
        self.is_held = False
        self._left = self._most
        end = len(self._rest) + count
        start = 0 if self._is_greeted else self._greet(end)
        if self._is_greeted:
            start = self._parse(start, end)
        self._rest = bytes(self._scratch[start:end]) if start < end else b""

    def resume(self) -> None:
        """Take more of what is held back; raises ProtocolError as `received` does."""
        self.space()
        self.received(0)

    def _greet(self, end: int) -> int:
        """Where the greeting ends, if all of it has come."""
        if end < _GREETING_BYTES:
            return 0
        greeting = bytes(self._scratch[:_GREETING_BYTES])
        if greeting[0] != _SIGNATURE[0] or greeting[9] != _SIGNATURE[9]:
            raise ProtocolError("it does not speak ZMTP")
        if greeting[_MAJOR] < _MAJOR_LEAST:
            raise ProtocolError(f"it speaks ZMTP {greeting[_MAJOR]}, not {_MAJOR_LEAST}")
        if greeting[_MECHANISM] != _NULL:
            mechanism = greeting[_MECHANISM].rstrip(b"\0").decode("ascii", "replace")
            raise ProtocolError(f"it asks for keys ({mechanism})")
        self._is_greeted = True
        return _GREETING_BYTES

    def _parse(self, start: int, end: int) -> int:
        """Takes the frames between; returns where the first one begins that is not whole."""
        scratch = self._scratch
        while end - start >= _SHORT_HEAD:
            flags = scratch[start]
            if flags & _LONG:
                if end - start < _LONG_HEAD.size:
                    break
                _, size = _LONG_HEAD.unpack_from(scratch, start)
                body = start + _LONG_HEAD.size
            else:
                size = scratch[start + 1]
                body = start + _SHORT_HEAD
            if flags & ~_FLAGS or size > MAX_MESSAGE_BYTES:
                raise ProtocolError("a frame that is none")
            stop = body + size
            if stop <= end:
                if not self._left:
                    self.is_held = True
                    break
                self._take(flags, bytes(scratch[body:stop]))
                start = stop
            elif size <= LARGE_BYTES:
                break
            else:
                self._begin_large(flags, size, scratch[body:end])
                return end
        return start

    def _begin_large(self, flags: int, size: int, begun: memoryview) -> None:
        self._large = memoryview(bytearray(size))
        self._large[: len(begun)] = begun
        self._large_end = len(begun)
        self._large_flags = flags

    def _take(self, flags: int, frame: Buffer) -> None:
        if flags & _COMMAND:
            self._obey(bytes(frame))
            return
        if not self.is_ready:
            raise ProtocolError("a message before the handshake")
        parts = self._parts
        parts.append(frame)
        if not flags & _MORE:
            self._left -= 1
            self._parts = []
            self._take_message(parts)
        elif len(parts) >= MAX_FRAMES:
            raise ProtocolError(f"a message of more than {MAX_FRAMES} frames")

    def _obey(self, command: bytes) -> None:
        """Unknown ones are of no concern, as the RFC has it."""
        size = command[0] if command else 0
        name, body = command[1 : 1 + size], command[1 + size :]
        if name == b"READY":
            properties = _properties(body)
            if properties.get(b"socket-type") not in self._expected:
                raise ProtocolError("it is another type of socket")
            self.identity = properties.get(b"identity", b"")
            self.is_ready = True
        elif name == b"ERROR":
            raise ProtocolError(f"it refuses us: {body[1:].decode('ascii', 'replace')}")
        elif name == b"PING":
            self.replies.append(_command(b"\x04PONG" + body[_PING_TTL_BYTES:]))


def _properties(body: bytes) -> dict[bytes, bytes]:
    """Their names are in small letters, since case is of no account in them."""
    properties = {}
    at = 0
    while at < len(body):
        name = body[at + 1 : at + 1 + body[at]]
        at += 1 + len(name)
        size = int.from_bytes(body[at : at + 4], "big")
        at += 4
        if at + size > len(body):
            raise ProtocolError("a READY that is none")
        properties[name.lower()] = body[at : at + size]
        at += size
    return properties


def _command(body: bytes) -> bytes:
    if len(body) <= _SHORT_BYTES:
        return bytes((_COMMAND, len(body))) + body
    return _LONG_HEAD.pack(_COMMAND | _LONG, len(body)) + body

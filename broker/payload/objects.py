"""Objects <-> a msgpack body and the large buffers beside it: what travels between two stages.

    None, bool, int (64 bits), float, str, bytes, list, tuple, dict, datetime,
    numpy arrays and scalars, torch tensors

arrive as they were sent, as values and as dict keys where they are hashable. Deliberate exceptions:
bytearray and memoryview arrive as bytes; a datetime keeps its instant, offset and fold, but not the
name of its zone; numpy arrays arrive read-only; tensors arrive on the CPU, detached. Everything
else is refused where it is sent, subclasses of the above (enums, namedtuples, …) included.

There are two ways to pack. The quick one is msgpack's own loop, with a hook for what it does not
know. Whatever that cannot do, or must not do, is left to the careful one, which walks the object in
Python: it takes large bytes out, encodes lone surrogates, and finds the path to what is refused.
"""

import struct
from collections.abc import Sequence
from typing import Any, Literal, overload

import msgspec
from msgpack import ExtType, Packer  # type: ignore[import-untyped]  # it ships no types

from broker.payload import leaves
from broker.payload.careful import rebuild, refuse_depth
from broker.payload.errors import BadPayload
from broker.payload.leaves import ARRAY_WRITERS, TUPLE, Buffer, Buffers, ext, writer_for
from broker.payload.limits import (
    BYTES_TYPES,
    CONTAINERS,
    MAX_DEPTH,
    SPILL_BYTES,
    is_too_deep,
    msgpack_may_be_deep,
)
from broker.payload.lone import pack_lone, unpack_lone

# A packer keeps the memory that its largest body took: one that grew beyond this is let go.
_KEPT_PACKER_BYTES = 1 << 20
_FORM_TYPES = frozenset((bytes, dict))
_BUFFER_TYPES = (bytes, bytearray, memoryview)


class _Sender:
    """The quick way: one Packer (one more for each level of tuples), and the buffers of one pack.

    A Packer must not be entered twice, by a tuple or by another thread, and is not to be trusted
    after an exception; so senders are taken from `_idle` and put back only when all went well.
    """

    __slots__ = ("buffers", "level", "packers", "root", "spill_bytes")

    def __init__(self) -> None:
        self.packers = [self._packer()]
        self.level = 0
        self.buffers: Buffers = []
        self.root: object = None  # as long as its depth is unknown
        self.spill_bytes = SPILL_BYTES

    def _packer(self) -> Packer:
        return Packer(strict_types=True, default=self._write)

    def _write(self, obj: object) -> ExtType:
        if type(obj) is not tuple:
            return writer_for(type(obj))(obj, self.buffers, self.spill_bytes)
        # Each level of tuples begins a new Packer with a count of levels of its own: see to it
        # here that all of them together stay far from the end of the C stack.
        if self.root is not None and not CONTAINERS.isdisjoint(map(type, obj)):
            if is_too_deep(self.root):
                refuse_depth(type(obj), ())
            self.root = None  # once is enough
        self.level += 1
        if self.level == len(self.packers):
            self.packers.append(self._packer())
        data = self.packers[self.level].pack(list(obj))
        self.level -= 1
        return ext(TUPLE, data)

    def let_go(self) -> None:
        """Holds nothing any longer. A sender and its packers refer to each other, so that one that
        is not used again would hold what it was at, arrays in shared memory too, until somebody
        collects garbage.
        """
        self.root = None
        self.buffers = []
        self.packers.clear()

    def pack(self, obj: object) -> bytes:
        self.root = obj
        body: bytes = self.packers[0].pack(obj)
        self.root = None
        return body


_idle: list[_Sender] = []


def _take_sender() -> _Sender:
    try:
        return _idle.pop()
    except IndexError:
        return _Sender()


@overload
def pack(
    obj: object, *, spill_bytes: int = ..., unwritten: Literal[False] = ...
) -> tuple[bytes, list[Buffer]]: ...
@overload
def pack(
    obj: object, *, spill_bytes: int = ..., unwritten: Literal[True]
) -> tuple[bytes, Buffers]: ...
def pack(
    obj: object, *, spill_bytes: int = SPILL_BYTES, unwritten: bool = False
) -> tuple[bytes, list[Buffer]] | tuple[bytes, Buffers]:
    """The body, and the buffers of at least `spill_bytes`, in the order that `unpack` wants them.

    Buffers are views of the memory of the object's own arrays and bytes wherever they can be: leave
    those alone until they are sent. What must be copied to be sent, `unwritten` leaves to the
    caller. Raises CannotTravel, and then has no effect.
    """
    kind = type(obj)
    write = ARRAY_WRITERS.get(kind)
    if write is not None and (packed := pack_lone(obj, write, spill_bytes)) is not None:
        return packed if unwritten else (packed[0], _written(packed[1]))
    if kind in BYTES_TYPES or (kind is dict and _is_form_with_file(obj, spill_bytes)):  # type: ignore[arg-type]
        return _pack_carefully(obj, spill_bytes, unwritten)
    sender = _take_sender()
    sender.spill_bytes = spill_bytes
    try:
        body = sender.pack(obj)
    except Exception:  # whatever it was, the careful way meets it again, and knows where it is
        sender.let_go()
        return _pack_carefully(obj, spill_bytes, unwritten)
    buffers = sender.buffers
    if buffers:
        sender.buffers = []
    if len(body) < _KEPT_PACKER_BYTES:
        _idle.append(sender)
    is_suspicious = len(body) >= spill_bytes or msgpack_may_be_deep(body)
    if is_suspicious and is_too_deep(obj, large_bytes=spill_bytes):
        return _pack_carefully(obj, spill_bytes, unwritten)
    return body, buffers if unwritten or not buffers else _written(buffers)


def pack_all(objects: Sequence[object]) -> list[bytes] | None:
    """The bodies of objects that need no buffers, as `pack` makes them, in a third of the time.

    None where any is not small, or needs a closer look.
    """
    if not BYTES_TYPES.isdisjoint(map(type, objects)):
        return None
    sender = _take_sender()
    sender.spill_bytes = SPILL_BYTES
    bodies = []
    try:
        for obj in objects:
            bodies.append(sender.pack(obj))
            if sender.buffers:
                sender.buffers = []
                _idle.append(sender)
                return None
    except Exception:  # whatever it was, it comes again for the one that it is about
        sender.let_go()
        return None
    _idle.append(sender)
    is_small = max(map(len, bodies), default=0) < SPILL_BYTES
    return bodies if is_small and not any(map(msgpack_may_be_deep, bodies)) else None


def _pack_carefully(obj: object, spill_bytes: int, unwritten: bool) -> tuple[bytes, Buffers]:
    buffers: Buffers = []
    plain = rebuild(obj, buffers, spill_bytes)
    sender = _take_sender()
    body = sender.pack(plain)
    if len(body) < _KEPT_PACKER_BYTES:
        _idle.append(sender)
    return body, buffers if unwritten else _written(buffers)


def _written(buffers: Buffers) -> Buffers:
    return [buffer if isinstance(buffer, _BUFFER_TYPES) else buffer.tobytes() for buffer in buffers]


def _is_form_with_file(form: dict[object, object], spill_bytes: int) -> bool:
    """Whether there are large bytes in this dict, or in a dict in it.

    Such are images on their way from the first stage. The quick way would copy them into the body
    before it sees that they are large; anywhere else in an object that is a price to pay.
    """
    if _FORM_TYPES.isdisjoint(map(type, form.values())):
        return False
    inner = [value.values() for value in form.values() if type(value) is dict]
    return any(
        type(value) is bytes and len(value) >= spill_bytes
        for values in (form.values(), *inner)
        for value in values
    )


class _Receiver:
    """Decoders, and the buffers of the one body that they are at.

    Decoder and receiver refer to each other, so nothing but the collector would end them: they are
    kept and used again. What a body's arrays look at must end with those arrays, not with a
    collection: so they let go of the buffers.
    """

    __slots__ = ("buffers", "decode", "tuples")

    def __init__(self) -> None:
        self.buffers: Sequence[Buffer] = ()
        self.decode = msgspec.msgpack.Decoder(ext_hook=self._read).decode
        self.tuples: msgspec.msgpack.Decoder[tuple[Any, ...]] | None = None

    def _read(self, code: int, data: memoryview) -> object:
        if code != TUPLE:
            return leaves.read(code, data, self.buffers)
        if self.tuples is None:
            self.tuples = msgspec.msgpack.Decoder(tuple, ext_hook=self._read)
        _skim(data)
        return self.tuples.decode(data)


# Walks over a body without building anything, which proves that every length in it is honest: only
# then may lists be allocated by what their headers say.
_skim = msgspec.msgpack.Decoder(msgspec.Raw).decode
_without_buffers = _Receiver().decode
_idle_receivers: list[_Receiver] = []


def _decode(body: bytes, buffers: Sequence[Buffer]) -> object:
    try:
        receiver = _idle_receivers.pop()
    except IndexError:
        receiver = _Receiver()
    receiver.buffers = buffers
    try:
        return receiver.decode(body)
    finally:
        receiver.buffers = ()
        _idle_receivers.append(receiver)


def unpack(body: bytes | bytearray | memoryview, buffers: Sequence[Buffer] = ()) -> object:
    """The object that `pack` was given.

    Arrays of which the bytes came in a buffer are read-only views of it, as long as they live.
    Raises BadPayload for whatever else the bytes may be, and nothing else.
    """
    if type(body) is not bytes:
        body = bytes(body)
    try:
        if buffers and (array := unpack_lone(body, buffers)) is not None:
            return array
        _skim(body)
        obj = _decode(body, buffers) if buffers else _without_buffers(body)
        too_deep = msgpack_may_be_deep(body) and is_too_deep(obj)
    except (ValueError, TypeError, OverflowError, RecursionError, struct.error) as error:
        if isinstance(error, BadPayload):
            raise
        raise BadPayload(str(error)) from error
    if too_deep:
        raise BadPayload(f"more than {MAX_DEPTH} levels of nesting")
    return obj

"""Results -> HTTP bodies: what the last stage does with a result unless its plug-in encodes itself.

bytes go out as they are; all else as JSON, or as msgpack where the client asks for that, or in the
form of `objects`, which keeps arrays, where a client of ours does. JSON and msgpack hold the same
objects, such as any client can read:

    tuple, set, array, tensor    list, nested as the shape says
    NaN, inf                     null in JSON, as they are in msgpack
    datetime                     ISO 8601 text, of the zone hours and minutes
    dataclass, Enum, UUID, …     as msgspec writes them
    bytes within a result        base64 text in JSON, bytes in msgpack
    keys                         text: 1 is "1", True "true", None "null", bytes base64
    lone surrogates              U+FFFD

Refused, with the path: complex numbers, tuples as keys, structured arrays, integers beyond 64 bits
in msgpack, more than `MAX_DEPTH` levels where the quick way fails, and every other type.
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from broker.payload.errors import ANSWERS, CannotTravel, KeyStep, format_path
from broker.payload.limits import MAX_DEPTH, MAX_INT, MIN_INT
from broker.payload.media_types import BYTES_TYPE, JSON_TYPE, OBJECTS_TYPE, choose_answer_type
from broker.payload.objects import pack

_JSON_KINDS = frozenset((dict, list, tuple, str, int, float, bool, type(None)))
"""Results of these types are JSON as they are, unless what is in them is not."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def encode_body(result: object, accept: str) -> tuple[bytes | memoryview, str]:
    """The body and its content type, for a client that sent `accept` ("" where it sent none).

    Raises CannotTravel for what no answer can hold, and nothing else.
    """
    if isinstance(result, bytes | bytearray | memoryview):
        return _raw(result), BYTES_TYPE
    chosen = choose_answer_type(accept)
    return _encode(result, chosen), chosen


def encode_json(result: object) -> bytes:
    """The same as JSON in one line, whatever it is: bytes become base64 text."""
    return _encode(result, JSON_TYPE).replace(b"\n", b" ").replace(b"\r", b" ")


def encode_all(results: Sequence[object]) -> list[bytes] | None:
    """The JSON of each, as `encode_body` makes it; None where any needs a closer look."""
    if not _JSON_KINDS.issuperset(map(type, results)):
        return None
    try:
        return [_encode_json(result) for result in results]
    except Exception:  # whatever it was, it comes again for the one that it is about
        return None


def _encode(result: object, chosen: str) -> bytes:
    encode = _ENCODERS.get(chosen, _encode_msgpack)
    try:
        return encode(result)
    except Exception:  # whatever it was, the rewriter meets it again, and knows where it is
        rewritten = _Rewriter(is_json=chosen == JSON_TYPE).value(result)
    try:
        return encode(rewritten)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CannotTravel(type(result).__name__, reason=str(error)[:200], means=ANSWERS) from error


def _raw(data: bytes | bytearray | memoryview) -> bytes | memoryview:
    if isinstance(data, bytes):
        return data if type(data) is bytes else bytes(data)
    view = memoryview(data)
    return view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()


def _to_builtin(obj: Any) -> object:
    """For what msgspec does not know: arrays, scalars, tensors; keys of dicts come here too."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(obj, numpy.ndarray | numpy.generic):
        from broker.payload import arrays  # noqa: PLC0415  numpy is there already

        return arrays.to_lists(obj)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.Tensor):
        from broker.payload import tensors  # noqa: PLC0415  torch is there already

        return tensors.to_lists(obj)
    raise CannotTravel(type(obj).__name__, means=ANSWERS)


_encode_json = msgspec.json.Encoder(enc_hook=_to_builtin).encode
_encode_builtins = msgspec.msgpack.Encoder().encode


def _builtins(obj: object) -> object:
    """`obj` in the types that JSON has (bytes besides), every key a str."""
    return msgspec.to_builtins(
        obj, builtin_types=(bytes, bytearray, memoryview), str_keys=True, enc_hook=_to_builtin
    )


def _encode_msgpack(result: object) -> bytes:
    return _encode_builtins(_builtins(result))


def _encode_objects(result: object) -> bytes:
    """Arrays stay arrays. Of a result with what cannot travel so, such as a dataclass, they become
    lists, as they do in msgpack, which this type reads as well.
    """
    try:
        return pack(result, spill_bytes=sys.maxsize)[0]
    except CannotTravel:
        return _encode_msgpack(result)


_ENCODERS: dict[str, Callable[[object], bytes]] = {
    JSON_TYPE: _encode_json,
    OBJECTS_TYPE: _encode_objects,
}


class _Rewriter:
    """Makes of a result what the encoders take, or names what cannot be, and the path to it."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json
        self._steps: list[object] = []

    def value(self, obj: object) -> object:
        if isinstance(obj, dict):
            self._enter(obj)
            return {
                self._child(KeyStep(number), key, as_key=True): self._child(key, value)
                for number, (key, value) in enumerate(obj.items())
            }
        if isinstance(obj, list | tuple | set | frozenset):
            self._enter(obj)
            return [self._child(number, child) for number, child in enumerate(obj)]
        if type(obj) is str:
            return _LONE_SURROGATE.sub("\ufffd", obj)
        if type(obj) is int and not (self._is_json or MIN_INT <= obj <= MAX_INT):
            self._refuse(CannotTravel("int", reason="beyond 64 bits"))
        try:
            plain = _builtins(obj)
        except CannotTravel as refusal:
            self._refuse(refusal)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            self._refuse(CannotTravel(type(obj).__name__, reason=str(error)[:200]))
        return self.value(plain) if isinstance(plain, dict | list | str) else plain

    def _key(self, obj: object) -> str:
        if obj is None:
            return "null"
        if isinstance(obj, bool):
            return "true" if obj else "false"
        if isinstance(obj, tuple | frozenset):
            self._refuse(CannotTravel(type(obj).__name__, reason="as a key of a dict"))
        # In a dict of one, msgspec itself makes the key a text.
        plain = obj if type(obj) is str else self.value(obj)
        if plain is None or isinstance(plain, bool):
            return self._key(plain)
        (text,) = msgspec.to_builtins({plain: 0}, str_keys=True)
        return _LONE_SURROGATE.sub("\ufffd", text)

    def _child(self, step: object, obj: object, *, as_key: bool = False) -> Any:
        self._steps.append(step)
        result = self._key(obj) if as_key else self.value(obj)
        self._steps.pop()
        return result

    def _enter(self, container: object) -> None:
        if len(self._steps) >= MAX_DEPTH:
            reason = f"more than {MAX_DEPTH} levels of nesting, or it contains itself"
            self._refuse(CannotTravel(type(container).__name__, reason=reason))

    def _refuse(self, refusal: CannotTravel) -> NoReturn:
        raise refusal.at(format_path(self._steps), means=ANSWERS) from refusal.__cause__

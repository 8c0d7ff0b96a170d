"""The careful way to pack: rebuild an object from parts that the quick way packs without fail.

What it does beyond that: bytes of `spill_bytes` and more become references to buffers, text with
lone surrogates becomes an ext type, and what cannot travel is named with the path to it.
"""

from typing import NoReturn

from broker.payload.errors import CannotTravel, KeyStep, format_path
from broker.payload.leaves import TEXT, Buffers, ext, write_bytes_apart, writer_for
from broker.payload.limits import MAX_DEPTH, MAX_INT, MIN_INT

_ATOMS = frozenset((type(None), bool, float))


def rebuild(obj: object, buffers: Buffers, spill_bytes: int) -> object:
    """`obj` as the quick way can pack it, its large buffers appended to `buffers`.

    Raises CannotTravel with the path.
    """
    return _Rebuilder(buffers, spill_bytes).value(obj)


def refuse_depth(kind: type, steps: tuple[object, ...] | list[object]) -> NoReturn:
    """Raise what a structure of more than `MAX_DEPTH` levels deserves."""
    reason = f"more than {MAX_DEPTH} levels of nesting, or it contains itself"
    raise CannotTravel(kind.__name__, format_path(steps), reason)


class _Rebuilder:
    def __init__(self, buffers: Buffers, spill_bytes: int) -> None:
        self._buffers = buffers
        self._spill_bytes = spill_bytes
        self._steps: list[object] = []  # from the root to the object at hand

    def value(self, obj: object) -> object:
        kind = type(obj)
        if kind in _ATOMS:
            return obj
        if kind is dict or kind is list or kind is tuple:
            return self._container(obj)
        if isinstance(obj, str) and kind is str:
            return _text(obj)
        if isinstance(obj, int) and kind is int and MIN_INT <= obj <= MAX_INT:
            return obj
        if isinstance(obj, bytes | bytearray | memoryview) and (
            kind is bytes or kind is bytearray or kind is memoryview
        ):
            return self._bytes(obj)
        try:
            return writer_for(kind)(obj, self._buffers, self._spill_bytes)
        except CannotTravel as refusal:
            raise refusal.at(format_path(self._steps)) from refusal.__cause__

    def _container(self, obj: object) -> object:
        if len(self._steps) >= MAX_DEPTH:
            refuse_depth(type(obj), self._steps)
        if isinstance(obj, dict):
            return {
                self._child(KeyStep(number), key, as_key=True): self._child(key, value)
                for number, (key, value) in enumerate(obj.items())
            }
        assert isinstance(obj, list | tuple)
        children = [self._child(number, child) for number, child in enumerate(obj)]
        return children if type(obj) is list else tuple(children)

    def _child(self, step: object, obj: object, *, as_key: bool = False) -> object:
        self._steps.append(step)
        if as_key and isinstance(obj, bytes | memoryview):
            result: object = bytes(obj)  # a key never travels apart
        else:
            result = self.value(obj)
        self._steps.pop()
        return result

    def _bytes(self, data: bytes | bytearray | memoryview) -> object:
        if isinstance(data, memoryview):
            if not data.nbytes:
                return b""
            data = data.cast("B") if data.c_contiguous else data.tobytes()
        if len(data) < self._spill_bytes:
            return bytes(data)
        # A bytearray that is being sent could not be resized by its owner: that one is copied.
        return write_bytes_apart(
            bytes(data) if isinstance(data, bytearray) else data, self._buffers
        )


def _text(text: str) -> object:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return ext(TEXT, text.encode("utf-8", "surrogatepass"))
    return text

"""What goes from stage to stage: objects as Millstream carries them, unless a class has a form of
its own (`serialize_ipc`, `deserialize_ipc`), whose bytes then travel as they are.
"""

from typing import Any

from millstream.mosec import objects
from millstream.mosec.setting import ALWAYS, NEVER, Setting
from millstream.mosec.worker import Worker

_KEY = "\0mosec.ipc"
"""Marks the bytes of a `serialize_ipc` among other objects."""


class _Sent(dict[str, Any]):
    """The bytes of a result, marked; and the result, where this may be the last stage after all."""

    raw: Any


class _Decoded:
    """An item that was a request's body, among those that come from a stage before."""

    __slots__ = ("item",)

    def __init__(self, item: Any) -> None:
        self.item = item


class Passing:
    """One worker's side of it."""

    def __init__(self, worker: Worker, setting: Setting) -> None:
        cls = type(worker)
        self._worker = worker
        self._sends = setting.last != ALWAYS and cls.serialize_ipc is not Worker.serialize_ipc
        self._is_last = setting.last == ALWAYS
        self._may_be_last = setting.last != NEVER
        self._receives = setting.first != ALWAYS
        self._marks_decoded = self._receives and setting.first != NEVER
        self._own_form = cls.deserialize_ipc is not Worker.deserialize_ipc
        self._reads_only = bool(getattr(worker, "reads_only", False))

    def decoded(self, item: Any) -> Any:
        """An item made of a body."""
        return _Decoded(item) if self._marks_decoded else item

    def received(self, batch: list[Any]) -> list[Any]:
        """A batch as `forward` is to see it."""
        return [self._received(item) for item in batch] if self._receives else batch

    def _received(self, item: Any) -> Any:
        if type(item) is _Decoded:
            return item.item
        if type(item) is dict and len(item) == 1 and _KEY in item:
            return self._worker.deserialize_ipc(bytes(item[_KEY]))
        if self._own_form:  # the stage before has none
            return self._worker.deserialize_ipc(Worker.serialize_ipc(self._worker, item))
        return objects.received(item, copies=not self._reads_only)

    def sent(self, results: Any) -> Any:
        """Results as they are to travel."""
        if not self._sends:
            return results if self._is_last else _portable(results)
        return [self._sent(result) for result in results]

    def _sent(self, result: Any) -> Any:
        marked = _Sent({_KEY: bytes(self._worker.serialize_ipc(result))})
        if not self._may_be_last:
            return dict(marked)
        marked.raw = result
        return marked

    def raw(self, result: Any) -> Any:
        """A result as `forward` returned it."""
        if type(result) is _Sent:
            return result.raw
        return result if self._is_last else objects.received(result, copies=False)


def _portable(results: Any) -> Any:
    """Arrays and tensors of a whole batch are left as they are."""
    return [objects.sent(result) for result in results] if type(results) in _LISTS else results


_LISTS = frozenset({list, tuple})

"""A class of MOSEC's as a plug-in: its hooks, called as MOSEC calls them.

Where MOSEC answers a whole batch with one error, here the error goes the plug-in's way: the batch
is halved, and only the guilty items fail.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import msgspec
import numpy as np

from millstream import Reject, RequestInfo
from millstream import Worker as Plugin
from millstream.mosec import sse
from millstream.mosec.errors import MosecError, MosecTimeoutError
from millstream.mosec.passing import Passing
from millstream.mosec.protocol import STATUSES
from millstream.mosec.setting import Setting
from millstream.mosec.worker import SSEWorker, Worker, examples_of

_TOO_LATE = "inference timeout"


class Told(Reject):
    """An error that says itself what its client is told, with a status of 5xx, too."""

    def __init__(self, message: str, status: int) -> None:
        Exception.__init__(self, message)
        self.message = message
        self.status = status


def told(error: MosecError | MosecTimeoutError) -> Told:
    """As MOSEC words it: the kind of error, and what was said when it was raised."""
    text = str(error).replace("\n", " - ") or error.msg
    return Told(f"{error.msg}: {text}", STATUSES.get(error.code, 500))


class Adapter(Plugin):
    """What single items, batches and streams have in common."""

    cls: type[Worker]
    setting: Setting
    worker: Worker

    def setup(self) -> None:
        """Make the worker, and warm it up with its examples. What either raises ends it."""
        setting = self.setting
        worker = self.worker = self.cls.__new__(self.cls)
        worker._worker_id = setting.worker_id + self.index
        worker._stage = setting.stage
        worker._max_batch_size = setting.max_batch_size
        worker.__init__()  # type: ignore[misc]
        self.passing = Passing(worker, setting)
        self._prepare()
        for example in examples_of(worker):
            worker.forward(example)

    def _prepare(self) -> None:
        """Before the worker is warmed up."""
        signal.signal(signal.SIGALRM, _on_alarm(self.setting.timeout_s))


class _Decoding(Plugin):
    """Of a class that stands first in a route."""

    worker: Worker
    passing: Passing

    def decode(self, body: Any, content_type: str) -> Any:
        """One body; what it is does not depend on what its client calls it."""
        try:
            return self.passing.decoded(self.worker.deserialize(body))
        except MosecError as error:
            raise told(error) from error


class _DecodingJson(_Decoding):
    """The same for a class with MOSEC's own `deserialize`: quicker where that is possible."""

    def decode(self, body: Any, content_type: str) -> Any:
        """See `_Decoding`."""
        try:
            return self.passing.decoded(msgspec.json.decode(body))
        except msgspec.DecodeError:  # or what only the standard library reads, such as NaN
            return super().decode(body, content_type)


class _Encoding(Plugin):
    """Of a class that has a `serialize` of its own, or another type than JSON."""

    worker: Worker
    passing: Passing

    def encode(self, result: Any, accept: str) -> Any:
        """One result, with the type that the class names."""
        try:
            return self.worker.serialize(self.passing.raw(result)), type(self.worker).resp_mime_type
        except MosecError as error:
            raise told(error) from error


class _Single(Adapter):
    """Of `max_batch_size` 1: `forward` is given the item itself."""

    def forward(self, batch: list[Any]) -> Any:
        """See `millstream.Worker`."""
        (item,) = self.passing.received(batch)
        try:
            with _time_limit(self.setting.timeout_s):
                result = self.worker.forward(item)
        except (MosecError, MosecTimeoutError) as error:
            raise told(error) from error
        return self.passing.sent((result,))


class _Batching(Adapter):
    """Of more: `forward` is given a list."""

    _was_late = False

    def forward(self, batch: list[Any], requests: list[RequestInfo]) -> Any:
        """See `millstream.Worker`. What is left of a batch that took too long is run in halves, but
        not beyond what its clients wait for.
        """
        if self._was_late and len(batch) > 0:
            now = time.monotonic()
            if all(request.deadline <= now for request in requests):
                return [Told(_TOO_LATE, 408)] * len(batch)
        items = self.passing.received(batch)
        try:
            with _time_limit(self.setting.timeout_s):
                results = self.worker.forward(items)
        except MosecTimeoutError as error:
            self._was_late = len(batch) > 1 or self._was_late
            raise told(error) from error
        except MosecError as error:
            raise told(error) from error
        self._was_late = False
        return self.passing.sent(_as_list(results))


def plugin_class(cls: type[Worker], setting: Setting) -> type[Plugin]:
    """The plug-in that runs this class as it was appended."""
    bases: list[type] = []
    if setting.first != "never":
        own = cls.deserialize is not Worker.deserialize
        bases.append(_Decoding if own else _DecodingJson)
    if issubclass(cls, SSEWorker):
        bases.append(sse.adapter(Adapter, told))
    else:
        is_json = cls.resp_mime_type == Worker.resp_mime_type
        if cls.serialize is not Worker.serialize or not is_json:
            bases.append(_Encoding)
        bases.append(_Batching if setting.max_batch_size > 1 else _Single)
    members = {
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "cls": cls,
        "setting": setting,
        "stage": setting.stage,
        "max_batch_size": setting.max_batch_size,
    }
    return type(cls.__name__, tuple(bases), members)


def _as_list(results: Any) -> Any:
    """MOSEC takes whatever has a length and can be gone through; a text or a dict is a mistake."""
    if isinstance(results, list | np.ndarray | str | bytes | dict) or type(results) is tuple:
        return results
    if isinstance(results, tuple) or (
        isinstance(results, Sequence) and not hasattr(results, "dtype")
    ):
        return list(results)
    return results


@contextmanager
def _time_limit(timeout_s: float) -> Iterator[None]:
    """Raises MosecTimeoutError within what runs for too long, once the interpreter has its turn.
    What never comes back is ended by the broker's own limit.
    """
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _on_alarm(timeout_s: float) -> Callable[[int, FrameType | None], None]:
    def raise_timeout(signum: int, frame: FrameType | None) -> None:
        raise MosecTimeoutError(f"`forward` timeout after {timeout_s:g}s")

    return raise_timeout

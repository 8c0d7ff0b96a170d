"""`Worker` and `SSEWorker`, to be subclassed as with MOSEC."""

import abc
import json
from collections.abc import Callable, Sequence
from typing import Any

from millstream.mosec.errors import DecodingError, EncodingError
from millstream.mosec.utils import ParseTarget

MOSEC_REF_TEMPLATE = "#/components/schemas/{name}"


class Worker(abc.ABC):
    """One stage: loads what it needs in `__init__`, and does its work in `forward`."""

    example: Any = None
    """What `forward` is warmed up with, as it is called: a list where it gets batches."""
    multi_examples: Sequence[Any] = ()
    """Several of these."""
    resp_mime_type: str = "application/json"
    """In the last stage: the content type of the answers."""
    _worker_id: int = 0
    _stage: str = ""
    _max_batch_size: int = 1

    def __init__(self) -> None:
        """Load what `forward` needs."""
        super().__init__()

    @abc.abstractmethod
    def forward(self, data: Any) -> Any:
        """One item to its result; or, where `max_batch_size` is more than 1, a list of items to as
        many results in the same order.
        """
        raise NotImplementedError

    def deserialize(self, data: bytes) -> Any:
        """In the first stage: one request's body to one item. Raises DecodingError."""
        try:
            return json.loads(data) if data else {}
        except Exception as error:
            raise DecodingError(_one_line(error)) from error

    def serialize(self, data: Any) -> bytes:
        """In the last stage: one result to the body of its answer. Raises EncodingError."""
        try:
            return json.dumps(data, indent=2).encode()
        except Exception as error:
            raise EncodingError(_one_line(error)) from error

    def serialize_ipc(self, data: Any) -> bytes:
        """To the next stage: one result as bytes. Unless a class has one of its own, results travel
        without it, arrays through shared memory. Raises `CannotTravel` for what cannot.
        """
        from broker.payload.objects import pack  # noqa: PLC0415  numpy, where it is used

        body, buffers = pack(data)
        sizes = b"".join(len(part).to_bytes(8, "little") for part in (body, *buffers))
        count = (1 + len(buffers)).to_bytes(8, "little")
        return b"".join((count, sizes, body, *buffers))

    def deserialize_ipc(self, data: bytes) -> Any:
        """From the stage before: the reverse."""
        from broker.payload.objects import unpack  # noqa: PLC0415  as above

        count = int.from_bytes(data[:8], "little")
        at = 8 + 8 * count
        parts = []
        for place in range(8, at, 8):
            size_bytes = int.from_bytes(data[place : place + 8], "little")
            parts.append(data[at : at + size_bytes])
            at += size_bytes
        return unpack(parts[0], parts[1:])

    @property
    def stage(self) -> str:
        """The name of the stage: that of the class, and a number."""
        return self._stage

    @stage.setter
    def stage(self, stage: str) -> None:
        self._stage = stage

    @property
    def max_batch_size(self) -> int:
        """As `append_worker` was told."""
        return self._max_batch_size

    @max_batch_size.setter
    def max_batch_size(self, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size

    @property
    def worker_id(self) -> Any:
        """Which of the stage's processes this is, from 1 on; known in `__init__`, too."""
        return self._worker_id

    @worker_id.setter
    def worker_id(self, worker_id: Any) -> None:
        self._worker_id = worker_id

    @classmethod
    def get_forward_json_schema(
        cls, target: ParseTarget, ref_template: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The schema of what `forward` takes or gives, and of the components that it refers to, for
        the OpenAPI document. Nothing, unless a class says more.
        """
        return {}, {}


class SSEWorker(Worker):
    """A last stage that answers by server-sent events while `forward` runs; what that returns is
    not sent.
    """

    resp_mime_type = "text/event-stream"
    _send: Callable[[str, int], None] | None = None

    def send_stream_event(self, text: str, index: int = 0) -> None:
        """Send an event to the client of the item at this place of the batch. Waits where a client
        that still reads is far behind.
        """
        if self._send is None:
            raise RuntimeError("events are sent from `forward`, while it serves requests")
        self._send(text, index)


def examples_of(worker: Worker) -> list[Any]:
    """What to warm it up with: several examples go before one."""
    several: Sequence[Any] | None = worker.multi_examples
    if several is not None and len(several):
        return list(several)
    return [] if worker.example is None else [worker.example]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())

"""What a plug-in author sees: `Worker`, `Reject`, `RequestInfo`, and to declare with, `Tensor`,
`Classify` and `Regress`.

Imports nothing heavy: scripts import this before they import what they themselves need.
"""

import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import Struct

from workers.placement import Placement, Uses, place

if TYPE_CHECKING:
    from workers.plugin_metrics import PluginMetrics


class Reject(Exception):
    """The client's request is at fault: answer this item with a 4xx and this message.

    Return it in an item's place, or raise it: from `decode`, from `encode`, or from `forward` (the
    batch is then halved until the item is alone). Raises ValueError for a status that is no 4xx.
    """

    message: str = ""
    status: int = 400

    def __init__(self, message: str, status: int = 400) -> None:
        if not isinstance(status, int) or not 400 <= status <= 499:
            raise ValueError(f"Reject is for the client's faults, 400 to 499; not for {status!r}")
        super().__init__(message)
        self.message = str(message)
        self.status = status


class RequestInfo(Struct, frozen=True, kw_only=True):
    """What a plug-in may know about one item's request."""

    request_id: str
    """The client's X-Request-Id, or one that the gateway made. Not unique: clients choose it."""
    content_type: str = ""
    """Of the request's body, as the client sent it."""
    headers: dict[str, str] = {}
    """Those that the pipeline lists in `headers`, names in lower case."""
    deadline: float = float("inf")
    """When the client stops waiting, in seconds of this process's `time.monotonic()`."""
    attempt: int = 1
    """1 unless a worker died while it ran this item in this stage."""
    version: str = ""
    """The version that this worker serves."""
    traceparent: str = ""
    """The W3C trace context, for calls to others: its parent is the request's span where this
    request is traced, else what the client named. Or ""."""
    tracestate: str = ""
    """What belongs to it, as the client sent it."""


class Tensor(Struct, frozen=True):
    """The declaration of one input or output.

    `datatype` is one of BOOL, UINT8 to UINT64, INT8 to INT64, FP16, BF16, FP32, FP64 and BYTES.
    `shape` is that of the whole array of one request, its own batch axis included; -1 stands for
    any length.
    """

    datatype: str
    shape: Sequence[int]


class Classify(Struct, frozen=True):
    """The declaration of a signature: which outputs say what class an example is of.

    `scores` names an output of numbers, of shape [examples, classes]. `labels` are the names of the
    classes: a list of them, or the name of an output of BYTES that is as large as the scores.
    """

    scores: str
    labels: str | Sequence[str] = ()


class Regress(Struct, frozen=True):
    """The declaration of a signature: `values` names an output with one number for each example."""

    values: str


class Worker:
    """One stage of a pipeline: subclass it, and override `forward`.

    The class attributes may be set in the class, or on the instance up to the end of `setup`. Each
    process makes one instance, and calls all hooks from its main thread, one at a time (with
    `async def forward`, from one event loop).
    """

    stage: str = ""
    """The stage that it serves; "" means the name of the class in lower case."""
    max_batch_size: int = 1
    """Most items of one call of `forward`."""
    concurrency: int = 1
    """Batches in flight at once; more than 1 needs `async def forward`."""
    repeatable: bool = True
    """False: an item is never run twice in this stage, neither after an exception nor after the
    death of its worker, which is answered 503 `worker_lost`."""
    max_streams: int = 1024
    """While so many results that are iterators are open, no batch is begun."""
    content_type: str = ""
    """In the last stage: the content type of the answers, where the default would be wrong."""
    inputs: Any = None
    """In the first stage, what one request holds: a dict of `Tensor` by name, of which `forward`
    then gets arrays by name; or a type, such as a `msgspec.Struct`, of which it gets objects.
    Bodies that are no such thing are refused before any work."""
    outputs: Any = None
    """In the last stage, what one answer holds, declared likewise."""
    signatures: Any = None
    """In the last stage, where its `outputs` are tensors: a dict of `Classify` and `Regress` by
    name, for clients of TensorFlow Serving that ask for them."""

    streams: bool = False
    """In the last stage, True: results are iterators. Only said to clients that ask beforehand, and
    where `forward` is annotated to return iterators it is known."""

    # Set before `setup`.
    device: str = "cpu"
    """"cpu", or "cuda:0": the one device that this process sees."""
    version: str = ""
    """The release of the model that was asked for with --version."""
    model_dir: Path = Path("model")
    """Where the model's files are: the folder `model` beside the script, unless told otherwise."""
    index: int = 0
    """Counts the processes of one supervisor."""

    log: logging.Logger = logging.getLogger("plugin")
    """Writes to the log of the deployment, beside the ids of the requests that run. So does any
    other logger of the standard library; what is printed goes there, too, but without ids."""

    _observe: Any = None  # where observed numbers go, once there is a runtime
    _empty: Any = None  # where output memory comes from, once there is a runtime
    _staging: Any = None  # made when first asked for
    _metrics: "PluginMetrics | None" = None  # likewise; what the runtime looks at

    @classmethod
    def replicas(cls, processes: int | None = None, **uses: Unpack[Uses]) -> Placement:
        """This stage, and how its workers are to run, for `millstream.serve`.

        The keywords are the options of `millstream worker`, such as `device="cuda:0,1"`. Raises
        TypeError for one that there is not.
        """
        return place(cls, processes, uses)

    def setup(self) -> Any:
        """Load what `forward` needs; called once per process, before it gets any work.

        May set `self.example` to ONE item as `forward` sees it: then `forward` is warmed up with a
        batch of one and with a full batch of it before this worker counts as ready. Beside an
        `async def forward` this may be `async def` too, and so may `teardown`.
        """

    def forward(self, batch: list[Any], *args: Any, **kwargs: Any) -> Any:
        """Run a batch: never empty, at most `max_batch_size` items.

        Override it as `forward(self, batch)` or `forward(self, batch, requests)`, which is also
        given one `RequestInfo` per item. Either may be `async def`. Returns one result per item in
        the same order: a list, a tuple, or an array whose first axis is the batch. An exception in
        an item's place fails that item alone. In the last stage an iterator or async iterator is
        answered value by value: all that are open are advanced in turn, one value each.
        """
        raise NotImplementedError

    def teardown(self) -> Any:
        """Let go of what `setup` took; called once when the process ends in order."""

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "float32") -> Any:
        """An uninitialised numpy array to write a result into, which then travels without a copy.

        Of shared memory where it is large enough to go there, else an ordinary one. Ask for a new
        one in each call of `forward`: one that is kept is copied when it is returned.
        """
        if self._empty is not None:
            return self._empty(shape, dtype)
        import numpy as np  # noqa: PLC0415  scripts pay for it when used

        return np.empty(shape, dtype)

    def observe(self, name: str, value: Any) -> None:
        """Have a number counted in the figures of this version: of an input, or of a result.

        Any number of times for each batch. The broker keeps mean, spread and quantiles by name, and
        how far they are from those of before: drift. Up to 64 names of A-Z a-z 0-9 _ . -; what is
        not finite is counted apart. Raises ValueError for another name, TypeError for no number.
        """
        if self._observe is not None:
            self._observe(name, value)

    @cached_property  # and so a plug-in may have an attribute of this name for itself
    def metrics(self) -> "PluginMetrics":
        """Counters, gauges and histograms of the plug-in's own, which the broker serves.

        Define them in `setup`: `self.hits = self.metrics.counter("cache_hits", "…", labels=[…])`;
        then `self.hits.inc()`, `gauge.set(3)`, `histogram.observe(0.2)`, labels as keywords.
        """
        from workers.plugin_metrics import PluginMetrics  # noqa: PLC0415  if it is used

        self._metrics = PluginMetrics()
        return self._metrics

    def to_device(self, batch: list[Any], dtype: Any = None) -> Any:
        """A batch of arrays or tensors of one shape, stacked into one torch tensor on `device`.

        Each item is copied once, into pinned memory, and all of them to the device from there while
        the host goes on; the device waits for them by itself. `dtype` is a torch dtype to convert
        to. Raises ValueError where the batch is empty or its shapes or dtypes differ.
        """
        return self._stage().to_device(batch, dtype)

    async def from_device(self, tensor: Any) -> Any:
        """A tensor on the CPU, for an `async def forward`: other batches run while it is waited
        for. (A plain `forward` has `tensor.cpu()`.)
        """
        return await self._stage().from_device(tensor)

    def _stage(self) -> Any:
        if self._staging is None:
            from workers.staging import Staging  # noqa: PLC0415  imports torch

            self._staging = Staging(self.device)
        return self._staging

    def decode(self, body: Any, content_type: str) -> Any:
        """In the first stage: one request's body, as bytes, to one item of the batch.

        By default JSON (also when no type is given) and msgpack become objects, `text/*` a str,
        multipart/form-data a dict, and anything else stays bytes. Where `body` is annotated as a
        memoryview, it is one: read-only, and for large uploads of shared memory, without a copy.
        """
        from broker.payload.bodies import decode_body  # noqa: PLC0415  scripts pay for it when used

        return decode_body(body, content_type)

    def encode(self, result: Any, accept: str) -> Any:
        """In the last stage: one result to the body of an answer.

        Returns bytes or str (of type `content_type`, else application/octet-stream or text/plain),
        or a pair (bytes, content type). By default bytes stay as they are and everything else
        becomes JSON, or msgpack where `accept` asks for it. Of a stream it is called for each
        value, which then travels as JSON: text and bytes become strings.
        """
        from broker.payload.answers import encode_body  # noqa: PLC0415  as above

        return encode_body(result, accept)

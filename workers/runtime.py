"""The life of one worker process: import, setup, warm-up, serve, teardown.

Owns the order of these and what is said to whom after each. The loop itself is `plain.py`'s, or
`concurrent.py`'s for an `async def forward`.
"""

import gc
import os
import signal
import socket
import sys
import time
from pathlib import Path

from broker.wire import log
from broker.wire.keys import load_client_keys
from broker.wire.messages import PROTOCOL_VERSION, WorkerHello
from workers import checks, plain, plugin_log, warmup
from workers.api import Worker
from workers.checks import Shape
from workers.doubts import Doubts
from workers.link import Link, make_socket
from workers.loader import LoadError, load, trimmed_trace
from workers.making import count, make, maybe, settle
from workers.mark import Mark
from workers.memory import SharedMemory
from workers.missing import advice_for
from workers.observations import read_references
from workers.results import WrongResult
from workers.serving import Serving
from workers.session import WorkerSession
from workers.signals import SignalCounter
from workers.task import Closing, Failed, Imported, StatusWriter, Task, Warm
from workers.telling import Telling
from workers.wear import Wear
from workers.whereabouts import line_of, script_folder
from workers.work import Hooks

EXIT_FAILED = 3
_TWICE_S = 1.0
"""A service manager may send SIGTERM to all processes while our supervisor passes its own on: two
that come so close are one wish."""


_CONNECT_S = 0.25
"""A broker that is there is connected to in a few milliseconds."""


class _Failure(Exception):
    """The script cannot be loaded or set up, in the words for the supervisor."""

    def __init__(self, status: Failed) -> None:
        super().__init__(status.message)
        self.status = status


def run_worker(task: Task) -> int:
    """Runs one worker process from its start to its end; returns its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to deal with
    log.setup_from(os.environ, task.log_fd)
    os.set_inheritable(task.log_fd, False)
    log.configure(role="worker", stage=task.options.stage or "?", index=task.index)
    log.adopt_scripts(plugin_log.fields_now)
    log.switch_by_signal()
    status = StatusWriter(task.status_fd)
    link = _make_link(task)  # it connects while the script is imported
    memory = SharedMemory(task.options.arena_bytes)
    try:
        _live(task, link, status, memory)
    except _Failure as failure:
        status.say(failure.status)
        return EXIT_FAILED
    finally:
        memory.close()
        link.close()
        status.close()
    log.info("worker ended")
    return 0


def _live(task: Task, link: Link, status: StatusWriter, memory: SharedMemory) -> None:
    mark = Mark(task.mark_fd)  # no plug-in shall come upon it
    try:
        plugin, shape = _make_plugin(task)
    except LoadError as error:
        raise _Failure(Failed(str(error), error.trace, while_loading=True)) from None
    stage = task.options.stage or shape.stage
    log.configure(role="worker", stage=stage, index=task.index)
    status.say(Imported(stage))
    session = WorkerSession(_hello(task, plugin, shape, stage), time.monotonic(), memory)
    wear = Wear(task.options.max_batches, task.options.max_rss_bytes)
    serving = Serving(session, link, status, memory, wear=wear, telling=Telling(plugin, memory))
    plugin._empty = memory.lending.empty
    serving.send(session.start(time.monotonic()))
    link.flush(_CONNECT_S)  # nothing leaves during setup unless it leaves now
    if shape.is_async:
        _serve_in_loop(plugin, serving)
    else:
        _serve(plugin, serving, mark)
    serving.tell(time.monotonic())
    link.send(session.leave())


def _make_plugin(task: Task) -> tuple[Worker, Shape]:
    options = task.options
    cls, warnings = load(options.script, options.class_name)
    if task.index == 0:
        for warning in warnings:
            log.warning(warning)
    plugin, shape = make(cls)
    settle(
        plugin,
        folder=Path(options.script).resolve().parent,
        device=task.device,
        version=options.version,
        index=task.index,
        model_dir=options.model_dir,
    )
    return plugin, shape


def _make_link(task: Task) -> Link:
    keys = load_client_keys(task.options.keys) if task.options.keys else None
    return Link(make_socket(task.options.broker, bytes.fromhex(task.identity), keys))


def _hello(task: Task, plugin: Worker, shape: Shape, stage: str) -> WorkerHello:
    return WorkerHello(
        PROTOCOL_VERSION,
        bytes.fromhex(task.supervisor),
        stage,
        pipeline=task.options.pipeline,
        version=task.options.version,
        max_batch_size=shape.max_batch_size,
        concurrency=shape.concurrency,
        repeatable=shape.repeatable,
        host=socket.gethostname(),
        pid=os.getpid(),
        index=task.index,
        device=task.device,
        plugin=type(plugin).__name__,
        signature=shape.signature,
    )


def _serve(plugin: Worker, serving: Serving, mark: Mark) -> None:
    try:
        plugin.setup()
        count(plugin, on=False)
        hooks = Hooks(plugin, checks.shape_of(plugin), serving.memory)
        timings = [] if hooks.example is None else warmup.warm_up(hooks)
    except BaseException as error:
        raise _setup_failed(error, plugin) from None
    _begin_to_observe(plugin, serving)
    stop = _become_ready(hooks, timings, serving)
    plain.serve(hooks, serving, stop, mark)
    serving.status.say(Closing())
    try:
        plugin.teardown()
    except BaseException as error:
        log.error("teardown raised", error=error, trace=trimmed_trace(error))


def _serve_in_loop(plugin: Worker, serving: Serving) -> None:
    import asyncio  # noqa: PLC0415  a plain worker does without, and starts the sooner

    asyncio.run(_serve_async(plugin, serving))


async def _serve_async(plugin: Worker, serving: Serving) -> None:
    from workers import concurrent  # noqa: PLC0415

    try:
        await maybe(plugin.setup())
        count(plugin, on=False)
        hooks = Hooks(plugin, checks.shape_of(plugin), serving.memory)
        timings = [] if hooks.example is None else await warmup.warm_up_async(hooks)
    except BaseException as error:
        raise _setup_failed(error, plugin) from None
    _begin_to_observe(plugin, serving)
    stop = _become_ready(hooks, timings, serving)
    await concurrent.serve(hooks, serving, stop)
    serving.status.say(Closing())
    try:
        await maybe(plugin.teardown())
    except BaseException as error:
        log.error("teardown raised", error=error, trace=trimmed_trace(error))


def _setup_failed(error: BaseException, plugin: Worker) -> _Failure:
    if isinstance(error, WrongResult):
        message = f"warm-up failed: {error}"
    else:
        message = f"setup failed: {type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError):
            place = line_of(error, script_folder(type(plugin)))
            message += f"{advice_for(str(error))} ({place})"
    return _Failure(Failed(message, trimmed_trace(error), while_loading=False))


def _begin_to_observe(plugin: Worker, serving: Serving) -> None:
    """From now on: what the example gives in the warm-up says nothing of requests."""
    serving.session.references = read_references(plugin.model_dir)
    count(plugin, on=True)
    plugin._observe = serving.gathering.observe


def _become_ready(hooks: Hooks, timings: warmup.Timings, serving: Serving) -> SignalCounter:
    """Everything between the end of the warm-up and the first batch."""
    gc.collect()
    gc.freeze()  # the model stays: no collection needs to walk over it again
    # Only from here on does SIGTERM mean drain: one that comes during setup just ends the process.
    stop = SignalCounter(signal.SIGTERM, on_signal=_Impatience().on_signal)
    shape = hooks.shape
    serving.doubts = Doubts(has_example=hooks.example is not None)
    serving.status.say(Warm())
    serving.send(
        serving.session.warm(
            time.monotonic(),
            max_batch_size=shape.max_batch_size,
            concurrency=shape.concurrency,
            repeatable=shape.repeatable,
            timings=timings,
            signature=shape.signature,
            max_streams=shape.max_streams,
        )
    )
    measured = ",".join(f"{size}:{run_s * 1000:.3g}" for size, run_s in timings)
    log.info(
        "worker ready", plugin=hooks.name, max_batch_size=shape.max_batch_size,
        timings_ms=measured or "none",
    )  # fmt: skip
    return stop


class _Impatience:
    """Ends the process at once at a second SIGTERM."""

    def __init__(self) -> None:
        self._first = 0.0

    def on_signal(self, count: int) -> None:
        now = time.monotonic()
        if count == 1:
            self._first = now
        elif now - self._first > _TWICE_S:
            sys.stdout.flush()
            os._exit(128 + signal.SIGTERM)

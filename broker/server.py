"""The broker process put together: address, lock, keys, socket, signals, metrics; then the loop."""

import errno
import fcntl
import gc
import os
import resource
import signal
import socket as sockets
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from types import FrameType
from typing import TYPE_CHECKING

from msgspec import Struct

from broker.arenas import Arenas
from broker.comparer import ComparerProcess
from broker.core.config import PipelineConfig
from broker.core.scheduler import Scheduler
from broker.database import IN_MEMORY, InUse, NoPlace, StoreError
from broker.desk import Desk
from broker.door import NEEDED_FILES, Door
from broker.payload.folder import folder_name
from broker.router import Router
from broker.store import Store
from broker.unix import UnixRouter
from broker.wire import log
from broker.wire.address import (
    AddressError,
    needs_keys,
    parse_address,
    prepare_ipc_folder,
)
from broker.wire.keys import BrokerKeys, KeysError, load_broker_keys

if TYPE_CHECKING:
    from broker.libzmq import LibzmqRouter
    from broker.metrics.port import MetricsPort


class BrokerOptions(Struct, frozen=True, kw_only=True):
    """Settings of one broker process."""

    pipelines: dict[str, PipelineConfig]
    address: str
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    measured: bool = True
    """Whether what only metrics show is counted."""
    keys: str = ""
    """Folder with the keys of an encrypted deployment; "" speaks in the clear."""
    state: str = ""
    """File that keeps the traffic of pipelines for the next broker; "" keeps it in memory."""
    state_optional: bool = False
    """Whether the broker does without where that file cannot be made, or is another broker's."""
    insecure: bool = False
    """Whether tcp beyond loopback may do without keys."""


class CannotServe(Exception):
    """The broker cannot start; the message is one line that says what to do."""


def serve(options: BrokerOptions) -> int:
    """Run a broker until it is told to drain and has; returns the exit code."""
    log.configure(role="broker")
    log.switch_by_signal()
    try:
        with ExitStack() as stack:
            _serve(options, stack)
    except (CannotServe, AddressError, KeysError, StoreError) as error:
        sys.stderr.write(f"millstream: {error}\n")
        return 2
    log.info("stopped")
    return 0


def _serve(options: BrokerOptions, stack: ExitStack) -> None:
    wakeup_fd = _catch_signals(stack)
    keys = _keys(options)
    own_keys = None
    if keys is not None:
        from broker.libzmq import make_client_keys  # noqa: PLC0415

        own_keys = make_client_keys(keys)
        keys = keys._replace(allowed=keys.allowed | {own_keys.public})
    files = _raise_file_limit()
    if files < NEEDED_FILES:
        raise CannotServe(
            f"this process may open {files} files and needs {NEEDED_FILES}: raise `ulimit -n`"
        )
    stack.enter_context(_Lock(options.address))
    socket = stack.enter_context(closing(_listen(options.address, keys)))
    # Only now: who has the address is the deployment's one broker.
    arenas = Arenas.open(folder_name(options.address))
    stack.callback(arenas.close)
    store = _open_store(options)
    stack.callback(store.close)
    now = time.monotonic()
    scheduler = Scheduler(
        options.pipelines,
        epoch=(int.from_bytes(os.urandom(8)) >> 1) | 1,
        now=now,
        arenas=arenas.name,
        token=arenas.token,
        traffic=store.load(time.time()),
        wall_offset_s=time.time() - now,
        measured=options.measured,
    )
    comparer = stack.enter_context(closing(ComparerProcess(options.address, own_keys)))
    metrics = _metrics(options, scheduler)
    path = parse_address(options.address, bind=True).path
    door = stack.enter_context(closing(Door(path, files, scheduler.ledger.counters)))
    router = Router(
        scheduler,
        socket,
        arenas=arenas,
        desk=Desk(store, scheduler.ledger.epoch),
        comparer=comparer,
        wakeup_fd=wakeup_fd,
        on_turn=_on_turn(metrics, door),
    )
    log.info(
        "listening",
        address=options.address,
        pipelines=",".join(options.pipelines),
        arenas=arenas.name or "none",
        state=store.file or "none",
        metrics=f"{options.metrics_host}:{options.metrics_port}" if metrics else "off",
        pid=os.getpid(),
    )
    # Items live and die by reference counts; the collector would only walk what is held.
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    router.run()


def _open_store(options: BrokerOptions) -> Store:
    """Raises StoreError."""
    try:
        return Store(options.state or IN_MEMORY)
    except (NoPlace, InUse) as error:
        if not options.state_optional:
            raise
        log.warning("traffic_not_kept", reason=str(error))
        return Store(IN_MEMORY, lack=str(error))


def _on_turn(metrics: "MetricsPort | None", door: Door) -> Callable[[float], None]:
    """Whatever is to be looked at once a turn."""
    if metrics is None:
        return door.tend
    refresh = metrics.refresh

    def on_turn(now: float) -> None:
        refresh(now)
        door.tend(now)

    return on_turn


def _keys(options: BrokerOptions) -> BrokerKeys | None:
    if options.keys:
        return load_broker_keys(options.keys)
    if needs_keys(options.address) and not options.insecure:
        raise CannotServe(
            f"{options.address} can be reached from other hosts, so peers must prove who they "
            "are: make keys with `millstream keys DIR` and give --keys DIR on each side "
            "(or --insecure, on a network that you trust)"
        )
    return None


def _catch_signals(stack: ExitStack) -> int:
    """SIGTERM and SIGINT ask for a drain; a second one ends the process at once.

    Returns the descriptor that becomes readable at the first.
    """
    reader, writer = sockets.socketpair()
    writer.setblocking(False)
    stack.enter_context(closing(reader))
    stack.enter_context(closing(writer))
    seen = 0

    def caught(number: int, _frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, caught)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    return reader.fileno()


def _raise_file_limit() -> int:
    """Every peer takes a descriptor: have as many as the system gives, and say how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class _Lock:
    """Keeps a second broker off an ipc address, which libzmq would let it take over."""

    def __init__(self, address: str) -> None:
        path = parse_address(address, bind=True).path
        self._address = address
        self._socket_path = path
        self._path = f"{path}.lock" if path else ""
        self._fd = -1

    def __enter__(self) -> None:
        if not self._path:
            return
        prepare_ipc_folder(self._address)
        while True:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._fd)
                raise CannotServe(f"a broker is already running at {self._address}") from None
            # Its last holder removes it: what was locked may be a file that is no longer there.
            with suppress(FileNotFoundError):
                if os.stat(self._path).st_ino == os.fstat(self._fd).st_ino:
                    return
            os.close(self._fd)

    def __exit__(self, *_: object) -> None:
        if self._fd < 0:
            return
        for path in (self._socket_path, self._path):
            with suppress(FileNotFoundError):
                os.unlink(path)
        os.close(self._fd)


def _listen(address: str, keys: BrokerKeys | None) -> "UnixRouter | LibzmqRouter":
    """The lightest ROUTER that peers can reach; raises CannotServe."""
    path = parse_address(address, bind=True).path
    umask = os.umask(0o077)  # for the socket file of an ipc address
    try:
        if path and keys is None:
            return UnixRouter(path)
        from broker.libzmq import LibzmqRouter  # noqa: PLC0415

        return LibzmqRouter(address, keys)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotServe(f"a broker (or another program) is already at {address}") from None
        raise CannotServe(f"cannot listen at {address}: {error.strerror}") from None
    finally:
        os.umask(umask)


def _metrics(options: BrokerOptions, scheduler: Scheduler) -> "MetricsPort | None":
    if options.metrics_port is None:
        return None
    from broker.metrics.port import MetricsPort  # noqa: PLC0415  it brings an HTTP server

    host, port = options.metrics_host, options.metrics_port
    try:
        return MetricsPort(scheduler, host=host, port=port)
    except OSError as error:
        raise CannotServe(f"cannot serve metrics at {host}:{port}: {error.strerror}") from None

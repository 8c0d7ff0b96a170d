"""The gateway process: builds everything, runs until it is told to stop, and drains.

The composition root that the command calls: `serve(options)` returns the exit code.
"""

import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import uvloop

from broker.wire import log
from broker.wire.address import AddressError, parse_address
from broker.wire.exposition import registry_of
from broker.wire.keys import KeysError, load_client_keys
from gateway.connection import Connection
from gateway.cors import Cors, CorsConnection
from gateway.exporter import CannotExport, ExporterProcess, check_packages
from gateway.heap import keep_freed
from gateway.journal import Gathering, Journal
from gateway.link import Link, make_socket
from gateway.memory import UploadMemory
from gateway.metrics import GatewayFigures, Metrics, NoMetrics
from gateway.options import GatewayOptions
from gateway.pages import Pages
from gateway.pending import PendingTable
from gateway.request import Request
from gateway.service import Service
from gateway.traced import TracingService
from gateway.tracing import Tracer

if TYPE_CHECKING:
    from gateway.rpc.server import RpcServer

BACKLOG = 4096
SWEEP_S = 0.25
"""How often deadlines of connections are looked at."""
DRAIN_STEP_S = 0.02
READY_STEP_S = 0.02
YOUNG_S = 1.0
"""A client that has come since then says that more may."""
NEEDED_FILES = 128
"""Below this limit a gateway does not start: it takes some thirty files by itself."""
SPARE_FILES = 64
SPARE = 8
"""Of the files that it may open, so many, or one in so many, are left to all that is no client, and
to clients that are turned away."""
FAREWELL_S = 0.3
"""After SIGTERM, idle connections are kept this long, so that a request that is on its way gets an
answer; and at the end, answers get this long to leave."""


def serve(options: GatewayOptions) -> int:
    """Run the gateway until SIGTERM or SIGINT; 0 after a drain, 2 where it cannot start."""
    log.configure(role="gateway")
    log.switch_by_signal()
    keep_freed()
    try:
        _require_files(_raise_file_limit())
        return uvloop.run(_run_as_process(options))
    except CannotStart as error:
        print(f"millstream gateway: {error}", file=sys.stderr)  # noqa: T201
        return 2


async def _run_as_process(options: GatewayOptions) -> int:
    gateway = Gateway(options)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, gateway, number)
    # What start-up made stays: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    await gateway.run()
    return 0


def _on_signal(gateway: "Gateway", number: int) -> None:
    """The first signal drains; the second ends the process where it stands."""
    if gateway.stopping:
        log.warning("killed", signal=number)
        log.close()
        os._exit(128 + number)
    gateway.stop()


class CannotStart(Exception):
    """Why the gateway cannot start, in one line for the user."""


class Gateway:
    """One gateway: the table, its link to the broker, and what listens to clients."""

    def __init__(self, options: GatewayOptions) -> None:
        self._options = options
        now = time.monotonic()
        memory = self._memory = UploadMemory(options.arena_bytes)
        table: PendingTable[Request] = PendingTable(
            now,
            host=socket.gethostname(),
            pid=os.getpid(),
            memory=memory,
            fetch=memory.fetch,
            others=self._others,
        )
        self._table = table
        self._connections: set[Connection] = set()
        self._service: Service | None = None
        self._metrics = Metrics() if options.measured else NoMetrics()
        self._journal = Journal(
            now,
            slow_s=options.slow_s,
            log_all=options.access_log,
            put=Gathering().put,
        )
        self._stopping = asyncio.Event()
        self._pages: Pages
        self._rpc: RpcServer | None = None  # where gRPC is spoken
        self._socket_inode = 0  # of a Unix socket, once it is ours

    async def run(self, listening: Callable[[int], None] = lambda _port: None) -> None:
        """Serve until stopped, then drain. Raises CannotStart; tells the port that it got."""
        loop = asyncio.get_running_loop()
        link, service = self._build()
        try:
            server = None
            if not self._options.listens_when_ready:
                server = await self._listen(loop, service)
            link.start(
                loop,
                deliver=service.deliver,
                stream=service.stream,
                catalog_changed=service.catalog_changed,
                reported=service.asker.report,
                traced=service.told,
            )
            if server is None:
                await self._until_ready()
                if self.stopping:
                    return
                server = await self._listen(loop, service)
            await self._start_rpc(service)
            sweeper = asyncio.ensure_future(self._sweep(service))
            port = 0 if self._options.uds else server.sockets[0].getsockname()[1]
            self._announce(port)
            listening(port)
            await self._stopping.wait()
            await self._drain(service, server)
            sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sweeper
        finally:
            service.close()
            link.close()
            self._memory.close()
            self._remove_socket()
        log.info("stopped")

    async def _until_ready(self) -> None:
        """Until every stage has a ready worker, or the end."""
        log.info("waiting for all stages", broker=self._options.broker)
        # Once in a process's life, and nobody waits for it to the millisecond.
        while not self.stopping and self._pages.reasons_of("") != []:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), READY_STEP_S)

    def _remove_socket(self) -> None:
        """The loop leaves it behind. A gateway that came after us may have put its own there."""
        path = self._options.uds
        with contextlib.suppress(OSError):
            if self._socket_inode and os.stat(path).st_ino == self._socket_inode:
                os.unlink(path)

    def stop(self) -> None:
        """Begin to drain; `run` returns when that is done."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    # -------------------------------------------------------------- start

    def _build(self) -> tuple[Link, Service]:
        options = self._options
        try:
            if options.sampling is not None:
                check_packages()
            keys = load_client_keys(options.keys) if options.keys else None
            link = Link(make_socket(parse_address(options.broker), keys), table=self._table)
        except (AddressError, KeysError, CannotExport) as error:
            raise CannotStart(str(error)) from None
        except OSError as error:
            raise CannotStart(f"cannot connect to {options.broker}: {error}") from None
        streaming: set[Request] = set()
        exporter = _make_exporter(options)
        figures = GatewayFigures(
            metrics=self._metrics,
            table=self._table,
            memory=self._memory,
            connections=self._connections,
            streaming=streaming,
            link_counts=link.counts,
            exporter=exporter,
        )
        self._pages = Pages(self._table, registry_of("gateway", figures.families))
        service = _make_service(
            options,
            exporter,
            table=self._table,
            memory=self._memory,
            pages=self._pages,
            metrics=self._metrics,
            journal=self._journal,
            connections=self._connections,
            streaming=streaming,
            max_connections=_max_connections(_raise_file_limit()),
            wake=link.wake,
        )
        self._service = service
        return link, service

    def _others(self, waiting: int, now: float) -> int:
        """How many clients may send a request at any moment, where so many wait; -1: unknown."""
        service = self._service
        if service is None or self._rpc is not None:  # which has many requests on one connection
            return -1
        # Those who come rarely come alone: where one has just come, more may follow.
        least = 1 if now - service.newest_s < YOUNG_S else 0
        return max(len(self._connections) - waiting, least)

    async def _listen(self, loop: asyncio.AbstractEventLoop, service: Service) -> asyncio.Server:
        options = self._options
        connection = _connection_maker(options, service, loop)
        if options.uds:
            return await self._listen_at_path(loop, connection)
        try:
            server = await loop.create_server(
                connection,
                options.host,
                options.port,
                backlog=BACKLOG,
                reuse_address=True,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise CannotStart(f"cannot listen on {options.host}:{options.port}: {reason}") from None
        return server

    async def _listen_at_path(
        self, loop: asyncio.AbstractEventLoop, connection: Callable[[], Connection]
    ) -> asyncio.Server:
        path = self._options.uds
        try:
            if _somebody_listens_at(path):
                raise CannotStart(f"cannot listen at {path}: another process does")
            server = await loop.create_unix_server(connection, path, backlog=BACKLOG)
            self._socket_inode = os.stat(path).st_ino
            return server
        except OSError as error:
            raise CannotStart(f"cannot listen at {path}: {error.strerror or error}") from None

    async def _start_rpc(self, service: Service) -> None:
        options = self._options
        if options.grpc_port is None:
            return
        try:
            # It takes half a second, and may not be there.
            from gateway.rpc.server import CannotListen, RpcServer  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise CannotStart(
                f"--grpc-port needs what is not installed ({error.name}): "
                "pip install 'millstream[grpc]'"
            ) from None
        rpc = RpcServer(
            service,
            self._pages,
            max_body_bytes=options.max_body_bytes,
            body_timeout_s=options.body_timeout_s,
        )
        try:
            port = await rpc.start(options.host, options.grpc_port)
        except CannotListen as error:
            raise CannotStart(str(error)) from None
        self._rpc = rpc
        log.info("listening", url=f"grpc://{_bracketed(options.host)}:{port}")

    def _announce(self, port: int) -> None:
        if self._options.uds:
            log.info("listening", url=f"unix:{self._options.uds}", broker=self._options.broker)
            return
        url = f"http://{_bracketed(self._options.host)}:{port}"
        log.info("listening", url=url, broker=self._options.broker)

    # -------------------------------------------------------------- run and stop

    async def _sweep(self, service: Service) -> None:
        shortest_s = min(self._options.header_timeout_s, self._options.body_timeout_s)
        pause_s = min(SWEEP_S, shortest_s / 4)
        while True:
            due = time.monotonic() + pause_s
            await asyncio.sleep(pause_s)
            now = time.monotonic()
            late_s = max(now - due, 0.0)
            self._metrics.lag.add(late_s)
            service.lagged(late_s)
            try:
                service.tick(now)
                if self._rpc is not None:
                    self._rpc.tick()
            except Exception:  # a bug: loud, but the other deadlines are still kept
                log.bug("sweep_failed")

    async def _drain(self, service: Service, server: asyncio.Server) -> None:
        """Answer what is held, for `drain_s` at the most; refuse the rest; let it all leave."""
        log.info("draining", waiting=len(self._table))
        server.close()
        service.drain()
        now = time.monotonic()
        farewell_s = min(FAREWELL_S, self._options.drain_s)
        rpc_stopped = asyncio.ensure_future(self._stop_rpc(farewell_s))
        await self._until_idle(now + self._options.drain_s)
        await asyncio.wait([rpc_stopped], timeout=now + self._options.drain_s - time.monotonic())
        await self._until_alone(now + farewell_s)
        for connection in list(self._connections):
            connection.close_if_idle()
        service.abandon()
        await self._until_idle(time.monotonic() + farewell_s)
        await rpc_stopped

    async def _stop_rpc(self, farewell_s: float) -> None:
        if self._rpc is not None:
            await self._rpc.stop(farewell_s, self._options.drain_s)

    # Once in a process's life, so that no connection needs to tell anybody when it is idle or ends.

    async def _until_alone(self, until: float) -> None:
        while time.monotonic() < until and self._connections:  # noqa: ASYNC110
            await asyncio.sleep(DRAIN_STEP_S)

    async def _until_idle(self, until: float) -> None:
        while time.monotonic() < until and any(c.busy for c in self._connections):  # noqa: ASYNC110
            await asyncio.sleep(DRAIN_STEP_S)


def _bracketed(host: str) -> str:
    """As it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def _make_exporter(options: GatewayOptions) -> ExporterProcess | None:
    """Where traces are wanted."""
    return None if options.sampling is None else ExporterProcess(time.monotonic())


def _make_service(
    options: GatewayOptions, exporter: ExporterProcess | None, **parts: Any
) -> Service:
    """The service of these parts: one that traces, where there is an exporter."""
    if exporter is None or options.sampling is None:
        return Service(options, **parts)
    tracer = Tracer(exporter.export, options.sampling)
    return TracingService(options, tracer=tracer, exporter=exporter, **parts)


def _connection_maker(
    options: GatewayOptions, service: Service, loop: asyncio.AbstractEventLoop
) -> Callable[[], Connection]:
    if not options.cors_origins:
        return lambda: Connection(service, options, loop)
    cors = Cors(options.cors_origins)
    return lambda: CorsConnection(service, options, loop, cors)


def _somebody_listens_at(path: str) -> bool:
    """A loop would take a socket over from whoever listens; one that nobody does is left over."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except BlockingIOError:  # more wait to be accepted than may
            return True
    return True


def _raise_file_limit() -> int:
    """Each client is a file descriptor: have as many as the system allows, and say how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _require_files(limit: int) -> None:
    if limit < NEEDED_FILES:
        raise CannotStart(
            f"this process may open {limit} files and needs {NEEDED_FILES}: raise `ulimit -n`"
        )


def _max_connections(limit: int) -> int:
    """Of clients, at once. Without it the system would refuse them, unseen by us and by them."""
    return max(limit - max(SPARE_FILES, limit // SPARE), 1)

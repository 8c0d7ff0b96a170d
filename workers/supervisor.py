"""The parent of the workers that one command started: keeps them alive and beats their heart.

Imports neither the script nor what the script needs, so it stays small and cannot hang in either.
One loop waits for the broker, for signals, and for what the workers say or how they end.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from broker.payload.folder import default_limit_bytes, shm_root
from broker.wire import log
from broker.wire.address import AddressError, parse_address
from broker.wire.cores import usable_cores
from broker.wire.keys import ClientKeys, KeysError, load_client_keys
from broker.wire.messages import PROTOCOL_VERSION, FromSupervisor, SupervisorHello, WorkerReport
from workers.cores import threads_per_process
from workers.crews import Crews
from workers.devices import Device, DeviceError, assign, inherited_devices
from workers.link import Link, make_socket
from workers.options import WorkerOptions
from workers.policy import PolicyError, parse_policy
from workers.processes import Processes
from workers.signals import SignalCounter
from workers.supervision import Anew, Excused, KillOrder, Order, SupervisorSession, TendOrder
from workers.verdict import EXIT_USAGE, Verdict

if TYPE_CHECKING:
    from workers.metrics import SupervisorMetrics
    from workers.models import Models

_DRAIN_LIMIT_S = 4.2
"""A worker that has not ended by then hangs. honcho kills everything after 5."""
_GIVE_UP_S = 4.6
"""One that has not ended by then, though killed, cannot be waited for."""
_LONELY_S = 2.0
"""So long without a broker is worth a line in the log."""
_SCANT_ARENA_BYTES = 64 << 20
"""A default arena smaller than this is soon full: the host has less than 512 MiB in /dev/shm."""


def supervise(options: WorkerOptions) -> int:
    """Runs workers until a signal ends them, or nothing can come of it; returns the exit code.

    0 after a drain, 2 for options that cannot be, 3 where the script cannot be loaded or set up.
    Call it from the main thread: it takes over SIGTERM and SIGINT.
    """
    try:
        devices = _check(options)
        keys = load_client_keys(options.keys) if options.keys else None
    except (_BadOption, DeviceError, AddressError, KeysError, PolicyError) as error:
        _complain(str(error))
        return EXIT_USAGE
    return _Supervisor(options, devices, keys).run()


class _BadOption(Exception):
    """An option that cannot be; the message is one line."""


def _check(options: WorkerOptions) -> list[Device]:
    if not Path(options.script).is_file():
        raise _BadOption(f"{options.script}: there is no such file")
    if options.processes < 1:
        raise _BadOption(f"processes must be at least 1, not {options.processes}")
    if options.model_dir and not Path(options.model_dir).is_dir():
        raise _BadOption(f"{options.model_dir}: there is no such folder")
    if options.models:
        if options.version or options.model_dir:
            raise _BadOption("a model repository names the versions and their folders itself")
        if not Path(options.models).is_dir():
            raise _BadOption(f"{options.models}: there is no such folder")
        parse_policy(options.versions)
    parse_address(options.broker)
    return assign(options.device, options.processes, inherited_devices(os.environ))


class _Supervisor:
    def __init__(
        self, options: WorkerOptions, devices: list[Device], keys: ClientKeys | None
    ) -> None:
        self._options = options
        now = time.monotonic()
        identity = b"s" + os.urandom(16)
        self._link = Link(make_socket(options.broker, identity, keys))
        hello = SupervisorHello(
            PROTOCOL_VERSION,
            stage=options.stage,
            pipeline=options.pipeline,
            version=options.version,
            host=socket.gethostname(),
            pid=os.getpid(),
            script=options.script,
            has_models=bool(options.models),
        )
        self._session = SupervisorSession(hello, now)
        self._verdict = Verdict(options.processes)
        self._processes = Processes(identity, self._link)
        omp_threads = os.environ.get("OMP_NUM_THREADS") or str(
            threads_per_process(usable_cores(), options.processes)
        )
        self._omp_threads = omp_threads
        self._crews = Crews(
            options,
            devices=devices,
            environ=os.environ,
            omp_threads=omp_threads,
            processes=self._processes,
        )
        self._models = _watch_models(options, self._crews, self._link, self._verdict)
        if self._models is None:
            self._crews.add(options, self._verdict)
        self._metrics = _serve_metrics(options)
        self._signals = SignalCounter(signal.SIGTERM, signal.SIGINT)
        self._link.watch(self._signals.fd)
        self._drain_since: float | None = None
        self._lonely_since: float | None = now
        self._refused = ""

    def run(self) -> int:
        self._log_start()
        log.switch_by_signal(lambda: self._crews.signal_all(signal.SIGUSR2))
        self._send(self._session.start(time.monotonic()))
        try:
            code = self._serve()
        finally:
            self._crews.kill_all()
            if self._models is not None:
                self._models.close()
            self._link.send(self._session.leave("ended"))
            self._link.close()
        log.info("supervisor ended", exit_code=code)
        return code

    def _serve(self) -> int:
        while True:
            now = time.monotonic()
            for message in self._link.receive():
                replies, order = self._session.receive(message, now)
                self._send(replies)
                if order is not None:
                    self._obey(order, now)
            self._note_contact(now)
            if self._verdict.exit_code is not None:
                _complain(self._verdict.message, self._verdict.trace)
                return self._verdict.exit_code
            if self._signals.count > 1:
                log.warning("second signal: ending at once")
                return 128 + self._signals.last
            if self._signals.count and self._drain_since is None:
                self._drain(now)
            if self._drain_since is None:
                self._step_models(now)
                self._crews.look_after(now)
            elif not self._crews.living or now - self._drain_since > _GIVE_UP_S:
                self._beat(now)
                return 0
            elif now - self._drain_since > _DRAIN_LIMIT_S:
                self._crews.end("does not end")
            self._beat(now)
            self._wait()

    def _obey(self, order: Order, now: float) -> None:
        if type(order) is KillOrder:
            self._crews.kill(order.worker, order.reason)
        elif type(order) is Excused:
            self._crews.excuse(order.worker, now)
        elif type(order) is TendOrder:
            self._crews.tend(order, now)
        elif type(order) is Anew:
            self._crews.begin_anew(now)

    def _drain(self, now: float) -> None:
        """All workers finish what they hold; the broker hears of it first."""
        self._drain_since = now
        log.info("supervisor draining", signal=signal.Signals(self._signals.last).name)
        self._session.draining = True
        self._session.changed(now)
        self._beat(now)
        self._crews.terminate_all()

    def _beat(self, now: float) -> None:
        if self._processes.has_news:
            self._processes.has_news = False
            self._session.changed(now)
        if now < self._session.next_due():
            return
        reports: list[WorkerReport] = self._crews.report(now)
        self._note_deaths(now)
        if self._metrics is not None:
            self._metrics.show(self._crews.figures(), is_up=self._session.contact.answers(now))
        models = self._models
        if models is None:
            self._send(self._session.tick(reports, now))
        else:
            self._send(
                self._session.tick(reports, now, versions=models.reports, trouble=models.trouble)
            )

    def _step_models(self, now: float) -> None:
        if self._models is not None and self._models.step(self._session.wish(now), now):
            self._session.changed(now)

    def _note_deaths(self, now: float) -> None:
        for death in self._processes.take_deaths():
            self._session.died(
                death.worker,
                death.how,
                now,
                out_of_memory=death.out_of_memory,
                failure=death.failure,
                begun=death.begun,
            )

    def _wait(self) -> None:
        now = time.monotonic()
        due = min(self._session.next_due(), self._crews.next_due())
        if self._drain_since is not None:
            limit_s = _DRAIN_LIMIT_S if now < self._drain_since + _DRAIN_LIMIT_S else _GIVE_UP_S
            due = min(due, self._drain_since + limit_s)
        ready = self._link.wait(min(max(0.0, due - now), 1.0))
        now = time.monotonic()
        self._signals.clear()
        log.flush()
        for fd in ready:
            self._crews.on_readable(fd, now)
        self._note_deaths(now)
        if self._crews.stage:
            self._send(self._session.stage_known(self._crews.stage, now))

    def _send(self, messages: list[FromSupervisor]) -> None:
        for message in messages:
            self._link.send(message)

    def _note_contact(self, now: float) -> None:
        """Says in the log when the broker comes, stays away, or refuses us."""
        contact = self._session.contact
        if contact.reason and contact.reason != self._refused:
            log.error("refused by the broker", reason=contact.reason)
            self._crews.listen(now)  # a worker may have said before that it was welcome
            self._verdict.refused(contact.reason)
        self._refused = contact.reason
        if contact.answers(now):
            if self._lonely_since is not None:
                log.info("joined the broker", broker=self._options.broker, epoch=contact.epoch)
            self._lonely_since = None
        elif contact.reason:
            self._lonely_since = float("inf")  # a refusal was word enough
        elif self._lonely_since is None:
            log.warning("no word from the broker", broker=self._options.broker)
            self._lonely_since = float("inf")
        elif now - self._lonely_since > _LONELY_S:
            log.info("waiting for the broker", broker=self._options.broker)
            self._lonely_since = float("inf")

    def _log_start(self) -> None:
        options = self._options
        log.configure(role="supervisor", stage=options.stage or "?")
        log.info(
            "supervisor started",
            script=options.script,
            processes=options.processes,
            devices=",".join(dict.fromkeys(self._crews.device_names())),
            omp_threads=self._omp_threads,
            broker=options.broker,
        )
        if options.arena_bytes is None:
            _check_shared_memory()


def _watch_models(
    options: WorkerOptions, crews: Crews, link: Link, verdict: Verdict
) -> "Models | None":
    if not options.models:
        return None
    from workers.models import Models  # noqa: PLC0415  watching files takes memory

    return Models(options, crews, link, verdict)


def _serve_metrics(options: WorkerOptions) -> "SupervisorMetrics | None":
    if options.metrics_port is None:
        return None
    from workers.metrics import SupervisorMetrics  # noqa: PLC0415  takes memory

    metrics = SupervisorMetrics()
    try:
        port = metrics.serve(options.metrics_host, options.metrics_port)
    except OSError as error:  # no reason to do without workers
        log.error("no metrics are served", port=options.metrics_port, reason=error.strerror)
        return None
    log.info("metrics", url=f"http://{options.metrics_host}:{port}/metrics")
    return metrics


def _check_shared_memory() -> None:
    """Warns once for all workers where the host has little memory to share."""
    limit_bytes = default_limit_bytes()
    if limit_bytes < _SCANT_ARENA_BYTES:
        log.warning(
            "little shared memory: what does not fit goes through sockets",
            folder=shm_root(),
            arena_mib=limit_bytes / (1 << 20),
            advice="give containers more: docker run --shm-size=1g, or on Kubernetes an emptyDir "
            "with medium Memory at /dev/shm; or choose a size with --arena (0 is silent)",
        )


def _complain(message: str, trace: str = "") -> None:
    """What a person has to read, in their words: the traceback of their script, then one line."""
    sys.stderr.write(f"{trace}millstream worker: {' '.join(message.split())}\n")
    sys.stderr.flush()

"""All crews of one supervisor: one for each version that is loaded, on the same devices.

What concerns every worker, whatever its version, is passed on here.
"""

import signal
from collections.abc import Iterator, Mapping

from broker.wire.messages import TendKind, WorkerReport
from workers.crew import Crew, CrewFigures
from workers.devices import Device
from workers.options import WorkerOptions
from workers.process import WorkerProcess, environment
from workers.processes import Processes
from workers.supervision import TendOrder
from workers.verdict import Verdict


class Crews:
    """See the module."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        devices: list[Device],
        environ: Mapping[str, str],
        omp_threads: str,
        processes: Processes,
    ) -> None:
        self.stage = options.stage
        """What they serve; "" until a worker knows."""
        self._devices = devices
        self._environments = [environment(environ, device, omp_threads) for device in devices]
        self._processes = processes
        self._crews: list[Crew] = []

    def __iter__(self) -> Iterator[Crew]:
        return iter(self._crews)

    def add(self, options: WorkerOptions, verdict: Verdict) -> Crew:
        """One more; its workers are started when `restart_due` is called next."""
        crew = Crew(
            options,
            devices=self._devices,
            environments=self._environments,
            processes=self._processes,
            verdict=verdict,
        )
        self._crews.append(crew)
        return crew

    def remove(self, crew: Crew) -> None:
        """One whose last worker has ended."""
        self._crews.remove(crew)

    @property
    def living(self) -> list[WorkerProcess]:
        """Workers that have not been reaped."""
        return [process for crew in self._crews for process in crew.living]

    def device_names(self) -> list[str]:
        """What each process of a crew will see, for the log."""
        return [
            f"{each.name}={each.visible}" if each.visible else each.name for each in self._devices
        ]

    def figures(self) -> list[CrewFigures]:
        """See `Crew.figures`."""
        return [crew.figures() for crew in self._crews]

    def look_after(self, now: float) -> None:
        """Starts whoever is missing, and recycles who has served their time."""
        for crew in self._crews:
            crew.restart_due(now)
            crew.rotate(now)

    def next_due(self) -> float:
        """When `look_after` will next have something to do."""
        return min((crew.next_due() for crew in self._crews), default=float("inf"))

    def report(self, now: float) -> list[WorkerReport]:
        """How each living worker is; see `Crew.report`."""
        reports = [report for crew in self._crews for report in crew.report(now)]
        self._note_stage()
        return reports

    def on_readable(self, fd: int, now: float) -> None:
        """One of the watched descriptors has something."""
        self._processes.on_readable(fd, now)
        self._note_stage()

    def listen(self, now: float) -> None:
        """Takes in all that workers have said so far."""
        for crew in self._crews:
            crew.listen(now)
        self._note_stage()

    def kill(self, worker: bytes, reason: str) -> None:
        """Ends one at the broker's wish; it is replaced like any that dies."""
        for crew in self._crews:
            crew.kill(worker, reason)

    def excuse(self, worker: bytes, now: float) -> None:
        """The broker knows that a request killed this one."""
        for crew in self._crews:
            crew.excuse(worker, now)

    def tend(self, order: TendOrder, now: float) -> None:
        """An operator's wish, for one place."""
        for crew in self._crews:
            if crew.version == order.version:
                crew.tend(order.index, TendKind(order.wish), order.reason, now)

    def begin_anew(self, now: float) -> None:
        """What was drained at an operator's wish is filled again."""
        for crew in self._crews:
            crew.begin_anew(now)

    def signal_all(self, signum: signal.Signals) -> None:
        """Pass a signal on to those that are ready for it: the others it would end."""
        for process in self.living:
            if process.importing_since is None:
                process.send(signum)

    def terminate_all(self) -> None:
        """Asks all to drain; nobody is replaced any longer."""
        for crew in self._crews:
            crew.terminate_all()

    def end(self, reason: str) -> None:
        """Ends those that should have ended by themselves."""
        for crew in self._crews:
            crew.end(reason)

    def kill_all(self) -> None:
        """Ends whoever is left, and waits for it; see `Crew.kill_all`."""
        for crew in self._crews:
            crew.kill_all()

    def _note_stage(self) -> None:
        if not self.stage:
            self.stage = next((crew.stage for crew in self._crews if crew.stage), "")

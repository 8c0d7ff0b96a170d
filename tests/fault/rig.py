"""The deployment that all faults are done to, and what must be true of it after each of them.

A pipeline of three stages with two workers each, whose supervisors are one for the first and two
for the others, unless another crew is asked for; a pipeline of one stage with one worker; and two
gateways. It mends itself between two tests: whatever was killed is started again.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from millstream.cli.errors import CommandError
from tests.fault.load import Load
from tests.ports import free_port
from tests.system.deployment import Deployment, Role, wait_until

PLUGINS = Path(__file__).parent / "plugins"
CHAIN = ("first", "second", "third")
SCRIPTS = {
    "first": f"{PLUGINS}/chain.py:First",
    "second": f"{PLUGINS}/chain.py:Second",
    "third": f"{PLUGINS}/chain.py:Third",
    "solo": f"{PLUGINS}/solo.py",
}
CREW = {"first": (2,), "second": (1, 1), "third": (1, 1), "solo": (1,)}
"""The supervisors of a stage: how many workers each of them has."""

PIPELINES = """
[pipelines.chain]
chain = ["first", "second", "third"]

[pipelines.chain.stages.third]
forward_timeout_s = 1.0

[pipelines.solo]
chain = ["solo"]
"""

NOTICED_S = 0.9
"""A death that nobody reports is found by the broker's next beat; with what follows from it."""
LONG_S = 2.9
"""No request waits for so long. What is found by silence alone takes `SILENCE_S`, and then some."""
WAIT_S = 15.0
"""For what comes at once, on a machine that is busy."""
WHOLE_S = 30.0
"""For everything to be there again after a fault, restarts with their delays included, on a machine
that is busy."""


class Rig:
    """See the module."""

    def __init__(
        self,
        mill: Deployment,
        *,
        crew: Mapping[str, tuple[int, ...]] = CREW,
        options: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        """`crew`: for each stage, how many workers each of its supervisors has. `options`: what the
        commands of a stage's supervisors are given beside.
        """
        self.mill = mill
        self._options = options
        self.crew = crew
        self.ports = [free_port(), free_port()]
        self.broker = mill.broker()
        self.gateways = [mill.gateway(port=port) for port in self.ports]
        self.supervisors = {
            stage: [self.start_supervisor(stage, workers) for workers in each]
            for stage, each in crew.items()
        }

    # -------------------------------------------------------------- start

    def start_supervisor(self, stage: str, workers: int = 1) -> Role:
        """One more for a stage."""
        return self.mill.worker(SCRIPTS[stage], "--processes", str(workers), *self._options(stage))

    def start_broker(self) -> None:
        """A new broker at the old address."""
        self.broker = self.mill.broker()

    def mend(self) -> None:
        """Start again whatever is gone, and wait until all of it serves."""
        self.start_missing()
        self.wait_whole()

    def start_missing(self, is_due: Callable[[Role], bool] = lambda _: True) -> None:
        """Start again whatever is gone, and due."""

        def is_missing(role: Role) -> bool:
            return not role.is_running and is_due(role)

        if is_missing(self.broker):
            self.start_broker()
        for index, port in enumerate(self.ports):
            if is_missing(self.gateways[index]):
                self.gateways[index] = self.mill.gateway(port=port)
        for stage, crew in self.supervisors.items():
            for index, role in enumerate(crew):
                if is_missing(role):
                    crew[index] = self.start_supervisor(stage, self.crew[stage][index])

    # -------------------------------------------------------------- look

    def roles(self) -> list[Role]:
        """All that should run: those that are here now, or are to be started again."""
        crews = self.supervisors.values()
        return [self.broker, *self.gateways, *(role for crew in crews for role in crew)]

    def load(self, **options: Any) -> Load:
        """Load on the chain by way of both gateways, unless `ports` says otherwise."""
        return Load(options.pop("ports", self.ports), "/pipelines/chain", **options)

    def solo(self, **options: Any) -> Load:
        """The same on the pipeline that has one worker."""
        return Load(self.ports[:1], "/pipelines/solo", stages=1, **options)

    def status(self) -> dict[str, Any]:
        """What the broker reports; {} where there is none that answers."""
        try:
            return self.mill.status()
        except CommandError:
            return {}

    def workers(self, *stages: str) -> list[int]:
        """The process ids of the living workers of these stages, of all where none is named."""
        roles = [role for stage in stages or self.crew for role in self.supervisors[stage]]
        return [child.pid for role in roles if role.is_running for child in role.children()]

    def ready_workers(self, stage: str) -> int:
        """Those of a stage of the chain."""
        count: int = self.status()["pipelines"]["chain"]["stages"][stage]["ready_workers"]
        return count

    def counter(self, name: str) -> int:
        """One of the broker's counters, 0 where it has never counted."""
        count: int = self.status()["counters"].get(name, 0)
        return count

    def wait_whole(self, within_s: float = WHOLE_S) -> None:
        """Until every stage has all its workers, ready, and every gateway says so."""
        try:
            wait_until(self._is_whole, within_s, "everything is there again")
        except AssertionError as error:
            raise AssertionError(f"{error}; {self._describe()}") from None

    def _is_whole(self) -> bool:
        status = self.status()
        if not status or len(status["gateways"]) != len(self.gateways):
            return False
        if len(status["supervisors"]) != sum(map(len, self.crew.values())):
            return False
        for pipeline in status["pipelines"].values():
            for stage, state in pipeline["stages"].items():
                if not state["workers"] == state["ready_workers"] == sum(self.crew[stage]):
                    return False
        return all(self._says_ready(port) for port in self.ports)

    def _says_ready(self, port: int) -> bool:
        try:
            with self.mill.client(port=port, timeout_s=2.0) as client:
                return client.get("/readyz").status == 200
        except OSError:
            return False

    def _describe(self) -> str:
        status = self.status()
        stages = {
            stage: (state["workers"], state["ready_workers"], state["reason"])
            for pipeline in status.get("pipelines", {}).values()
            for stage, state in pipeline["stages"].items()
        }
        peers = [len(status.get(kind, ())) for kind in ("gateways", "supervisors")]
        return f"stages {stages}, gateways and supervisors {peers}"

    def check_empty(self, within_s: float = WAIT_S) -> None:
        """AssertionError unless the broker soon holds nothing any more, and counts nothing."""
        try:
            wait_until(self._is_empty, within_s, "nothing is held")
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.status()}") from None

    def _is_empty(self) -> bool:
        status = self.status()
        pipelines = status["pipelines"].values()
        stages = [stage for pipeline in pipelines for stage in pipeline["stages"].values()]
        return not any(
            [
                *(pipeline["items"] or pipeline["bytes"] for pipeline in pipelines),
                *(stage["queued"] or stage["running"] for stage in stages),
                *(gateway["items"] for gateway in status["gateways"]),
                *(worker["running"] for worker in status["workers"]),
            ]
        )

    def check_sound(self) -> None:
        """AssertionError where a log has a traceback: no fault from outside may find a bug."""
        for role in self.mill.roles:
            if "Traceback" in role.output:
                raise AssertionError(f"{role.name} has a traceback\n{role.tail()}")

    def check_orphans(self) -> None:
        """AssertionError where a process stays that is neither a role nor the worker of one."""
        wait_until(lambda: not self._orphans(), WAIT_S, "no orphans are left")

    def _orphans(self) -> list[int]:
        roles = {role.pid for role in self.mill.roles if role.is_running}
        known = roles | {
            child.pid for r in self.mill.roles if r.pid in roles for child in r.children()
        }
        return [process.pid for process in self.mill.processes() if process.pid not in known]


class Away:
    """A part of the deployment that is away, from the beginning of the block until `is_back`: what
    is new starts as quickly as the machine lets it, and `seconds` says how long that took.
    """

    def __init__(self, is_back: Callable[[], object]) -> None:
        self.seconds = 0.0
        self._is_back = is_back

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        wait_until(self._is_back, WHOLE_S, "what is new serves")
        self.seconds = time.monotonic() - self._began


def kill(*pids: int) -> None:
    """SIGKILL to all of these."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def under_load(rig: Rig, load: Load, fault: Callable[[], object]) -> None:
    """Do something bad while requests flow, and go on until it must have been noticed."""
    with load:
        load.flow(100, at_least_s=0.2)
        fault()
        load.flow(300, at_least_s=NOTICED_S)
    rig.check_empty()

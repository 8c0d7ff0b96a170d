"""Does the faults of a schedule to a deployment, undoes each in its time, and starts again whatever
has ended, as a process manager would.

Signals and starts alone: it waits for nothing but the next moment, so that faults overlap as they
come. How processes end is checked here, since it is known here what they were told.
"""

import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from math import inf

import psutil  # type: ignore[import-untyped]  # it ships no types
from msgspec.structs import replace

from tests.chaos.crowd import Crowd
from tests.chaos.records import Trouble
from tests.chaos.rollouts import STAGES, Rollouts
from tests.chaos.rooms import Room, Rooms
from tests.chaos.schedule import DOWN_S, POISONS, Fault, Kind
from tests.fault.rig import CHAIN, Rig
from tests.system.deployment import Role

TURN_S = 0.02
END_S = 8.0
"""After SIGTERM: the five seconds of honcho, and more on a machine that is busy starting what was
killed."""
BROKER_END_S = 12.0
"""A broker finishes what it holds, which may take until the last deadline."""
SETTLE_S = 30.0
GIVEN_UP = "times before it was ready"
"""What a supervisor says whose script never works; it cannot know that all was our doing."""


class Havoc:
    """See the module."""

    def __init__(
        self,
        rig: Rig,
        crowd: Crowd,
        rooms: Rooms,
        rollouts: Rollouts,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` is given a line for each fault."""
        self.done: Counter[Kind] = Counter()
        """How many faults there have been of each kind."""
        self.troubles: list[Trouble] = []
        """Of gateways."""
        self.findings: list[str] = []
        """Processes that did not end as they should."""
        self._rig = rig
        self._crowd = crowd
        self._rooms = rooms
        self._rollouts = rollouts
        self._tell = tell
        self.began_s = time.monotonic()
        self._later: list[tuple[float, int, Callable[[], object]]] = []
        self._count = itertools.count()
        self._told: dict[Role, float] = {}  # to end, and when
        self._stopped: set[Role] = set()
        self._start_at: dict[Role, float] = {}  # of those that have ended
        self._down_s: dict[Role, float] = {}
        self._by_role: dict[Role, Trouble] = {}
        self._happenings: dict[Kind, Callable[[Fault], str]] = {
            Kind.WORKER_KILLED: lambda fault: self._signal_worker(fault, signal.SIGKILL),
            Kind.WORKER_DRAINED: lambda fault: self._signal_worker(fault, signal.SIGTERM),
            Kind.WORKER_STOPPED: self._stop_worker,
            Kind.STAGE_KILLED: self._kill_stage,
            Kind.SUPERVISOR_KILLED: lambda fault: self._kill(fault, self._supervisors()),
            Kind.GATEWAY_KILLED: lambda fault: self._kill(fault, rig.gateways),
            Kind.BROKER_KILLED: lambda fault: self._kill(fault, [rig.broker]),
            Kind.SUPERVISOR_STOPPED: lambda fault: self._stop(fault, self._supervisors()),
            Kind.GATEWAY_STOPPED: lambda fault: self._stop(fault, rig.gateways),
            Kind.BROKER_STOPPED: lambda fault: self._stop(fault, [rig.broker]),
            Kind.SUPERVISOR_DRAINED: lambda fault: self._drain(fault, self._supervisors()),
            Kind.GATEWAY_DRAINED: lambda fault: self._drain(fault, rig.gateways),
            Kind.BROKER_DRAINED: lambda fault: self._drain(fault, [rig.broker]),
            **dict.fromkeys(POISONS, self._poison),
            Kind.FLOOD: lambda fault: f"{crowd.flood(fault.which)} requests",
            Kind.SLOW_CLIENTS: lambda fault: f"{crowd.slow(fault.for_s)} of them",
            Kind.VANISHING_CLIENTS: lambda _: f"{crowd.vanish()} of them",
            Kind.DISK_FULL: lambda fault: self._fill(fault, rooms.disk),
            Kind.MEMORY_FULL: lambda fault: self._fill(fault, rooms.memory),
            Kind.VERSION_COMES: lambda _: rollouts.come(),
            Kind.LOADING_KILLED: self._kill_loading,
            Kind.ROLLED_BACK: lambda _: rollouts.roll_back(),
            Kind.TRAFFIC_CHANGED: lambda _: rollouts.change(),
        }

    def wreak(self, faults: Sequence[Fault], seconds: float) -> None:
        """Play a schedule that is so long."""
        self.began_s = time.monotonic()
        for fault in faults:
            self._after(fault.at_s, lambda fault=fault: self._happen(fault))  # type: ignore[misc]
        self._turn_until(lambda: time.monotonic() >= self.began_s + seconds)

    def settle(self) -> None:
        """Undo what is not undone yet, start what is missing, and wait until the clients that came
        for a fault are gone. AssertionError where that takes too long.
        """
        while self._later:
            heappop(self._later)[2]()
        end = time.monotonic() + SETTLE_S
        self._turn_until(lambda: self._is_settled() or time.monotonic() > end)
        assert self._is_settled(), f"what happened is not over {SETTLE_S:g} s later"
        self._rollouts.settle()

    def end(self) -> None:
        """SIGTERM to all at once, as honcho does it."""
        now = time.monotonic()
        for role in self._rig.roles():
            self._told[role] = now
            role.send(signal.SIGTERM)
        for role in self._rig.roles():
            try:
                role.wait(max(0.1, now + END_S - time.monotonic()))
            except AssertionError:
                self.findings.append(f"{role.name} did not end within {END_S:g} s of SIGTERM")
                self._end(role)
            else:
                self._bury(role, now)

    def _is_settled(self) -> bool:
        is_whole = not self._told and all(role.is_running for role in self._rig.roles())
        return is_whole and self._crowd.is_usual

    def _turn_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            now = time.monotonic()
            while self._later and self._later[0][0] <= now:
                heappop(self._later)[2]()
            self._look_after(now)
            time.sleep(TURN_S)

    def _after(self, seconds: float, do: Callable[[], object]) -> None:
        heappush(self._later, (time.monotonic() + seconds, next(self._count), do))

    def _happen(self, fault: Fault) -> None:
        whom = self._happenings[fault.kind](fault)
        if whom:
            self.done[fault.kind] += 1
            self._tell(f"{time.monotonic() - self.began_s:7.2f} s  {fault.kind}: {whom}")

    # -------------------------------------------------------------- processes that ended

    def _look_after(self, now: float) -> None:
        """Start again what ended, in its time, and end what should have ended."""
        for role in self._rig.roles():
            if not role.is_running and role not in self._start_at:
                self._bury(role, now)
        # One that has ended since then is seen to in the next turn.
        self._rig.start_missing(lambda role: self._start_at.get(role, inf) <= now)
        for role, told in list(self._told.items()):
            limit_s = BROKER_END_S if role is self._rig.broker else END_S
            if now - told > limit_s:
                self.findings.append(f"{role.name} did not end within {limit_s:g} s of SIGTERM")
                self._end(role)

    def _bury(self, role: Role, now: float) -> None:
        code = role.popen.returncode
        was_told = self._told.pop(role, None) is not None
        if code != role.expected_exit and not _may_end(role, was_told=was_told):
            self.findings.append(f"{role.name} exited {code}, not {role.expected_exit}")
        role.expected_exit = code
        self._stopped.discard(role)
        self._start_at[role] = now + self._down_s.pop(role, DOWN_S[0])
        trouble = self._by_role.pop(role, None)
        if trouble is not None:
            trouble.until_s = now

    def _end(self, role: Role) -> None:
        role.kill()
        self._told.pop(role, None)

    # -------------------------------------------------------------- faults; each says whom it hit

    def _supervisors(self) -> list[Role]:
        return [role for crew in self._rig.supervisors.values() for role in crew]

    def _kill(self, fault: Fault, roles: Sequence[Role]) -> str:
        living = [role for role in roles if role.is_running]
        if not living:
            return ""
        role = living[fault.which % len(living)]
        self._trouble(role)
        self._down_s[role] = fault.for_s
        self._end(role)
        return role.name

    def _stop(self, fault: Fault, roles: Sequence[Role]) -> str:
        role = self._undisturbed(fault, roles)
        if role is None:
            return ""
        self._trouble(role)
        self._stopped.add(role)
        role.send(signal.SIGSTOP)
        self._after(fault.for_s, lambda: self._go_on(role))
        return f"{role.name} for {fault.for_s:.1f} s"

    def _go_on(self, role: Role) -> None:
        if role not in self._stopped:
            return  # it was killed meanwhile
        role.send(signal.SIGCONT)
        self._stopped.discard(role)
        trouble = self._by_role.pop(role, None)
        if trouble is not None:
            trouble.until_s = time.monotonic()

    def _drain(self, fault: Fault, roles: Sequence[Role]) -> str:
        role = self._undisturbed(fault, roles)
        if role is None:
            return ""
        self._trouble(role)
        self._told[role] = time.monotonic()
        self._down_s[role] = fault.for_s
        role.send(signal.SIGTERM)
        return role.name

    def _undisturbed(self, fault: Fault, roles: Sequence[Role]) -> Role | None:
        """One that neither stands still nor is about to end, for it would notice nothing more."""
        well = [
            role
            for role in roles
            if role.is_running and role not in self._told and role not in self._stopped
        ]
        return well[fault.which % len(well)] if well else None

    def _trouble(self, role: Role) -> None:
        """Clients of a gateway may notice, from now on until it has ended or goes on."""
        if role in self._rig.gateways and role not in self._by_role:
            port = self._rig.ports[self._rig.gateways.index(role)]
            trouble = self._by_role[role] = Trouble(port, time.monotonic())
            self.troubles.append(trouble)

    def _signal_worker(self, fault: Fault, signum: signal.Signals) -> str:
        pids = self._workers(*CHAIN)
        if not pids:
            return ""
        pid = pids[fault.which % len(pids)]
        _signal(pid, signum)
        return f"process {pid}"

    def _stop_worker(self, fault: Fault) -> str:
        pids = self._workers(*CHAIN)
        if not pids:
            return ""
        pid = pids[fault.which % len(pids)]
        try:
            process = psutil.Process(pid)  # another may bear its number by then
        except psutil.NoSuchProcess:
            return ""
        _signal(pid, signal.SIGSTOP)
        self._after(fault.for_s, lambda: _let_go_on(process))
        return f"process {pid} for {fault.for_s:.1f} s"

    def _kill_stage(self, fault: Fault) -> str:
        stage = CHAIN[fault.which % len(CHAIN)]
        for pid in self._workers(stage):
            _signal(pid, signal.SIGKILL)
        return stage

    def _workers(self, *stages: str) -> list[int]:
        try:
            return self._rig.workers(*stages)
        except psutil.Error:  # a supervisor ended just now
            return []

    def _poison(self, fault: Fault) -> str:
        stage = CHAIN[fault.which % len(CHAIN)]
        self._crowd.poison(POISONS[fault.kind], stage)
        return stage

    def _kill_loading(self, fault: Fault) -> str:
        """A version comes, and one who loads it is killed, and started again at once."""
        version = self._rollouts.come()
        crews = [self._rig.supervisors[stage] for stage in STAGES]
        roles = [role for crew in crews for role in crew]
        at_once = replace(fault, for_s=0.0)
        self._after(fault.for_s, lambda: self._kill(at_once, roles))
        return version

    def _fill(self, fault: Fault, room: Room | None) -> str:
        if room is None:
            return ""
        room.fill()
        self._after(fault.for_s, room.empty)
        return f"for {fault.for_s:.1f} s"


def _may_end(role: Role, *, was_told: bool) -> bool:
    """Whether there is a reason for an end that was not expected."""
    if was_told and role.popen.returncode == -signal.SIGTERM:
        return not role.output  # so young that it had no handler for the signal
    return GIVEN_UP in role.output  # its workers were killed, one after the other, as they started


def _let_go_on(process: psutil.Process) -> None:
    """Also one whose supervisor has died: one that begins may not know, and ends by itself."""
    with suppress(psutil.Error):
        process.send_signal(signal.SIGCONT)


def _signal(pid: int, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signum)

"""One run: a deployment, its clients, a schedule of faults, then calm, and what is left of it."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.chaos import host
from tests.chaos.capacity import Capacity
from tests.chaos.crowd import Crowd
from tests.chaos.havoc import Havoc
from tests.chaos.judge import judge
from tests.chaos.report import Outcome
from tests.chaos.rollouts import Rollouts
from tests.chaos.rooms import DISK_BYTES, MEMORY_BYTES, Room, Rooms
from tests.chaos.schedule import Kind, draw
from tests.fault.rig import CHAIN, Rig
from tests.system.deployment import Deployment

CREW = {"first": (2, 1), "second": (2, 1), "third": (1, 1)}
PIPELINES = f"""
[pipelines.chain]
chain = {list(CHAIN)}
""" + "".join(f"[pipelines.chain.stages.{stage}]\nforward_timeout_s = 1.5\n" for stage in CHAIN)
CLIENTS = 48

LOGS = "logs"
"""In the folder of a run that did not hold."""
WARM_S = 1.0
CALM_S = 1.0
WHOLE_S = 45.0
"""A worker that died again and again is waited with for up to half a minute."""
EMPTY_S = 5.0
LOOK_EVERY_S = 0.1


class Run:
    """See the module. `play` once."""

    def __init__(
        self,
        seed: int,
        seconds: float,
        rate: float,
        *,
        enough: float,
        folder: Path,
        is_roomy: bool,
    ) -> None:
        """`enough`: the share of requests, see `judge.WELL`; `folder` is for what the run writes;
        `is_roomy`: file systems may be mounted in it.
        """
        self._enough = enough
        self._seed = seed
        self._seconds = seconds
        self._schedule = draw(seed, seconds=seconds, rate=rate, has_versions=True)
        self._folder = folder
        self._rooms = Rooms()
        env = {}
        if is_roomy:
            disk, memory = folder / "disk", folder / "memory"
            self._rooms = Rooms(Room(disk, DISK_BYTES), Room(memory, MEMORY_BYTES))
            tempfile.tempdir = str(disk)  # where deployments have their folder, and their logs
            env["MILLSTREAM_SHM"] = str(memory)
        self._mill = Deployment(pipelines=PIPELINES, env=env)
        self._findings: list[str] = []

    def play(self, tell: Callable[[str], None]) -> Outcome:
        """All of it. `tell` is given a line for each thing that happens.

        Raises AssertionError where nothing can be said, since the deployment never served.
        """
        try:
            outcome = self._play(tell)
            self._findings += host.tracebacks(role.log for role in self._mill.roles)
            if outcome.all_findings:
                self._keep_logs()
        except BaseException:
            self._keep_logs()
            raise
        finally:
            self._mill.kill_all()
            shutil.rmtree(self._mill.folder)
            self._rooms.close()
        return outcome

    def _keep_logs(self) -> None:
        shutil.copytree(self._mill.folder, self._folder / LOGS, ignore=_but_logs)

    def _play(self, tell: Callable[[str], None]) -> Outcome:
        rollouts = Rollouts(self._mill, self._seed)
        rig = Rig(self._mill, crew=CREW, options=rollouts.options)
        rig.wait_whole(WHOLE_S)
        crowd = Crowd(rig.ports, clients=CLIENTS, seed=self._seed)
        capacity = Capacity(rig)
        havoc = Havoc(rig, crowd, self._rooms, rollouts, tell)
        crowd.start()
        capacity.start()
        crowd.flood(0)  # what that takes is part of what they may have later
        time.sleep(WARM_S)
        before = host.memory_of(rig)
        havoc.wreak(self._schedule, self._seconds)
        tell("calm")
        self._expect(havoc.settle)
        self._expect(lambda: rig.wait_whole(WHOLE_S))
        calm_s = time.monotonic()
        time.sleep(CALM_S)
        records = crowd.stop()
        gaps = capacity.stop()
        self._expect(lambda: rig.check_empty(EMPTY_S))
        self._findings += self._wait_for_nothing(lambda: list(host.still_held(rig)))
        after = host.memory_of(rig)
        self._findings += host.grown(before, after)
        havoc.end()
        self._findings += havoc.findings
        memory = self._rooms.memory.path if self._rooms.memory else host.SHARED_MEMORY
        left = self._wait_for_nothing(lambda: host.left_behind(self._mill, memory))
        left_out = [] if self._rooms.disk else [Kind.DISK_FULL, Kind.MEMORY_FULL]
        return Outcome(
            seed=self._seed,
            seconds=self._seconds,
            verdict=judge(
                records,
                havoc.troubles,
                gaps,
                began_s=havoc.began_s,
                calm_s=calm_s,
                enough=self._enough,
            ),
            records=records,
            done=havoc.done,
            left_out=left_out,
            before=before,
            after=after,
            left=left,
            findings=self._findings,
        )

    @staticmethod
    def _wait_for_nothing(look: Callable[[], list[str]]) -> list[str]:
        """What is still there after a while that should have gone."""
        end = time.monotonic() + EMPTY_S
        while (found := look()) and time.monotonic() < end:
            time.sleep(LOOK_EVERY_S)
        return found

    def _expect(self, check: Callable[[], object]) -> None:
        """What does not hold is a finding, and no reason to stop."""
        try:
            check()
        except AssertionError as error:
            self._findings.append(str(error))


def _but_logs(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".log")]

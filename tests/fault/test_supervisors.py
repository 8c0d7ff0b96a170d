"""Supervisors that are killed or drained under load: their workers go too, no request is lost."""

import os
import signal

import pytest

from tests.fault.rig import Rig, under_load
from tests.system.deployment import Role, wait_until

pytestmark = pytest.mark.fault


def kill_role(role: Role) -> None:
    """SIGKILL, and its workers end with it."""
    workers = [child.pid for child in role.children()]
    role.kill()
    wait_until(lambda: not any(map(_lives, workers)), 2.0, f"workers {workers} end as well")


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_supervisor_killed(rig: Rig) -> None:
    load = rig.load()
    under_load(rig, load, lambda: kill_role(rig.supervisors["second"][0]))
    load.report.check()
    assert load.report.slowest_s() < 2.0


def test_two_supervisors_of_different_stages_killed(rig: Rig) -> None:
    victims = [rig.supervisors[stage][1] for stage in ("second", "third")]

    def fault() -> None:
        for role in victims:
            os.kill(role.pid, signal.SIGKILL)
        for role in victims:
            role.kill()

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    assert load.report.slowest_s() < 2.0
    rig.check_orphans()


def test_sigterm_to_a_supervisor_whose_stage_another_serves(rig: Rig) -> None:
    leaving = rig.supervisors["second"][0]
    load = rig.load()
    under_load(rig, load, lambda: leaving.stop(within_s=2.0))
    load.report.check()
    assert load.report.slowest_s() < 1.0


def test_sigterm_to_all_supervisors_of_a_stage_while_a_new_one_starts(rig: Rig) -> None:
    def fault() -> None:
        leaving = rig.supervisors["second"]
        rig.supervisors["second"] = [rig.start_supervisor("second")]
        for role in leaving:
            role.send(signal.SIGTERM)
        for role in leaving:
            role.check_exit()
        rig.supervisors["second"].append(rig.start_supervisor("second"))

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    assert load.report.slowest_s() < 2.0

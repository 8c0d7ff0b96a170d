"""Supervisors that are killed or drained under load: their workers go too, no request is lost."""

import os
import signal

import pytest

from tests.fault.rig import LONG_S, Away, Rig, under_load

pytestmark = pytest.mark.fault


def test_a_supervisor_killed(rig: Rig) -> None:
    def fault() -> None:
        rig.supervisors["second"][0].kill()
        rig.check_orphans()  # its worker ends with it

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    assert load.report.slowest_s() < LONG_S


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
    assert load.report.slowest_s() < LONG_S
    rig.check_orphans()


def test_sigterm_to_a_supervisor_whose_stage_another_serves(rig: Rig) -> None:
    leaving = rig.supervisors["second"][0]
    load = rig.load()
    under_load(rig, load, leaving.stop)
    load.report.check()
    assert load.report.slowest_s() < LONG_S


def test_sigterm_to_all_supervisors_of_a_stage_while_a_new_one_starts(rig: Rig) -> None:
    away = Away(lambda: rig.ready_workers("second"))

    def fault() -> None:
        leaving = rig.supervisors["second"]
        with away:
            rig.supervisors["second"] = [rig.start_supervisor("second")]
            for role in leaving:
                role.send(signal.SIGTERM)
            for role in leaving:
                role.check_exit()
        rig.supervisors["second"].append(rig.start_supervisor("second"))

    load = rig.load()
    under_load(rig, load, fault)
    load.report.check()
    assert load.report.slowest_s() < away.seconds + LONG_S

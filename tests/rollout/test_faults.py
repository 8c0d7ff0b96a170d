"""What is killed in the middle of a change: requests are answered, and the change goes on."""

import os
import signal
import time

import pytest

from tests.rollout.mill import Mill, check
from tests.system.deployment import wait_until
from tests.system.load import Load

pytestmark = pytest.mark.system


def flow(load: Load, answers: int = 200) -> None:
    """Until so many more have been answered."""
    until = load.answered + answers
    wait_until(lambda: load.answered >= until, 30.0, f"{answers} more answers")


def test_the_broker_is_killed_while_a_version_is_loaded(mill: Mill) -> None:
    mill.begin()
    with mill.load(16) as load:
        new = mill.put("sleep 1")
        mill.wait_state(new, "loading")
        mill.broker_role.kill()
        mill.start_broker()
        mill.wait_stable(new)
        flow(load)
    check(load)
    assert mill.seen[-1].version == new


def test_the_broker_is_killed_in_the_middle_of_a_promotion(mill: Mill) -> None:
    old, new = two(mill)
    mill.ask("promote", version=new, steps=[20, 100], every_s=1.5)
    began = time.monotonic()
    with mill.load(16) as load:
        flow(load)
        mill.broker_role.kill()
        mill.start_broker()
        mill.wait_stable(new)
        assert time.monotonic() - began > 2.9, "two steps, as long as they are"
        flow(load)
    check(load)
    assert mill.seen[-1].version == new
    assert mill.ask("traffic")["previous"] == old


def two(mill: Mill) -> tuple[str, str]:
    """The stable version, and a newer one that is ready and has no share."""
    old = mill.begin()
    mill.ask("traffic", weights={old: 1})
    new = mill.put()
    mill.wait_state(new, "ready")
    return old, new


def test_the_workers_of_the_canary_are_killed(mill: Mill) -> None:
    old, new = two(mill)
    mill.ask("traffic", weights={old: 1, new: 1})
    with mill.load(16) as load:
        flow(load)
        for worker in mill.workers():
            if worker["version"] == new:
                os.kill(worker["pid"], signal.SIGKILL)
        flow(load)
        mill.wait_state(new, "ready")
        flow(load)
    check(load)
    assert {each.version for each in mill.seen[-100:]} == {old, new}


def test_a_supervisor_with_two_versions_is_killed(mill: Mill) -> None:
    old, new = two(mill)
    mill.ask("traffic", weights={old: 1, new: 1})
    with mill.load(16) as load:
        flow(load)
        mill.stages["infer"].kill()
        mill.stage("infer", "--keep-warm", "0")
        for version in (old, new):
            mill.wait_state(version, "ready")
        flow(load)
    check(load)
    assert {each.version for each in mill.seen[-100:]} == {old, new}
    assert mill.ask("traffic")["weights"] == {old: 50.0, new: 50.0}

"""Versions take over from one another under load, and no client notices."""

import time

import pytest

from tests.rollout.mill import STAGES, Mill, check
from tests.system.deployment import wait_until

pytestmark = pytest.mark.system

SWAPS = 3
MIB = 1 << 20
GROWTH_BYTES = 16 * MIB
"""What the clients' connections, figures and the allocators' rounding up may take meanwhile; a
version that stayed would take three times as much."""


def test_versions_come_one_after_another(mill: Mill) -> None:
    mill.begin()
    with mill.load(64) as load:
        wait_until(lambda: load.answered > 500, 30.0, "500 answers")
        wait_alone(mill)
        before = mill.pss_bytes()
        for _ in range(SWAPS):
            answered = load.answered
            mill.wait_stable(mill.put())
            wait_until(lambda: load.answered > answered + 100, 30.0, "100 answers")  # noqa: B023
        wait_alone(mill)
        after = mill.pss_bytes()
    check(load)
    mill.check_seen()
    assert {each.version for each in mill.seen[-20:]} == {str(mill.newest)}
    assert after < before + GROWTH_BYTES


def wait_alone(mill: Mill) -> None:
    """Until one version is left, and the processes of all others have ended."""
    wait_until(
        lambda: (
            len(mill.workers()) == 2 and all(len(r.children()) == 1 for r in mill.stages.values())
        ),
        30.0,
        "one worker a stage",
    )


def test_stages_get_a_version_at_different_times(mill: Mill) -> None:
    before = mill.begin()
    with mill.load(16) as load:
        version = mill.put(stages=STAGES[:1])
        wait_until(lambda: version in mill.states(), 30.0, "it is seen")
        mill.stages["prepare"].wait_for_output(f'event="version is ready" version={version}')
        answered = load.answered
        wait_until(lambda: load.answered > answered + 200, 30.0, "200 answers")
        assert mill.ask("traffic")["stable"] == before
        mill.put(version=version, stages=STAGES[1:])
        mill.wait_stable(version)
        answered = load.answered
        wait_until(lambda: load.answered > answered + 200, 30.0, "200 answers")
    check(load)
    mill.check_seen()


def test_a_rollback_to_what_is_loaded_no_longer_and_a_change_back(mill: Mill) -> None:
    old = mill.begin()
    with mill.load(16) as load:
        new = mill.put()
        mill.wait_stable(new)
        mill.wait_state(old, "found")
        assert mill.ask("rollback")["stable"] == old
        assert mill.ask("traffic", weights={new: 1})["stable"] == new
    check(load)


def test_nobody_gets_what_was_rolled_back(mill: Mill) -> None:
    old = mill.begin()
    new = mill.put()
    mill.wait_stable(new)
    with mill.load(16) as load:
        answered = load.answered
        wait_until(lambda: load.answered > answered + 300, 30.0, "300 answers")
        assert mill.ask("rollback", why="wrong answers")["weights"] == {old: 100.0}
        told = time.time()
        answered = load.answered
        wait_until(lambda: load.answered > answered + 300, 30.0, "300 answers")
    check(load)
    late = [each for each in mill.seen if each.sent > told]
    assert {each.version for each in late} == {old}
    last = max(each.came for each in mill.seen if each.version == new)
    assert last < told + 8.0, "what was admitted before is answered soon"
    wait_alone(mill)  # its memory is free again
    mill.wait_state(new, "found")  # which its supervisor tells once the process has ended

    mill.broker_role.kill()
    for stage in STAGES:
        mill.stages[stage].stop()
    mill.start_broker()
    for stage in STAGES:
        mill.stage(stage, "--keep-warm", "0")
    mill.wait_ready()
    mill.wait_state(old, "ready")
    wait_alone(mill)  # it is the newest on disk, and goes, if it was loaded at all
    mill.wait_state(new, "found")
    document = mill.ask("traffic")
    assert (document["weights"], document["rejected"][new]) == ({old: 100.0}, "wrong answers")
    assert mill.version() == old

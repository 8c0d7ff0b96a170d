"""Workers that live, by their supervisor's word, and say nothing to a broker that asks them."""

from collections.abc import Callable

import pytest

from broker.core.config import StageConfig
from broker.core.membership import ANSWER_S
from broker.wire.messages import Kill, Renew, SupervisorBeat, Who, WorkerHealth, WorkerReport
from tests.unit.broker.core.driver import BEAT_EVERY, EPOCH, Driver, pipeline

Make = Callable[..., Driver]

CALL_S = 3.0
SETUP_S = 20.0
STAGES = {"a": StageConfig(forward_timeout_s=CALL_S, setup_timeout_s=SETUP_S)}


def beat(driver: Driver, seconds: float, *, warm: bool, health: int = WorkerHealth.ALIVE) -> None:
    """For so long a supervisor says how its worker w1 is, which says nothing itself."""
    report = WorkerReport(b"w1", health, warm=warm)
    for _ in range(round(seconds / BEAT_EVERY)):
        driver.receive(b"s1", SupervisorBeat(EPOCH, [report]))
        driver.tick(BEAT_EVERY)


@pytest.mark.parametrize(("warm", "most_s"), [(True, CALL_S), (False, SETUP_S)])
def test_one_that_never_answers_is_killed(broker: Make, warm: bool, most_s: float) -> None:
    driver = broker(p=pipeline("a", stages=STAGES))
    driver.supervisor(b"s1", "a")
    beat(driver, most_s + ANSWER_S, warm=warm)
    assert driver.told(b"s1", Kill) == []
    assert driver.told(b"w1", Who)
    beat(driver, 2 * BEAT_EVERY, warm=warm)
    (kill,) = driver.told(b"s1", Kill)
    assert kill.worker == b"w1"
    beat(driver, most_s + ANSWER_S, warm=warm)
    assert len(driver.told(b"s1", Kill)) == 1, "it has as long again to end, or to speak"
    beat(driver, 2 * BEAT_EVERY, warm=warm)
    assert len(driver.told(b"s1", Kill)) == 2, "the first one was lost"


def test_one_that_still_halves_an_old_batch_is_left_alone(broker: Make) -> None:
    driver = broker(p=pipeline("a", stages=STAGES))
    driver.supervisor(b"s1", "a")
    for _ in range(4):
        beat(driver, CALL_S, warm=True)
        driver.receive(b"w1", Renew(EPOCH - 1, 5))
    assert driver.told(b"s1", Kill) == []


def test_one_that_is_known_is_not_deaf(broker: Make) -> None:
    driver = broker(p=pipeline("a", stages=STAGES))
    driver.supervisor(b"s1", "a")
    beat(driver, CALL_S, warm=True)
    driver.worker(b"w1", by=b"s1")
    beat(driver, 2 * CALL_S, warm=True)
    assert driver.told(b"s1", Kill) == []


def test_one_that_is_stopped_cannot_answer(broker: Make) -> None:
    driver = broker(p=pipeline("a", stages=STAGES))
    driver.supervisor(b"s1", "a")
    beat(driver, 3 * CALL_S, warm=True, health=WorkerHealth.STOPPED)
    assert driver.told(b"s1", Kill) == []


def test_what_a_supervisor_serves_is_not_known_yet(broker: Make) -> None:
    driver = broker(p=pipeline("a", stages=STAGES))
    driver.supervisor(b"s1", "")
    beat(driver, SETUP_S + 3.0, warm=False)
    assert driver.told(b"s1", Kill) == []


def test_a_broker_that_stood_still_blames_nobody(broker: Make) -> None:
    driver = broker(p=pipeline("a", stages=STAGES))
    driver.supervisor(b"s1", "a")
    beat(driver, 1.0, warm=True)
    driver.tick(60.0)
    beat(driver, 1.0, warm=True)
    assert driver.told(b"s1", Kill) == []

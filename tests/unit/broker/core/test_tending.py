"""Draining and restarting a worker: what its supervisor is told, and what becomes of its place."""

from collections.abc import Callable

import msgspec
import pytest

from broker.core.posts import FORGET_S
from broker.wire.messages import Bye, SupervisorBeat, Tend, TendKind, WorkerHealth, WorkerReport
from tests.unit.broker.core.driver import Driver

Make = Callable[..., Driver]
W1 = b"w1".hex()


def vacancies(driver: Driver) -> list[str]:
    return [each.vacancy for each in driver.scheduler.snapshot(driver.now).vacant]


def leave(driver: Driver, worker: bytes) -> None:
    driver.receive(worker, Bye(driver.epoch))
    driver.forget(worker)


def test_a_drained_place_stays_empty_until_a_restart(broker: Make) -> None:
    driver = broker()
    driver.worker(index=2, version="7")
    driver.ask("drain", worker=W1, by="ann", why="a look")
    (told,) = driver.told(b"s1", Tend)
    assert (told.index, told.version, told.wish) == (2, "7", TendKind.DRAIN)
    assert told.reason == "drained by ann: a look"
    assert driver.document() == {
        "worker": W1, "asked": "drain", "stage": "a", "last_of_stage": True,
    }  # fmt: skip
    assert vacancies(driver) == []
    leave(driver, b"w1")
    assert vacancies(driver) == ["drained"]
    driver.ask("drain", worker=W1)
    assert "already" in driver.refused()

    driver.ask("restart", worker=W1)
    assert driver.told(b"s1", Tend)[-1].wish == TendKind.RESTART
    assert vacancies(driver) == ["lost"]
    driver.worker(b"w2", index=2, version="7")
    assert vacancies(driver) == []
    assert driver.scheduler.snapshot(driver.now).workers[0].deaths == 0


def test_who_leaves_unasked_leaves_no_place(broker: Make) -> None:
    driver = broker()
    driver.worker()
    leave(driver, b"w1")
    assert vacancies(driver) == []


def test_a_successor_takes_over_the_place(broker: Make) -> None:
    driver = broker()
    driver.worker()
    driver.ask("restart", worker=W1, by="ann")
    report = WorkerReport(b"w1", WorkerHealth.ALIVE, rss_bytes=4096, leaving="restarted by ann")
    for _ in range(2):
        driver.receive(b"s1", SupervisorBeat(driver.epoch, [report]))
    driver.worker(b"w2")
    leave(driver, b"w1")
    driver.run(0.2)
    shown = driver.scheduler.snapshot(driver.now)
    assert [each.id for each in shown.workers] == [b"w2".hex()]
    assert shown.vacant == []
    events = [each.what for each in driver.scheduler.ledger.diary.latest(10, driver.now)]
    assert events.count("worker_recycled") == 1
    assert "worker_restart_asked" in events


@pytest.mark.parametrize("worker", ["", "zz", "00", "é", W1 + "00"])
def test_of_a_stranger_nothing_can_be_asked(broker: Make, worker: str) -> None:
    driver = broker()
    driver.worker()
    driver.ask("restart", worker=worker)
    assert "there is no worker" in driver.refused()


def test_bodies_that_are_none(broker: Make) -> None:
    driver = broker()
    driver.worker()
    driver.ask("restart", wroker=W1)
    assert "did you mean worker?" in driver.refused()
    driver.ask("restart")
    assert "worker" in driver.refused()


def test_without_its_supervisor_it_cannot_be_done_and_in_time_it_is_forgotten(
    broker: Make,
) -> None:
    driver = broker()
    driver.worker()
    driver.lose(b"w1")
    driver.lose(b"s1")
    driver.ask("restart", worker=W1)
    assert "supervisor is not there" in driver.refused()
    assert vacancies(driver) == ["lost"]
    driver.run(FORGET_S + 2.0)
    assert vacancies(driver) == []


def test_the_report_is_json_whatever_was_said(broker: Make) -> None:
    driver = broker()
    driver.worker()
    driver.ask("restart", worker=W1, by="x" * 10_000, why="y" * 10_000)
    assert msgspec.json.encode(driver.document())
    (told,) = driver.told(b"s1", Tend)
    assert len(told.reason) <= 200

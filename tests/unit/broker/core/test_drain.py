"""How workers and the broker leave: nothing is lost, and nobody is kept for nothing."""

from collections.abc import Callable

import pytest

from broker.core.drain import DRAIN_S, LINGER_S
from broker.core.states import BrokerState
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Bye,
    Catalog,
    Dismiss,
    SupervisorBeat,
    WorkerDraining,
    WorkerHealth,
    WorkerReport,
)
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline

Make = Callable[..., Driver]


def leave(driver: Driver, worker: bytes = b"w1", returned: list[int] | None = None) -> None:
    driver.receive(worker, WorkerDraining(EPOCH, returned or []))
    driver.tick()


def dismissed(driver: Driver, worker: bytes = b"w1") -> bool:
    return bool(driver.told(worker, Dismiss))


def serving(broker: Make, *workers: bytes, cap: int = 2) -> Driver:
    driver = broker()
    driver.gateway()
    for worker in workers:
        driver.worker(worker, max_batch_size=cap)
    return driver


# ------------------------------------------------------------------ a worker


def test_with_another_ready_worker_it_goes_when_it_has_finished(broker: Make) -> None:
    driver = serving(broker, b"w1", b"w2")
    driver.submit(1)
    leave(driver)
    assert not dismissed(driver)
    driver.submit(9)
    assert driver.payloads() == [[1]], "nothing new for one that leaves"
    driver.finish()
    driver.run(0.15)
    assert dismissed(driver)
    driver.forget(b"w1")
    driver.receive(b"w1", Bye(EPOCH))
    driver.finish_all()
    assert len(driver.answered()) == 10


def test_idle_with_another_ready_worker_it_goes_at_once(broker: Make) -> None:
    driver = serving(broker, b"w1", b"w2")
    driver.submit(1)
    driver.submit(4)
    driver.finish(b"w2")
    while driver.batches[b"w2"]:
        driver.finish(b"w2")
    leave(driver, b"w2")
    assert dismissed(driver, b"w2")
    driver.finish_all()


def test_alone_it_goes_at_once_when_nothing_is_under_way(broker: Make) -> None:
    driver = serving(broker, b"w1")
    leave(driver)
    assert dismissed(driver)


def test_alone_it_is_kept_until_the_pipeline_is_empty(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a")
    driver.worker(b"wb", "b", by=b"s2")
    driver.submit(3)
    ahead = driver.batches[b"wa"].pop().lease
    leave(driver, b"wa", [ahead])
    assert driver.payloads(b"wa") == [[1], [2]], "it gets back what it gave back"
    driver.run(1.0)
    assert not dismissed(driver, b"wa")
    for _ in range(3):
        driver.finish(b"wa")
        driver.finish(b"wb")
    driver.run(0.15)
    assert dismissed(driver, b"wa")
    assert driver.answered() == [1, 2, 3]


def test_alone_it_is_kept_no_longer_than_it_has(broker: Make) -> None:
    driver = serving(broker, b"w1")
    driver.submit(8, left_s=60.0)
    leave(driver)
    driver.run(DRAIN_S - 0.2)
    assert not dismissed(driver)
    driver.run(0.4)
    driver.finish()
    driver.finish()
    assert driver.payloads() == []
    driver.run(0.15)
    assert dismissed(driver)
    driver.worker(b"w2")
    driver.tick()
    driver.finish_all()
    assert len(driver.answered()) == 8


def test_what_it_gives_back_is_run_by_others_and_has_used_no_attempt(broker: Make) -> None:
    driver = serving(broker, b"w1", b"w2")
    driver.submit(1)
    driver.submit(1)
    driver.submit(4)
    running, ahead = driver.batches[b"w1"]
    driver.batches[b"w1"].remove(ahead)
    seqs = [int(item.payload) for item in ahead.items]  # type: ignore[arg-type]
    leave(driver, b"w1", [ahead.lease, 4711])
    driver.finish(b"w2")
    again = [batch for batch in driver.batches[b"w2"] if len(batch.items) == len(seqs)]
    assert any([int(item.payload) for item in batch.items] == seqs for batch in again)  # type: ignore[arg-type]
    assert {item.attempt for batch in again for item in batch.items} == {1}
    driver.finish_all()
    assert len(driver.answered()) == 6
    assert running.lease != ahead.lease


def test_two_that_leave_together_are_both_kept_while_there_is_work(broker: Make) -> None:
    driver = serving(broker, b"w1", b"w2")
    driver.submit(6)
    leave(driver, b"w1")
    leave(driver, b"w2")
    driver.run(0.5)
    assert not dismissed(driver, b"w1")
    assert not dismissed(driver, b"w2")
    driver.finish_all()
    driver.run(0.15)
    assert dismissed(driver, b"w1")
    assert dismissed(driver, b"w2")


def test_one_that_was_let_go_is_needed_again_when_the_other_dies(broker: Make) -> None:
    driver = serving(broker, b"w1", b"w2")
    driver.submit(1)
    leave(driver, b"w1")
    driver.submit(2)
    driver.lose(b"w2")
    driver.run(0.15)
    driver.finish_all()
    assert len(driver.answered()) == 3


def test_a_worker_that_was_never_warm_gets_no_work_at_the_end(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(ready=False)
    driver.submit(2)
    leave(driver)
    assert driver.payloads() == []
    assert dismissed(driver)
    driver.worker(b"w2")
    driver.tick()
    driver.finish_all()


def test_dismissal_is_repeated_should_it_be_lost(broker: Make) -> None:
    driver = serving(broker, b"w1")
    leave(driver)
    driver.run(1.2)
    leave(driver)
    assert 2 <= len(driver.told(b"w1", Dismiss)) <= 5


def test_a_supervisor_may_say_it_for_its_own_workers_only(broker: Make) -> None:
    driver = serving(broker, b"w1")
    driver.worker(b"w2", by=b"s2")
    reports = [WorkerReport(b"w1", WorkerHealth.ALIVE), WorkerReport(b"w2", WorkerHealth.ALIVE)]
    driver.receive(b"s1", SupervisorBeat(EPOCH, reports, draining=True))
    assert dismissed(driver, b"w1")
    assert not dismissed(driver, b"w2")


def test_one_that_dies_while_it_drains_is_an_ordinary_loss(broker: Make) -> None:
    driver = serving(broker, b"w1")
    driver.submit(2)
    leave(driver)
    driver.lose(b"w1")
    driver.worker(b"w2")
    driver.run(0.2)
    driver.finish_all()
    assert len(driver.answered()) == 2
    assert driver.ledger.draining_workers == {}


# ------------------------------------------------------------------ the broker


def test_a_draining_broker_refuses_the_new_and_finishes_the_old(broker: Make) -> None:
    driver = serving(broker, b"w1")
    held = driver.submit(3)
    driver.drain()
    (fresh,) = driver.submit()
    (again,) = driver.submit(again=True)
    assert driver.failure(fresh) is ErrorCode.DRAINING
    assert driver.failure(again) is ErrorCode.DRAINING
    assert driver.told(b"g1", Catalog)[-1].draining
    driver.run(1.0)
    assert driver.stops == 0
    driver.finish_all()
    assert [driver.result(seq) for seq in held] == [b"1", b"2", b"3"]
    driver.run(0.3)
    assert driver.stops == 1
    assert driver.ledger.state is BrokerState.STOPPED


def test_an_empty_broker_lingers_a_moment_for_those_told_to_leave_with_it(broker: Make) -> None:
    driver = serving(broker, b"w1")
    driver.drain()
    driver.run(LINGER_S / 2)
    assert driver.stops == 0
    driver.run(LINGER_S)
    assert driver.stops == 1


def test_it_goes_at_once_when_all_have_left(broker: Make) -> None:
    driver = serving(broker, b"w1")
    driver.drain()
    for peer in list(driver.ledger.peers):
        assert driver.stops == 0
        driver.forget(peer)
        driver.receive(peer, Bye(EPOCH))
    driver.run(LINGER_S / 10)
    assert driver.stops == 1


def test_it_goes_after_its_leaving_workers(broker: Make) -> None:
    driver = serving(broker, b"w1")
    driver.submit(2)
    driver.drain()
    leave(driver)
    driver.run(1.0)
    assert driver.stops == 0
    driver.finish_all()
    driver.run(0.2)
    assert dismissed(driver)
    assert driver.stops == 0, "the worker has not left yet"
    driver.forget(b"w1")
    driver.receive(b"w1", Bye(EPOCH))
    driver.run(0.2)
    assert driver.stops == 1


def test_it_does_not_wait_for_ever_for_one_that_does_not_leave(broker: Make) -> None:
    driver = serving(broker, b"w1")
    driver.drain()
    leave(driver)
    driver.run(4.3)
    assert driver.stops == 1


def test_everything_is_told_to_leave_at_once(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a")
    driver.worker(b"wb", "b", by=b"s2")
    driver.submit(5)
    driver.drain()
    for worker in (b"wa", b"wb"):
        leave(driver, worker)
    driver.finish_all()
    driver.run(0.2)
    for worker in (b"wa", b"wb"):
        assert dismissed(driver, worker)
        driver.forget(worker)
        driver.receive(worker, Bye(EPOCH))
    driver.run(0.2)
    assert driver.stops == 1
    assert driver.answered() == [1, 2, 3, 4, 5]


def test_what_is_held_is_bounded_by_its_deadline(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.submit(2, left_s=1.0)
    driver.drain()
    driver.drain()
    driver.run(1.3)
    assert driver.stops == 1
    assert {driver.failure(seq) for seq in (1, 2)} == {ErrorCode.DEADLINE_EXCEEDED}


@pytest.mark.parametrize("gone", ["bye", "lost"])
def test_a_gateway_that_leaves_a_draining_broker(broker: Make, gone: str) -> None:
    driver = serving(broker, b"w1")
    driver.submit(3)
    driver.drain()
    driver.receive(b"g1", Bye(EPOCH, gone))
    driver.gateways.clear()
    driver.run(0.5)
    assert driver.stops == 1

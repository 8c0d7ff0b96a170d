"""Workers that run out of memory: smaller batches for a while, and items that are run elsewhere."""

from collections.abc import Callable

from broker.core.config import StageConfig
from broker.core.shortage import FIRST_WAIT_S, FORGET_AFTER
from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, Results, SupervisorBeat, WorkerHealth, WorkerReport
from tests.unit.broker.core.driver import Driver, pipeline

Make = Callable[..., Driver]


def mill(broker: Make, *, workers: int = 1, most: int = 32) -> Driver:
    driver = broker(p=pipeline("a", stages={"a": StageConfig(max_queue_items=1000)}))
    driver.gateway()
    for n in range(workers):
        driver.worker(b"w%d" % n, max_batch_size=most, index=n)
    return driver


def run_short(driver: Driver, worker: bytes, items: int) -> None:
    """The worker's oldest batch is done, by halves since so many items were too many."""
    batch = driver.take(worker)
    driver.holding[worker].remove(batch.lease)
    outcomes = [item.payload for item in batch.items]
    driver.receive(
        worker,
        Results(driver.epoch, batch.lease, list(outcomes), 0.1, False, out_of_memory=items),
    )
    driver.tick()


def sizes(driver: Driver, worker: bytes = b"w0") -> list[int]:
    return [len(batch) for batch in driver.payloads(worker)]


def test_a_shortage_halves_the_batches_of_its_worker_alone(broker: Make) -> None:
    driver = mill(broker, workers=2)
    driver.submit(200)
    run_short(driver, b"w0", 32)
    driver.finish(b"w1")
    while driver.batches[b"w0"] and sizes(driver)[0] == 32:  # was sent before
        driver.finish(b"w0")
    assert sizes(driver)[0] == 16
    driver.finish(b"w1")
    assert sizes(driver, b"w1")[0] == 32
    shown = {worker.index: worker for worker in driver.scheduler.snapshot(driver.now).workers}
    assert (shown[0].batch_cap, shown[1].batch_cap) == (16, 32)
    (stage,) = driver.scheduler.snapshot(driver.now).pipelines["p"].stages.values()
    assert (stage.batch_cap, stage.max_batch_size) == (16, 32)
    assert [note.fields["batch_cap"] for note in driver.notes if "lowered" in note.what] == [16]
    driver.finish_all()


def test_a_cap_is_raised_again_and_forgotten(broker: Make) -> None:
    driver = mill(broker)
    driver.submit(32)
    run_short(driver, b"w0", 8)
    assert driver.ledger.pipelines["p"].stages[0].caps[b"s1", 0, ""].most == 4
    for most in (8, 16, 32):
        driver.run(FIRST_WAIT_S + 0.2)
        driver.submit(40)
        assert sizes(driver)[0] == most
        driver.finish_all()
    driver.run(FORGET_AFTER * FIRST_WAIT_S + 0.2)
    assert driver.ledger.pipelines["p"].stages[0].caps == {}


def test_one_that_was_raised_too_soon_waits_longer(broker: Make) -> None:
    driver = mill(broker)
    waits = []
    for _ in range(3):
        driver.submit(32)
        run_short(driver, b"w0", 32)
        cap = driver.ledger.pipelines["p"].stages[0].caps[b"s1", 0, ""]
        waits.append(cap.wait_s)
        driver.run(cap.wait_s + 0.2)
    assert waits == [FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S]


def test_a_shortage_with_one_item_leaves_nothing_to_halve(broker: Make) -> None:
    driver = mill(broker, most=1)
    driver.submit(1)
    run_short(driver, b"w0", 1)
    assert driver.ledger.pipelines["p"].stages[0].caps == {}
    assert driver.ledger.counters["out_of_memory"] == 1


def test_a_worker_killed_for_want_of_memory_leaves_its_cap_to_its_successor(broker: Make) -> None:
    driver = mill(broker)
    driver.submit(32)
    gone = WorkerReport(b"w0", WorkerHealth.GONE, "signal 9", out_of_memory=True)
    driver.forget(b"w0")
    driver.receive(b"s1", SupervisorBeat(driver.epoch, [gone]))
    driver.worker(b"next", max_batch_size=32, index=0)
    driver.tick()
    driver.finish_all()
    driver.submit(32)
    assert sizes(driver, b"next") == [16, 16]
    driver.finish_all()


def out_of_memory(_: object) -> Failure:
    return Failure(ErrorCode.OUT_OF_MEMORY, "too large")


def test_an_item_that_ran_out_of_memory_alone_is_run_by_another(broker: Make) -> None:
    driver = mill(broker)
    (seq,) = driver.submit()
    driver.answer(b"w0", driver.take(b"w0"), out_of_memory)
    driver.worker(b"w1", max_batch_size=32, index=1)
    assert driver.answered() == []
    driver.finish_all()
    assert driver.result(seq) == b"1"


def test_one_that_is_too_large_for_everyone_fails_in_the_end(broker: Make) -> None:
    driver = mill(broker, workers=3)
    (seq,) = driver.submit()
    for attempt in range(1, 4):
        (busy,) = [worker for worker, batches in driver.batches.items() if batches]
        batch = driver.take(busy)
        assert [item.attempt for item in batch.items] == [attempt]
        driver.answer(busy, batch, out_of_memory)
    assert driver.failure(seq) is ErrorCode.WORKER_ERROR

"""What becomes of the work of workers that die, hang, or are thought to have died."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from broker.core.config import StageConfig
from broker.core.events import PeerLost
from broker.core.recovery import REPLACED_S
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Bye,
    Excuse,
    Failure,
    Kill,
    Renew,
    Results,
    SupervisorBeat,
    WorkerBeat,
    WorkerHealth,
    WorkerReport,
)
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline

Make = Callable[..., Driver]


def pool(broker: Make, *, workers: int = 1, cap: int = 4, **keys: object) -> Driver:
    driver = broker(p=pipeline("a", **keys))  # type: ignore[arg-type]
    driver.gateway()
    for n in range(1, workers + 1):
        driver.worker(b"w%d" % n, max_batch_size=cap)
    return driver


# ------------------------------------------------------------------ lost


def test_what_ran_has_used_an_attempt_what_was_sent_ahead_has_not(broker: Make) -> None:
    driver = pool(broker, cap=2)
    driver.submit(6)
    assert driver.payloads() == [[1, 2], [3, 4]]
    driver.lose(b"w1")
    held = driver.items()
    assert [(held[n].attempts, held[n].suspect) for n in range(1, 7)] == [
        (1, True), (1, True), (0, False), (0, False), (0, False), (0, False),
    ]  # fmt: skip
    driver.worker(b"w2", max_batch_size=2)
    driver.tick()
    assert driver.payloads(b"w2") == [[1]], "suspects first, alone, nothing behind"
    assert driver.batches[b"w2"][0].items[0].attempt == 2
    driver.finish_all()
    assert sorted(driver.answered()) == [1, 2, 3, 4, 5, 6]


def test_what_was_sent_ahead_comes_back_to_the_head_in_its_order(broker: Make) -> None:
    driver = pool(broker, workers=1, cap=2)
    driver.submit(8)
    driver.worker(b"w2", max_batch_size=2)
    driver.tick()
    assert driver.payloads(b"w2") == [[5, 6], [7, 8]]
    driver.lose(b"w1")
    driver.finish(b"w2")
    driver.finish(b"w2")
    driver.tick(REPLACED_S)
    seen = [driver.finish(b"w2").items for _ in range(3)]
    flat = [int(item.payload) for batch in seen for item in batch]  # type: ignore[arg-type]
    assert flat == [3, 4, 1, 2], "what ran is run alone, in turns with the others"


def test_the_killer_is_found_and_its_neighbours_are_answered(broker: Make) -> None:
    driver = pool(broker, workers=3, cap=32)
    driver.submit(1)
    driver.submit(1)
    driver.submit(1)
    driver.submit(32)
    for n in (1, 2, 3):
        driver.finish(b"w%d" % n)
    killer, deaths = 20, 0
    for _ in range(200):
        busy = [worker for worker, batches in driver.batches.items() if batches]
        if not busy:
            break
        batch = driver.batches[busy[0]][0]
        if any(item.payload == b"%d" % killer for item in batch.items):
            deaths += 1
            driver.lose(busy[0])
            driver.worker(b"again%d" % deaths, max_batch_size=32)
            driver.tick()
        else:
            driver.finish(busy[0])
    assert deaths == 3
    assert driver.failure(killer) is ErrorCode.WORKER_CRASHED
    for seq in range(1, 36):
        if seq != killer:
            assert driver.result(seq) == b"%d" % seq


@pytest.mark.parametrize("attempts", [1, 2, 3, 5])
def test_a_killer_that_comes_alone_is_known_after_so_many_attempts(
    broker: Make, attempts: int
) -> None:
    driver = pool(broker, attempts=attempts)
    (seq,) = driver.submit()
    for n in range(1, attempts + 1):
        assert driver.batches[b"w%d" % n][0].items[0].attempt == n
        driver.lose(b"w%d" % n)
        driver.worker(b"w%d" % (n + 1))
        driver.tick()
    assert driver.failure(seq) is ErrorCode.WORKER_CRASHED
    assert driver.ledger.counters["killers"] == 1


def test_with_one_attempt_neighbours_of_a_killer_are_lost_not_accused(broker: Make) -> None:
    driver = pool(broker, attempts=1)
    driver.submit(3)
    driver.lose(b"w1")
    driver.tick()
    assert {driver.failure(seq) for seq in (1, 2, 3)} == {ErrorCode.WORKER_LOST}


def test_suspects_run_on_at_most_all_but_one_of_the_ready_workers(broker: Make) -> None:
    driver = pool(broker, workers=4, cap=8)
    driver.submit(8)
    for n in range(1, 5):
        assert len(driver.payloads(b"w%d" % n)) == 1
    driver.lose(b"w1")
    driver.lose(b"w2")
    assert [len(driver.payloads(w)) for w in (b"w3", b"w4")] == [1, 1]
    driver.finish(b"w3")
    driver.finish(b"w4")
    alone = [w for w in (b"w3", b"w4") if driver.payloads(w)]
    assert len(alone) == 1, "one of the two is kept for the others"
    driver.submit(20)
    other = b"w3" if alone == [b"w4"] else b"w4"
    assert [len(batch) for batch in driver.payloads(other)] == [8, 8]
    assert len(driver.payloads(alone[0])) == 1, "and nothing is sent behind a suspect"
    driver.finish_all()
    assert len(driver.answered()) == 28


def test_the_only_worker_runs_suspects_too(broker: Make) -> None:
    driver = pool(broker)
    driver.submit(4)
    driver.lose(b"w1")
    driver.worker(b"w2")
    driver.tick()
    driver.finish_all()
    assert sorted(driver.answered()) == [1, 2, 3, 4]


def test_suspects_get_their_hand_though_full_batches_wait(broker: Make) -> None:
    driver = pool(broker, workers=2, cap=2)
    driver.submit(60)
    driver.lose(b"w1")
    driver.tick(REPLACED_S)
    for _ in range(6):
        driver.finish(b"w2")
    assert not any(item.suspect for item in driver.items().values()), "they starve"
    driver.finish_all()


def test_suspects_of_one_version_do_not_wait_for_the_other(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1", version="1")
    driver.worker(b"w2", version="2")
    (seq,) = driver.submit(version="2")
    driver.lose(b"w2")
    driver.worker(b"w3", version="2")
    driver.submit(30)
    driver.submit(30, version="2")
    for _ in range(4):
        driver.finish(b"w3")
    assert seq in driver.answered()
    driver.finish_all()


def test_suspects_of_a_shared_worker_get_their_turn(broker: Make) -> None:
    driver = broker(p=pipeline("a"), q=pipeline("a"))
    driver.gateway()
    driver.worker(b"w1", max_batch_size=2)
    (seq,) = driver.submit(pipeline="p")
    driver.lose(b"w1")
    driver.submit(60, pipeline="q")
    driver.worker(b"w2", max_batch_size=2)
    driver.tick()
    for _ in range(6):
        driver.finish(b"w2")
    assert seq in driver.answered()
    driver.finish_all()


def test_attempts_are_counted_per_stage(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b", attempts=2))
    driver.gateway()
    driver.worker(b"wa1", "a")
    (seq,) = driver.submit()
    driver.lose(b"wa1")
    driver.worker(b"wa2", "a")
    driver.tick()
    driver.finish(b"wa2")
    driver.worker(b"wb1", "b", by=b"s2")
    driver.tick()
    driver.lose(b"wb1")
    driver.worker(b"wb2", "b", by=b"s2")
    driver.tick()
    driver.finish(b"wb2")
    assert driver.result(seq) == b"1"


def test_a_lost_supervisor_takes_its_workers_along(broker: Make) -> None:
    driver = pool(broker, workers=2)
    driver.worker(b"w9", by=b"s9")
    driver.submit(3)
    driver.silent.add(b"s1")
    driver.run(4.0)
    assert list(driver.ledger.pipelines["p"].stages[0].workers) == [b"w9"]
    driver.finish(b"w9")
    driver.finish_all()
    assert sorted(driver.answered()) == [1, 2, 3]


# ------------------------------------------------------------------ not to be repeated


def test_what_may_not_be_repeated_is_answered_and_never_run_again(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=2, repeatable=False)
    driver.submit(4)
    assert driver.payloads() == [[1, 2]]
    driver.lose(b"w1")
    driver.worker(b"w2", max_batch_size=2, repeatable=False)
    driver.tick()
    assert [driver.failure(seq) for seq in (1, 2)] == [ErrorCode.WORKER_LOST] * 2
    outcome = driver.result(1)
    assert isinstance(outcome, Failure)
    assert driver.payloads(b"w2") == [[3, 4]]
    driver.finish_all()


def test_a_batch_lost_on_the_way_is_not_repeated_either(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(repeatable=False)
    (seq,) = driver.submit()
    for _ in range(2):
        driver.tick(1.1)
        driver.receive(b"w1", WorkerBeat(EPOCH, []))
    driver.tick()
    assert driver.failure(seq) is ErrorCode.WORKER_LOST


# ------------------------------------------------------------------ late results


def test_a_late_result_is_used_while_its_item_waits(broker: Make) -> None:
    driver = pool(broker)
    (seq,) = driver.submit()
    batch = driver.batches[b"w1"][0]
    driver.lose(b"w1", "silent")
    driver.answer(b"w1", batch, outcome=lambda payload: b"late")
    assert driver.result(seq) == b"late"
    assert driver.ledger.counters["results_late_used"] == 1
    driver.worker(b"w2")
    driver.tick()
    assert driver.payloads(b"w2") == []


def test_a_late_result_of_a_middle_stage_moves_its_item_on_once(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a", max_batch_size=4)
    driver.submit(8)
    running, ahead = driver.batches[b"wa"]
    driver.lose(b"wa")
    driver.answer(b"wa", running)
    driver.answer(b"wa", ahead)
    stages = driver.ledger.pipelines["p"].stages
    assert [stage.queued for stage in stages] == [0, 8]
    driver.worker(b"wa2", "a", max_batch_size=4)
    driver.worker(b"wb", "b", by=b"s2", max_batch_size=4)
    driver.tick()
    assert driver.payloads(b"wa2") == [], "nothing of it is left behind in the first queue"
    driver.finish_all()
    assert sorted(driver.answered()) == list(range(1, 9))


def test_a_late_result_is_dropped_when_another_runs_it(broker: Make) -> None:
    driver = pool(broker)
    (seq,) = driver.submit()
    batch = driver.batches[b"w1"][0]
    driver.lose(b"w1")
    driver.worker(b"w2")
    driver.tick()
    driver.answer(b"w1", batch, outcome=lambda payload: b"late")
    assert driver.answered() == []
    driver.finish(b"w2", outcome=lambda payload: b"second")
    assert driver.result(seq) == b"second"
    driver.answer(b"w1", batch, outcome=lambda payload: b"later still")


def test_results_twice_and_results_of_nothing(broker: Make) -> None:
    driver = pool(broker)
    driver.submit()
    batch = driver.finish()
    driver.answer(b"w1", batch)
    driver.receive(b"w1", Results(EPOCH, 999, [b"?"], 0.1))
    driver.tick()
    assert driver.ledger.counters["results_late"] == 2


def test_results_of_another_epoch_are_dropped(broker: Make) -> None:
    driver = pool(broker)
    (seq,) = driver.submit()
    batch = driver.batches[b"w1"][0]
    driver.receive(b"w1", Results(EPOCH + 1, batch.lease, [b"wrong"], 0.1))
    driver.receive(b"w9", Results(EPOCH, batch.lease, [b"foreign"], 0.1))
    driver.tick()
    assert driver.answered() == []
    driver.finish()
    assert driver.result(seq) == b"1"


def test_a_foreign_result_does_not_spoil_a_late_one(broker: Make) -> None:
    driver = pool(broker)
    (seq,) = driver.submit()
    batch = driver.batches[b"w1"][0]
    driver.lose(b"w1")
    driver.receive(b"w9", Results(EPOCH, batch.lease, [b"foreign"], 0.1))
    driver.answer(b"w1", batch)
    assert driver.result(seq) == b"1"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_outcomes_fails_the_batch(broker: Make, count: int) -> None:
    driver = pool(broker)
    driver.submit(2)
    batch = driver.take()
    driver.holding[b"w1"].clear()
    driver.receive(b"w1", Results(EPOCH, batch.lease, [b"?"] * count, 0.1))
    driver.tick()
    assert [driver.failure(seq) for seq in (1, 2)] == [ErrorCode.WORKER_ERROR] * 2
    (seq,) = driver.submit()
    driver.finish()
    assert driver.result(seq) == b"3"


@pytest.mark.parametrize("run_s", [float("nan"), float("inf"), -1.0])
def test_a_time_that_is_none_spoils_no_figure(broker: Make, run_s: float) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(timings=[(1, 0.01), (1, run_s)])
    driver.submit()
    driver.finish(run_s=run_s)
    for _ in range(60):
        driver.submit()
        driver.finish(run_s=0.01)
    estimate = driver.ledger.pipelines["p"].stages[0].estimates[""]
    assert estimate.predict(1) == pytest.approx(0.01, rel=0.2)


def test_a_failed_item_fails_alone(broker: Make) -> None:
    driver = pool(broker)
    driver.submit(3)
    bad = Failure(ErrorCode.WORKER_ERROR, "it raised", error_id="e1")
    driver.finish(outcome=lambda payload: bad if payload == b"2" else payload)
    assert driver.result(1) == b"1"
    assert driver.result(2) == bad
    assert driver.result(3) == b"3"


# ------------------------------------------------------------------ lost messages


def test_a_lease_missing_in_two_beats_is_run_again(broker: Make) -> None:
    driver = pool(broker)
    (seq,) = driver.submit()
    driver.batches[b"w1"].clear()
    driver.tick(0.5)
    driver.receive(b"w1", WorkerBeat(EPOCH, []))  # too early to tell
    driver.tick(0.6)
    driver.receive(b"w1", WorkerBeat(EPOCH, []))
    driver.tick(0.5)
    assert driver.payloads() == []
    driver.receive(b"w1", WorkerBeat(EPOCH, []))
    driver.tick()
    assert driver.payloads() == [[seq]]
    assert driver.batches[b"w1"][0].items[0].attempt == 1, "it was never begun"
    driver.finish()
    assert driver.ledger.counters["leases_missing"] == 1


def test_a_lease_that_is_named_again_is_kept(broker: Make) -> None:
    driver = pool(broker)
    driver.submit()
    lease = driver.batches[b"w1"][0].lease
    for holding in ([], [lease], [], [lease]):
        driver.tick(1.1)
        driver.receive(b"w1", WorkerBeat(EPOCH, holding))
    assert len(driver.ledger.leases) == 1
    driver.finish()


def test_missing_leases_come_back_in_their_order(broker: Make) -> None:
    driver = pool(broker, cap=2)
    driver.submit(4)
    driver.batches[b"w1"].clear()
    for _ in range(2):
        driver.tick(1.1)
        driver.receive(b"w1", WorkerBeat(EPOCH, []))
    driver.tick()
    assert driver.payloads() == [[1, 2], [3, 4]]
    driver.finish_all()


def test_a_goodbye_gives_back_what_is_held(broker: Make) -> None:
    driver = pool(broker, cap=2)
    driver.submit(5)
    assert len(driver.batches[b"w1"]) == 2
    driver.forget(b"w1")
    driver.receive(b"w1", Bye(EPOCH))
    driver.worker(b"w2", max_batch_size=2)
    driver.tick()
    assert driver.payloads(b"w2") == [[1, 2], [3, 4]]
    driver.finish_all()


# ------------------------------------------------------------------ hung


def hangs(broker: Make, **keys: object) -> Driver:
    stage = StageConfig(forward_timeout_s=2.0, setup_timeout_s=20.0)
    return pool(broker, stages={"a": stage}, **keys)  # type: ignore[arg-type]


def kills(driver: Driver) -> Iterable[bytes]:
    return [kill.worker for kill in driver.told(b"s1", Kill)]


def test_a_call_that_takes_too_long_gets_its_worker_killed(broker: Make) -> None:
    driver = hangs(broker, cap=2)
    driver.submit(4)
    driver.run(1.9)
    assert kills(driver) == []
    driver.run(0.3)
    assert kills(driver) == [b"w1"]
    driver.forget(b"w1")
    held = driver.items()
    assert [held[n].suspect for n in (1, 2, 3, 4)] == [True, True, False, False]
    driver.worker(b"w2", max_batch_size=2)
    driver.tick()
    driver.finish_all()
    assert sorted(driver.answered()) == [1, 2, 3, 4]


def test_the_clock_of_a_batch_sent_ahead_starts_when_its_turn_comes(broker: Make) -> None:
    driver = hangs(broker, cap=1)
    driver.submit(2)
    driver.run(1.5)
    driver.finish()
    driver.run(1.5)
    assert kills(driver) == []
    driver.run(0.7)
    assert kills(driver) == [b"w1"]


def test_a_renewed_lease_may_go_on(broker: Make) -> None:
    driver = hangs(broker)
    driver.submit()
    lease = driver.batches[b"w1"][0].lease
    for _ in range(4):
        driver.run(1.5)
        driver.receive(b"w1", Renew(EPOCH, lease))
    driver.receive(b"w1", Renew(EPOCH, 12345))
    assert kills(driver) == []
    driver.finish()


def test_a_hung_killer_is_given_up_too(broker: Make) -> None:
    driver = hangs(broker)
    (seq,) = driver.submit(left_s=100.0)
    for n in range(2, 5):
        driver.run(2.2)
        driver.forget(b"w%d" % (n - 1))
        driver.worker(b"w%d" % n)
        driver.tick()
    assert driver.failure(seq) is ErrorCode.WORKER_CRASHED
    assert kills(driver) == [b"w1", b"w2", b"w3"]


def test_a_setup_that_takes_too_long(broker: Make) -> None:
    driver = hangs(broker, workers=0)
    driver.worker(ready=False)
    driver.run(15.0)
    driver.worker(ready=False)  # saying so again gains no time
    driver.run(4.9)
    assert kills(driver) == []
    driver.run(0.3)
    assert kills(driver) == [b"w1"]
    assert b"w1" not in driver.ledger.peers


def test_a_reported_death_is_a_death_at_once(broker: Make) -> None:
    driver = pool(broker, workers=2)
    driver.submit(1)
    report = WorkerReport(b"w1", WorkerHealth.GONE, "signal 9")
    driver.receive(b"s1", SupervisorBeat(EPOCH, [report]))
    driver.forget(b"w1")
    driver.tick()
    assert driver.payloads(b"w2") == [], "the last one is spared for a moment"
    driver.tick(REPLACED_S)
    assert driver.payloads(b"w2") == [[1]]
    (note,) = [note for note in driver.notes if note.what == "worker_lost"]
    assert note.fields["reason"] == "gone (signal 9)"
    driver.finish_all()


def test_the_memory_of_lost_leases_does_not_grow(broker: Make) -> None:
    driver = pool(broker, attempts=100)
    for n in range(1, 30):
        driver.submit()
        driver.lose(b"w%d" % n)
        driver.worker(b"w%d" % (n + 1))
        driver.tick()
        driver.finish_all()
    driver.run(0.3)
    assert driver.ledger.given_up == {}


def test_the_last_worker_is_spared_until_the_lost_one_is_replaced(broker: Make) -> None:
    driver = pool(broker, workers=3, cap=4)
    (killer,) = driver.submit()
    report(driver, b"w1")
    (second,) = [worker for worker in (b"w2", b"w3") if driver.batches[worker]]
    report(driver, second)
    (last,) = {b"w2", b"w3"} - {second}
    others = driver.submit(3)
    assert driver.payloads(last) == [others], "which goes on with the others"
    driver.finish(last)
    driver.worker(b"w4", max_batch_size=4)
    driver.tick()
    third = next(worker for worker in (last, b"w4") if driver.batches[worker])
    report(driver, third)
    assert driver.failure(killer) is ErrorCode.WORKER_CRASHED


def test_one_that_is_due_soon_does_not_wait_for_a_second_worker(broker: Make) -> None:
    driver = pool(broker, workers=2)
    (seq,) = driver.submit(left_s=1.5)
    report(driver, b"w1")
    driver.finish(b"w2")
    assert driver.result(seq) == b"1"


def test_where_there_is_one_worker_others_take_turns_with_suspects(broker: Make) -> None:
    driver = pool(broker, cap=4)
    suspects = driver.submit(4)
    driver.lose(b"w1")
    driver.worker(b"w2", max_batch_size=4)
    others = driver.submit(12)
    order = []
    for _ in range(7):
        order += driver.payloads(b"w2")
        driver.finish(b"w2")
    assert order == [[1], others[:4], [2], others[4:8], [3], others[8:], [4]]
    driver.finish_all()
    assert sorted(driver.answered()) == sorted(suspects + others)


def test_what_was_done_before_the_one_that_killed_is_not_suspected(broker: Make) -> None:
    """Its results were lost with the worker, which had begun the next batch."""
    driver = pool(broker, cap=2)
    driver.submit(6)
    _, second = driver.batches[b"w1"]
    driver.now += 0.5
    report(driver, b"w1", begun=second.lease)
    held = driver.items()
    assert [(held[n].attempts, held[n].suspect) for n in range(1, 7)] == [
        (0, False), (0, False), (1, True), (1, True), (0, False), (0, False),
    ]  # fmt: skip
    assert held[3].exposures_s == (0.5,)
    driver.worker(b"w2", max_batch_size=2)
    driver.tick()
    driver.finish_all()
    assert sorted(driver.answered()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("begun", [0, 99])
def test_where_it_is_not_known_which_batch_was_running_it_was_the_oldest(
    broker: Make, begun: int
) -> None:
    driver = pool(broker, cap=2)
    driver.submit(4)
    report(driver, b"w1", begun=begun)
    assert [driver.items()[n].suspect for n in range(1, 5)] == [True, True, False, False]
    driver.worker(b"w2", max_batch_size=2)
    driver.tick()
    driver.finish_all()


def test_a_killer_that_was_run_alone_is_told_though_results_before_it_are_lost(
    broker: Make,
) -> None:
    driver = pool(broker, cap=2)
    (killer,) = driver.submit()
    report(driver, b"w1", begun=driver.batches[b"w1"][0].lease)
    driver.worker(b"w1")
    driver.tick()
    report(driver, b"w1", begun=driver.batches[b"w1"][0].lease)
    assert driver.told(b"s1", Excuse) == [Excuse(EPOCH, b"w1")]
    driver.worker(b"w1")
    driver.tick()
    report(driver, b"w1", begun=driver.batches[b"w1"][0].lease)
    assert driver.failure(killer) is ErrorCode.WORKER_CRASHED


def report(driver: Driver, worker: bytes, **said: Any) -> None:
    """The supervisor says that a worker is gone."""
    gone = WorkerReport(worker, WorkerHealth.GONE, "signal 9", **said)
    driver.forget(worker)
    driver.receive(b"s1", SupervisorBeat(driver.epoch, [gone]))
    driver.tick()


@pytest.mark.parametrize(("run_s", "guilty"), [(0.005, True), (1.0, False)])
def test_one_that_runs_long_among_random_kills_is_not_accused(
    broker: Make, run_s: float, guilty: bool
) -> None:
    driver = pool(broker, workers=2)
    for n in range(30):  # in a minute, idle ones
        report(driver, b"w%d" % (1 + n % 2))
        driver.worker(b"w%d" % (1 + n % 2))
        driver.tick(0.1)
    (seq,) = driver.submit()
    for _ in range(3):
        (busy,) = [worker for worker in (b"w1", b"w2") if driver.batches[worker]]
        driver.tick(run_s)
        report(driver, busy)
        driver.worker(busy)
        driver.tick()
    expected = ErrorCode.WORKER_CRASHED if guilty else ErrorCode.WORKER_LOST
    assert driver.failure(seq) is expected


def test_workers_lost_with_their_supervisor_accuse_nobody(broker: Make) -> None:
    driver = pool(broker)
    (seq,) = driver.submit()
    for n in range(3):
        driver.event(PeerLost(b"s%d" % (n + 1), "no connection"))
        driver.supervised.clear()
        driver.batches.clear()
        driver.worker(b"x%d" % n, by=b"s%d" % (n + 2))
        driver.tick()
    assert driver.failure(seq) is ErrorCode.WORKER_LOST


def test_a_storm_of_killers_makes_no_doubt(broker: Make) -> None:
    driver = pool(broker, workers=2)
    for _ in range(20):
        (seq,) = driver.submit()
        for _ in range(3):
            (busy,) = [worker for worker in (b"w1", b"w2") if driver.batches[worker]]
            driver.tick(0.005)
            report(driver, busy)
            driver.worker(busy)
            driver.tick()
        assert driver.failure(seq) is ErrorCode.WORKER_CRASHED


def test_the_supervisor_of_a_worker_that_died_of_a_suspect_is_told(broker: Make) -> None:
    driver = pool(broker)
    driver.submit()
    report(driver, b"w1")
    assert driver.told(b"s1", Excuse) == [], "it may have died of itself"
    driver.worker(b"w2")
    driver.tick()
    report(driver, b"w2")
    assert [excuse.worker for excuse in driver.told(b"s1", Excuse)] == [b"w2"]
    driver.worker(b"w3")
    driver.tick()
    driver.finish_all()

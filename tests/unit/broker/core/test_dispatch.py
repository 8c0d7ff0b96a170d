"""Batch formation: who is sent what, and when (laws 1, 2, 4, 5 and 6 of scheduling)."""

from collections.abc import Callable

import pytest

from broker.core.config import StageConfig
from broker.wire.messages import Priority
from tests.unit.broker.core.driver import Driver, number, pipeline

Make = Callable[..., Driver]

LINEAR = [(1, 0.0105), (32, 0.026)]
"""A warm-up that tells t(b) = 10 ms + 0.5 ms · b."""


def one_stage(
    broker: Make, *, workers: int = 1, cap: int = 4, timings: object = (), **config: object
) -> Driver:
    driver = broker(p=pipeline("a", stages={"a": StageConfig(**config)}))  # type: ignore[arg-type]
    driver.gateway()
    for n in range(1, workers + 1):
        driver.worker(b"w%d" % n, max_batch_size=cap, timings=list(timings))  # type: ignore[call-overload]
    return driver


# ------------------------------------------------------------------ a free worker never waits


def test_a_free_worker_gets_a_lone_item_at_once(broker: Make) -> None:
    driver = one_stage(broker)
    (seq,) = driver.submit()
    assert driver.payloads() == [[seq]]
    batch = driver.finish()
    assert (batch.pipeline, batch.first, batch.last) == ("p", True, True)
    assert batch.items[0].meta == b"meta"
    assert batch.items[0].attempt == 1
    assert batch.items[0].left_s == pytest.approx(10.0)
    assert driver.result(seq) == b"1"


def test_batches_form_while_the_worker_is_busy(broker: Make) -> None:
    driver = one_stage(broker, cap=8)
    first = driver.submit()
    for _ in range(5):
        driver.submit()
    assert driver.payloads() == [first], "a part of a batch is not sent ahead"
    driver.finish()
    assert driver.payloads() == [[2, 3, 4, 5, 6]]
    driver.finish_all()
    assert driver.answered() == [1, 2, 3, 4, 5, 6]


def test_no_batch_is_larger_than_worker_and_config_allow(broker: Make) -> None:
    driver = one_stage(broker, cap=8, max_batch_size=3)
    driver.submit(10)
    sizes = []
    while driver.batches[b"w1"]:
        sizes.append(len(driver.finish().items))
    assert sum(sizes) == 10
    assert max(sizes) == 3
    assert driver.scheduler.snapshot(driver.now).pipelines["p"].stages["a"].max_batch_size == 3


def test_a_config_cannot_raise_what_the_worker_announced(broker: Make) -> None:
    driver = one_stage(broker, cap=2, max_batch_size=50)
    driver.submit(10)
    assert driver.payloads()[0] == [1, 2]
    driver.finish_all()


def test_a_burst_is_shared_among_free_workers(broker: Make) -> None:
    driver = one_stage(broker, workers=4, cap=32)
    driver.submit(8)
    assert [driver.payloads(b"w%d" % n) for n in range(1, 5)] == [
        [[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]],
    ]  # fmt: skip
    driver.finish_all()


def test_a_burst_that_one_batch_takes_as_quickly_is_not_split(broker: Make) -> None:
    driver = one_stage(broker, workers=4, cap=32, timings=LINEAR)
    driver.submit(2)
    assert driver.payloads(b"w1") == [[1, 2]], "t(2) is hardly more than t(1)"
    driver.submit(1)
    assert driver.payloads(b"w2") == [[3]]
    driver.finish_all()


def test_the_longest_idle_worker_is_next(broker: Make) -> None:
    driver = one_stage(broker, workers=3)
    order = []
    for _ in range(6):
        (seq,) = driver.submit()
        (worker,) = [w for w, batches in driver.batches.items() if batches]
        order.append(worker)
        driver.finish(worker)
        assert driver.result(seq)
    assert order == [b"w1", b"w2", b"w3"] * 2


def test_items_of_one_turn_are_ordered_by_law_in_their_batch(broker: Make) -> None:
    driver = one_stage(broker, cap=8)
    driver.submit(1)
    driver.submit(1, priority=Priority.LOW)
    driver.submit(2, client=1)
    driver.submit(1, client=2)
    driver.submit(1, client=3, left_s=0.5, priority=Priority.HIGH)
    driver.finish()
    assert driver.payloads() == [[6, 3, 5, 4, 2]]
    driver.finish_all()


def test_work_frees_its_hands_in_the_same_turn_down_the_chain(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b", stages={"b": StageConfig(max_queue_items=1)}))
    driver.gateway()
    driver.worker(b"wa", "a")
    driver.worker(b"wb", "b", by=b"s2")
    driver.submit(9)
    while driver.batches[b"wa"]:
        driver.finish(b"wa")
    assert driver.payloads(b"wb") == [[1], [2]], "as many as its credit allows"
    assert driver.ledger.pipelines["p"].stages[1].queued == 1
    driver.finish(b"wb")
    assert driver.payloads(b"wb") == [[2], [3]]
    assert driver.payloads(b"wa") == [[4]], "there is room now, in the same turn"
    driver.finish_all()


# ------------------------------------------------------------------ sending ahead, and credit


def test_a_full_batch_is_sent_ahead_and_no_more_than_credit_allows(broker: Make) -> None:
    driver = one_stage(broker, cap=4)
    driver.submit(1)
    driver.submit(3)
    assert driver.payloads() == [[1]]
    driver.submit(1)
    assert driver.payloads() == [[1], [2, 3, 4, 5]]
    driver.submit(40)
    assert len(driver.payloads()) == 2
    driver.finish_all()
    assert driver.answered() == list(range(1, 46))


def test_nothing_is_sent_ahead_while_a_worker_is_free(broker: Make) -> None:
    driver = one_stage(broker, workers=3, cap=2)
    driver.submit(1)
    driver.submit(4)
    assert [driver.payloads(b"w%d" % n) for n in (1, 2, 3)] == [[[1]], [[2, 3]], [[4, 5]]]
    driver.submit(2)
    assert [driver.payloads(b"w%d" % n) for n in (1, 2, 3)] == [
        [[1], [6, 7]], [[2, 3]], [[4, 5]],
    ]  # fmt: skip
    driver.finish_all()


def test_part_of_a_batch_is_sent_ahead_when_the_worker_is_about_to_finish(broker: Make) -> None:
    driver = one_stage(broker, cap=32, timings=LINEAR)
    driver.submit(1)
    driver.submit(3)
    assert driver.payloads() == [[1]]
    until = driver.scheduler.next_deadline()
    assert until - driver.now == pytest.approx(0.0105 - 0.001, abs=0.0005)
    driver.tick(until - driver.now - 1e-4)
    assert driver.payloads() == [[1]]
    driver.tick(2e-4)
    assert driver.payloads() == [[1], [2, 3, 4]]
    driver.finish_all()


def test_what_may_not_run_twice_is_never_sent_ahead(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=2, repeatable=False, timings=[(1, 0.01)])
    driver.submit(20)
    driver.run(0.05)
    assert len(driver.payloads()) == 1
    driver.finish_all()


def test_credit_is_one_more_than_concurrency(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=2, concurrency=3)
    driver.submit(20)
    assert [len(batch) for batch in driver.payloads()] == [2, 2, 2, 2]
    driver.finish_all()


def test_a_worker_with_free_slots_of_its_concurrency_is_free(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=8, concurrency=3)
    for _ in range(5):
        driver.submit(1)
    assert driver.payloads() == [[1], [2], [3]], "three run at once, the rest gathers"
    driver.finish()
    assert driver.payloads() == [[2], [3], [4, 5]]
    driver.finish_all()


def test_workers_with_several_slots_take_turns(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1", max_batch_size=8, concurrency=3)
    driver.worker(b"w2", max_batch_size=8, concurrency=3)
    for _ in range(4):
        driver.submit(1)
    assert driver.payloads(b"w1") == [[1], [3]]
    assert driver.payloads(b"w2") == [[2], [4]]
    driver.finish_all()


def test_a_suspect_has_a_worker_of_several_slots_to_itself(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1", max_batch_size=2, concurrency=3)
    driver.submit(1)
    driver.lose(b"w1")
    driver.worker(b"w2", max_batch_size=2, concurrency=3)
    driver.submit(10)
    assert driver.payloads(b"w2") == [[1]]
    driver.finish(b"w2")
    assert len(driver.payloads(b"w2")) == 4
    driver.finish_all()


# ------------------------------------------------------------------ max_wait_ms


def test_without_max_wait_nothing_is_held(broker: Make) -> None:
    driver = one_stage(broker, cap=8, timings=LINEAR)
    driver.submit(1)
    assert driver.payloads() == [[1]]
    driver.finish_all()


def test_a_lone_item_waits_no_longer_than_max_wait(broker: Make) -> None:
    driver = one_stage(broker, cap=8, max_wait_ms=50.0)
    driver.submit(1)
    assert driver.payloads() == []
    assert driver.scheduler.next_deadline() == pytest.approx(driver.now + 0.05)
    driver.tick(0.03)
    driver.submit(2)
    assert driver.payloads() == []
    driver.tick(0.0201)
    assert driver.payloads() == [[1, 2, 3]], "the wait is counted from the first arrival"
    driver.finish_all()


def test_a_full_batch_leaves_at_once(broker: Make) -> None:
    driver = one_stage(broker, cap=8, max_wait_ms=50.0)
    driver.submit(8)
    assert driver.payloads() == [list(range(1, 9))]
    driver.finish_all()


def test_nobody_is_waited_for_who_is_not_there(broker: Make) -> None:
    driver = one_stage(broker, cap=8, max_wait_ms=50.0)
    driver.submit(2, others=0)
    assert driver.payloads() == [[1, 2]], "every client waits already"
    driver.finish()
    driver.submit(1, others=1)
    assert driver.payloads() == []
    driver.tick(0.01)
    driver.submit(1, others=0)
    assert driver.payloads() == [[3, 4]]
    driver.finish()
    driver.gateway(b"g2")
    driver.submit(1, gateway=b"g1", others=0)
    assert driver.payloads() == [], "of the other gateway's clients nothing is known"
    driver.tick(0.051)
    driver.finish_all()


def test_the_wait_counts_from_arrival_not_from_a_free_hand(broker: Make) -> None:
    driver = one_stage(broker, cap=8, max_wait_ms=50.0)
    driver.submit(8)
    driver.submit(1)
    driver.finish(after_s=0.06)
    assert driver.payloads() == [[9]]
    driver.finish_all()


def test_the_dead_do_not_end_a_wait(broker: Make) -> None:
    driver = one_stage(broker, cap=8, max_wait_ms=50.0)
    (gone,) = driver.submit(1)
    driver.tick(0.03)
    driver.submit(1)
    driver.cancel(gone)
    driver.tick(0.0201)
    assert driver.payloads() == []
    driver.tick(0.03)
    assert driver.payloads() == [[2]]
    driver.finish_all()


@pytest.mark.parametrize("version", ["", "3"])
@pytest.mark.parametrize("chain", [("a",), ("a", "b")])
def test_a_deadline_ends_the_wait_in_time(
    broker: Make, version: str, chain: tuple[str, ...]
) -> None:
    stages = {"a": StageConfig(max_wait_ms=500.0)}
    driver = broker(p=pipeline(*chain, stages=stages))
    driver.gateway()
    for n, stage in enumerate(chain):
        driver.worker(
            b"w" + stage.encode(), stage, by=b"s%d" % n, version=version,
            max_batch_size=32, timings=LINEAR,
        )  # fmt: skip
    (seq,) = driver.submit(1, left_s=0.150)
    assert driver.payloads(b"wa") == []
    driver.run(0.149)
    assert driver.payloads(b"wa") == [[seq]], "it is sent while it can still be done"
    left = driver.batches[b"wa"][0].items[0].left_s
    assert left > 0.026 + (0.0105 if len(chain) == 2 else 0.0)
    assert left < 0.080
    driver.finish_all()


def test_a_later_stage_waits_only_for_what_is_on_its_way(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b", stages={"b": StageConfig(max_wait_ms=50.0)}))
    driver.gateway()
    driver.worker(b"wa", "a")
    driver.worker(b"wb", "b", by=b"s2", max_batch_size=8)
    driver.submit(1)
    driver.finish(b"wa")
    assert driver.payloads(b"wb") == [[1]], "nothing is on its way"
    driver.submit(2)
    driver.finish(b"wb")
    driver.finish(b"wa")
    assert driver.payloads(b"wb") == []
    driver.finish(b"wa")
    assert driver.payloads(b"wb") == [[2, 3]]
    driver.finish_all()


def test_no_wait_where_a_batch_takes_as_long_as_its_items(broker: Make) -> None:
    driver = one_stage(broker, cap=8, max_wait_ms=50.0, timings=[(1, 0.01), (8, 0.08)] * 3)
    driver.submit(1)
    assert driver.payloads() == [[1]]
    driver.finish_all()


# ------------------------------------------------------------------ bounds, back-pressure


def test_a_slow_stage_holds_back_the_one_before_it(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b", "c", max_items=500))
    driver.gateway()
    driver.worker(b"wa", "a", max_batch_size=8)
    driver.worker(b"wb", "b", by=b"s2", max_batch_size=2)
    driver.worker(b"wc", "c", by=b"s3", max_batch_size=8)
    driver.submit(400)
    a, b, _ = driver.ledger.pipelines["p"].stages
    room = 2 * 2 * 2  # twice what b's worker can hold
    for _ in range(100):
        while driver.batches[b"wa"]:
            driver.finish(b"wa")
            assert b.queued + a.leased <= room
        while driver.batches[b"wc"]:
            driver.finish(b"wc")
        if not driver.batches[b"wb"]:
            break
        assert a.queued + b.queued + b.leased > 0
        driver.finish(b"wb")
    driver.finish_all()
    assert len(driver.answered()) == 400


@pytest.mark.parametrize("room", [1, 2, 3])
def test_the_smallest_queues_do_not_lock_up(broker: Make, room: int) -> None:
    stages = {name: StageConfig(max_queue_items=room) for name in "bc"}
    driver = broker(p=pipeline("a", "b", "c", stages=stages))
    driver.gateway()
    for n, stage in enumerate("abc"):
        driver.worker(b"w" + stage.encode(), stage, by=b"s%d" % n, max_batch_size=8)
    driver.submit(50)
    driver.finish_all()
    assert len(driver.answered()) == 50


def test_one_item_may_pass_into_an_empty_stage_however_small(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b", stages={"b": StageConfig(max_queue_items=0)}))
    driver.gateway()
    driver.worker(b"wa", "a", max_batch_size=8)
    driver.worker(b"wb", "b", by=b"s2", max_batch_size=8)
    driver.submit(5)
    assert driver.payloads(b"wa") == [[1]]
    driver.finish_all()
    assert len(driver.answered()) == 5


def test_a_stage_that_nobody_has_joined_yet_has_some_room(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a", max_batch_size=8)
    driver.submit(200)
    while driver.batches[b"wa"]:
        driver.finish(b"wa")
    b = driver.ledger.pipelines["p"].stages[1]
    assert b.queued == 64
    driver.worker(b"wb", "b", by=b"s2", max_batch_size=8)
    driver.tick()
    driver.finish_all()
    assert len(driver.answered()) == 200


# ------------------------------------------------------------------ several pipelines, versions


def test_pipelines_that_share_a_worker_share_it_fairly(broker: Make) -> None:
    driver = broker(p=pipeline("a"), q=pipeline("a"))
    driver.gateway()
    driver.worker(max_batch_size=1)
    driver.submit(50, pipeline="p")
    (seq,) = driver.submit(1, pipeline="q")
    for _ in range(6):
        driver.finish()
    assert seq in driver.answered(), "a flood of one pipeline starves the other"
    driver.finish_all()


def test_versions_go_to_their_workers_and_the_rest_to_the_newest(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1", version="1")
    driver.worker(b"w2", version="2")
    (two,) = driver.submit(version="2")
    (one,) = driver.submit(version="1")
    assert driver.payloads(b"w2") == [[two]]
    assert driver.payloads(b"w1") == [[one]]
    driver.finish_all()
    open_ = driver.submit(2)
    driver.finish_all()
    assert driver.the_answer(two).version == "2"
    assert driver.the_answer(one).version == "1"
    assert {driver.the_answer(seq).version for seq in open_} == {"2"}


def test_a_flood_for_one_version_does_not_delay_the_other(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1", version="1", max_batch_size=1)
    driver.worker(b"w2", by=b"s2", version="2", max_batch_size=1)
    driver.submit(50)
    (seq,) = driver.submit(version="1")
    driver.finish(b"w1")
    assert seq in driver.answered(), "the lane of a version is starved"
    driver.finish_all()


def test_spans_tell_queue_and_run_of_each_stage(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"wa", "a")
    driver.worker(b"wb", "b", by=b"s2")
    driver.submit()
    (seq,) = driver.submit()
    driver.finish(b"wa", after_s=0.2, run_s=0.15)
    driver.finish(b"wb")
    driver.finish(b"wa", after_s=0.1, run_s=0.09)
    driver.finish(b"wb", after_s=0.3, run_s=0.25)
    assert driver.the_answer(seq).spans == pytest.approx([0.2, 0.09, 0.0, 0.25])


def test_results_keep_to_their_requests(broker: Make) -> None:
    driver = one_stage(broker, workers=3, cap=5)
    driver.submit(100)
    driver.finish_all()
    for seq in range(1, 101):
        outcome = driver.result(seq)
        assert isinstance(outcome, bytes)
        assert number(outcome) == seq

"""A shadow: what gets copies, when they are run, what they may never do, and what is counted."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.core import traffic as t
from broker.core.agreement import Agreement
from broker.core.events import Comparing
from broker.core.pairing import AT_COMPARER, LARGE_BYTES, PAUSE_S
from broker.core.traffic import Traffic
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Bye,
    Compare,
    Compared,
    ComparerHello,
    Failure,
    Pair,
    Payload,
    Priority,
    StreamStop,
    Verdict,
)
from tests.unit.broker.core.driver import EPOCH, Driver, number, pipeline

Make = Callable[..., Driver]

COMPARER = b"c1"
STABLE, SHADOW = b"a2.1", b"a3.1"


def worker(driver: Driver, version: str, stage: str = "a", count: int = 1, **keys: Any) -> bytes:
    """A worker of this version, under a supervisor for that."""
    name = f"{stage}{version}.{count}".encode()
    return driver.worker(name, stage, by=b"s" + name, version=version, **keys)


def comparer(driver: Driver) -> None:
    driver.receive(COMPARER, ComparerHello(PROTOCOL_VERSION, 9))


def shadowed(broker: Make, *chain: str, **config: Any) -> Driver:
    """Version 2 gets all requests, and version 3 gets copies. Only stage a has versions."""
    traffic = t.shadow(t.take_over(Traffic(), "2"), "3")
    driver = broker(p=pipeline(*(chain or ("a",)), **config), traffic={"p": traffic})
    driver.gateway()
    comparer(driver)
    for stage in chain:
        if stage != "a":
            driver.worker(stage.encode(), stage, by=b"s" + stage.encode(), max_batch_size=8)
    worker(driver, "2", max_batch_size=8)
    worker(driver, "3", max_batch_size=8)
    return driver


def figures(driver: Driver, stable: str = "2", shadow: str = "3") -> Agreement:
    return driver.ledger.pipelines["p"].agreements.of(stable, shadow)


def compared(driver: Driver) -> list[Pair]:
    """The pairs that the comparer was sent."""
    return [pair for each in driver.told(COMPARER, Compare) for pair in each.pairs]


def judge(driver: Driver, *, agree: bool = True, note: str = "") -> None:
    """The comparer has looked at all that it was sent."""
    verdicts = [Verdict(pair.number, agree, "1", "2", note) for pair in compared(driver)]
    driver.receive(COMPARER, Compared(EPOCH, verdicts))


def copies(driver: Driver, of: bytes = SHADOW) -> list[list[int]]:
    return driver.payloads(of)


# ------------------------------------------------------------------ copies


def test_the_shadow_gets_a_copy_and_the_user_what_the_other_says(broker: Make) -> None:
    driver = shadowed(broker)
    (seq,) = driver.submit()
    driver.answer(STABLE, driver.take(STABLE), lambda _: b"stable")
    assert driver.result(seq) == b"stable"
    assert driver.the_answer(seq).version == "2"
    assert compared(driver) == []
    driver.answer(SHADOW, driver.take(SHADOW), lambda _: b"shadow")
    (pair,) = compared(driver)
    assert (pair.stable, pair.shadow, pair.how) == (b"stable", b"shadow", "close")
    judge(driver)
    assert (figures(driver).copies, figures(driver).agreed) == (1, 1)
    assert driver.ledger.pipelines["p"].tallies.keys() == {"2"}


def test_the_copy_may_be_answered_first(broker: Make) -> None:
    driver = shadowed(broker)
    (seq,) = driver.submit()
    driver.finish(SHADOW)
    assert seq not in driver.answered()
    driver.finish(STABLE)
    assert len(compared(driver)) == 1


def test_without_a_shadow_nothing_is_copied(broker: Make) -> None:
    driver = broker(traffic={"p": t.take_over(Traffic(), "2")})
    driver.gateway()
    worker(driver, "2")
    driver.submit()
    stage = driver.ledger.pipelines["p"].stages[0]
    assert stage.forked is None
    assert not driver.ledger.mirrors
    driver.finish_all()
    assert not any(isinstance(each, Comparing) for each in driver.others)


def test_who_compares_is_asked_for_with_the_first_shadow_and_let_go_with_the_last(
    broker: Make,
) -> None:
    driver = broker(traffic={"p": t.take_over(Traffic(), "2")})
    driver.gateway()
    worker(driver, "2")
    driver.models(b"s" + STABLE)
    worker(driver, "3", stage="a")
    driver.ask("traffic", weights={"2": 1})
    driver.ask("traffic", shadow="3")
    assert driver.others == [Comparing(wanted=True)]
    comparer(driver)
    driver.ask("traffic", shadow="")
    assert driver.others[1:] == [Comparing(wanted=False)]


def test_what_asks_for_the_shadow_itself_is_not_copied(broker: Make) -> None:
    driver = shadowed(broker)
    driver.submit(version="3")
    assert copies(driver) == [[1]]
    driver.finish_all()
    assert compared(driver) == []


def test_the_copy_forks_at_the_first_stage_with_versions(broker: Make) -> None:
    driver = shadowed(broker, "pre", "a", "post")
    driver.submit(payload=b"7")
    driver.answer(b"pre", driver.take(b"pre"), lambda _: b"8")
    (copy,) = driver.batches[SHADOW]
    assert (copy.first, copy.last, [each.payload for each in copy.items]) == (False, False, [b"8"])
    driver.answer(SHADOW, driver.take(SHADOW), lambda _: b"30")
    (last,) = driver.batches[b"post"]
    assert (last.last, [each.payload for each in last.items]) == (True, [b"30"])
    driver.finish(b"post")
    driver.answer(STABLE, driver.take(STABLE), lambda _: b"20")
    driver.finish(b"post")
    assert driver.result(1) == b"20"
    assert [(pair.stable, pair.shadow) for pair in compared(driver)] == [(b"20", b"30")]


def test_what_may_not_be_done_twice_is_not_copied(broker: Make) -> None:
    driver = shadowed(broker, "a", "post")
    driver.worker(b"post", "post", by=b"spost", repeatable=False)
    assert not driver.ledger.mirrors
    driver.submit()
    assert copies(driver) == []
    about = driver.scheduler.snapshot(driver.now).pipelines["p"].shadow
    assert about is not None
    assert about.hindrance == "what stage 'post' does may not be done twice"
    driver.finish_all()


def test_copies_count_nowhere(broker: Make) -> None:
    driver = shadowed(broker)
    driver.submit(3)
    about = driver.ledger.pipelines["p"]
    assert (about.items, about.bytes) == (3, 3 * len(b"1meta"))
    assert (about.stages[0].leased, about.mirror.copies.items) == (3, 3)  # type: ignore[union-attr]
    driver.finish_all()


# ------------------------------------------------------------------ what is real goes first


def test_copies_wait_while_anything_real_waits_for_their_worker(broker: Make) -> None:
    driver = shadowed(broker)
    driver.submit(version="3")
    driver.submit(2)
    assert copies(driver) == [[1]], "the shadow is busy with what asked for it"
    driver.submit(version="3")
    driver.finish(SHADOW)
    assert copies(driver) == [[4]]
    driver.finish(SHADOW)
    assert copies(driver) == [[2, 3]]
    driver.finish_all()


def test_in_a_stage_that_all_share_a_copy_comes_last_and_alone(broker: Make) -> None:
    driver = shadowed(broker, "a", "post")
    driver.submit(4)
    driver.finish(SHADOW)
    assert [len(batch.items) for batch in driver.batches[b"post"]] == [1]
    driver.finish(STABLE)
    driver.finish(b"post")
    assert driver.payloads(b"post") == [[1, 2, 3, 4]], "those that users wait for"
    driver.finish(b"post")
    assert driver.answered() == [1, 2, 3, 4]
    driver.finish_all()
    assert len(compared(driver)) == 4
    assert driver.answered() == [1, 2, 3, 4]


def test_copies_have_bounds_of_their_own_and_refuse_nobody(broker: Make) -> None:
    driver = shadowed(broker, max_items=16)
    driver.submit(8)
    driver.finish(STABLE)
    driver.submit(8)
    assert driver.ledger.pipelines["p"].mirror.copies.items == 2  # type: ignore[union-attr]
    assert figures(driver).dropped == {"full": 14}
    driver.finish_all()
    assert not any(isinstance(driver.result(seq), Failure) for seq in range(1, 17))


def test_copies_are_bounded_in_bytes(broker: Make) -> None:
    driver = shadowed(broker, max_bytes=8000)
    driver.submit(3, payload=b"1" * 400)
    assert figures(driver).copies == 2
    assert figures(driver).dropped == {"full": 1}
    driver.finish_all()


def test_a_full_pipeline_pushes_nobody_out_for_a_copy(broker: Make) -> None:
    driver = shadowed(broker)
    driver.submit(priority=Priority.LOW)
    driver.submit(priority=Priority.HIGH)
    driver.finish_all()
    assert driver.ledger.counters["pushed_out"] == 0


def test_a_copy_is_given_up_after_the_time_of_a_request(broker: Make) -> None:
    driver = shadowed(broker, timeout_s=5.0)
    driver.submit()
    driver.finish(STABLE)
    driver.run(5.2)
    assert figures(driver).dropped == {"late": 1}
    assert driver.ledger.counters["expired"] == 0
    driver.finish(SHADOW)
    assert compared(driver) == []


# ------------------------------------------------------------------ death


def test_a_worker_that_dies_under_a_copy_accuses_nobody(broker: Make) -> None:
    driver = shadowed(broker)
    driver.submit()
    driver.lose(SHADOW)
    driver.tick()
    assert figures(driver).dropped["lost"] + figures(driver).dropped["shadow removed"] == 1
    assert driver.ledger.counters["killers"] == 0
    worker(driver, "3", max_batch_size=8)
    assert copies(driver) == [], "it is not run again"
    driver.finish(STABLE)
    driver.submit()
    assert copies(driver) == [[2]]
    driver.finish_all()


def test_real_items_behind_a_copy_are_no_suspects(broker: Make) -> None:
    driver = shadowed(broker, "a", "post")
    driver.submit()
    driver.finish(SHADOW)
    driver.finish(STABLE)
    assert driver.payloads(b"post") == [[1]], "a copy runs"
    driver.run(0.1)
    driver.lose(b"post")
    driver.tick()
    (item,) = driver.items().values()
    assert (item.suspect, item.attempts) == (False, 0)
    driver.worker(b"post", "post", by=b"spost")
    driver.tick()
    driver.finish_all()
    assert driver.answered() == [1]


def test_copies_that_cost_a_shared_worker_are_paused(broker: Make) -> None:
    driver = shadowed(broker, "a", "post")
    driver.submit()
    driver.finish(SHADOW)
    driver.lose(b"post")
    driver.worker(b"post", "post", by=b"spost")
    driver.tick()
    driver.finish_all()
    driver.submit()
    driver.finish_all()
    assert figures(driver).dropped == {"lost": 1, "paused": 1}
    driver.run(PAUSE_S + 1.0)
    comparer(driver)
    driver.submit()
    driver.finish_all()
    assert len(compared(driver)) == 1


def test_a_shadow_that_is_removed_takes_its_copies_along(broker: Make) -> None:
    driver = shadowed(broker)
    driver.submit(2)
    driver.finish(SHADOW)
    driver.submit(2)
    driver.ask("traffic", shadow="")
    assert not driver.ledger.mirrors
    assert figures(driver).dropped == {"shadow removed": 4}
    driver.finish_all()
    assert driver.answered() == [1, 2, 3, 4]
    assert compared(driver) == []


def test_a_draining_broker_does_not_wait_for_copies(broker: Make) -> None:
    driver = shadowed(broker)
    driver.submit()
    driver.drain()
    driver.finish(STABLE)
    driver.run(1.0)
    assert driver.stops


def test_a_client_that_hangs_up_takes_the_copy_along(broker: Make) -> None:
    driver = shadowed(broker)
    seqs = driver.submit(2)
    driver.cancel(seqs[0])
    driver.run(0.3)
    assert figures(driver).dropped == {"cancelled": 1}
    driver.finish_all()
    driver.receive(b"g1", Bye(EPOCH))
    driver.run(0.3)


def test_a_gateway_that_leaves_takes_its_copies_along(broker: Make) -> None:
    driver = shadowed(broker)
    driver.submit(2)
    driver.receive(b"g1", Bye(EPOCH))
    driver.gateways.remove(b"g1")
    driver.run(0.3)
    assert figures(driver).dropped == {"cancelled": 2}
    driver.finish_all()


def test_streams_are_not_compared(broker: Make) -> None:
    driver = shadowed(broker)
    (seq,) = driver.submit()
    batch = driver.stream(SHADOW)
    assert [stop.streams for stop in driver.told(SHADOW, StreamStop)] == [[(batch.lease, 0)]]
    assert figures(driver).dropped == {"stream": 1}
    driver.stream(STABLE)
    driver.cancel(seq)
    driver.tick()


def test_a_copy_of_what_streams_is_given_up(broker: Make) -> None:
    driver = shadowed(broker)
    (seq,) = driver.submit()
    driver.stream(STABLE)
    driver.run(0.3)
    assert figures(driver).dropped == {"stream": 1}
    driver.cancel(seq)
    driver.finish_all()


# ------------------------------------------------------------------ what is counted


def fail(code: ErrorCode = ErrorCode.WORKER_ERROR, status: int = 0) -> Callable[[Payload], Failure]:
    return lambda _: Failure(code, "no", status)


def run(driver: Driver, stable: Callable[[Payload], Any], shadow: Callable[[Payload], Any]) -> None:
    """One request, and what both say to it."""
    driver.submit()
    driver.answer(STABLE, driver.take(STABLE), stable)
    driver.answer(SHADOW, driver.take(SHADOW), shadow)


@pytest.mark.parametrize(
    ("stable", "shadow", "kind"),
    [
        (number, fail(), "failed"),
        (number, fail(ErrorCode.REJECTED, 422), "failed"),
        (fail(ErrorCode.REJECTED, 422), number, "differs"),
        (fail(ErrorCode.REJECTED, 422), fail(ErrorCode.REJECTED, 422), "agreed"),
        (fail(ErrorCode.REJECTED, 422), fail(ErrorCode.REJECTED, 400), "differs"),
        (fail(ErrorCode.REJECTED, 422), fail(), "failed"),
        (fail(), number, ""),
    ],
)
def test_errors_are_compared_here(
    broker: Make, stable: Callable[[Payload], Any], shadow: Callable[[Payload], Any], kind: str
) -> None:
    def result(answer: Callable[[Payload], Any]) -> Callable[[Payload], Any]:
        return (lambda _: b"1") if answer is number else answer

    driver = shadowed(broker)
    run(driver, result(stable), result(shadow))
    found = figures(driver)
    counted = {"agreed": found.agreed, "differs": found.differed, "failed": found.failed}
    assert [name for name, count in counted.items() if count] == ([kind] if kind else [])
    assert found.compared == bool(kind)
    assert compared(driver) == []
    if kind != "agreed" and kind:
        assert found.samples[0].kind == kind


def test_a_disagreement_is_kept_with_what_both_said(broker: Make) -> None:
    driver = shadowed(broker)
    run(driver, lambda _: b"1", lambda _: b"2")
    judge(driver, agree=False, note="compare is not there")
    found = figures(driver)
    assert (found.compared, found.agreed, found.differed) == (1, 0, 1)
    assert [(each.stable, each.shadow) for each in found.samples] == [("1", "2")]
    assert found.note == "compare is not there"
    driver.ask("compare")
    about = driver.document()["agreement"]
    assert (about["stable"], about["shadow"], about["differed"]) == ("2", "3", 1)
    assert about["samples"] == [{"kind": "differs", "stable": "1", "shadow": "2"}]
    judge(driver)  # again
    assert found.compared == 1


def test_without_who_compares_pairs_are_dropped_and_counted(broker: Make) -> None:
    driver = shadowed(broker)
    driver.receive(COMPARER, Bye(EPOCH))
    assert driver.others == [Comparing(wanted=True)]
    run(driver, lambda _: b"1", lambda _: b"2")
    assert figures(driver).dropped == {"no comparer": 1}
    comparer(driver)
    run(driver, lambda _: b"1", lambda _: b"2")
    assert len(compared(driver)) == 1


def test_one_who_compares_too_slowly_is_sent_no_more(broker: Make) -> None:
    driver = shadowed(broker)
    for _ in range(AT_COMPARER // 8 + 1):
        driver.submit(8)
        driver.finish(STABLE)
        driver.finish(SHADOW)
    assert len(compared(driver)) == AT_COMPARER
    assert figures(driver).dropped == {"comparer busy": 8}
    judge(driver)
    assert figures(driver).agreed == AT_COMPARER
    driver.submit()
    driver.finish_all()
    assert len(compared(driver)) == AT_COMPARER + 1


def test_one_who_compares_and_is_lost_is_replaced(broker: Make) -> None:
    driver = shadowed(broker)
    run(driver, lambda _: b"1", lambda _: b"2")
    driver.run(4.0)  # it says nothing
    assert figures(driver).dropped == {"comparer lost": 1}
    assert driver.others == [Comparing(wanted=True)]
    assert driver.ledger.comparer is None


def test_a_second_one_who_compares_takes_the_place_of_the_first(broker: Make) -> None:
    driver = shadowed(broker)
    run(driver, lambda _: b"1", lambda _: b"2")
    driver.receive(b"c2", ComparerHello(PROTOCOL_VERSION, 10))
    assert figures(driver).dropped == {"comparer lost": 1}
    assert driver.others == [], "there is one"
    run(driver, lambda _: b"1", lambda _: b"2")
    assert len(driver.told(b"c2", Compare)) == 1


def test_large_answers_are_not_compared(broker: Make) -> None:
    driver = shadowed(broker)
    run(driver, lambda _: b"x" * (LARGE_BYTES + 1), lambda _: b"2")
    assert figures(driver).dropped == {"large": 1}


def test_what_the_wrong_peer_judges_is_not_believed(broker: Make) -> None:
    driver = shadowed(broker)
    driver.receive(b"g1", Compared(EPOCH, [Verdict(1, True)]))
    assert driver.misbehaved
    assert figures(driver).compared == 0


def test_batches_hold_copies_alone(broker: Make) -> None:
    driver = shadowed(broker)
    driver.submit(3)
    driver.submit(2, version="3")
    assert copies(driver) == [[1, 2, 3]]
    driver.finish(SHADOW)
    assert copies(driver) == [[4, 5]]
    driver.finish_all()

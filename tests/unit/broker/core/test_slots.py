"""Who holds a slot of shared memory, and when its owner is told that nobody does."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.core.events import Send, Swept
from broker.core.scheduler import HOUSEKEEPING_S
from broker.core.slots import FREE_AT_ONCE, SETTLE_S
from broker.wire.errors import ErrorCode
from broker.wire.frames import blob
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Answers,
    Batch,
    Bye,
    Claims,
    Failure,
    Free,
    GatewayHello,
    Gone,
    Outcome,
    Payload,
    Ref,
    Results,
    SlotKey,
    SubmitItem,
    Unknown,
    Welcome,
    Who,
    WorkerBeat,
    WorkerDraining,
)
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline

Make = Callable[..., Driver]

GATEWAY = 1000  # arenas
FIRST = 1001
SECOND = 1002


def ref(arena: int, generation: int) -> Ref:
    return Ref(arena, generation * 64, generation, 0, 100_000)


def at(arena: int, *generations: int) -> Payload:
    """A payload that lies in these slots."""
    return blob(b"", [ref(arena, generation) for generation in generations])


def lost(_: Payload) -> Outcome:
    return Failure(ErrorCode.PAYLOAD_LOST, "it is not there")


def sharing(broker: Make, *, chain: tuple[str, ...] = ("a",), settled: bool = True) -> Driver:
    """A gateway with an arena, and a worker with one for each stage: `w1` for the first."""
    driver = broker(p=pipeline(*chain))
    driver.gateway()
    driver.receive(b"g1", GatewayHello(PROTOCOL_VERSION, arena=GATEWAY))
    for number, stage in enumerate(chain, 1):
        driver.worker(b"w%d" % number, stage, by=b"s%d" % number, arena=GATEWAY + number)
    if settled:
        driver.run(SETTLE_S + 0.1)
        driver.event(Swept([], [GATEWAY, FIRST]))
        driver.tick()
        driver.sent.clear()
    return driver


def freed(driver: Driver, peer: bytes = b"g1") -> list[int]:
    """What an owner was told is free, in all: at the latest with the next housekeeping."""
    driver.run(HOUSEKEEPING_S)
    told: list[int] = []
    for message in driver.sent[peer]:
        if isinstance(message, Free):
            told += message.generations
        elif isinstance(message, Answers | Batch):
            told += message.freed
    return told


def held(driver: Driver) -> dict[SlotKey, int]:
    return driver.ledger.slots.counts


# ------------------------------------------------------------------ a slot's life


def test_an_upload_is_held_until_its_request_is_answered(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit(payload=at(GATEWAY, 1))
    assert held(driver) == {(GATEWAY, 1): 2}, "by the item, and by the lease"
    driver.finish(outcome=lambda _: b"done")
    assert held(driver) == {}
    assert freed(driver, b"g1") == [1]


def test_what_a_turn_frees_is_told_in_one_message(broker: Make) -> None:
    driver = sharing(broker)
    driver.ledger.pipelines["p"].stages[0].room = 100
    for number in range(1, 5):
        driver.submit(payload=at(GATEWAY, number), tick=False)
    driver.cancel(1, 2, 3, 4)
    driver.tick()
    assert freed(driver, b"g1") == [1, 2, 3, 4]


def test_a_result_takes_the_place_of_what_it_was_made_of(broker: Make) -> None:
    driver = sharing(broker, chain=("a", "b"))
    (seq,) = driver.submit(payload=at(GATEWAY, 1))
    driver.finish(b"w1", outcome=lambda _: at(FIRST, 7))
    assert freed(driver) == [1]
    assert held(driver) == {(FIRST, 7): 2}
    driver.finish(b"w2", outcome=lambda _: b"done")
    assert freed(driver, b"w1") == [7]
    assert driver.result(seq) == b"done"


def test_a_result_that_is_what_was_given_is_never_called_free_between(broker: Make) -> None:
    driver = sharing(broker, chain=("a", "b"))
    driver.submit(payload=at(GATEWAY, 1))
    driver.finish(b"w1")
    assert freed(driver) == []
    driver.finish(b"w2", outcome=lambda _: b"done")
    assert freed(driver) == [1]


def test_an_answer_in_shared_memory_is_fetched_and_then_freed(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit()
    driver.answer(b"w1", driver.take(), lambda _: at(FIRST, 3), tick=False)
    assert held(driver) == {(FIRST, 3): 1}
    (answers,) = [e for e in driver.scheduler.tick(driver.now) if isinstance(e, Send)]
    assert isinstance(answers.message, Answers)
    assert answers.fetch
    assert held(driver) == {}
    assert freed(driver, b"w1") == [3]
    driver.owed.clear()


def test_many_free_slots_are_told_at_once(broker: Make) -> None:
    driver = sharing(broker)
    for number in range(1, FREE_AT_ONCE + 1):
        assert driver.told(b"w1", Free) == []
        driver.receive(b"w1", Results(EPOCH, 999, [at(FIRST, number)], 0.1))
        driver.tick()
    assert driver.told(b"w1", Free) == [Free(EPOCH, list(range(1, FREE_AT_ONCE + 1)))]


def test_a_batch_tells_what_is_free(broker: Make) -> None:
    driver = sharing(broker)
    driver.receive(b"w1", Results(EPOCH, 999, [at(FIRST, 3)], 0.1))
    driver.submit()
    assert driver.take().freed == [3]


def test_an_answer_for_a_gateway_that_is_gone_is_freed(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit()
    driver.answer(b"w1", driver.take(), lambda _: at(FIRST, 3), tick=False)
    driver.receive(b"g1", Bye(EPOCH))
    driver.tick()
    assert freed(driver, b"w1") == [3]


def test_a_worker_without_an_arena_is_sent_bytes_and_holds_nothing(broker: Make) -> None:
    driver = sharing(broker)
    driver.lose(b"w1")
    driver.worker(b"w9")
    driver.submit(payload=at(GATEWAY, 1), tick=False)
    actions = driver.scheduler.tick(driver.now)
    sent = [each for each in actions if isinstance(each, Send)]
    assert [each.fetch for each in sent if isinstance(each.message, Batch)] == [True]
    assert held(driver) == {(GATEWAY, 1): 1}
    driver.cancel(1)
    driver.tick()
    assert freed(driver) == [1]


def test_slots_of_an_owner_that_is_gone_are_held_and_never_told(broker: Make) -> None:
    driver = sharing(broker, chain=("a", "b"))
    driver.submit(payload=at(GATEWAY, 1))
    driver.finish(b"w1", outcome=lambda _: at(FIRST, 7))
    driver.lose(b"w1")
    assert held(driver) == {(FIRST, 7): 2}
    assert FIRST in driver.ledger.slots.needed()
    driver.finish(b"w2", outcome=lambda _: b"done")
    assert FIRST not in driver.ledger.slots.needed()
    assert freed(driver, b"w1") == []


# ------------------------------------------------------------------ what comes to nothing


def test_a_refused_upload_is_free_at_once(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit(pipeline="nowhere", payload=at(GATEWAY, 1))
    driver.submit(version="9", payload=at(GATEWAY, 2))
    assert freed(driver) == [1, 2]


def test_an_upload_that_comes_twice_stays_held(broker: Make) -> None:
    driver = sharing(broker)
    (seq,) = driver.submit(payload=at(GATEWAY, 1))
    again = SubmitItem(seq, "p", at(GATEWAY, 1), b"meta", 10.0, again=True)
    driver.submit_items([again])
    assert freed(driver) == []
    driver.finish(outcome=lambda _: b"done")
    assert freed(driver) == [1]


def test_a_postponed_upload_is_free(broker: Make) -> None:
    driver = sharing(broker, settled=False)
    item = SubmitItem(1, "p", at(GATEWAY, 1), b"meta", 10.0, version="9", again=True)
    driver.submit_items([item])
    driver.owed.clear()
    assert driver.ledger.counters["postponed"] == 1
    assert freed(driver) == [1]


@pytest.mark.parametrize("end", ["expires", "is cancelled"])
def test_a_worker_that_looks_at_it_holds_what_its_item_has_left(broker: Make, end: str) -> None:
    driver = sharing(broker)
    (seq,) = driver.submit(payload=at(GATEWAY, 1), left_s=0.1)
    if end == "expires":
        driver.run(0.2)
    else:
        driver.cancel(seq)
        driver.tick()
    assert held(driver) == {(GATEWAY, 1): 1}
    driver.finish(outcome=lambda _: at(FIRST, 5))
    assert freed(driver) == [1]
    assert freed(driver, b"w1") == [5], "and what nobody needs any longer"


def test_results_of_nothing_and_of_a_wrong_length_are_free(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit()
    batch = driver.take()
    outcomes: list[Outcome] = [at(FIRST, 1), at(FIRST, 2)]
    driver.receive(b"w1", Results(EPOCH, batch.lease, outcomes, 0.1))
    driver.holding[b"w1"].clear()
    driver.receive(b"w1", Results(EPOCH, 999, [at(FIRST, 3)], 0.1))
    driver.tick()
    assert freed(driver, b"w1") == [1, 2, 3]


def test_a_late_result_is_used_or_free(broker: Make) -> None:
    driver = sharing(broker, chain=("a", "b"))
    driver.submit(payload=at(GATEWAY, 1))
    batch = driver.take()
    driver.lose(b"w1")
    driver.receive(b"w1", Results(EPOCH, batch.lease, [at(FIRST, 3)], 0.1))
    driver.tick()
    assert held(driver)[FIRST, 3] == 2
    driver.finish(b"w2", outcome=lambda _: b"done")
    driver.worker(b"w1", "a", arena=FIRST)
    driver.receive(b"w1", Results(EPOCH, batch.lease, [at(FIRST, 4)], 0.1))
    driver.tick()
    assert freed(driver, b"w1") == [3, 4]


# ------------------------------------------------------------------ arrays that are kept


def results(driver: Driver, batch: Batch, *, kept: list[SlotKey]) -> None:
    driver.holding[b"w1"].clear()
    outcomes: list[Outcome] = [b"done"] * len(batch.items)
    driver.receive(b"w1", Results(EPOCH, batch.lease, outcomes, 0.1, kept=kept))
    driver.tick()


def test_what_a_plugin_keeps_is_held_until_it_is_gone(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit(payload=at(GATEWAY, 1, 2))
    results(driver, driver.take(), kept=[(GATEWAY, 1)])
    assert freed(driver) == [2]
    driver.receive(b"w1", Gone(EPOCH, [(GATEWAY, 1), (GATEWAY, 99)]))
    driver.tick()
    assert freed(driver) == [2, 1]


def test_a_beat_says_all_that_is_kept(broker: Make) -> None:
    driver = sharing(broker)
    driver.receive(b"w1", WorkerBeat(EPOCH, [], [(GATEWAY, 1), (GATEWAY, 2)]))
    driver.tick()
    assert held(driver) == {(GATEWAY, 1): 1, (GATEWAY, 2): 1}
    driver.receive(b"w1", WorkerBeat(EPOCH, [], [(GATEWAY, 2), (GATEWAY, 3)]))
    driver.tick()
    assert freed(driver) == [1]
    assert held(driver) == {(GATEWAY, 2): 1, (GATEWAY, 3): 1}


def test_late_results_say_what_is_kept_too(broker: Make) -> None:
    driver = sharing(broker)
    driver.receive(b"w1", Results(EPOCH, 999, [], 0.1, kept=[(GATEWAY, 1)]))
    assert held(driver) == {(GATEWAY, 1): 1}


def test_a_worker_without_an_arena_keeps_nothing(broker: Make) -> None:
    driver = sharing(broker)
    driver.worker(b"w9", kept=[(GATEWAY, 1)])
    assert held(driver) == {}


def test_a_goodbye_lets_go_of_everything(broker: Make) -> None:
    driver = sharing(broker)
    driver.receive(b"w1", WorkerBeat(EPOCH, [], [(GATEWAY, 1)]))
    driver.forget(b"w1")
    driver.receive(b"w1", Bye(EPOCH))
    driver.tick()
    assert freed(driver) == [1]
    assert driver.ledger.slots.doubtful() == set()


def test_what_a_draining_worker_gives_back_is_held_by_its_item_alone(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit(payload=at(GATEWAY, 1))
    driver.receive(b"w1", WorkerDraining(EPOCH, [driver.take().lease]))
    assert held(driver) == {(GATEWAY, 1): 1}


# ------------------------------------------------------------------ lost workers


def limbo(broker: Make) -> Driver:
    """`w1` is lost: it looked at one slot for a batch, and had kept another."""
    driver = sharing(broker)
    driver.receive(b"w1", WorkerBeat(EPOCH, [], [(GATEWAY, 2)]))
    (seq,) = driver.submit(payload=at(GATEWAY, 1))
    driver.lose(b"w1", "silent")
    driver.cancel(seq)
    driver.tick()
    assert held(driver) == {(GATEWAY, 1): 1, (GATEWAY, 2): 1}
    assert driver.ledger.slots.doubtful() == {FIRST}
    assert {FIRST, GATEWAY} <= driver.ledger.slots.needed()
    return driver


def test_what_a_lost_worker_looks_at_stays_held_until_it_is_dead(broker: Make) -> None:
    driver = limbo(broker)
    driver.event(Swept([], [FIRST]))
    driver.tick(10.0)
    assert freed(driver) == []
    driver.event(Swept([FIRST, 4711], []))
    driver.tick()
    assert sorted(freed(driver)) == [1, 2]


def test_or_until_it_says_what_it_still_looks_at(broker: Make) -> None:
    driver = limbo(broker)
    driver.worker(b"w1", arena=FIRST, kept=[(GATEWAY, 2)])
    driver.tick()
    assert freed(driver) == [1]
    assert held(driver) == {(GATEWAY, 2): 1}
    assert driver.ledger.slots.doubtful() == set()


def test_what_nobody_needs_takes_up_room_until_it_can_be_used_again(broker: Make) -> None:
    driver = limbo(broker)
    pipeline = driver.ledger.pipelines["p"]
    driver.run(0.2)
    assert pipeline.bytes == 0
    assert pipeline.grown_bytes() == pipeline.limbo_bytes == len(at(GATEWAY, 1))
    driver.event(Swept([FIRST], []))
    driver.run(0.2)
    assert pipeline.grown_bytes() == 0


# ------------------------------------------------------------------ claims


def test_every_peer_is_told_where_arenas_lie(broker: Make) -> None:
    driver = sharing(broker)
    assert Welcome(EPOCH, PROTOCOL_VERSION) == driver.ledger.welcome
    driver.receive(b"g1", GatewayHello(PROTOCOL_VERSION))
    assert driver.told(b"g1", Welcome) == [driver.ledger.welcome]


def test_a_hello_is_answered_with_what_is_held_of_that_arena(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit(payload=at(GATEWAY, 4))
    driver.submit(payload=at(GATEWAY, 9))
    driver.receive(b"w1", WorkerBeat(EPOCH, [], [(GATEWAY, 2), (SECOND, 3)]))
    driver.receive(b"g1", GatewayHello(PROTOCOL_VERSION, arena=GATEWAY, generation=8))
    driver.tick()
    assert driver.told(b"g1", Claims) == [Claims(EPOCH, 8, [2, 4])]
    driver.tick()
    assert len(driver.told(b"g1", Claims)) == 1


def hello_again(driver: Driver, generation: int) -> None:
    driver.receive(b"g1", GatewayHello(PROTOCOL_VERSION, arena=GATEWAY, generation=generation))


def test_a_young_broker_waits_for_every_living_arena(broker: Make) -> None:
    driver = sharing(broker, settled=False)
    hello_again(driver, 5)
    driver.event(Swept([], [GATEWAY, FIRST]))
    driver.tick()
    assert driver.told(b"g1", Claims) == [], "it is younger than peers need to find it"
    driver.run(SETTLE_S)
    driver.event(Swept([], [GATEWAY, FIRST, SECOND]))
    driver.tick()
    assert driver.told(b"g1", Claims) == [], "somebody may look at slots of before"
    driver.worker(b"w2", arena=SECOND, kept=[(GATEWAY, 3)])
    driver.event(Swept([], [GATEWAY, FIRST, SECOND]))
    driver.tick()
    assert driver.told(b"g1", Claims) == [Claims(EPOCH, 5, [3])]


def test_a_young_broker_calls_no_slot_of_before_free(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    hello_again(driver, 5)
    driver.worker(arena=FIRST)
    for number in (5, 6):
        driver.submit(payload=at(GATEWAY, number))
        driver.finish(outcome=lambda _: b"done")
    assert freed(driver) == [6]
    driver.run(SETTLE_S)
    driver.event(Swept([], [GATEWAY, FIRST]))
    driver.tick()
    assert freed(driver) == [6, 5]


def test_what_is_held_again_meanwhile_is_not_called_free(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    hello_again(driver, 5)
    driver.submit(payload=at(GATEWAY, 5), pipeline="nowhere")
    driver.submit(payload=at(GATEWAY, 5))
    driver.run(SETTLE_S)
    driver.event(Swept([], [GATEWAY]))
    driver.tick()
    assert held(driver).keys() == {(GATEWAY, 5)}
    assert driver.ledger.slots.free == set()
    assert driver.told(b"g1", Claims) == [Claims(EPOCH, 5, [5])]


def test_a_worker_whose_lease_is_missing_is_asked_who_it_is(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit(payload=at(GATEWAY, 1))
    driver.take()
    for _ in range(2):
        driver.tick(1.1)
        driver.receive(b"w1", WorkerBeat(EPOCH, [], [(GATEWAY, 1)]))
    assert driver.told(b"w1", Who) == [Who(EPOCH)]


# ------------------------------------------------------------------ lost payloads


def test_an_item_whose_payload_is_lost_begins_anew(broker: Make) -> None:
    driver = sharing(broker, chain=("a", "b"))
    (seq,) = driver.submit(payload=at(GATEWAY, 1))
    driver.finish(b"w1", outcome=lambda _: at(FIRST, 7))
    driver.finish(b"w2", outcome=lost)
    assert driver.told(b"g1", Unknown) == [Unknown(EPOCH, [seq])]
    assert freed(driver, b"w1") == [7]
    assert driver.items() == {}
    assert driver.ledger.counters["payloads_lost"] == 1
    driver.submit_items([SubmitItem(seq, "p", b"as bytes", b"meta", 10.0, again=True)])
    driver.finish(b"w1")
    driver.finish(b"w2")
    assert driver.result(seq) == b"as bytes"
    assert driver.ledger.peers[b"g1"].restarts == {}  # type: ignore[union-attr]


def test_it_does_not_begin_anew_for_ever(broker: Make) -> None:
    driver = sharing(broker)
    (seq,) = driver.submit(payload=at(GATEWAY, 1))
    for _ in range(3):
        driver.finish(outcome=lost)
        driver.submit_items([SubmitItem(seq, "p", at(GATEWAY, 1), b"meta", 10.0, again=True)])
    driver.finish(outcome=lost)
    assert driver.failure(seq) is ErrorCode.WORKER_LOST


@pytest.mark.parametrize("repeatable", [True, False])
def test_what_passed_a_stage_that_may_not_be_repeated_fails(broker: Make, repeatable: bool) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    keys: dict[str, Any] = {"repeatable": repeatable, "arena": FIRST}
    driver.worker(b"w1", "a", **keys)
    driver.worker(b"w2", "b", by=b"s2", arena=SECOND)
    (seq,) = driver.submit()
    driver.finish(b"w1", outcome=lambda _: at(FIRST, 1))
    driver.finish(b"w2", outcome=lost)
    if repeatable:
        assert driver.told(b"g1", Unknown) == [Unknown(EPOCH, [seq])]
        driver.owed.clear()
    else:
        assert driver.failure(seq) is ErrorCode.WORKER_LOST


def test_a_lost_payload_of_a_worker_that_was_given_up_is_no_news(broker: Make) -> None:
    driver = sharing(broker)
    (seq,) = driver.submit(payload=at(GATEWAY, 1))
    batch = driver.take()
    driver.lose(b"w1")
    driver.answer(b"w1", batch, lost)
    assert seq in driver.items(), "it waits for another"


def test_status_shows_the_arenas(broker: Make) -> None:
    driver = sharing(broker)
    driver.submit(payload=at(GATEWAY, 1, 2))
    shown = {each.id: (each.owner, each.slots) for each in driver.scheduler.snapshot(0.0).arenas}
    assert shown == {f"{GATEWAY:016x}": (b"g1".hex(), 2), f"{FIRST:016x}": (b"w1".hex(), 0)}

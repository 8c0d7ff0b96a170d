"""What bodies become in their stages: it is counted, expected, and kept within the bounds."""

from collections.abc import Callable

from broker.core.stage import GUESSED_GROWTH, LARGE_BYTES
from broker.wire.errors import ErrorCode
from broker.wire.messages import Answers, Payload
from tests.unit.broker.core.driver import Driver, pipeline

Make = Callable[..., Driver]

BODY = b"x" * 100
GROWN = 2000
MAX_BYTES = 50_000


def mill(broker: Make, *chain: str, max_bytes: int = MAX_BYTES, max_items: int = 4096) -> Driver:
    """Stages with a worker each, which never has enough."""
    driver = broker(p=pipeline(*chain, max_bytes=max_bytes, max_items=max_items))
    driver.gateway()
    for stage in chain:
        driver.worker(stage.encode(), stage, by=b"s" + stage.encode(), max_batch_size=16)
    return driver


def grown(_: Payload) -> bytes:
    return b"y" * GROWN


def teach(driver: Driver) -> None:
    """One request, so that it is known what becomes of a body."""
    driver.submit(1, payload=BODY)
    driver.finish(b"a", outcome=grown)
    driver.finish(b"b")


def held(driver: Driver) -> tuple[int, int]:
    """Bytes held, and with what is in the making."""
    shown = driver.ledger.pipelines["p"]
    return shown.bytes, shown.bytes + shown.growing


def test_a_body_is_held_as_long_as_its_gateway_holds_it(broker: Make) -> None:
    driver = mill(broker, "a", "b")
    driver.submit(1, payload=BODY)
    driver.finish(b"a", outcome=grown)
    assert held(driver)[0] == len(BODY) + len(b"meta") + GROWN
    driver.finish(b"b")
    assert held(driver) == (0, 0)


def test_a_stopped_stage_holds_back_what_would_grow_beyond_the_bound(broker: Make) -> None:
    driver = mill(broker, "a", "b")
    teach(driver)
    driver.submit(100, payload=BODY)
    admitted = [seq for seq in range(2, 102) if seq not in driver.answered()]
    while driver.batches[b"a"]:  # b stands still
        assert held(driver)[1] <= MAX_BYTES
        driver.finish(b"a", outcome=grown)
    waits = driver.ledger.pipelines["p"].stages[0].queued
    assert waits > 50, "as bodies, at the entrance"
    assert held(driver)[0] > 0.8 * MAX_BYTES, "and the room is used"
    for _ in range(1000):
        if driver.batches[b"b"]:
            driver.finish(b"b")
        if driver.batches[b"a"]:
            driver.finish(b"a", outcome=grown)
        assert held(driver)[1] <= MAX_BYTES
    assert all(driver.result(seq) == b"y" * GROWN for seq in admitted)


def test_gateways_are_told_what_leaves_less_for_bodies(broker: Make) -> None:
    driver = mill(broker, "a", "b", max_items=11)
    teach(driver)
    driver.submit(10, payload=BODY)
    assert driver.told(b"g1", Answers)[-1].grown == {}
    driver.finish(b"a", outcome=grown)
    driver.submit(2, payload=BODY)
    shown = driver.ledger.pipelines["p"]
    assert driver.told(b"g1", Answers)[-1].grown == {"p": shown.grown_bytes()}
    assert shown.grown_bytes() >= 3 * GROWN
    for _ in range(100):
        for stage, outcome in ((b"a", grown), (b"b", lambda payload: payload)):
            if driver.batches[stage]:
                driver.finish(stage, outcome=outcome)


def test_bodies_leave_room_for_what_becomes_of_them(broker: Make) -> None:
    driver = mill(broker, "a", "b", max_items=10_000)
    teach(driver)
    driver.submit(1000, payload=BODY)
    assert driver.ledger.pipelines["p"].body_bytes <= MAX_BYTES // 2
    refused = driver.answered()[1:]
    assert {driver.failure(seq) for seq in refused} == {ErrorCode.QUEUE_FULL}
    for _ in range(2000):
        for stage, outcome in ((b"a", grown), (b"b", lambda payload: payload)):
            if driver.batches[stage]:
                driver.finish(stage, outcome=outcome)
                assert held(driver)[1] <= MAX_BYTES
    assert held(driver) == (0, 0)


def test_two_stages_that_grow_do_not_lock_each_other_up(broker: Make) -> None:
    driver = mill(broker, "a", "b", "c")
    teach(driver)
    driver.finish(b"c", outcome=grown)
    driver.submit(200, payload=BODY)
    for _ in range(3000):
        for stage in (b"a", b"b", b"c"):
            if driver.batches[stage]:
                driver.finish(stage, outcome=grown if stage != b"b" else lambda _: b"z" * 2 * GROWN)
    assert held(driver) == (0, 0)


def test_one_that_is_too_large_for_the_bound_passes_alone(broker: Make) -> None:
    driver = mill(broker, "a", "b")
    driver.submit(1, payload=BODY)
    driver.finish(b"a", outcome=lambda _: b"y" * 2 * MAX_BYTES)
    driver.finish(b"b")
    driver.submit(3, payload=BODY)
    assert [len(batch.items) for batch in driver.batches[b"a"]] == [1]
    for _ in range(3):
        driver.finish(b"a", outcome=lambda _: b"y" * 2 * MAX_BYTES)
        assert not driver.batches[b"a"]
        driver.finish(b"b")
    assert len(driver.answered()) == 4


def test_before_anything_is_known_large_bodies_are_expected_to_grow(broker: Make) -> None:
    size = 4 * LARGE_BYTES
    driver = mill(broker, "a", "b", max_bytes=3 * GUESSED_GROWTH * size)
    driver.submit(16, payload=b"x" * size)
    assert sum(len(batch.items) for batch in driver.batches[b"a"]) in {1, 2, 3}
    driver.finish_all()
    assert len(driver.answered()) == 16


def test_what_was_large_once_is_not_expected_for_ever(broker: Make) -> None:
    driver = mill(broker, "a", "b")
    teach(driver)
    assert driver.ledger.pipelines["p"].stages[0].growth == GROWN
    driver.submit(400, payload=b"x")
    driver.finish_all()
    assert driver.ledger.pipelines["p"].stages[0].growth < 100

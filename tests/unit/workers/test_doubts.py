"""When a worker has reason to think that it is broken."""

import pytest

from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure, Outcome
from workers.doubts import ALONE, ALONE_WITHOUT_EXAMPLE, USELESS, USELESS_WITHOUT_EXAMPLE, Doubts
from workers.execute import Done
from workers.shortage import Shortage

FAILED = Failure(ErrorCode.WORKER_ERROR, "")
REJECTED = Failure(ErrorCode.REJECTED, "")


def done(*outcomes: Outcome, shortage: Shortage | None = None) -> Done:
    useless = FAILED in outcomes and not any(isinstance(out, bytes) for out in outcomes)
    return Done(list(outcomes), "", False, useless, shortage or Shortage(), {})


ERROR, REJECT, RESULT = done(FAILED), done(REJECTED), done(b"\x01")


def after(doubts: Doubts, *batches: Done) -> Doubts:
    for batch in batches:
        doubts.note(batch)
    return doubts


@pytest.mark.parametrize(
    ("has_example", "most"), [(True, USELESS), (False, USELESS_WITHOUT_EXAMPLE)]
)
def test_batches_that_fail_altogether(has_example: bool, most: int) -> None:
    doubts = after(Doubts(has_example=has_example), *[ERROR] * (most - 1))
    assert not doubts.are_grave
    assert after(doubts, ERROR).are_grave
    doubts.dispel()
    assert not doubts.are_grave


def test_one_result_shows_that_it_works() -> None:
    doubts = after(Doubts(has_example=True), ERROR, ERROR, done(FAILED, b"\x01"), ERROR, ERROR)
    assert not doubts.are_grave


def test_rejections_show_nothing() -> None:
    assert not after(Doubts(has_example=True), *[REJECT] * 100).are_grave
    doubts = after(Doubts(has_example=True), ERROR, REJECT, done(FAILED, REJECTED), REJECT, ERROR)
    assert doubts.are_grave


@pytest.mark.parametrize(("has_example", "most"), [(True, ALONE), (False, ALONE_WITHOUT_EXAMPLE)])
def test_items_that_run_out_of_memory_alone(has_example: bool, most: int) -> None:
    short = done(FAILED, shortage=Shortage(fewest=1, alone=1))
    doubts = after(Doubts(has_example=has_example), *[short] * (most - 1))
    assert not doubts.is_short
    assert not after(doubts, done(b"\x01", shortage=Shortage(worked=True))).is_short
    assert not after(doubts, *[short] * (most - 1)).is_short
    assert after(doubts, short).is_short


def test_an_example_that_fails_too_is_enough() -> None:
    broken = Shortage(fewest=1, alone=1, is_broken=True)
    assert after(Doubts(has_example=True), done(FAILED, shortage=broken)).is_short

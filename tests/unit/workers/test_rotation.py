"""Whose turn it is to be recycled."""

from workers.rotation import MAX_RETRY_S, RETRY_S, Rotation, Turn

FIRST, SECOND = Turn(0, "worn"), Turn(1, "worn")


def test_one_at_a_time() -> None:
    rotation = Rotation(None)
    assert rotation.begin([FIRST, SECOND], 0.0) == FIRST
    assert rotation.begin([SECOND], 1.0) is None
    rotation.done(1.5)
    assert rotation.begin([SECOND], 2.0) == SECOND


def test_nobody_is_worn() -> None:
    rotation = Rotation(None)
    assert rotation.begin([], 0.0) is None
    assert rotation.too_old(0, 1e9) is None
    assert rotation.turn is None


def test_age() -> None:
    rotation = Rotation(3600.0)
    assert rotation.too_old(2, 3599.0) is None
    turn = rotation.too_old(2, 3600.0)
    assert turn == Turn(2, "it is older than --max-age = 3600 s")
    assert not turn.drains_first


def test_what_fails_is_tried_again_later_each_time_while_others_have_their_turn() -> None:
    rotation = Rotation(None)
    rotation.begin([FIRST], 0.0)
    assert rotation.failed(10.0) == RETRY_S
    assert rotation.begin([FIRST, SECOND], 11.0) == SECOND
    rotation.done(12.0)
    assert rotation.begin([FIRST], 10.0 + RETRY_S - 1) is None
    assert rotation.begin([FIRST], 10.0 + RETRY_S) == FIRST
    assert rotation.failed(100.0) == 2 * RETRY_S
    now = 0.0
    for _ in range(20):
        now += 2 * MAX_RETRY_S
        rotation.begin([FIRST], now)
        assert rotation.failed(now) <= MAX_RETRY_S
    rotation.begin([FIRST], now + MAX_RETRY_S)
    rotation.done(now + MAX_RETRY_S)
    rotation.begin([FIRST], now + MAX_RETRY_S)
    assert rotation.failed(0.0) == RETRY_S  # one that went well begins anew


def test_a_limit_that_is_too_low_for_any_worker_does_not_make_it_spin() -> None:
    rotation = Rotation(None)
    fat = Turn(0, "it takes too much", drains_first=True)
    rotation.begin([fat], 0.0)
    rotation.done(10.0)
    assert rotation.begin([fat], 10.0 + RETRY_S - 1) is None
    assert rotation.begin([fat], 10.0 + RETRY_S) == fat

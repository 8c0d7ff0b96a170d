"""When a request is sent again, with numbers for time and chance."""

import pytest

from broker.wire.errors import ERRORS, ErrorRow
from millstream.client.attempts import FIRST_PAUSE_S, LONGEST_PAUSE_S, Attempts
from millstream.client.errors import BadAnswer, CallFailed, ClientError, NoAnswer, TooLate


def attempts(*, timeout_s: float = 100.0, retries: int = 3, chance: float = 0.0) -> Attempts:
    return Attempts(timeout_s=timeout_s, retries=retries, now=0.0, chance=lambda: chance)


@pytest.mark.parametrize("row", ERRORS.values(), ids=lambda row: row.name)
def test_the_table_says_what_is_sent_again(row: ErrorRow) -> None:
    name, status, retryable = row
    error = CallFailed(status, name, "")
    assert error.retryable is retryable
    if retryable:
        assert attempts().pause_s(error, 0.0) > 0
    else:
        with pytest.raises(CallFailed) as caught:
            attempts().pause_s(error, 0.0)
        assert caught.value is error


@pytest.mark.parametrize("error", [BadAnswer(""), TooLate(""), CallFailed(503, "", "a proxy's")])
def test_nothing_else_is(error: ClientError) -> None:
    with pytest.raises(type(error)):
        attempts().pause_s(error, 0.0)


def test_pauses_grow_to_a_bound_and_end_with_the_retries() -> None:
    waiting = attempts(retries=8, chance=1.0)
    pauses = [waiting.pause_s(NoAnswer(""), 0.0) for _ in range(8)]
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    with pytest.raises(NoAnswer):
        waiting.pause_s(NoAnswer(""), 0.0)


def test_chance_takes_half_of_a_pause_at_the_most() -> None:
    assert attempts(chance=0.0).pause_s(NoAnswer(""), 0.0) == FIRST_PAUSE_S / 2


def test_retry_after_is_the_least() -> None:
    error = CallFailed(429, "queue_full", "", retry_after_s=7.0)
    assert attempts().pause_s(error, 0.0) == 7.0
    with pytest.raises(CallFailed):  # it would come after the deadline: said at once
        attempts(timeout_s=6.9).pause_s(error, 0.0)


def test_what_is_left() -> None:
    waiting = attempts(timeout_s=2.0)
    assert waiting.left_s(0.5) == 1.5
    with pytest.raises(TooLate, match="within 2 s"):
        waiting.left_s(2.0)

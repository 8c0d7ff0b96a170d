"""Which bodies are refused after a worker died under them, and which are not to blame."""

from random import Random

import pytest

from gateway.killers import MAX_PASSED, MAX_REMEMBERED, REMEMBER_S, Killers

BODY = b"body"
LARGE = [memoryview(b"large" * 2000)]


# ------------------------------------------------------------------ blame


def test_killers_are_known_for_a_minute() -> None:
    killers = Killers()
    killers.remember("p", [b"bo", b"dy"], 0.0)
    killers.remember("p", [b"other"], 30.0)
    assert killers.knows("p", [b"body"], 59.0)
    assert not killers.knows("q", [b"body"], 59.0)
    assert not killers.knows("p", [b"bod"], 59.0)
    assert not killers.knows("p", [b"body"], REMEMBER_S)
    assert killers.knows("p", [b"other"], REMEMBER_S)
    assert not killers.knows("p", [b"other"], 30.0 + REMEMBER_S)
    assert len(killers) == 0


def test_a_killer_that_kills_again_counts_anew() -> None:
    killers = Killers()
    killers.remember("p", [b"a"], 0.0)
    killers.remember("p", [b"b"], 1.0)
    killers.remember("p", [b"a"], 50.0)
    assert killers.knows("p", [b"a"], 100.0)
    assert not killers.knows("p", [b"b"], 100.0)


def test_the_memory_of_killers_is_bounded() -> None:
    killers = Killers()
    for number in range(MAX_REMEMBERED + 10):
        killers.remember("p", [b"%d" % number], 0.0)
    assert len(killers) == MAX_REMEMBERED
    assert not killers.knows("p", [b"0"], 1.0)


# ------------------------------------------------------------------ who is not to blame


@pytest.mark.parametrize("parts", [[BODY], LARGE], ids=["small", "large"])
def test_a_result_clears_a_body_for_a_minute(parts: list[bytes]) -> None:
    killers = Killers()
    killers.remember("p", parts, 0.0)
    killers.clear("q", parts, 1.0)
    assert killers.knows("p", parts, 1.0), "it was another pipeline's"
    killers.clear("p", parts, 2.0)
    assert not killers.knows("p", parts, 2.0)
    killers.remember("p", parts, 1.0 + REMEMBER_S)
    assert not killers.knows("p", parts, 1.0 + REMEMBER_S)
    killers.remember("p", parts, 2.0 + REMEMBER_S)
    assert killers.knows("p", parts, 2.0 + REMEMBER_S)


def test_only_what_is_blamed_can_be_cleared() -> None:
    killers = Killers()
    killers.remember("p", [b"other"], 0.0)
    killers.clear("p", [BODY], 1.0)
    killers.remember("p", [BODY], 2.0)
    assert killers.knows("p", [BODY], 2.0)
    killers.clear("p", [b"other"], REMEMBER_S)  # it is forgotten already
    killers.remember("p", [b"other"], REMEMBER_S)
    assert killers.knows("p", [b"other"], REMEMBER_S)


def test_what_was_cleared_is_bounded() -> None:
    killers = Killers()
    for number in range(MAX_REMEMBERED + 1):
        killers.remember("p", [b"%d" % number], 0.0)
        killers.clear("p", [b"%d" % number], 0.0)
    killers.remember("p", [b"0"], 1.0)
    killers.remember("p", [b"1"], 1.0)
    assert killers.knows("p", [b"0"], 1.0)
    assert not killers.knows("p", [b"1"], 1.0)


def test_a_body_that_has_just_passed_is_not_blamed() -> None:
    killers = Killers()
    killers.passed("p", BODY)
    killers.remember("p", [BODY], 0.0)
    killers.remember("q", [BODY], 0.0)
    assert not killers.knows("p", [BODY], 0.0)
    assert killers.knows("q", [BODY], 0.0)


def test_only_the_last_bodies_are_kept_and_for_each_pipeline() -> None:
    killers = Killers()
    killers.passed("p", BODY)
    for number in range(MAX_PASSED - 1):
        killers.passed("p", b"%d" % number)
        killers.passed("q", b"%d" % number)
    killers.remember("p", [BODY], 0.0)
    assert not killers.knows("p", [BODY], 0.0)
    killers.passed("p", b"last")
    killers.remember("p", [BODY], 0.0)
    assert killers.knows("p", [BODY], 0.0)


def test_when_a_body_was_last_blamed() -> None:
    killers = Killers()
    killers.passed("p", BODY)
    killers.remember("p", [BODY], 5.0)
    assert killers.blamed_s < 0.0
    killers.remember("p", [b"other"], 6.0)
    assert killers.blamed_s == 6.0


def test_a_body_that_all_send_is_not_blamed_for_deaths_around_it() -> None:
    """Workers die at random under one body, which is one of three that come, and mostly passes."""
    rng = Random(3)
    killers = Killers()
    refused = 0
    under_way: list[tuple[float, bytes]] = []
    for step in range(20_000):
        now = step * 0.01
        body = BODY if rng.random() < 0.3 else b"%d" % step
        if killers.knows("p", [body], now):
            refused += body == BODY
        else:
            under_way.append((now, body))
        if len(under_way) < 16:
            continue
        came, body = under_way.pop(rng.randrange(16))
        if rng.random() < 0.02:
            killers.remember("p", [body], now)
        else:
            killers.passed("p", body)
            if came <= killers.blamed_s:
                killers.clear("p", [body], now)
    assert refused == 0
    assert len(killers) > 0, "others are blamed: they came but once"

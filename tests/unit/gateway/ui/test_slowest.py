"""The slowest of late: bounded, of the last two minutes, with a bound that spares the others."""

from gateway.ui.slowest import PER_SPAN, SHOWN, SPAN_S, SPANS, Slowest, SlowRequest


def request(duration_s: float, id: str = "") -> SlowRequest:
    return SlowRequest(duration_s, 0.0, id, "p", "1", 200, "", ["a"], [0.1, 0.2])


def test_the_slowest_are_shown_first() -> None:
    slowest = Slowest(0.0)
    for number in range(1000):
        slowest.add(request(float(number * 7919 % 1000)))
    shown = [each.duration_s for each in slowest.shown()]
    assert shown == [float(999 - place) for place in range(PER_SPAN)]
    assert slowest.least_s == shown[-1]


def test_what_is_faster_than_the_bound_need_not_be_told() -> None:
    slowest = Slowest(0.0)
    assert slowest.least_s == 0.0
    for number in range(PER_SPAN):
        assert slowest.least_s == 0.0
        slowest.add(request(1.0 + number))
    assert slowest.least_s == 1.0
    slowest.tick(SPAN_S)
    assert slowest.least_s == 0.0


def test_equal_ones_are_no_trouble() -> None:
    slowest = Slowest(0.0)
    for _ in range(3 * SHOWN):
        slowest.add(request(1.0))
    assert len(slowest.shown()) == PER_SPAN


def test_what_was_slow_is_forgotten_after_two_minutes() -> None:
    slowest = Slowest(0.0)
    slowest.add(request(9.0, "old"))
    for span in range(1, SPANS):
        slowest.tick(SPAN_S * span)
        slowest.add(request(1.0, "new"))
    assert slowest.shown()[0].request_id == "old"
    slowest.tick(SPAN_S * SPANS)
    assert [each.request_id for each in slowest.shown()] == ["new"] * (SPANS - 1)

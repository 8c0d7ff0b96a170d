"""When the broker waits awake: after short waits, and as long as that is of use."""

from broker.awake import IN_A_ROW, REST_LEAST, REST_MOST, SHORT_S, Wakefulness


def sleeps_until_it_pays(wakefulness: Wakefulness) -> int:
    """How many short waits it takes."""
    count = 0
    while not wakefulness.pays:
        wakefulness.slept(SHORT_S / 2)
        count += 1
    return count


def test_short_waits_in_a_row_are_gone_on_with_awake() -> None:
    wakefulness = Wakefulness(cores=2)
    assert sleeps_until_it_pays(wakefulness) == IN_A_ROW
    for _ in range(100):
        wakefulness.caught()
        assert wakefulness.pays


def test_a_long_wait_is_no_time_to_stay_awake() -> None:
    wakefulness = Wakefulness(cores=2)
    for _ in range(IN_A_ROW - 1):
        wakefulness.slept(SHORT_S / 2)
    wakefulness.slept(SHORT_S * 2)
    assert sleeps_until_it_pays(wakefulness) == IN_A_ROW


def test_what_is_in_vain_is_tried_ever_less() -> None:
    wakefulness = Wakefulness(cores=2)
    sleeps_until_it_pays(wakefulness)
    rests = []
    for _ in range(14):
        wakefulness.missed()
        rests.append(sleeps_until_it_pays(wakefulness))
    assert rests == [min(REST_LEAST * 2**number, REST_MOST) for number in range(14)]


def test_a_long_wait_ends_no_rest() -> None:
    wakefulness = Wakefulness(cores=2)
    sleeps_until_it_pays(wakefulness)
    for _ in range(10):
        wakefulness.missed()
    rest = REST_LEAST * 2**9
    for _ in range(rest // 2):
        wakefulness.slept(SHORT_S * 2)
        assert not wakefulness.pays
    assert sleeps_until_it_pays(wakefulness) == rest


def test_one_wait_in_five_that_is_too_long_does_not_send_it_to_sleep() -> None:
    """As with three quick stages and a client that takes its time."""
    wakefulness = Wakefulness(cores=2)
    sleeps_until_it_pays(wakefulness)
    awake = 0
    for number in range(1000):
        is_long = number % 5 == 0
        if not wakefulness.pays:
            wakefulness.slept(SHORT_S / 2)
        elif is_long:
            wakefulness.missed()
            wakefulness.slept(SHORT_S)
        else:
            wakefulness.caught()
            awake += 1
    assert awake > 500


def test_on_one_core_it_always_sleeps() -> None:
    wakefulness = Wakefulness(cores=1)
    for _ in range(1000):
        wakefulness.slept(0.0)
    assert not wakefulness.pays

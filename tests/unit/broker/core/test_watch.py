"""When a version is shown to do worse than another, and when it is not."""

from random import Random

import pytest

from broker.core import traffic as t
from broker.core.config import GuardConfig
from broker.core.figures import Figures, Moment, Run
from broker.core.traffic import Traffic
from broker.core.watch import Watch, Watches

GUARD = GuardConfig()


class Pair:
    """A canary and the stable version, whose requests come in an even mix."""

    def __init__(self, rng: Random, *, share: float, config: GuardConfig = GUARD) -> None:
        self.rng = rng
        self.share = share
        self.watch = Watch("3", "2", config)
        self.stable = Figures()

    def run(
        self,
        blocks: int,
        *,
        size: int = 40,
        faults: tuple[float, float] = (0.0, 0.0),
        slower: float = 1.0,
        spread: float = 0.5,
    ) -> int | None:
        """Until there is a verdict: after how many requests of the canary, if ever."""
        for _ in range(blocks):
            canaries = sum(self.rng.random() < self.share for _ in range(size))
            canary = self.moment(canaries, faults[0], slower, spread)
            stable = self.moment(size - canaries, faults[1], 1.0, spread)
            self.watch.add(canary, stable, self.stable)
            self.keep(stable)
            if self.watch.verdict():
                return self.watch.requests
        return None

    def moment(self, requests: int, faults: float, slower: float, spread: float) -> Moment:
        bad = sum(self.rng.random() < faults for _ in range(requests))
        times = [0.02 * slower * self.rng.lognormvariate(0, spread) for _ in range(requests - bad)]
        return Moment(requests, bad, [Run(0, 1, run_s) for run_s in times])

    def keep(self, stable: Moment) -> None:
        self.stable.judged += stable.requests
        self.stable.faults += stable.faults
        for run in stable.runs:
            self.stable.runs.add(run)


def test_of_a_hundred_equal_ones_at_most_four_are_rolled_back() -> None:
    rng = Random(11)
    told = 0
    for number in range(100):
        pair = Pair(rng, share=(0.05, 0.5)[number % 2])
        chance = (0.0, 0.001, 0.03, 0.3)[number % 4]
        told += pair.run(75, faults=(chance, chance), spread=(0.1, 1.0)[number % 2]) is not None
    assert told <= 4


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_one_that_fails_always_is_found_as_soon_as_it_may_be(share: float) -> None:
    found = Pair(Random(1), share=share).run(500, faults=(1.0, 0.01))
    assert found is not None
    assert GUARD.min_requests <= found < GUARD.min_requests + 40


@pytest.mark.parametrize("spread", [0.05, 0.5, 1.0])
def test_one_that_takes_twice_as_long_is_found_within_200_of_its_requests(spread: float) -> None:
    rng = Random(2)
    found = [Pair(rng, share=0.05).run(400, slower=2.0, spread=spread) for _ in range(10)]
    assert all(each is not None and each <= 200 for each in found), found


def test_what_it_says() -> None:
    pair = Pair(Random(1), share=0.1)
    pair.run(500, faults=(0.5, 0.0))
    assert pair.watch.verdict() == (
        "errors: 47.2 % (25 of 53) of its requests, 0 % (0 of 387) of those of version 2"
    )


def test_three_crashes_are_enough() -> None:
    """While its workers are restarted a version gets hardly any requests."""
    watch, known = Watch("3", "2", GUARD), Figures()
    for crashes in range(3):
        assert not watch.verdict(), crashes
        watch.add(Moment(1, 1, [], 1), Moment(50, 0, []), known)
    assert watch.verdict().startswith("errors: 100 % (3 of 3) of its requests, 0 % (0 of 150)")
    after, known = Watch("3", "2", GUARD), Figures(judged=1000)
    for _ in range(3):
        assert not after.verdict()
        after.add_alone(Moment(1, 1, [], 1), known)
    assert after.verdict()


def test_crashes_of_which_the_other_has_as_many_show_nothing() -> None:
    rng, told = Random(8), 0
    for _ in range(100):
        watch, known = Watch("3", "2", GUARD), Figures()
        for _ in range(45):
            crashed = [rng.random() < 0.2 for _ in range(4)]
            a, b = crashed[0], sum(crashed[1:])
            watch.add(Moment(1, a, [], a), Moment(3, b, [], b), known)
            if watch.verdict():
                told += 1
                break
    assert told <= 2


def test_a_little_slower_is_allowed() -> None:
    assert Pair(Random(4), share=0.2).run(300, slower=1.2, spread=0.5) is None


def test_a_few_more_errors_are_allowed() -> None:
    pair = Pair(Random(4), share=0.5, config=GuardConfig(error_margin=0.05))
    assert pair.run(400, faults=(0.04, 0.01)) is None


def test_trouble_that_begins_late_is_found_soon() -> None:
    pair = Pair(Random(5), share=0.1)
    assert pair.run(1000, faults=(0.01, 0.01)) is None
    before = pair.watch.requests
    found = pair.run(200, faults=(1.0, 0.01))
    assert found is not None
    assert found - before < 100


def test_against_what_was_before() -> None:
    known = Figures(judged=2000, faults=10)
    watch = Watch("3", "2", GUARD)
    for _ in range(400):
        watch.add_alone(Moment(10, 0, []), known)
        assert not watch.verdict()
    for _ in range(12):
        watch.add_alone(Moment(10, 10, []), known)
    said = watch.verdict()
    assert said.startswith("errors: ")
    assert said.endswith("0.5 % (10 of 2000) of those of version 2 before")


def test_equal_to_what_was_before() -> None:
    rng = Random(6)
    told = 0
    for _ in range(100):
        known = Figures(judged=500, faults=sum(rng.random() < 0.02 for _ in range(500)))
        watch = Watch("3", "2", GUARD)
        for _ in range(200):
            watch.add_alone(Moment(10, sum(rng.random() < 0.02 for _ in range(10)), []), known)
            if watch.verdict():
                told += 1
                break
    assert told <= 2


def test_nothing_is_said_of_a_version_before_which_there_was_too_little() -> None:
    watch = Watch("3", "2", GUARD)
    for _ in range(20):
        watch.add_alone(Moment(10, 10, []), Figures(judged=GUARD.min_requests - 1))
    assert not watch.verdict()
    watch.add_alone(Moment(10, 10, []), Figures(judged=100, faults=100))
    assert not watch.verdict()  # the one before failed always


# ------------------------------------------------------------------ what is watched


def watched(watches: Watches) -> dict[str, str]:
    return {version: watch.stable for version, watch in watches.by_version.items()}


def test_who_is_watched_against_whom() -> None:
    traffic = t.take_over(Traffic(), "2")
    watches = Watches(GUARD, "2")
    watches.follow(traffic, 1.0)
    assert watched(watches) == {}
    traffic = t.assign(traffic, {"2": 90, "3": 5, "4": 5})
    watches.follow(traffic, 2.0)
    assert watched(watches) == {"3": "2", "4": "2"}
    third = watches.by_version["3"]
    traffic = t.assign(traffic, {"3": 100})
    watches.follow(traffic, 3.0)
    assert watched(watches) == {"3": "2"}  # it has taken over, and is still watched
    assert watches.by_version["3"] is third
    watches.follow(traffic, 3.0 + GUARD.watch_s)
    assert watched(watches) == {}


def test_a_take_over_is_watched_until_it_is_rolled_back() -> None:
    traffic = t.take_over(Traffic(), "2")
    watches = Watches(GUARD, "2")
    traffic = t.take_over(traffic, "3")
    watches.follow(traffic, 1.0)
    assert watched(watches) == {"3": "2"}
    watches.follow(t.roll_back(traffic, "why"), 2.0)
    assert watched(watches) == {}


def test_a_split_ends_the_watch_of_what_took_over() -> None:
    traffic = t.take_over(t.take_over(Traffic(), "2"), "3")
    watches = Watches(GUARD, "2")
    watches.follow(traffic, 1.0)
    watches.follow(t.assign(traffic, {"3": 90, "4": 10}), 2.0)
    assert watched(watches) == {"4": "3"}


def test_a_promotion_steps_on_when_enough_was_seen() -> None:
    traffic = t.promote(t.take_over(Traffic(), "2"), "3", steps=(5, 100), every_s=1)
    watches = Watches(GUARD, "2")
    promotion = traffic.promotion
    assert promotion is not None
    assert not watches.may_step(promotion)
    watches.follow(traffic, 1.0)
    assert not watches.may_step(promotion)
    watches.by_version["3"].requests = GUARD.min_requests
    assert watches.may_step(promotion)
    traffic = t.next_step(traffic)
    watches.follow(traffic, 2.0)
    assert traffic.promotion is not None
    assert not watches.may_step(traffic.promotion)
    assert Watches(None, "2").may_step(promotion)

"""Versions that are rolled back by themselves, in the real scheduler."""

from collections import Counter
from typing import Any

from broker.core import traffic as t
from broker.core.config import GuardConfig
from broker.core.guard import GUARD
from broker.core.traffic import Traffic
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Compare,
    Compared,
    Failure,
    Outcome,
    Payload,
    Verdict,
    VersionState,
)
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline
from tests.unit.broker.core.test_rollout import leave, worker
from tests.unit.broker.core.test_shadow import COMPARER, SHADOW, STABLE, Make, shadowed

GUARDED = GuardConfig()
SPLIT = t.assign(t.take_over(Traffic(), "2"), {"2": 95, "3": 5})


def raises(payload: Payload) -> Outcome:
    return Failure(ErrorCode.WORKER_ERROR, "it raised")


def rejects(payload: Payload) -> Outcome:
    return Failure(ErrorCode.REJECTED, "not like this", 422)


def works(payload: Payload) -> Outcome:
    return payload


class Load:
    """A deployment with versions 2 and 3, under an open load."""

    def __init__(self, traffic: Traffic = SPLIT, guard: GuardConfig | None = GUARDED) -> None:
        self.driver = Driver(p=pipeline("a", guard=guard), traffic={"p": traffic})
        self.driver.check_each = 50
        self.driver.gateway()
        self.workers = {version: worker(self.driver, version) for version in "23"}
        self.forwards = {"2": works, "3": works}
        self.run_s = {"2": 0.004, "3": 0.004}
        self.answered: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    @property
    def traffic(self) -> Traffic:
        return self.driver.ledger.pipelines["p"].rollout.traffic

    def run(self, requests: int, **submitted: Any) -> None:
        """One each 5 ms, answered before the next."""
        for _ in range(requests):
            (seq,) = self.driver.submit(1, **submitted)
            version = next(v for v, each in self.workers.items() if self.driver.batches[each])
            self.driver.finish(
                self.workers[version],
                after_s=self.run_s[version],
                outcome=self.forwards[version],
                run_s=self.run_s[version],
            )
            self.driver.run(0.001)
            self.answered[version] += 1
            self.failed[version] += isinstance(self.driver.result(seq), Failure)

    def run_until_rolled_back(self, most: int) -> None:
        for _ in range(most):
            self.run(1)
            if self.traffic.rejected:
                return
        raise AssertionError("it is not rolled back")


def test_one_that_raises_for_every_request_is_rolled_back_within_200_of_them() -> None:
    load = Load()
    load.run(400)
    load.forwards["3"] = raises
    load.run_until_rolled_back(4000)
    assert load.failed["3"] <= 200
    assert load.failed["2"] == 0
    assert load.traffic.weights == {"2": 1.0}
    assert load.driver.shares() == {"2": 100.0}
    save = load.driver.saves[-1]
    assert save.change.by == GUARD
    assert save.change.what == "rollback: version 3 does worse than 2"
    assert save.change.why.startswith("errors: ")
    assert load.traffic.rejected == {"3": save.change.why}
    failed = load.failed["3"]
    load.run(1000)
    assert load.failed["3"] == failed


def test_one_that_takes_twice_as_long_is_rolled_back_within_200_of_its_requests() -> None:
    load = Load()
    load.run(200)
    load.run_s["3"] = 0.008
    before = load.answered["3"]
    load.run_until_rolled_back(4000)
    assert load.answered["3"] - before <= 200
    assert load.traffic.rejected["3"].startswith("latency: ")


def test_an_equal_one_stays() -> None:
    load = Load(t.assign(SPLIT, {"2": 1, "3": 1}))
    load.run(2000)
    assert load.traffic.weights == {"2": 1.0, "3": 1.0}


def test_clients_faults_are_none_of_the_version() -> None:
    load = Load()
    load.forwards["3"] = rejects
    load.run(3000)
    assert not load.traffic.rejected


def test_requests_that_ask_for_a_version_are_not_judged() -> None:
    load = Load()
    load.forwards["3"] = raises
    load.run(300, version="3")
    assert not load.traffic.rejected


def test_without_a_guard_nothing_is_done() -> None:
    load = Load(guard=None)
    load.forwards["3"] = raises
    load.run(3000)
    assert not load.traffic.rejected


def test_one_version_costs_nothing_without_a_guard() -> None:
    driver = Driver(p=pipeline("a"))
    driver.gateway()
    worker(driver, "2")
    driver.submit(3)
    driver.finish_all()
    assert driver.ledger.pipelines["p"].watches is None
    driver.run(1.0)


def test_one_that_has_taken_over_is_held_against_the_one_before() -> None:
    load = Load(t.take_over(Traffic(), "2"))
    driver = load.driver
    assert load.traffic.stable == "3"  # the newest, once it was ready
    driver.ask("rollback")
    load.run(600)
    assert load.answered == {"2": 600}
    driver.ask("traffic", weights={"3": 100})
    load.run(200)
    load.forwards["3"] = raises
    load.run_until_rolled_back(200)
    assert load.traffic.stable == "2"
    assert load.traffic.rejected["3"].endswith("of those of version 2 before")


def test_a_rollback_that_cannot_be_is_noted() -> None:
    """The version before is nowhere any longer."""
    load = Load(t.take_over(Traffic(), "2"))
    driver = load.driver
    driver.ask("rollback")
    load.run(200)
    driver.ask("traffic", weights={"3": 100})
    leave(driver, load.workers.pop("2"))
    load.forwards["3"] = raises
    load.run(200)
    assert not load.traffic.rejected.keys() & {"3"}
    notes = [note for note in driver.notes if note.what == "guard_cannot_roll_back"]
    assert notes
    assert "has no version '2'" in str(notes[0].fields["error"])
    assert driver.ledger.counters["rolled_back"] == 0


def test_a_promotion_waits_for_evidence_and_ends_where_it_does_worse() -> None:
    load = Load(t.assign(SPLIT, {"2": 1}), GuardConfig(min_requests=20))
    driver = load.driver
    driver.ask("promote", version="3", steps=[10, 50, 100], every_s=0.2)
    driver.run(2.0)
    assert driver.traffic()["promotion"]["step"] == 0
    load.run(250)
    assert driver.traffic()["promotion"]["step"] == 1
    load.forwards["3"] = raises
    load.run_until_rolled_back(200)
    assert driver.traffic()["promotion"] is None
    assert load.traffic.weights == {"2": 1.0}
    assert load.traffic.rejected.keys() == {"3"}


def test_a_promotion_ends_though_nothing_is_known_of_the_stable_one() -> None:
    """As after a restart of the broker in the last step."""
    traffic = t.promote(t.assign(SPLIT, {"2": 1}), "3", steps=(100,), every_s=0.2)
    load = Load(traffic, GuardConfig(min_requests=20))
    load.run(100)
    assert load.answered == {"3": 100}
    assert load.traffic.stable == "3"


def test_a_promotion_of_a_good_one_gets_through() -> None:
    load = Load(t.assign(SPLIT, {"2": 1}), GuardConfig(min_requests=20))
    load.driver.ask("promote", version="3", steps=[10, 100], every_s=0.2)
    load.run(400)
    assert load.traffic.stable == "3"
    assert load.traffic.promotion is None


def test_one_that_hangs_is_rolled_back() -> None:
    """Its requests end with their deadline, long before forward_timeout_s."""
    load = Load(t.assign(SPLIT, {"2": 1, "3": 1}), GuardConfig(min_requests=10))
    driver = load.driver
    load.run(200)
    for _ in range(40):
        driver.submit(2, left_s=0.5)
        for _ in range(3):
            if driver.batches[load.workers["2"]]:
                driver.finish(load.workers["2"], after_s=0.001)
        driver.run(0.6)
        if load.traffic.rejected:
            return
    raise AssertionError("it is not rolled back")


# ------------------------------------------------------------------ shadows

GUARDED_SHADOW = GuardConfig(agreement=0.95)


def answer_pairs(driver: Driver, count: int, *, unlike: bool) -> None:
    """Requests that both versions answer; of the shadow's answers half differ, or none."""
    judged = sum(len(each.pairs) for each in driver.told(COMPARER, Compare))
    for _ in range(count):
        driver.submit()
        driver.finish(STABLE)
        driver.finish(SHADOW)
    pairs = [pair for each in driver.told(COMPARER, Compare) for pair in each.pairs][judged:]
    verdicts = [Verdict(pair.number, not unlike or pair.number % 2 == 0) for pair in pairs]
    driver.receive(COMPARER, Compared(EPOCH, verdicts))
    driver.run(0.2, beats=False)


def test_a_shadow_that_disagrees_is_ended_and_not_promoted(broker: Make) -> None:
    driver = shadowed(broker, guard=GUARDED_SHADOW)
    driver.run(0.2, beats=False)
    answer_pairs(driver, 40, unlike=True)
    assert driver.traffic()["shadow"] == "3", "too few to tell"
    driver.ask("compare", a="2", b="3")
    assert driver.document()["verdict"].startswith("too few pairs of answers to tell: 40")
    answer_pairs(driver, 60, unlike=True)
    about = driver.traffic()
    assert about["shadow"] == ""
    assert about["rejected"]["3"].startswith("agreement: 50 % (50 of 100) of its answers")
    assert about["weights"] == {"2": 100.0}
    change = driver.saves[-1].change
    assert (change.by, change.why) == (GUARD, about["rejected"]["3"])
    assert change.what == "shadow off: version 3 does not answer as 2 does"
    assert [note.fields["why"] for note in driver.notes if note.what == "traffic_changed"]
    assert driver.ledger.counters["shadows_ended"] == 1
    assert not driver.ledger.mirrors
    driver.ask("compare", a="2", b="3")
    assert driver.document()["verdict"].startswith("version 3 is no longer the shadow: agreement")
    driver.ask("promote", version="3", steps=[5, 100], every_s=1)
    assert driver.refused().startswith("version 3 is not promoted: as the shadow it was rejected")
    driver.ask("traffic", shadow="3")
    driver.run(0.2, beats=False)
    answer_pairs(driver, 100, unlike=False)
    assert driver.traffic()["shadow"] == "3", "what it did before counts no longer"
    driver.ask("compare", a="2", b="3")
    assert driver.document()["verdict"].startswith("nothing shows that fewer than 95 % of the")


def test_a_shadow_may_answer_as_it_likes_where_nobody_said_otherwise(broker: Make) -> None:
    driver = shadowed(broker, guard=GUARDED)
    answer_pairs(driver, 200, unlike=True)
    assert driver.traffic()["shadow"] == "3"


def test_a_change_that_waits_goes_on_waiting_when_a_shadow_is_ended(broker: Make) -> None:
    driver = shadowed(broker, guard=GUARDED_SHADOW)
    driver.supervisor(b"sm", has_models=True)
    driver.models(b"sm", v4=VersionState.LOADING)
    driver.ask("traffic", weights={"2": 9, "4": 1})
    assert driver.traffic()["pending"]["waits_for"] == ["4"]
    answer_pairs(driver, 100, unlike=True)
    about = driver.traffic()
    assert (about["shadow"], about["pending"]["waits_for"]) == ("", ["4"])
    driver.models(b"sm", v4=VersionState.READY)
    worker(driver, "4")
    driver.tick()
    assert driver.document()["weights"] == {"2": 90.0, "4": 10.0}
    assert "3" in driver.traffic()["rejected"]

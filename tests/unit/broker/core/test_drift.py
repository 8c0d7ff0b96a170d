"""Numbers that plug-ins observe: sums that are exact, drift that is noticed, bounds that hold."""

from math import fsum, inf, nan
from random import Random
from statistics import fmean, pstdev
from typing import Any

import msgspec
import pytest

from broker.core.drift import ENOUGH, FIRST, RECENT, Drift
from broker.core.observations import MOST_NAMES, MOST_OBSERVED, figures, of_two
from broker.core.rollout import FORGET_S
from broker.core.stage import Pipeline
from broker.wire.messages import Observations, Observed, Reference
from broker.wire.reference import PARTS, reference_of, trouble_of
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline
from tests.unit.broker.core.test_rollout import leave, worker


def told(values: list[float], name: str = "x", ignored: int = 0) -> Observed:
    mean = fmean(values)
    squares = fsum((value - mean) ** 2 for value in values)
    return Observed(name, len(values), mean, squares, min(values), max(values), ignored, values)


def fed(drift: Drift, values: list[float]) -> Drift:
    for at in range(0, len(values), 100):
        drift.add(told(values[at : at + 100]))
    return drift


def normal(count: int, mean: float = 0.0, seed: int = 1) -> list[float]:
    rng = Random(seed)
    return [rng.gauss(mean, 1.0) for _ in range(count)]


# ------------------------------------------------------------------ sums


def test_the_sums_of_many_messages_are_those_of_all() -> None:
    values = [1e6 + value for value in normal(3000)]
    drift = fed(Drift(), values)
    assert drift.count == 3000
    assert drift.mean == pytest.approx(fmean(values), rel=1e-12)
    assert drift.deviation == pytest.approx(pstdev(values), rel=1e-6)
    assert (drift.least, drift.most) == (min(values), max(values))


@pytest.mark.parametrize(
    "observed",
    [
        Observed("x", 0, 1.0, 0.0, 1.0, 1.0),
        Observed("x", -3, 1.0, 0.0, 1.0, 1.0),
        Observed("x", 2**62, 1.0, 0.0, 1.0, 1.0),
        Observed("x", 1, nan, 0.0, 1.0, 1.0),
        Observed("x", 1, 1.0, nan, 1.0, 1.0),
        Observed("x", 1, 1.0, -1.0, 1.0, 1.0),
        Observed("x", 1, 1e200, 0.0, 1.0, 1.0),
        Observed("x", 1, 1.0, 0.0, -inf, 1.0),
        Observed("x", 1, 1.0, 0.0, 1.0, 1.0, -5),
    ],
)
def test_what_cannot_be_does_no_harm(observed: Observed) -> None:
    drift = fed(Drift(), [1.0, 2.0])
    drift.add(observed)
    assert drift.ignored == 0
    assert drift.count in (2, 3)
    assert 0.9 < drift.mean < 2.0
    drift.add(Observed("x", 1, 1.0, 0.0, 1.0, 1.0, 4, [nan, inf, 1e300]))
    assert drift.ignored == 4


# ------------------------------------------------------------------ references


def test_a_reference_has_equal_parts() -> None:
    made = reference_of("x", normal(5000))
    assert (made.count, len(made.shares)) == (5000, PARTS)
    assert made.shares == pytest.approx([1 / PARTS] * PARTS, abs=0.001)
    assert trouble_of(made) == ""


@pytest.mark.parametrize("values", [[0.0] * 50, [0.0, 1.0] * 50, [3.0], [nan, 1.0, inf]])
def test_a_reference_of_few_different_numbers(values: list[float]) -> None:
    assert trouble_of(reference_of("x", values)) == ""
    made = reference_of("x", values * ENOUGH)
    drift = Drift()
    drift.refer_to(made)
    fed(drift, [value for value in values if abs(value) < 9] * 400)
    assert drift.verdict() == "steady"
    other = Drift()
    other.refer_to(made)
    fed(other, [-5.0] * 300)
    assert other.verdict() == "large"


def test_no_numbers_make_no_reference() -> None:
    with pytest.raises(ValueError, match="x: there are no numbers"):
        reference_of("x", [nan])


@pytest.mark.parametrize(
    "change",
    [
        {"count": 0},
        {"deviation": -1.0},
        {"mean": nan},
        {"limits": []},
        {"limits": [2.0, 1.0]},
        {"shares": [0.5, 0.5]},
        {"shares": [0.5, 0.6, 0.5]},
        {"shares": [1.5, -0.5, 0.0]},
    ],
)
def test_a_reference_that_is_none(change: dict[str, Any]) -> None:
    good = Reference("x", 10, 0.0, 1.0, [-1.0, 1.0], [0.2, 0.6, 0.2])
    assert trouble_of(good) == ""
    assert trouble_of(msgspec.structs.replace(good, **change))


# ------------------------------------------------------------------ drift


def test_what_stays_the_same_is_steady() -> None:
    indices = []
    for seed in range(50):
        drift = fed(Drift(), normal(FIRST + 500, seed=seed))
        index = drift.index()
        assert index is not None
        indices.append(index)
    # (10 - 1) * (1/1000 + 1/500) = 0.027 is expected.
    assert fmean(indices) == pytest.approx(0.027, rel=0.25)
    assert max(indices) < 0.1


def test_what_changes_is_noticed() -> None:
    drift = fed(Drift(), normal(FIRST + 2000))
    assert drift.verdict() == "steady"
    fed(drift, normal(2 * RECENT, mean=1.0, seed=2))
    assert drift.verdict() == "large"
    assert drift.shift() == pytest.approx(1.0, abs=0.3)
    quantiles = drift.quantiles((0.5,))
    assert quantiles is not None
    assert quantiles[0] == pytest.approx(1.0, abs=0.2)


def test_nothing_is_said_of_few() -> None:
    few = Drift()
    few.refer_to(reference_of("x", normal(ENOUGH - 1)))
    assert fed(few, normal(1000)).verdict() == "too few"
    drift = fed(Drift(), normal(FIRST))
    assert (drift.index(), drift.shift(), drift.verdict()) == (None, None, "too few")
    fed(drift, normal(ENOUGH))
    assert drift.index() is not None


def test_the_reference_of_the_model_takes_the_place_of_the_first_numbers() -> None:
    drift = fed(Drift(), normal(FIRST + 500, mean=3.0))
    made = reference_of("x", normal(1000))
    drift.refer_to(made)
    assert drift.recent == 0
    fed(drift, normal(300, mean=3.0))
    drift.refer_to(made)  # said again
    assert drift.recent == 300
    assert drift.verdict() == "large"


# ------------------------------------------------------------------ in the broker


@pytest.fixture
def driver() -> Driver:
    driver = Driver(p=pipeline("a"))
    driver.gateway()
    for version in ("2", "3"):
        worker(driver, version)
    return driver


def observed(driver: Driver) -> Pipeline:
    return driver.ledger.pipelines["p"]


def test_by_version_and_name(driver: Driver) -> None:
    driver.receive(b"a2.1", Observations(EPOCH, [told([1.0, 2.0]), told([5.0], "y", ignored=2)]))
    driver.receive(b"a3.1", Observations(EPOCH, [told([9.0])]))
    told_of = [(each.version, each.name, each.count) for each in figures(observed(driver))]
    assert told_of == [("2", "x", 2), ("2", "y", 1), ("3", "x", 1)]
    both = of_two(observed(driver), "2", "3")
    assert both is not None
    assert both["a"]["x"]["a"].mean == 1.5
    assert both["a"]["x"]["b"].mean == 9.0
    assert both["a"]["y"]["b"] is None
    assert both["a"]["y"]["a"].ignored == 2
    driver.ask("compare", a="2", b="3")
    document = msgspec.json.decode(driver.reports[b"cli"].pop().body)
    assert document["drift"]["a"]["x"]["a"]["drift"] == "too few"
    assert driver.scheduler.snapshot(driver.now).pipelines["p"].observed == figures(
        observed(driver)
    )


def test_names_are_bounded(driver: Driver) -> None:
    names = ["", "a\nb", "n" * 65, *(f"n{number}" for number in range(100))]
    driver.receive(b"a2.1", Observations(EPOCH, [told([1.0], name) for name in names]))
    assert [each.name for each in figures(observed(driver))] == sorted(
        f"n{number}" for number in range(MOST_NAMES)
    )
    assert MOST_NAMES < MOST_OBSERVED


def test_a_reference_without_numbers_and_one_that_is_none(driver: Driver) -> None:
    good = Reference("y", 10, 0.0, 1.0, [0.0], [0.5, 0.5])
    bad = Reference("x", 0, 0.0, 1.0, [0.0], [0.5, 0.5])
    driver.receive(b"a2.1", Observations(EPOCH, [told([1.0])], [good, bad]))
    (only,) = figures(observed(driver))
    assert (only.name, only.reference) == ("x", "")


def test_what_a_version_has_observed_goes_with_it(driver: Driver) -> None:
    driver.receive(b"a2.1", Observations(EPOCH, [told([1.0])]))
    driver.receive(b"a3.1", Observations(EPOCH, [told([1.0])]))
    driver.ask("traffic", weights={"3": 1})
    leave(driver, b"a2.1")
    driver.run(FORGET_S + 10)
    assert [each.version for each in figures(observed(driver))] == ["3"]
    leave(driver, b"a3.1")
    driver.run(10.0)
    assert figures(observed(driver)) == []

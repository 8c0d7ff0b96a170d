"""Comparing what was measured side by side, and how sure that is."""

from random import Random

import pytest

from benchmarks import pairs, rounds
from benchmarks.estimate import Estimate, estimate
from benchmarks.load import Measurement
from benchmarks.pairs import Pairs, Sample
from benchmarks.rounds import Settings


def sample(rate: float, processor_s: float = 0.5, fault: str = "") -> Sample:
    return Sample(Measurement(int(rate), rate, 1.0, 2.0, fault), processor_s)


def test_a_share_is_of_the_other_in_the_pair() -> None:
    row = Pairs("w", 1, "base", {"other": [(sample(100), sample(99)), (sample(60), sample(30))]})
    share = row.share("other", pairs.rate)
    assert share is not None
    assert share.value == pytest.approx((0.99 + 0.5) / 2)
    assert row.median("base", pairs.rate) == 80
    assert row.median("other", pairs.request_us) == pytest.approx((0.5 / 99 + 0.5 / 30) / 2e-6)


def test_a_fault_leaves_no_share() -> None:
    bad = sample(0, fault="refused")
    row = Pairs("w", 1, "base", {"other": [(sample(1), bad)]})
    assert row.share("other", pairs.rate) is None
    assert row.fault("base") == ""
    assert bad.request_us == 0


def test_an_outlier_does_not_matter_and_more_samples_are_surer() -> None:
    few = estimate([0.99, 0.97, 1.01, 0.98, 1.0, 0.2])
    many = estimate([0.99, 0.97, 1.01, 0.98, 1.0] * 8 + [0.2])
    assert few.value == pytest.approx(0.985, abs=0.01)
    assert many.value == pytest.approx(0.99, abs=0.002)
    assert few.low < many.low <= 0.99 <= many.high <= few.high
    assert estimate([0.5]) == (0.5, 0.5, 0.5)
    assert Estimate(0.5, 0.4, 0.8).inverse() == (2.0, 1.25, 2.5)


def test_what_was_measured_apart_is_joined() -> None:
    parts = [Pairs("w", 4, "u", {"t": [(sample(1), sample(rate))]}, [2.0]) for rate in (0.9, 0.8)]
    row = pairs.joined(parts)
    share = row.share("t", pairs.rate)
    assert share is not None
    assert share.value == pytest.approx(0.85)
    assert row.busy_percent == [2.0, 2.0]


class Fixed:
    """Answers at a rate of its own, and notes when."""

    def __init__(self, name: str, rate: float, order: list[str]) -> None:
        self.name, self.rate, self.order = name, rate, order
        self.used_s = 0.0

    def load(self, *, clients: int, seconds: int) -> Measurement:
        self.order.append(self.name)
        self.used_s += 1.0
        return Measurement(int(self.rate), self.rate, 1.0, 2.0)

    def processor_s(self) -> float:
        return self.used_s


def test_both_sides_come_equally_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "quiet", lambda: 0.0)
    order: list[str] = []
    rates = {"u": 100, "t": 98, "a": 50}
    targets = {name: Fixed(name, rate, order) for name, rate in rates.items()}
    settings = Settings(rounds=3, seconds=1, clients=(4,))
    row = pairs.measure("w", targets, "u", {"t": 2, "a": 1}, settings, random=Random(1))
    assert (len(row.found["t"]), len(row.found["a"])) == (6, 3)
    taken = [frozenset(order[at : at + 2]) for at in range(0, len(order), 2)]  # warming included
    assert sorted(taken, key=sorted) == [{"a", "u"}] * 4 + [{"t", "u"}] * 7
    assert len({tuple(order[at : at + 2]) for at in range(0, len(order), 2)}) > 2
    assert row.share("t", pairs.rate) == (0.98, 0.98, 0.98)
    assert row.share("a", pairs.request_us) == (2.0, 2.0, 2.0)

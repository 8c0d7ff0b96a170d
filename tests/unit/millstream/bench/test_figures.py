"""Figures: histograms, what is counted of a run, what is made of it, and which rates are tried."""

import random
import statistics
from itertools import islice, pairwise
from xml.etree import ElementTree as ET

import pytest

from millstream.bench.answers import Answer
from millstream.bench.arrivals import Arrivals, moments, until
from millstream.bench.histogram import Histogram
from millstream.bench.load import NO_SLO_S
from millstream.bench.open_loop import ABANDONED, BROKEN
from millstream.bench.picture import nines, page, picture
from millstream.bench.result import Result, is_met, relative, result_of
from millstream.bench.search import Search
from millstream.bench.tally import MOST_CODES, OTHER_CODES, SLICES, Counter, Tally
from millstream.bench.words import bar, compared, one_run, several_runs
from millstream.cli.tables import plain

# ------------------------------------------------------------------ histograms


def test_percentiles_are_exact_to_three_digits() -> None:
    chance = random.Random(5)
    times = sorted(chance.lognormvariate(-4, 2) for _ in range(10_000))
    histogram = Histogram()
    for each in times:
        histogram.add(each)
    assert len(histogram) == 10_000
    for percent, place in ((50.0, 4999), (99.0, 9899), (99.9, 9989), (100.0, 9999)):
        found = histogram.percentile_ms(percent)
        assert found == pytest.approx(times[place] * 1e3, rel=1e-3, abs=0.001)
    assert histogram.mean_ms() == pytest.approx(statistics.fmean(times) * 1e3, rel=1e-3)
    assert len(histogram.counts) < 10_000


def test_histograms_add_up_and_empty_ones_say_nothing() -> None:
    whole, one, other = Histogram(), Histogram(), Histogram()
    for number in range(1, 1001):
        (one if number % 3 else other).add(number / 1e4)
        whole.add(number / 1e4)
    one.merge(other)
    assert one == whole
    assert Histogram().percentiles_ms([50.0, 100.0]) == [None, None]
    assert Histogram().mean_ms() is None
    assert len(Histogram()) == 0


# ------------------------------------------------------------------ arrivals


@pytest.mark.parametrize("parts", [1, 3])
def test_poisson_arrivals_in_parts_are_poisson_arrivals(parts: int) -> None:
    each = [
        until(20.0, moments(Arrivals.POISSON, rate_per_s=500.0, seed=7, part=part, parts=parts))
        for part in range(parts)
    ]
    planned = sorted(moment for part in each for moment in part)
    gaps = [after - before for before, after in pairwise(planned)]
    # The mean and the deviation of an exponential distribution are the same.
    assert statistics.fmean(gaps) == pytest.approx(0.002, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(0.002, rel=0.05)


def test_constant_arrivals_take_turns() -> None:
    each = [
        list(islice(moments(Arrivals.CONSTANT, rate_per_s=10.0, seed=1, part=part, parts=2), 3))
        for part in range(2)
    ]
    assert each == [[0.0, 0.2, 0.4], [0.1, pytest.approx(0.3), 0.5]]


# ------------------------------------------------------------------ counts


def counted(slo_s: float = 0.1) -> Tally:
    """One of each end between two that do not count: from 1 to 2 s."""
    counter = Counter(begin_s=1.0, end_s=2.0, slo_s=slo_s)
    ends = [
        (0.9, 200, 0.01),
        (1.0, 200, 0.05),
        (1.1, 201, 0.2),
        (1.2, 503, 0.01),
        (1.3, ABANDONED, 3.0),
        (1.4, BROKEN, 0.1),
        (2.0, 200, 0.01),
    ]
    for number, (planned_s, status, took_s) in enumerate(ends):
        counter.begin(number, planned_s, planned_s + 0.001)
        answer = Answer(status, closes=False, body=b'{"error": {"code": "overloaded"}}')
        counter.end(number, planned_s, status, planned_s + took_s, answer if status > 0 else None)
    assert (counter.begun, counter.ended) == (7, 7)
    return counter.tally


def test_each_end_is_counted_once_and_only_within_the_time() -> None:
    tally = counted()
    assert tally.sent == tally.ok + tally.errors + tally.timeouts + tally.broken == 5
    assert (tally.ok, tally.in_time, tally.errors, tally.timeouts, tally.broken) == (2, 1, 1, 1, 1)
    assert tally.statuses == {200: 1, 201: 1, 503: 1}
    assert tally.codes == {"overloaded": 1}
    assert sum(each.sent for each in tally.slices.values()) == 5
    assert all(0 <= place < SLICES for place in tally.slices)


def test_tallies_add_up() -> None:
    tally = counted()
    tally.merge(counted())
    assert (tally.sent, tally.in_time, tally.codes) == (10, 2, {"overloaded": 2})
    assert len(tally.latency) == 4
    assert sum(each.sent for each in tally.slices.values()) == 10


def test_codes_without_number_are_told_together() -> None:
    counter = Counter(begin_s=0.0, end_s=1.0, slo_s=1.0)
    for number in range(MOST_CODES + 10):
        body = b'{"code":"c%d"}' % number
        counter.begin(number, 0.5, 0.5)
        counter.end(number, 0.5, 500, 0.6, Answer(500, closes=False, body=body))
    assert len(counter.tally.codes) == MOST_CODES + 1
    assert counter.tally.codes[OTHER_CODES] == 10


# ------------------------------------------------------------------ results


def made(tally: Tally, *, rate: float = 100.0, slo_s: float = 0.1, seconds: float = 1.0) -> Result:
    return result_of(
        tally,
        url="http://a/b",
        rate_per_s=rate,
        clients=0 if rate else 4,
        seconds=seconds,
        slo_s=slo_s,
        slices=SLICES,
    )


def run(times_s: list[float], *, lag_s: float = 0.0, slo_s: float = 0.1) -> Tally:
    counter = Counter(begin_s=0.0, end_s=1.0, slo_s=slo_s)
    for number, took_s in enumerate(times_s):
        planned_s = number / len(times_s)
        counter.begin(number, planned_s, planned_s + lag_s)
        counter.end(number, planned_s, 200, planned_s + took_s, None)
    return counter.tally


def test_what_is_told_of_a_run() -> None:
    result = made(counted())
    figures = result.figures
    assert (figures.sent_per_s, figures.ok_per_s, figures.goodput_per_s) == (5.0, 2.0, 1.0)
    assert figures.percentiles_ms["p50"] == 50.0
    assert figures.percentiles_ms["max"] == 200.0
    assert result.good_share == 0.2
    assert not is_met(result, 99.0)
    assert is_met(result, 20.0)
    text = plain(one_run(result))
    for words in (
        "within 100 ms: 1 (20.00%",
        "1 answered 503",
        "code overloaded",
        "given up",
        "due",
    ):
        assert words in text
    assert "note" not in text


def test_that_the_generator_was_late_is_told() -> None:
    assert made(run([0.02] * 100, lag_s=0.009)).figures.notes == []
    (note,) = made(run([0.02] * 100, lag_s=0.011)).figures.notes
    assert note.startswith("the generator was itself late: 1 % of the requests left 11.0 ms after")
    (note,) = made(run([0.02] * 100, lag_s=0.004), slo_s=NO_SLO_S).figures.notes
    assert "late" in note
    assert made(run([0.002] * 100, lag_s=0.0009), slo_s=NO_SLO_S).figures.notes == []


def test_that_the_generator_was_busy_or_read_nonsense_is_told() -> None:
    tally = run([0.02] * 100)
    tally.processor_percent = [30.0, 97.0]
    tally.unreadable = "no HTTP/1 answer"
    tally.waited = 50
    first, second, third = made(tally).figures.notes
    assert "could not be read" in first
    assert "97 % of a core" in second
    assert third.startswith("50 requests waited")
    assert made(Tally()).figures.notes == ["nothing was sent in the time that counts"]


def test_a_closed_loop_says_what_its_times_are() -> None:
    assert "who wait for each other" in plain(one_run(made(run([0.01] * 50), rate=0.0)))


def test_a_sweep_has_a_line_for_each_rate() -> None:
    slow, fast = made(run([0.2] * 100), rate=200.0), made(run([0.01] * 100), rate=100.0)
    text = plain(several_runs([fast, slow], 99.0))
    assert "SLO: 99 % of what is sent within 100 ms" in text
    rows = [line.split() for line in text.splitlines()[-2:]]
    assert [(row[0], row[6]) for row in rows] == [("100", "yes"), ("200", "no")]


def test_two_runs_beside_each_other() -> None:
    before, after = made(run([0.02] * 100)), made(run([0.01] * 100))
    table = compared(before, after)
    rows = {row[0]: row for row in table.rows}
    assert rows["p50, ms"] == ("p50, ms", "20", "10", "-50.0%")
    assert "differ" not in "".join(table.lines)
    assert "differ" in "".join(compared(before, made(run([0.01] * 9), rate=9.0)).lines)
    assert relative(None, 1.0) is relative(0.0, 1.0) is None


def test_bars() -> None:
    assert [bar(share, 2) for share in (0.0, 0.25, 0.5, 1.0, 7.0)] == ["", "▌", "█", "██", "██"]


# ------------------------------------------------------------------ search


@pytest.mark.parametrize("limit", [0.5, 3.0, 44.0, 1000.0])
@pytest.mark.parametrize("start", [1.0, 10.0, 5000.0])
def test_the_search_ends_just_below_the_limit(limit: float, start: float) -> None:
    search = Search(start)
    tried = 0
    while (rate := search.next) is not None:
        search.told(met=rate <= limit)
        tried += 1
        assert tried < 60
    if limit < 1.0:
        assert search.found == 0.0
    else:
        assert 0.9 * limit <= search.found <= limit


def test_what_is_met_by_chance_once_is_not_believed() -> None:
    search = Search(100.0)
    answers = iter([True, False, False, True, False, False, False, True])
    last = 0.0
    while (rate := search.next) is not None:
        last = rate
        search.told(met=next(answers, True))
    assert search.found == last


# ------------------------------------------------------------------ pictures


def test_pictures_have_a_line_for_each_run_within_their_frame() -> None:
    one, other = made(run([0.01, 0.02, 0.5] * 500)), made(run([0.03] * 500), rate=200.0)
    for drawn, lines in (
        (picture([one]), 1),
        (picture([one], [other]), 2),
        (picture([one, other]), 2),
        (picture([one, other], [one]), 4),
        (picture([made(Tally())]), 0),
    ):
        root = ET.fromstring(drawn)
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        coloured = [
            each
            for each in root.iter("{http://www.w3.org/2000/svg}polyline")
            if each.attrib["stroke-width"] == "2"
        ]
        assert len(coloured) == lines
        for each in coloured:
            for point in each.attrib["points"].split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= width
                assert 0 <= y <= height


def test_a_page_hides_nothing_that_looks_like_html() -> None:
    assert "<script>" not in page(picture([made(counted())]), "<script>", "<script>")


def test_the_axis_of_percentiles_gives_each_nine_the_same_room() -> None:
    assert [round(nines(each), 6) for each in (0, 90, 99, 99.9)] == [0.0, 1.0, 2.0, 3.0]

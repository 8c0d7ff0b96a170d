"""What one run found: figures that are read off its tally, and what is to be said of them. Pure."""

from math import isfinite

from msgspec import Struct, field

from millstream.bench.load import NO_SLO_S
from millstream.bench.tally import Tally

PERCENTS = (50.0, 90.0, 95.0, 99.0, 99.9, 100.0)
CURVE = (0.0, 10.0, 25.0, *PERCENTS[:4], 99.5, 99.9, 99.95, 99.99, 99.999, 100.0)
"""Percentiles that a curve is drawn through, as far as there are enough requests for them."""

LATE_SHARE = 0.1
LATE_S = 0.001
"""A generator that is itself late by more than this share of what it measures, or of the SLO, and
by more than this at all, has measured itself."""

BUSY_PERCENT = 90.0


class Figures(Struct, frozen=True):
    """One run, in numbers: times in milliseconds, rates a second. None where nothing was measured.

    `goodput_per_s`: answers of 2xx within the SLO, or all of them where there is none.
    """

    what: str
    seconds: float
    sent: int
    ok: int
    in_time: int
    errors: int
    timeouts: int
    broken: int
    sent_per_s: float
    ok_per_s: float
    goodput_per_s: float
    statuses: dict[int, int]
    codes: dict[str, int]
    percentiles_ms: dict[str, float | None]
    mean_ms: float | None
    error_p50_ms: float | None
    lag_p99_ms: float | None
    lag_max_ms: float | None
    processor_percent: list[float]
    waited: int
    connections: int
    slo_ms: float | None = None
    notes: list[str] = []


class Result(Struct, frozen=True, kw_only=True):
    """One run with all that may be drawn of it, as it is saved."""

    url: str
    rate_per_s: float
    clients: int
    figures: Figures
    curve_ms: list[tuple[float, float]] = field(default_factory=list)
    """Percent and time."""
    over_time: list[tuple[float, float, float, float | None]] = field(default_factory=list)
    """Seconds, sent and good a second from then on, and the 99th percentile in ms."""

    @property
    def good_share(self) -> float:
        """Of all that were sent, those answered 2xx within the SLO."""
        return self.figures.in_time / self.figures.sent if self.figures.sent else 0.0


def result_of(
    tally: Tally,
    *,
    url: str,
    rate_per_s: float,
    clients: int,
    seconds: float,
    slo_s: float,
    slices: int,
    is_cut: bool = False,
) -> Result:
    """Read the figures off. `slices`: how many a run is cut into. `is_cut`: it may have ended
    sooner, by a number of requests.
    """
    is_open = rate_per_s > 0.0
    lasted_s = max(min(seconds, tally.took_s), 1e-9) if is_cut else seconds
    percentiles = dict(zip(PERCENTS, tally.latency.percentiles_ms(PERCENTS), strict=True))
    lag = tally.lag.percentiles_ms((99.0, 100.0))
    slo_ms = slo_s * 1e3 if slo_s < NO_SLO_S else None
    figures = Figures(
        what=f"{rate_per_s:g} requests a second" if is_open else f"{clients} clients",
        seconds=round(lasted_s, 3),
        sent=tally.sent,
        ok=tally.ok,
        in_time=tally.in_time,
        errors=tally.errors,
        timeouts=tally.timeouts,
        broken=tally.broken,
        sent_per_s=tally.sent / lasted_s,
        ok_per_s=tally.ok / lasted_s,
        goodput_per_s=tally.in_time / lasted_s,
        statuses=dict(sorted(tally.statuses.items())),
        codes=tally.codes,
        percentiles_ms={name_of(percent): percentiles[percent] for percent in PERCENTS},
        mean_ms=tally.latency.mean_ms(),
        error_p50_ms=tally.error_latency.percentile_ms(50.0),
        lag_p99_ms=lag[0] if is_open else None,
        lag_max_ms=lag[1] if is_open else None,
        processor_percent=tally.processor_percent,
        waited=tally.waited,
        connections=tally.connections,
        slo_ms=slo_ms,
        notes=_notes(tally, is_open=is_open, slo_ms=slo_ms, p50_ms=percentiles[50.0]),
    )
    return Result(
        url=url,
        rate_per_s=rate_per_s,
        clients=clients,
        figures=figures,
        curve_ms=_curve(tally),
        over_time=_over_time(tally, seconds / slices),
    )


def name_of(percent: float) -> str:
    """Of a percentile, as it is shown."""
    return "max" if percent == 100.0 else f"p{percent:g}"


def _curve(tally: Tally) -> list[tuple[float, float]]:
    """As far as there are requests beyond a percentile: 1,000 tell nothing of the 99.99th."""
    total = len(tally.latency)
    percents = [each for each in CURVE if each == 100.0 or total * (100.0 - each) / 100.0 >= 1.0]
    times = tally.latency.percentiles_ms(percents)
    return [(percent, ms) for percent, ms in zip(percents, times, strict=True) if ms is not None]


def _over_time(tally: Tally, slice_s: float) -> list[tuple[float, float, float, float | None]]:
    return [
        (
            round(place * slice_s, 3),
            each.sent / slice_s,
            each.in_time / slice_s,
            each.latency.percentile_ms(99.0),
        )
        for place, each in sorted(tally.slices.items())
    ]


def _notes(tally: Tally, *, is_open: bool, slo_ms: float | None, p50_ms: float | None) -> list[str]:
    """What must be known of the figures, the worst first."""
    if not tally.sent:
        return ["nothing was sent in the time that counts"]
    notes = []
    if tally.unreadable:
        notes.append(f"answers could not be read: {tally.unreadable}")
    busiest = max(tally.processor_percent, default=0.0)
    lag_ms = tally.lag.percentile_ms(99.0) or 0.0
    measured_ms = slo_ms if slo_ms is not None else p50_ms
    if is_open and measured_ms is not None and lag_ms > max(LATE_SHARE * measured_ms, LATE_S * 1e3):
        notes.append(
            f"the generator was itself late: 1 % of the requests left {lag_ms:.1f} ms after they "
            "were due, or later, which is in these times; give it more of the processor, "
            "--processes, or a lower rate"
        )
    if busiest >= BUSY_PERCENT:
        notes.append(
            f"the generator took {busiest:.0f} % of a core, and may be what is measured here: "
            "give --processes"
        )
    if tally.waited > tally.sent * 0.01:
        notes.append(
            f"{tally.waited} requests waited for the server to take a connection, or for one of "
            "--connections; that is in these times"
        )
    return notes


def is_met(result: Result, share_percent: float) -> bool:
    """Whether enough of what was sent was answered in time."""
    return result.good_share >= share_percent / 100.0 - 1e-9


def changes(before: Result, after: Result) -> list[tuple[str, float | None, float | None]]:
    """What can be compared of two runs: a name, and both figures."""
    rows: list[tuple[str, float | None, float | None]] = [
        ("sent a second", before.figures.sent_per_s, after.figures.sent_per_s),
        ("goodput a second", before.figures.goodput_per_s, after.figures.goodput_per_s),
        ("answered in time, %", before.good_share * 100.0, after.good_share * 100.0),
    ]
    for name, ms in after.figures.percentiles_ms.items():
        rows.append((f"{name}, ms", before.figures.percentiles_ms.get(name), ms))
    return rows


def relative(before: float | None, after: float | None) -> float | None:
    """The change as a share of what was before; None where there is none."""
    if before is None or after is None or not before or not isfinite(before):
        return None
    return after / before - 1.0

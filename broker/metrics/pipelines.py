"""What became of the requests of each pipeline, and what is held for them."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.core.measurements import Measurements
from broker.core.tally import Tally
from broker.wire.errors import ERRORS

UNKNOWN = "unknown"
"""The pipeline label of requests that named none that exists."""

OK = "ok"
"""The code of results."""


def families(measured: Measurements) -> Iterator[Metric]:
    """See the module."""
    yield from _counts(measured)
    yield from _held(measured)


def _counts(measured: Measurements) -> Iterator[Metric]:
    admitted = CounterMetricFamily(
        "millstream_admitted", "Requests taken in: each is owed one answer.", labels=["pipeline"]
    )
    refused = CounterMetricFamily(
        "millstream_refused",
        "Requests that were not taken in, by error code.",
        labels=["pipeline", "code"],
    )
    answers = CounterMetricFamily(
        "millstream_answers",
        "Answers to what was taken in; ok are results.",
        labels=["pipeline", "version", "code"],
    )
    cancelled = CounterMetricFamily(
        "millstream_cancelled", "Given up, since nobody waited any longer.", labels=["pipeline"]
    )
    begun_anew = CounterMetricFamily(
        "millstream_begun_anew",
        "Given up since a payload was lost, for the gateway to submit again.",
        labels=["pipeline"],
    )
    for code, count in measured.refused.items():
        refused.add_metric([UNKNOWN, name_of(code)], count)
    for name, pipeline in measured.pipelines.items():
        admitted.add_metric([name], pipeline.admitted)
        cancelled.add_metric([name], pipeline.cancelled)
        begun_anew.add_metric([name], pipeline.begun_anew)
        for code, count in pipeline.refused.items():
            refused.add_metric([name, name_of(code)], count)
        for version, tally in measured.snapshot.pipelines[name].tallies.items():
            for outcome, count in _by_code(tally):
                answers.add_metric([name, version, outcome], count)
    yield from (admitted, refused, answers, cancelled, begun_anew)


def _by_code(tally: Tally) -> Iterator[tuple[str, int]]:
    """What a version answered; codes that no table has are one."""
    yield OK, tally.answered
    named: dict[str, int] = {}
    for code, count in tally.errors.items():
        name = name_of(code)
        named[name] = named.get(name, 0) + count
    yield from named.items()


def name_of(code: int) -> str:
    """An error code as it is known outside."""
    row = ERRORS.get(code)
    return row.name if row is not None else "other"


def _held(measured: Measurements) -> Iterator[Metric]:
    labels = ["pipeline"]
    items = GaugeMetricFamily("millstream_items", "Admitted and unanswered.", labels=labels)
    most = GaugeMetricFamily("millstream_items_limit", "max_items.", labels=labels)
    held = GaugeMetricFamily(
        "millstream_held_bytes", "Bytes held, wherever they are.", labels=labels
    )
    most_bytes = GaugeMetricFamily("millstream_held_bytes_limit", "max_bytes.", labels=labels)
    for name, pipeline in measured.snapshot.pipelines.items():
        items.add_metric([name], pipeline.items)
        most.add_metric([name], pipeline.max_items)
        held.add_metric([name], pipeline.bytes)
        most_bytes.add_metric([name], pipeline.max_bytes)
    yield from (items, most, held, most_bytes)

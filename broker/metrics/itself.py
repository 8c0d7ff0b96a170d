"""The broker itself: its peers, its loop, the shared memory, and what happened."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.core.measurements import Measurements
from broker.wire.exposition import add_counts, histogram


def families(measured: Measurements) -> Iterator[Metric]:
    """See the module."""
    snapshot = measured.snapshot
    for name, text, value in (
        ("draining", "1 once it takes no new requests.", float(snapshot.draining)),
        ("gateways", "Gateways that are connected.", len(snapshot.gateways)),
        ("supervisors", "Supervisors that are connected.", len(snapshot.supervisors)),
    ):
        yield GaugeMetricFamily(f"millstream_broker_{name}", text, value)
    events = CounterMetricFamily(
        "millstream_broker_events", "What happened, by kind.", labels=["event"]
    )
    for event, count in snapshot.counters.items():
        events.add_metric([event], count)
    yield events
    held = sum(arena.slots for arena in snapshot.arenas)
    yield GaugeMetricFamily("millstream_arenas", "Arenas known.", len(snapshot.arenas))
    yield GaugeMetricFamily("millstream_arena_held_slots", "Slots that somebody holds.", held)
    lag = histogram("millstream_loop_lag_seconds", "How late the loop came to what was due.")
    add_counts(lag, [], measured.lag)
    yield lag

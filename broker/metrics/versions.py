"""Versions beside each other: shares, what they are judged by, what plug-ins observe, shadows."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.core.measurements import Measurements
from broker.core.snapshot import Snapshot


def families(measured: Measurements) -> Iterator[Metric]:
    """See the module."""
    yield from _shares(measured)
    yield from _versions(measured.snapshot)
    yield from _observed(measured.snapshot)
    yield from _shadows(measured.snapshot)


def _shares(measured: Measurements) -> Iterator[Metric]:
    labels = ["pipeline", "version"]
    share = GaugeMetricFamily(
        "millstream_version_share_ratio", "Its part of the requests, 0 to 1.", labels=labels
    )
    ready = GaugeMetricFamily(
        "millstream_version_ready_workers", "Ready workers of this version.", labels=labels
    )
    rollbacks = CounterMetricFamily(
        "millstream_version_rollbacks", "Versions taken back.", labels=["pipeline", "by"]
    )
    for name, pipeline in measured.pipelines.items():
        for version, part in pipeline.shares.items():
            share.add_metric([name, version], part)
        for version, count in pipeline.ready_workers.items():
            ready.add_metric([name, version], count)
        for by in ("guard", "operator"):
            rollbacks.add_metric([name, by], pipeline.rollbacks.get(by, 0))
    yield from (share, ready, rollbacks)


def _versions(snapshot: Snapshot) -> Iterator[Metric]:
    """Of versions that are compared; there are as many as the broker remembers."""
    labels = ["pipeline", "version"]
    answered = CounterMetricFamily(
        "millstream_version_answered", "Requests that a version is judged by.", labels=labels
    )
    errors = CounterMetricFamily(
        "millstream_version_errors", "Of these, errors that may be its fault.", labels=labels
    )
    rejected = CounterMetricFamily(
        "millstream_version_rejected", "Requests that it rejected.", labels=labels
    )
    latency = GaugeMetricFamily(
        "millstream_version_latency_seconds",
        "Of late, in the stages that have versions: queues and batches.",
        labels=[*labels, "quantile"],
    )
    for name, pipeline in snapshot.pipelines.items():
        for figures in pipeline.figures:
            where = [name, figures.version]
            answered.add_metric(where, figures.requests)
            errors.add_metric(where, figures.errors)
            rejected.add_metric(where, figures.rejected)
            times_ms = (figures.p50_ms, figures.p95_ms, figures.p99_ms)
            for quantile, time_ms in zip(("0.5", "0.95", "0.99"), times_ms, strict=True):
                if time_ms is not None:
                    latency.add_metric([*where, quantile], time_ms / 1e3)
    yield from (answered, errors, rejected, latency)


def _observed(snapshot: Snapshot) -> Iterator[Metric]:
    """What plug-ins observe; there are at most 1,024 names in a stage."""
    labels = ["pipeline", "stage", "version", "name"]
    count = CounterMetricFamily("millstream_observed", "Numbers observed.", labels=labels)
    ignored = CounterMetricFamily(
        "millstream_observed_ignored", "Observed, and not finite.", labels=labels
    )
    mean = GaugeMetricFamily("millstream_observed_mean", "The mean of all.", labels=labels)
    index = GaugeMetricFamily(
        "millstream_observed_stability_index",
        "Of late, against the reference: below 0.1 it is steady, from 0.25 on it is not.",
        labels=labels,
    )
    shift = GaugeMetricFamily(
        "millstream_observed_shift",
        "Of the mean, of late, in standard deviations of the reference.",
        labels=labels,
    )
    for name, pipeline in snapshot.pipelines.items():
        for each in pipeline.observed:
            where = [name, each.stage, each.version, each.name]
            count.add_metric(where, each.count)
            ignored.add_metric(where, each.ignored)
            mean.add_metric(where, each.mean)
            if each.psi is not None:
                index.add_metric(where, each.psi)
            if each.shift is not None:
                shift.add_metric(where, each.shift)
    yield from (count, ignored, mean, index, shift)


def _shadows(snapshot: Snapshot) -> Iterator[Metric]:
    """`stable` and `shadow` are versions: of a pipeline's pairs of these the latest are known."""
    labels = ["pipeline", "stable", "shadow"]
    copies = CounterMetricFamily("millstream_shadow_copies", "Copies made.", labels=labels)
    compared = CounterMetricFamily(
        "millstream_shadow_compared",
        "Pairs of answers: agreed, differed, or failed by the shadow alone.",
        labels=[*labels, "outcome"],
    )
    dropped = CounterMetricFamily(
        "millstream_shadow_dropped", "Copies not compared, and why.", labels=[*labels, "reason"]
    )
    for name, pipeline in snapshot.pipelines.items():
        for each in pipeline.agreements:
            who = [name, each.stable, each.shadow]
            copies.add_metric(who, each.copies)
            compared.add_metric([*who, "agreed"], each.agreed)
            compared.add_metric([*who, "differed"], each.differed)
            compared.add_metric([*who, "failed"], each.failed)
            for reason, count in each.dropped.items():
                dropped.add_metric([*who, reason], count)
    yield from (copies, compared, dropped)

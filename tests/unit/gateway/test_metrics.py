"""What the gateway counts of requests, and which of them are examples of how long they take."""

import pytest
from prometheus_client.core import Metric

from gateway.metrics import UNKNOWN, Metrics, NoMetrics

TRACE = "0af7651916cd43dd8448eb211c80319c"


def family(metrics: Metrics, name: str) -> Metric:
    (found,) = [each for each in metrics.families() if each.name == f"millstream_{name}"]
    return found


def test_errors_by_code() -> None:
    metrics = Metrics()
    for code in ("rejected", "rejected", "bad_body"):
        metrics.count_error("p", code)
    samples = {s.labels["code"]: s.value for s in family(metrics, "request_errors").samples}
    assert samples == {"rejected": 2, "bad_body": 1}


def test_what_could_not_be_read_is_of_no_pipeline() -> None:
    metrics = Metrics()
    metrics.count_misread("bad_request", 400)
    (sample,) = family(metrics, "requests").samples
    assert sample.labels == {"pipeline": UNKNOWN, "version": "", "status": "400"}


def test_a_sampled_trace_is_an_example() -> None:
    metrics = Metrics()
    for duration_s in (0.003, 0.004, 7.0):
        metrics.count("p", "1", 200, duration_s)
    metrics.exemplify("p", 0.004, f"00-{TRACE}-b7ad6b7169203331-01")
    samples = family(metrics, "request_duration_seconds").samples
    shown = {s.labels["le"]: s.exemplar for s in samples if s.exemplar is not None}
    assert [(le, each.labels, each.value) for le, each in shown.items()] == [
        ("0.005", {"trace_id": TRACE}, 0.004)
    ]


@pytest.mark.parametrize(
    "traceparent",
    [
        f"00-{TRACE}-b7ad6b7169203331-00",
        f"00-{TRACE.upper()}-b7ad6b7169203331-01",
        f"00-{TRACE}-b7ad6b7169203331-01\n",
        f"00-{TRACE}",
        "x" * 10_000,
        '00-"} 1\n-b7ad6b7169203331-01',
    ],
)
def test_others_are_not(traceparent: str) -> None:
    metrics = Metrics()
    metrics.count("p", "1", 200, 0.004)
    metrics.exemplify("p", 0.004, traceparent)
    samples = family(metrics, "request_duration_seconds").samples
    assert not [sample for sample in samples if sample.exemplar is not None]


def test_requests_need_not_be_counted() -> None:
    metrics = NoMetrics()
    metrics.count("p", "1", 200, 0.1)
    metrics.exemplify("p", 0.1, f"00-{TRACE}-b7ad6b7169203331-01")
    metrics.count_error("p", "rejected")
    assert family(metrics, "requests").samples == []

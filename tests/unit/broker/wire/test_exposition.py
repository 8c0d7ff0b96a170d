"""The metrics port that all processes share: formats, readers that are slow or many, no figures."""

import socket
from collections.abc import Iterator

import pytest
from prometheus_client.core import CounterMetricFamily, Exemplar, Metric
from prometheus_client.openmetrics import parser as openmetrics

from broker.wire.exposition import (
    MOST_READERS,
    NoFigures,
    Port,
    add_counts,
    exposition,
    histogram,
    registry_of,
)
from broker.wire.measures import Counts, Histogram
from tests.ports import free_port
from tests.system.client import Client

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def some() -> Iterator[Metric]:
    counted = Histogram((0.1, 1.0))
    for value in (0.1, 0.5, 3.0):
        counted.add(value)
    family = histogram("millstream_took_seconds", "It took.")
    add_counts(family, [], counted.take(), [None, Exemplar({"trace_id": "ab"}, 0.5, 1.0), None])
    yield family
    yield CounterMetricFamily("millstream_things", "Things.", value=3)


def test_a_limit_belongs_to_its_part() -> None:
    counted = Histogram((1.0, 2.0))
    for value in (0.0, 1.0, 1.5, 2.0, 2.5):
        counted.add(value)
    assert counted.take() == Counts((1.0, 2.0), [2, 2, 1], 7.0)


def test_what_is_taken_stays_as_it_was() -> None:
    counted = Histogram()
    taken = counted.take()
    counted.add(1.0)
    assert sum(taken.counts) == 0


@pytest.mark.parametrize("accept", ["", "text/plain", "text/html", OPENMETRICS, "\x00;;=,"])
def test_the_reader_chooses_the_format(accept: str) -> None:
    content_type, text = exposition(registry_of("test", some), accept)
    assert content_type.startswith("application/openmetrics" if accept == OPENMETRICS else "text/p")
    assert b"millstream_things_total 3.0\n" in text
    assert b'millstream_build_info{role="test",version=' in text
    assert b"millstream_process_cpu_seconds_total " in text
    assert (b'trace_id="ab"' in text) is (accept == OPENMETRICS)


def test_openmetrics_is_what_its_parser_takes() -> None:
    _, text = exposition(registry_of("test", some), OPENMETRICS)
    parsed = openmetrics.text_string_to_metric_families(text.decode())  # type: ignore[no-untyped-call]
    families = {each.name: each for each in parsed}
    buckets = [s for s in families["millstream_took_seconds"].samples if s.exemplar]
    assert [(s.labels["le"], s.value) for s in buckets] == [("1.0", 2.0)]


def test_readers_that_say_nothing_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.wire.exposition._Handler.timeout", 0.5)
    port = free_port()
    served = Port(registry_of("test", some), host="127.0.0.1", port=port)
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(MOST_READERS)]
    try:
        turned_away = socket.create_connection(("127.0.0.1", port), timeout=10)
        with turned_away:
            assert turned_away.recv(1) == b""
        for each in idle:  # they are cut off after a while
            each.settimeout(20)
            assert each.recv(1) == b""
        with Client(port) as client:
            assert client.get("/metrics").status == 200
    finally:
        for each in idle:
            each.close()
        served.close()


def test_no_figures_at_the_moment() -> None:
    def none() -> Iterator[Metric]:
        raise NoFigures("the loop hangs")

    port = free_port()
    served = Port(registry_of("test", none), host="127.0.0.1", port=port)
    with Client(port) as client:
        answer = client.get("/metrics")
    served.close()
    assert (answer.status, answer.body) == (503, b"the loop hangs\n")


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            Port(registry_of("test", some), host="127.0.0.1", port=taken.getsockname()[1])

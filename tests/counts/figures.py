"""What a metrics page says, and what must add up in the pages of one gateway and its broker."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

from tests.counts.requests import Seen
from tests.system.client import Client

Key = TypeVar("Key", int, str)

Labels = tuple[tuple[str, str], ...]


class Page:
    """The samples of one process, by name and labels."""

    def __init__(self, text: str) -> None:
        self.samples: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series = self.samples.setdefault(sample.name, {})
                labels = tuple(sorted(sample.labels.items()))
                assert labels not in series, f"{sample} comes twice"
                series[labels] = sample.value

    @classmethod
    def of(cls, port: int) -> "Page":
        with Client(port) as client:
            answer = client.get("/metrics")
        assert answer.status == 200, answer
        return cls(answer.body.decode())

    def sum(self, name: str, **labels: str) -> int:
        """Of all series of this name that have these labels."""
        wanted = set(labels.items())
        series = self.samples.get(f"millstream_{name}", {})
        return int(sum(value for each, value in series.items() if wanted <= set(each)))

    def by(self, name: str, *labels: str) -> Counter[tuple[str, ...]]:
        """Sums by the values of these labels."""
        sums: Counter[tuple[str, ...]] = Counter()
        for each, value in self.samples.get(f"millstream_{name}", {}).items():
            names = dict(each)
            sums[tuple(names[label] for label in labels)] += int(value)
        return sums

    @property
    def series(self) -> set[tuple[str, Labels]]:
        """All series, without their values."""
        return {(name, labels) for name, series in self.samples.items() for labels in series}


def disagreements(seen: Seen, gateway: Page, broker: Page, *, chain: list[str]) -> Iterator[str]:
    """What does not add up, once nothing is under way."""
    yield from _client_and_gateway(seen, gateway)
    yield from _gateway_and_broker(gateway, broker)
    yield from _inside_the_broker(broker, chain)


def _client_and_gateway(seen: Seen, gateway: Page) -> Iterator[str]:
    by_status: Counter[int] = Counter()
    by_code: Counter[str] = Counter()
    for (status, code), count in seen.answers.items():
        by_status[status] += count
        by_code[code] += count
    counted = {int(status): n for (status,), n in gateway.by("requests_total", "status").items()}
    # A client that hangs up may do so while its answer is on its way: then both are right.
    gone = seen.gone
    answered_unseen = sum(counted.values()) - sum(by_status.values()) - counted.get(499, 0)
    yield from _same("requests", sum(counted.values()), seen.sent)
    yield from _same("clients gone", counted.get(499, 0) + answered_unseen, gone)
    codes = {code: n for (code,), n in gateway.by("request_errors_total", "code").items()}
    by_code.pop("", None)
    yield from _all_seen(counted, by_status, answered_unseen, but=499)
    yield from _all_seen(codes, by_code, answered_unseen, but="client_gone")
    errors = gateway.sum("request_errors_total")
    yield from _same("errors", errors, sum(counted.values()) - counted.get(200, 0))
    timed = gateway.sum("request_duration_seconds_count")
    yield from _same("timed requests", timed, sum(counted.values()))


def _all_seen(
    counted: Mapping[Key, int], seen: Mapping[Key, int], unseen: int, *, but: Key
) -> Iterator[str]:
    """Each kind was counted as often as it was seen, but for so many that nobody waited for."""
    for kind in counted.keys() | seen.keys():
        more = counted.get(kind, 0) - seen.get(kind, 0)
        if kind != but and not 0 <= more <= unseen:
            yield f"{kind}: counted {counted.get(kind, 0)}, seen {seen.get(kind, 0)}"


def _gateway_and_broker(gateway: Page, broker: Page) -> Iterator[str]:
    admitted, refused = broker.sum("admitted_total"), broker.sum("refused_total")
    sent = gateway.sum("gateway_submitted_total") + gateway.sum("gateway_resubmitted_total")
    # One that was held already, or asks for a version that may still be loading, is neither.
    others = [broker.sum("broker_events_total", event=e) for e in ("submitted_twice", "postponed")]
    yield from _same("submitted", sent, admitted + refused + sum(others))
    told = broker.sum("answers_total") + refused
    late = gateway.sum("gateway_dropped_messages_total", reason="late")
    yield from _same("answers", gateway.sum("gateway_settled_total") + late, told)
    results = gateway.sum("requests_total", status="200")
    good = broker.sum("answers_total", code="ok")
    if late == 0:
        yield from _same("results", results, good)
    elif not results <= good <= results + late:
        yield f"results: {results} of {good}, {late} too late"


def _inside_the_broker(broker: Page, chain: list[str]) -> Iterator[str]:
    ended = (
        broker.sum("answers_total")
        + broker.sum("cancelled_total")
        + broker.sum("begun_anew_total")
        + broker.sum("items")
    )
    came = broker.sum("admitted_total")
    yield from _same("admitted", came, ended)
    for stage in chain:
        done = broker.sum("items_done_total", stage=stage)
        failed = broker.sum("items_failed_total", stage=stage)
        left = broker.sum("items_left_total", stage=stage)
        here = broker.sum("queued_items", stage=stage) + broker.sum("running_items", stage=stage)
        yield from _same(f"items of {stage}", came, done + failed + left + here)
        attempts = broker.sum("items_dispatched_total", stage=stage)
        sizes = broker.sum("batch_items_sum", stage=stage)
        yield from _same(f"attempts at {stage}", attempts, sizes)
        joined = broker.sum("worker_joins_total", stage=stage)
        present = broker.sum("workers", stage=stage)
        lost = broker.sum("worker_losses_total", stage=stage)
        left = broker.sum("worker_leaves_total", stage=stage)
        yield from _same(f"workers of {stage}", joined, present + lost + left)
        came = done


def _same(what: str, one: int, other: int) -> Iterator[str]:
    if one != other:
        yield f"{what}: {one} is not {other}"

"""A deployment, a crowd, and whether everybody counts the same."""

from pathlib import Path
from typing import NamedTuple

from tests.counts.figures import Page, disagreements
from tests.counts.requests import Crowd, Seen
from tests.ports import free_port
from tests.system.deployment import Deployment, wait_until

PLUGINS = Path(__file__).parent / "plugins" / "moody.py"
CHAIN = ["moody", "count"]
PIPELINES = f"""
[pipelines.moody]
chain = {CHAIN}
max_items = 44
timeout_s = 5.0
attempts = 2
"""


class Outcome(NamedTuple):
    """What came of it."""

    seen: Seen
    gateway: Page
    broker: Page
    faults: list[str]
    new_series: list[str]
    """That the second half of the requests added to those of the first."""


def play(*, count: int, clients: int, deaths: int, workers: int = 2) -> Outcome:
    """Half of the requests, then the other half, to one deployment."""
    metrics_port = free_port()
    with Deployment(pipelines=PIPELINES) as mill:
        mill.broker("--metrics-port", str(metrics_port))
        mill.worker(f"{PLUGINS}:Moody", "--processes", str(workers))
        mill.worker(f"{PLUGINS}:Count")
        mill.gateway()
        mill.wait_ready(90.0)

        def crowd(seed: int) -> Seen:
            return Crowd(
                mill.port, count=count // 2, clients=clients, deaths=deaths // 2, seed=seed
            ).run()

        seen = crowd(1)
        _settle(mill, metrics_port, workers)
        before = Page.of(mill.port).series | Page.of(metrics_port).series
        second = crowd(2)
        seen.answers += second.answers
        seen.gone += second.gone
        seen.wrong += second.wrong
        _settle(mill, metrics_port, workers)
        gateway, broker = Page.of(mill.port), Page.of(metrics_port)
    faults = list(disagreements(seen, gateway, broker, chain=CHAIN))
    new = (gateway.series | broker.series) - before
    return Outcome(seen, gateway, broker, faults + seen.wrong, sorted(map(str, new)))


def _settle(mill: Deployment, metrics_port: int, workers: int) -> None:
    """Until nothing is under way, and the second stage's plug-in has told all that it counted."""

    def settled() -> bool:
        broker = Page.of(metrics_port)
        told = broker.sum("plugin_seen_total")
        return (
            broker.sum("items") == 0
            and Page.of(mill.port).sum("gateway_waiting_items") == 0
            and told >= broker.sum("items_done_total", stage="count")
            and broker.sum("ready_workers", stage="moody") == workers
        )

    wait_until(settled, 60.0, "nothing is under way, and all is told")

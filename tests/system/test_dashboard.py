"""deploy/: what promtool says of it, and a real Prometheus that reads a real deployment."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from tests.ports import free_port
from tests.system.client import Client
from tests.system.deployment import Deployment, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "millstream.json").read_text())
PLUGINS = Path(__file__).parents[1] / "counts" / "plugins" / "moody.py"

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (shutil.which("promtool") and shutil.which("prometheus")),
        reason="prometheus is not installed (on Debian: apt-get install prometheus)",
    ),
]


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "rules.yml"),
        ("test", "rules", "rules_test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_finds_nothing(arguments: tuple[str, ...]) -> None:
    ran = subprocess.run(
        ["promtool", *arguments], cwd=RULES.parent, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


class Prometheus:
    """One that reads a deployment, once a second."""

    def __init__(self, mill: Deployment, targets: dict[str, int]) -> None:
        self.port = free_port()
        config = (RULES.parent / "prometheus.yml").read_text().replace("rules.yml", str(RULES))
        config = config.replace("interval: 5s", "interval: 1s")
        for job, port in targets.items():
            config = re.sub(rf"({job}\n.*\n.*targets: ).*", rf'\1["127.0.0.1:{port}"]', config)
        file = mill.write("prometheus.yml", config)
        mill.spawn(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={mill.folder}/prometheus",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--enable-feature=exemplar-storage",
            ],
            name="prometheus",
        )

    def ask(self, path: str) -> Any:
        with Client(self.port) as client:
            answer = client.get(f"/api/v1/{path}")
        assert answer.status == 200, answer
        return msgspec.json.decode(answer.body)["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.ask(f"query?query={quote(expression)}")["result"]
        return found


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    ports = {
        "millstream-gateway": 0,
        "millstream-broker": free_port(),
        "millstream-supervisor": free_port(),
    }
    with Deployment(pipelines='[pipelines.moody]\nchain = ["moody", "count"]\n') as mill:
        ports["millstream-gateway"] = mill.port
        mill.broker("--metrics-port", str(ports["millstream-broker"]))
        mill.worker(f"{PLUGINS}:Moody", "--metrics-port", str(ports["millstream-supervisor"]))
        mill.worker(f"{PLUGINS}:Count")
        mill.gateway()
        prometheus = Prometheus(mill, ports)
        mill.wait_ready(90.0)
        with mill.client() as client:

            def three_scrapes_later() -> bool:
                for number in range(5):
                    traced = {"traceparent": f"00-{number + 1:032x}-{number + 1:016x}-01"}
                    client.post("/pipelines/moody", b'{"n": %d}' % number, traced)
                client.post("/pipelines/moody", b'{"n": 0, "do": "raise"}')
                try:
                    up = prometheus.query("min(count_over_time(millstream_build_info[1m]))")
                    all_up = prometheus.query("sum(up)")
                except OSError:
                    return False  # it is not up itself
                if not up or not all_up:
                    return False
                return float(up[0]["value"][1]) >= 3 and all_up[0]["value"][1] == "3"

            wait_until(three_scrapes_later, 60.0, "Prometheus has read everything three times")
        yield prometheus


def queries() -> Iterator[tuple[str, str]]:
    """Each query of the dashboard, with the title of its panel, as Grafana would send it."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].replace("$__rate_interval", "30s")
            yield panel["title"], re.sub(r"\$(pipeline|stage)", ".*", expression)


def test_every_query_of_the_dashboard_returns_data(prometheus: Prometheus) -> None:
    asked = list(queries())
    assert len(asked) > 50
    empty = [(title, query) for title, query in asked if not prometheus.query(query)]
    assert empty == []


def test_nothing_is_wrong_with_a_deployment_that_is_well(prometheus: Prometheus) -> None:
    assert [rule["lastError"] for rule in rules(prometheus) if rule.get("lastError")] == []
    alerts = prometheus.ask("alerts")["alerts"]
    assert [alert["labels"] for alert in alerts if alert["state"] == "firing"] == []
    assert prometheus.query("millstream:stage_busy:ratio_rate1m")


def rules(prometheus: Prometheus) -> list[dict[str, Any]]:
    return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]


def test_exemplars_lead_to_traces(prometheus: Prometheus) -> None:
    name = "millstream_request_duration_seconds_bucket"
    now = time.time()
    found = prometheus.ask(f"query_exemplars?query={name}&start={now - 300}&end={now + 60}")
    traces = {each["labels"]["trace_id"] for series in found for each in series["exemplars"]}
    assert traces
    assert traces <= {f"{number:032x}" for number in range(1, 6)}

"""What Prometheus scrapes from a gateway and from the broker, and that the figures are exact."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.ports import free_port
from tests.system.client import Client
from tests.system.deployment import Deployment, wait_until

pytestmark = pytest.mark.system

ECHO = Path(__file__).parent / "plugins" / "echo.py"
PATH = "/pipelines/echo"
REQUESTS = "millstream_requests_total"

Labels = tuple[tuple[str, str], ...]


@pytest.fixture(scope="module")
def broker_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def mill(broker_port: int) -> Iterator[Deployment]:
    with Deployment(pipelines='[pipelines.echo]\nchain = ["echo"]\n') as mill:
        mill.broker("--metrics-port", str(broker_port))
        mill.worker(ECHO, "--version", "7")
        mill.gateway()
        mill.wait_ready()
        yield mill


def scrape(port: int) -> dict[str, dict[Labels, float]]:
    """Samples by name and labels."""
    with Client(port) as client:
        answer = client.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    samples: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in samples.setdefault(sample.name, {}), f"{sample} comes twice"
            samples[sample.name][labels] = sample.value
    return samples


def requests(port: int) -> dict[tuple[str, str, str], float]:
    """millstream_requests_total by pipeline, version and status."""
    counted = {}
    for labels, value in scrape(port)[REQUESTS].items():
        names = dict(labels)
        assert set(names) == {"pipeline", "version", "status"}
        counted[names["pipeline"], names["version"], names["status"]] = value
    return counted


def test_requests_for_inference_are_counted_and_those_alone(mill: Deployment) -> None:
    with mill.client() as client:
        for number in range(20):
            assert client.post(PATH, b"%d" % number).status == 200
        assert client.post("/inference", b"1").status == 200
        assert client.post(f"{PATH}/versions/7", b"1").status == 200
        for _ in range(3):
            assert client.post(PATH, b"no JSON").status == 400
        assert client.post(PATH, b'{"raise": 1}').status == 500
        assert client.post("/pipelines/ehco", b"1").status == 404
        for page in ("/livez", "/readyz", "/metrics", "/pipelines", PATH, "/none"):
            client.get(page)
    assert requests(mill.port) == {
        ("echo", "7", "200"): 22,
        ("echo", "7", "400"): 3,
        ("echo", "7", "500"): 1,
        ("unknown", "", "404"): 1,
    }


def test_a_client_that_has_gone_is_counted(mill: Deployment) -> None:
    gate = mill.folder / "gate"
    with mill.client(timeout_s=0.3) as client, pytest.raises(TimeoutError):
        client.post_json(PATH, {"gate": str(gate)})
    gone = ("echo", "", "499")
    wait_until(lambda: requests(mill.port).get(gone) == 1, 15, f"one is {gone}")
    gate.touch()


def test_no_other_name_ends_like_the_requests(mill: Deployment, broker_port: int) -> None:
    names = {*scrape(mill.port), *scrape(broker_port)}
    assert [name for name in names if name.endswith("requests_total")] == [REQUESTS]
    assert all(name.startswith("millstream_") for name in names), names


def test_every_name_stands_in_the_documentation(mill: Deployment, broker_port: int) -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    for port in (mill.port, broker_port):
        with Client(port) as client:
            text = client.get("/metrics").body.decode()
        for family in text_string_to_metric_families(text):
            name = family.name.removeprefix("millstream_")
            name += "_total" if family.type == "counter" else ""
            assert name in documented


def test_the_reader_chooses_the_format(mill: Deployment, broker_port: int) -> None:
    openmetrics = "application/openmetrics-text; version=1.0.0"
    for port in (mill.port, broker_port):
        with Client(port) as client:
            answer = client.get("/metrics", {"Accept": openmetrics})
        assert answer.headers["content-type"].startswith(openmetrics)
        assert answer.body.endswith(b"# EOF\n")


def test_the_brokers_own_figures(mill: Deployment, broker_port: int) -> None:
    stage: Labels = (("pipeline", "echo"), ("stage", "echo"))
    with mill.client() as client:
        for _ in range(5):
            assert client.post(PATH, b"1").status == 200
    about = mill.status()["pipelines"]["echo"]["stages"]["echo"]
    assert about["done"] >= 5

    def agrees() -> bool:
        samples = scrape(broker_port)
        done = samples["millstream_items_done_total"][stage]
        failed = samples["millstream_items_failed_total"][stage]
        return (done, failed) == (about["done"], about["failed"])

    wait_until(agrees, 15, "the metrics say what the status says")
    samples = scrape(broker_port)
    assert samples["millstream_queued_items"][stage] == 0
    assert samples["millstream_running_items"][stage] == 0
    assert samples["millstream_ready_workers"][stage] == 1
    assert samples["millstream_batch_cap"][stage] == about["batch_cap"] > 0
    assert samples["millstream_items"][stage[:1]] == 0


def test_a_metrics_port_that_is_taken(mill: Deployment) -> None:
    address = f"ipc://{mill.folder}/other.sock"
    options = ["--broker", address, "--state", "none", "--metrics-port", str(mill.port)]
    ran = mill.run("broker", "pipelines.toml", *options)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("millstream: cannot serve metrics at ")

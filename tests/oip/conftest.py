"""One deployment for all tests of this protocol."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.system.client import Client
from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails

PLUGINS = Path(__file__).parent / "plugins" / "tensors.py"
PIPELINES = """
[pipelines.all]
chain = ["all"]

[pipelines.pairs]
chain = ["pairs"]

[pipelines.texts]
chain = ["texts"]

[pipelines.sum]
chain = ["head", "tail"]

[pipelines.objects]
chain = ["objects"]

[pipelines.slow]
chain = ["slow"]

[pipelines.count]
chain = ["count"]

[pipelines.undeclared]
chain = ["tail"]
"""


PLUGIN_NAMES = ("All", "Pairs", "Texts", "Head", "Tail", "Objects", "Slow", "Count")


@pytest.fixture(scope="package")
def grpc_address() -> str:
    """Where the deployment speaks gRPC."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="package")
def mill(grpc_address: str) -> Iterator[Deployment]:
    """Started once; each test leaves it as it was."""
    with Deployment(pipelines=PIPELINES) as mill:
        mill.broker()
        for name in PLUGIN_NAMES:
            mill.worker(f"{PLUGINS}:{name}")
        mill.gateway("--grpc-port", grpc_address.rpartition(":")[2], "--max-body", "16MiB")
        mill.wait_ready()
        yield mill


@pytest.fixture
def client(mill: Deployment) -> Iterator[Client]:
    with mill.client() as client:
        yield client


def counted(client: Client, pipeline: str, status: int) -> float:
    """How many requests the gateway has counted with this status."""
    start = f'millstream_requests_total{{pipeline="{pipeline}",'
    return sum(
        float(line.rpartition(" ")[2])
        for line in client.get("/metrics").body.decode().splitlines()
        if line.startswith(start) and f'status="{status}"' in line
    )

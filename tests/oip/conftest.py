"""One deployment for all tests of this protocol."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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

[pipelines.undeclared]
chain = ["tail"]
"""


@pytest.fixture(scope="package")
def mill() -> Iterator[Deployment]:
    """Started once; each test leaves it as it was."""
    with Deployment(pipelines=PIPELINES) as mill:
        mill.broker()
        for name in ("All", "Pairs", "Texts", "Head", "Tail", "Objects"):
            mill.worker(f"{PLUGINS}:{name}")
        mill.gateway()
        mill.wait_ready()
        yield mill


@pytest.fixture
def client(mill: Deployment) -> Iterator[Client]:
    with mill.client() as client:
        yield client

"""One deployment for all cases."""

from collections.abc import Iterator

import pytest

from tests.cases.standing import PIPELINES, Standing
from tests.system.client import Client
from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails


@pytest.fixture(scope="package")
def standing() -> Iterator[Standing]:
    """Started once; each test leaves it as it was."""
    with Deployment(pipelines=PIPELINES) as mill:
        standing = Standing(mill)
        standing.start()
        yield standing


@pytest.fixture
def client(standing: Standing) -> Iterator[Client]:
    with standing.mill.client() as client:
        yield client

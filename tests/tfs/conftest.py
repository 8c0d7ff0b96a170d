"""One deployment for all tests of these protocols."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.client import Client
from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails

PLUGINS = Path(__file__).parent / "plugins" / "models.py"
MODELS = (
    "Scalars", "Vectors", "Matrices", "Cubes", "Half", "Images", "Texts", "Flowers", "Undeclared",
)  # fmt: skip
PIPELINES = "".join(
    f'[pipelines.{name.lower()}]\nchain = ["{name.lower()}"]\ntimeout_s = 30.0\n' for name in MODELS
)


@pytest.fixture(scope="package")
def mill() -> Iterator[Deployment]:
    """Started once; each test leaves it as it was."""
    with Deployment(pipelines=PIPELINES) as mill:
        mill.broker()
        for name in MODELS:
            mill.worker(f"{PLUGINS}:{name}")
        mill.gateway("--compress", "2000")
        mill.wait_ready(50.0)  # numpy is loaded nine times
        yield mill


@pytest.fixture
def client(mill: Deployment) -> Iterator[Client]:
    with mill.client() as client:
        yield client

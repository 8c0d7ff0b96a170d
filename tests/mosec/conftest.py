"""One server with a route for each feature."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails

SCRIPTS = Path(__file__).parent / "scripts"
MOST_BYTES = 40_000


@pytest.fixture(scope="package")
def mill() -> Iterator[Deployment]:
    """The script `many.py`, by `millstream mosec`."""
    with Deployment(env={"MOSEC_NAMESPACE": "my", "MOSEC_DEBUG": "false"}) as deployment:
        options = ["--port", str(deployment.port), "--address", "localhost", "--compression"]
        limits = ["--timeout", "2000", "--max-request-size", str(MOST_BYTES)]
        script = str(SCRIPTS / "many.py")
        deployment.start("mosec", script, *options, *limits, "--greeting", "hello")
        deployment.wait_ready()
        yield deployment

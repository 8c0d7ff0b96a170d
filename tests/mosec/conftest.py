"""One server with a route for each feature."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import READY_S, Deployment

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails

SCRIPTS = Path(__file__).parent / "scripts"
MOST_BYTES = 40_000


@pytest.fixture(scope="package")
def mill() -> Iterator[Deployment]:
    """The script `many.py`, by `millstream mosec`."""
    with Deployment(env={"MOSEC_NAMESPACE": "my", "MOSEC_DEBUG": "false"}) as deployment:
        options = ["--port", str(deployment.port), "--address", "localhost", "--compression"]
        limits = ["--timeout", "10000", "--max-request-size", str(MOST_BYTES)]
        script = str(SCRIPTS / "many.py")
        role = deployment.start("mosec", script, *options, *limits, "--greeting", "hello")
        deployment.wait_ready()
        yield deployment
        role.send(signal.SIGTERM)
        # On a busy machine so many processes do not end in time, and the last are killed: 1.
        role.expected_exit = role.wait(READY_S)
        assert role.expected_exit in (0, 1)

"""One deployment for all: two stages with versions, of which the first one serves."""

from collections.abc import Iterator

import pytest

from tests.rollout.mill import STAGES, Mill
from tests.system.conftest import pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails


@pytest.fixture(scope="package")
def mill() -> Iterator[Mill]:
    """Both stages with one version, of which none is kept warm, and two gateways."""
    with Mill() as mill:
        version = mill.put()
        mill.start_broker()
        for stage in STAGES:
            mill.stage(stage, "--keep-warm", "0")
        for port in mill.ports:
            mill.gateway(port=port)
        for port in mill.ports:
            mill.wait_ready(port=port)
        mill.wait_stable(version)
        yield mill

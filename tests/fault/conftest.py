"""One deployment for all faults, mended before each of them."""

from collections.abc import Iterator

import pytest

from tests.fault.rig import PIPELINES, Rig
from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails


@pytest.fixture(scope="package")
def standing() -> Iterator[Rig]:
    """The deployment; a test asks for `rig`."""
    with Deployment(pipelines=PIPELINES) as mill:
        yield Rig(mill)


@pytest.fixture
def rig(standing: Rig) -> Iterator[Rig]:
    """The deployment, whole; afterwards it holds nothing, mends, and has logged no traceback."""
    standing.mend()
    yield standing
    standing.mend()
    standing.check_empty()
    standing.check_sound()
    standing.check_orphans()

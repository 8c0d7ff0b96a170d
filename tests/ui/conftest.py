"""One deployment for all tests of the page, with load of their own."""

from collections.abc import Iterator

import pytest

from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment
from tests.ui.mill import deployment

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails


@pytest.fixture(scope="package")
def mill() -> Iterator[Deployment]:
    """See `mill.py`."""
    with deployment() as started:
        yield started

"""Shows the logs of every deployment that is open when a test fails."""

from collections.abc import Generator

import pytest

from tests.system.deployment import Deployment


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """See pytest; `tests/fault` may import it into a conftest.py of its own."""
    report = yield
    if report.failed:
        report.sections += [
            (f"logs of {mill.folder.name} ({item.name})", mill.logs()) for mill in Deployment.open
        ]
    return report

"""One broker per test, by hand; when the test ends, its books are checked."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.broker.core.driver import Driver


@pytest.fixture
def broker() -> Iterator[Callable[..., Driver]]:
    """Makes a Driver for some pipelines; every request must be answered once at the end."""
    made: list[Driver] = []

    def make(**keys: Any) -> Driver:
        driver = Driver(**keys)
        made.append(driver)
        return driver

    yield make
    for driver in made:
        driver.settle()

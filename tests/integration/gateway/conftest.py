"""Fixtures: an address, a broker that is scripted, a gateway that is real."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gateway.options import GatewayOptions
from tests.integration.gateway.fake_broker import FakeBroker
from tests.integration.gateway.harness import RunningGateway

StartGateway = Callable[..., RunningGateway]


@pytest.fixture
def address() -> Iterator[str]:
    """A broker address of the test's own, short enough for a socket's path."""
    folder = tempfile.mkdtemp(prefix="gw-")
    yield f"ipc://{folder}/broker"
    shutil.rmtree(folder)


@pytest.fixture
def start_gateway(address: str) -> Iterator[StartGateway]:
    """Starts gateways with options of the test's choice."""
    with ExitStack() as stack:

        def start(**options: Any) -> RunningGateway:
            options = {"broker": address, "port": 0, "drain_s": 0.0, **options}
            return stack.enter_context(RunningGateway(GatewayOptions(**options)))

        yield start


@pytest.fixture
def broker(address: str) -> Iterator[FakeBroker]:
    """A broker that answers each request with its own body."""
    with FakeBroker(address) as broker:
        yield broker


@pytest.fixture
def gateway(broker: FakeBroker, start_gateway: StartGateway) -> RunningGateway:
    """A gateway that has found that broker."""
    return start_gateway().wait_until_ready()

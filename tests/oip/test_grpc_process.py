"""What becomes of calls over gRPC when processes start, drain, die and come back."""

import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.oip.conftest import PLUGINS
from tests.oip.faces import Ask, In, Rpc, message_of
from tests.ports import free_port
from tests.system.deployment import Deployment, Role, wait_until

pytestmark = [pytest.mark.system, pytest.mark.fault]

PIPELINES = """
[pipelines.slow]
chain = ["slow"]
timeout_s = 20.0
"""


class Mill:
    """A deployment with one slow model."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.port = free_port()
        self.broker = deployment.broker()
        deployment.worker(f"{PLUGINS}:Slow")
        self.gateway = self.start_gateway()
        deployment.wait_ready()

    def start_gateway(self) -> Role:
        return self.deployment.gateway("--grpc-port", str(self.port))

    def items(self) -> int:
        return int(self.deployment.status()["pipelines"]["slow"]["items"])


@pytest.fixture
def mill() -> Iterator[Mill]:
    with Deployment(pipelines=PIPELINES) as deployment:
        yield Mill(deployment)


@pytest.fixture
def rpc(mill: Mill) -> Iterator[Rpc]:
    with Rpc(f"127.0.0.1:{mill.port}") as rpc:
        yield rpc


def slow(seconds: float) -> Any:
    return message_of(Ask([In("seconds", "FP32", [1], struct.pack("<f", seconds))], model="slow"))


def test_a_gateway_that_drains_answers_what_it_holds(mill: Mill, rpc: Rpc) -> None:
    outcomes: list[str] = []

    def ask() -> None:
        while (code := rpc.send(slow(0.1)).code) == "OK":
            outcomes.append(code)
        outcomes.append(code)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(outcomes) > 32, 30.0, "load")
    over = threading.Event()
    idle = rpc.stub.ModelStreamInfer(nothing_until(over), timeout=20)
    held = [rpc.stub.ModelInfer.future(slow(1.0), timeout=20) for _ in range(4)]
    wait_until(lambda: mill.items() == len(threads) + len(held), 15.0, "all are admitted")
    mill.gateway.stop()
    for thread in threads:
        thread.join()
    assert {call.code() for call in held} == {grpc.StatusCode.OK}
    assert set(outcomes) == {"OK", "UNAVAILABLE"}
    with pytest.raises(grpc.RpcError) as caught:
        next(idle)
    over.set()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def nothing_until(over: threading.Event) -> Iterator[Any]:
    """The requests of a stream that is kept open."""
    over.wait()
    yield from ()


def test_a_call_outlives_its_broker(mill: Mill, rpc: Rpc) -> None:
    call = rpc.stub.ModelInfer.future(slow(0.8), timeout=20)
    stream = rpc.stub.ModelStreamInfer(iter([slow(0.8)] * 2), timeout=20)
    wait_until(lambda: mill.items() == 3, 15.0, "they are admitted")
    mill.broker.kill()
    mill.deployment.broker()
    assert call.result().id == ""
    assert [answer.error_message for answer in stream] == ["", ""]


def test_a_call_waits_for_a_broker(mill: Mill, rpc: Rpc) -> None:
    mill.broker.kill()
    call = rpc.stub.ModelInfer.future(slow(0.0), timeout=20)
    mill.deployment.broker()
    assert call.result().model_name == "slow"


def test_a_port_that_is_taken(mill: Mill) -> None:
    second = mill.deployment.run(
        "gateway", "--port", str(free_port()), "--grpc-port", str(mill.port)
    )
    assert second.returncode == 2
    (line,) = [each for each in second.stderr.splitlines() if each.startswith("millstream")]
    assert f"cannot listen on 127.0.0.1:{mill.port} for gRPC" in line


def test_without_the_packages(mill: Mill, tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'grpc'\", name='grpc')\n"
    )
    port = str(free_port())
    role = mill.deployment.start(
        "gateway", "--port", port, "--grpc-port", port, env={"PYTHONPATH": str(tmp_path)}
    )
    role.expected_exit = 2
    role.check_exit(20.0)
    lines = [each for each in role.output.splitlines() if each.startswith("millstream")]
    assert lines == [
        "millstream gateway: --grpc-port needs what is not installed (grpc): "
        "pip install 'millstream[grpc]'"
    ]

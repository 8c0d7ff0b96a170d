"""Both clients, and the command, against a whole deployment."""

import asyncio
import json

import numpy as np
import pytest

from millstream import AsyncClient, Client
from millstream.client import CallFailed
from tests.edges.conftest import DIGITS
from tests.system.deployment import Deployment

pytestmark = pytest.mark.system

THREE = DIGITS / "samples" / "3.png"


def test_arrays_in_arrays_out(url: str) -> None:
    array = np.linspace(0, 1, 100_000, dtype=np.float16).reshape(100, -1)
    with Client(url) as client:
        answer = client.ask("echo", array)
        assert answer.value.dtype == np.float16
        np.testing.assert_array_equal(answer.value, array * 2)
        assert answer.version == "v1"
        assert set(answer.timing_ms) == {"echo-queue", "echo-run"}
        value = {"a": (1, None, b"\xff"), "b": [np.int8(1), "é"]}
        assert client.call("echo", value, version="v1") == value
        assert client.call("digits", THREE.read_bytes())["digit"] == 3


def test_many_at_once(url: str) -> None:
    async def together() -> list[object]:
        async with AsyncClient(url) as client:
            calls = [client.call("echo", number) for number in range(200)]
            return list(await asyncio.gather(*calls))

    assert asyncio.run(together()) == list(range(200))


def test_errors(url: str) -> None:
    with Client(url) as client, pytest.raises(CallFailed, match="418 rejected: so it asked"):
        client.call("echo", "reject")
    with Client(url) as client, pytest.raises(CallFailed, match="unknown_pipeline"):
        client.call("none", 1)


def test_over_the_unix_socket(edge: Deployment) -> None:
    with Client(f"unix:{edge.folder}/http") as client:
        assert client.call("echo", [1]) == [1]


def test_the_command(edge: Deployment, url: str) -> None:
    done = edge.run("call", "digits", "--file", str(THREE), "--url", url)
    assert json.loads(done.stdout)["digit"] == 3, done.stderr
    failed = edge.run("call", "echo", '"reject"', "--url", url)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == "millstream: 418 rejected: so it asked\n"

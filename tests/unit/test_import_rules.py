"""What an import brings along, seen in a fresh interpreter. `lint-imports` sees to the rest.

A module of ours may load late, or be loaded by a library of somebody else; neither is seen by
reading the sources. So each of these asks a new process what is there after the import.
"""

import subprocess
import sys

import pytest

HEAVY = ("zmq", "asyncio", "aiohttp", "logging", "torch", "numpy", "typer", "rich", "uvloop")


def brought_along(module: str, names: tuple[str, ...]) -> set[str]:
    """Which of these are loaded after `import module`, that are not in a bare interpreter."""
    code = (
        "import sys; before = set(sys.modules); import {module}; "
        "print(*(name for name in {names} if name in sys.modules and name not in before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.format(module=module, names=names)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "broker.wire.messages",
        "broker.wire.frames",
        "broker.wire.wheel",
        "broker.core.scheduler",
        "broker.core.invariants",
        "gateway.pending",
        "workers.session",
        "workers.supervision",
        "workers.versions",
    ],
)
def test_what_decides_and_what_travels_brings_nothing(module: str) -> None:
    assert brought_along(module, HEAVY) == set()


def test_what_scripts_import_is_light() -> None:
    assert brought_along("millstream", ("aiohttp", "torch", "zmq", "asyncio", "numpy")) == set()


def test_a_client_brings_arrays_and_a_loop_only_where_they_are_used() -> None:
    heavy = ("aiohttp", "torch", "zmq", "asyncio", "numpy", "typer")
    assert brought_along("millstream.client", heavy) == set()


def test_a_supervisor_imports_neither_torch_nor_numpy() -> None:
    assert brought_along("workers.supervisor", ("torch", "numpy", "aiohttp", "watchfiles")) == set()


def test_a_worker_has_numpy_only_where_its_script_or_a_payload_brings_it() -> None:
    assert brought_along("workers.runtime, workers.plain", ("torch", "numpy", "asyncio")) == set()


def test_a_broker_imports_neither_a_web_server_nor_arrays() -> None:
    assert brought_along("broker.router", ("torch", "numpy", "aiohttp", "asyncio")) == set()


def test_a_gateway_does_without_torch() -> None:
    assert "torch" not in brought_along("gateway.link", ("torch",))


def test_a_gateway_brings_grpc_only_where_it_is_spoken() -> None:
    names = ("grpc", "google.protobuf", "grpc_health", "grpc_reflection")
    assert brought_along("gateway.server", names) == set()


def test_payloads_bring_torch_only_where_a_script_does() -> None:
    assert brought_along("broker.payload.objects", ("torch", "zmq", "aiohttp")) == set()
    assert brought_along("workers.work", ("torch", "zmq", "aiohttp")) == set()


def test_a_gateway_takes_the_parser_of_aiohttp_alone() -> None:
    names = ("aiohttp.client", "aiohttp.web", "aiohttp.http_parser")
    assert brought_along("gateway.server", names) == {"aiohttp.http_parser"}


def test_whoever_imports_aiohttp_beside_a_gateway_has_all_of_it() -> None:
    assert brought_along("gateway.server, aiohttp.web", ("aiohttp.client", "aiohttp.web")) == {
        "aiohttp.client", "aiohttp.web",
    }  # fmt: skip


def test_who_serves_a_script_imports_none_of_the_roles() -> None:
    heavy = ("torch", "numpy", "aiohttp", "zmq", "asyncio", "typer", "watchfiles")
    assert brought_along("millstream.local.serving", heavy) == set()

"""Importing the public face is cheap: scripts do it before they import what they need."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import millstream

HEAVY = ("zmq", "torch", "aiohttp", "numpy", "msgpack", "asyncio", "typer")


@pytest.mark.parametrize("module", ["millstream", "workers.api", "workers.options"])
def test_import_is_light(module: str) -> None:
    code = f"import {module}, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert ran.stdout.strip() == "[]"


def test_the_supervisor_imports_neither_torch_nor_what_executes() -> None:
    code = (
        "import workers.supervisor, sys;"
        "print([m for m in ('torch', 'numpy', 'workers.execute', 'aiohttp') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert ran.stdout.strip() == "[]"


def test_public_names() -> None:
    assert sorted(millstream.__all__) == ["Reject", "RequestInfo", "Worker", "__version__"]


def test_the_version_is_that_of_the_package() -> None:
    pyproject = Path(__file__).parents[3] / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text())["project"]
    assert millstream.__version__ == project["version"]

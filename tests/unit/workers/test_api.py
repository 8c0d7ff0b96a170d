"""Importing the public face is cheap: scripts do it before they import what they need."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
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
    assert sorted(millstream.__all__) == [
        "AsyncClient",
        "Classify",
        "Client",
        "Pipeline",
        "Regress",
        "Reject",
        "RequestInfo",
        "Tensor",
        "Worker",
        "__version__",
        "serve",
        "stage",
        "write_reference",
    ]


def test_the_version_is_that_of_the_package() -> None:
    pyproject = Path(__file__).parents[3] / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text())["project"]
    assert millstream.__version__ == project["version"]


def test_output_memory_needs_no_runtime() -> None:
    array = millstream.Worker().empty((2, 3), "uint8")
    assert (array.shape, array.dtype.name, array.flags.writeable) == ((2, 3), "uint8", True)
    assert millstream.Worker().empty(4).dtype.name == "float32"


def test_a_batch_gets_to_the_device_in_one_line() -> None:
    class Model(millstream.Worker):
        def forward(self, batch: list[Any]) -> Any:
            return self.to_device(batch) * 2

    returned = Model().forward([np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)])
    assert returned.tolist() == [[[2.0, 2.0], [2.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]]


def test_a_module_of_the_users_that_hides_one_of_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "workers.py").write_text("")
    script = tmp_path / "app.py"
    script.write_text("from millstream import Worker")
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=20, check=False
    )
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ImportError: a module of yours is called 'workers'")
    assert last.endswith(f"rename {tmp_path}/workers.py")

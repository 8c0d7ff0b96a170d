"""One deployment for all that calls a gateway from outside: clients, browsers, schemathesis."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment
from tests.system.readme import ROOT

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails

DIGITS = ROOT / "examples" / "digits"
MODELS = ROOT / "tests" / "tfs" / "plugins" / "models.py"
ECHO = Path(__file__).parent / "plugins" / "echo.py"
PIPELINES = """
[pipelines.digits]
chain = ["preprocess", "infer", "postprocess"]
timeout_s = 30.0

[pipelines.echo]
chain = ["echo"]
timeout_s = 30.0
headers = ["X-Tenant"]

[pipelines.flowers]
chain = ["flowers"]
timeout_s = 30.0

[pipelines.half]
chain = ["half"]
timeout_s = 30.0
"""


@pytest.fixture(scope="package")
def edge() -> Iterator[Deployment]:
    """The digits, a pipeline that gives back what it got, and two that declare tensors; started
    once, and left as it is."""
    if not (DIGITS / "model" / "digits.pt").exists():
        subprocess.run([sys.executable, DIGITS / "train.py"], check=True, timeout=55)
    with Deployment(pipelines=PIPELINES) as mill:
        mill.gateway()
        mill.start("gateway", "--uds", str(mill.folder / "http"), name="unix")
        mill.broker()
        for stage in ("preprocess", "infer", "postprocess"):
            mill.worker(DIGITS / f"{stage}.py")
        mill.worker(ECHO, "--version", "v1")
        mill.worker(f"{MODELS}:Flowers")
        mill.worker(f"{MODELS}:Half")
        mill.wait_ready(90.0)  # torch is loaded beside the others
        yield mill


@pytest.fixture(scope="package")
def url(edge: Deployment) -> str:
    """Of its gateway."""
    return f"http://127.0.0.1:{edge.port}"

"""All examples in one deployment: one broker, one gateway, and the workers of each Procfile.

What a README says to run before `honcho start` is run first. Only what the collected tests ask for
is started, and only where the packages that it needs are installed.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.served.examples import EXAMPLES, Example, is_installed
from tests.ports import free_port
from tests.system.client import Client
from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment
from tests.system.readme import ROOT

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
DIGITS_MODEL = ROOT / "examples" / "digits" / "model" / "digits.pt"
START_S = 120.0
"""For models to be made, and for all workers to be ready, on a machine that is busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whichever test is the first has to wait for all that."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.timeout(3 * START_S))


@pytest.fixture(scope="package")
def prices_port() -> int:
    """Where the orders' other service is looked for; the test starts and stops it."""
    return free_port()


@pytest.fixture(scope="package")
def mill(request: pytest.FixtureRequest, prices_port: int) -> Iterator[Deployment]:
    """Started once; each test leaves it as it was."""
    asked = {item.path.stem.removeprefix("test_") for item in request.session.items}
    wanted = [each for each in EXAMPLES if each.test in asked and is_installed(each)]
    env = {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "MILLSTREAM_STATE": "none",  # the pipeline files are not in a folder of the tests' own
        "PRICES_URL": f"http://127.0.0.1:{prices_port}",
        "OMP_NUM_THREADS": "1",  # many models on few cores
    }
    if any(each.version for each in wanted) and not DIGITS_MODEL.exists():
        subprocess.run([sys.executable, ROOT / "examples/digits/train.py"], check=True, timeout=90)
    with Deployment(env=env) as mill:
        unmade = {each: each.script_to_make() for each in wanted if not each.is_made()}
        making = mill.spawn(
            [sys.executable, str(HERE / "making.py"), *map(str, unmade.values())], name="models"
        )
        files = sorted({str(path) for each in wanted for path in each.pipeline_files})
        mill.start("broker", *files)
        mill.gateway()
        making.check_exit(START_S)
        for example in unmade:
            (example.folder / "model" / ".made").touch()
        workers = sum(start(mill, each) for each in wanted)
        mill.wait_ready(START_S)
        mill.wait_workers(workers, START_S)  # ready is a pipeline with any one version
        yield mill


def start(mill: Deployment, example: Example) -> int:
    """The workers that its Procfile names, for its own pipeline; returns how many."""
    workers = example.workers()
    for stage, line in workers:
        mill.spawn(
            ["sh", "-c", line],
            name=f"{example.name}.{stage}",
            cwd=example.home,
            env={"MILLSTREAM_PIPELINE": example.pipeline, "MILLSTREAM_VERSION": example.version},
        )
    return len(workers)


@pytest.fixture
def client(mill: Deployment) -> Iterator[Client]:
    with mill.client(timeout_s=110.0) as client:
        yield client

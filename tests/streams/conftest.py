"""One deployment for all tests of streams."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.conftest import pytest_runtest_makereport
from tests.system.deployment import Deployment, Role

__all__ = ["pytest_runtest_makereport"]  # a hook: it shows the logs where a test fails

SCRIPT = Path(__file__).parent / "plugins" / "tellers.py"
PIPELINES = """
[pipelines.tell]
chain = ["tell"]
timeout_s = 20.0
stream_idle_s = 5.0

[pipelines.brisk]
chain = ["tell"]
timeout_s = 20.0
stream_idle_s = 1.0

[pipelines.tell.stages.tell]
forward_timeout_s = 1.0

[pipelines.pace]
chain = ["pace"]
timeout_s = 20.0
stream_idle_s = 10.0

[pipelines.gap]
chain = ["pace"]
stream_idle_s = 0.5

[pipelines.driven]
chain = ["driven"]
"""


class Tellers:
    """The deployment, and what its plug-ins have marked."""

    def __init__(self, mill: Deployment, marks: Path, broker: Role) -> None:
        self.mill = mill
        self.broker = broker
        self._marks = marks

    def marked(self, name: str) -> int:
        """How often plug-ins said so."""
        path = self._marks / name
        return path.stat().st_size if path.exists() else 0

    def counted(self, pipeline: str, status: int) -> float:
        """How many requests the gateway has counted with this status."""
        with self.mill.client() as client:
            text = client.get("/metrics").body.decode()
        start = f'millstream_requests_total{{pipeline="{pipeline}",'
        return sum(
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith(start) and f'status="{status}"' in line
        )

    def streaming(self, pipeline: str) -> int:
        """How many streams the broker has open."""
        (stage,) = self.mill.status()["pipelines"][pipeline]["stages"].values()
        return int(stage["streaming"])


@pytest.fixture(scope="package")
def tellers() -> Iterator[Tellers]:
    """Started once; each test leaves it as it was."""
    with tempfile.TemporaryDirectory() as marks:
        env = {"STREAM_MARKS": marks}
        with Deployment(pipelines=PIPELINES, env=env) as mill:
            broker = mill.broker()
            for name in ("Tell", "Pace", "Driven"):
                mill.worker(f"{SCRIPT}:{name}")
            mill.gateway()
            mill.wait_ready()
            yield Tellers(mill, Path(marks), broker)

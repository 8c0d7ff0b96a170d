"""The one deployment of all cases, and what was seen of it while it started."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tests.system.client import Client, HttpAnswer
from tests.system.deployment import Deployment, Role, wait_until

TOYS = Path(__file__).parent / "plugins" / "toys.py"
JSON = {"Content-Type": "application/json"}
PIPELINES = """
[pipelines.toy]
chain = ["toy"]
timeout_s = 30.0

[pipelines.stack]
chain = ["stack"]

[pipelines.small]
chain = ["toy"]
max_bytes = 1_000_000
"""


@dataclass
class Standing:
    """See the module."""

    mill: Deployment
    metrics_port: int = field(default_factory=free_port)
    readiness: list[int] = field(default_factory=list)
    """What /readyz said, from the moment when the gateway listened until all was ready."""
    early: HttpAnswer | None = None
    """The answer to a request that came before there was a broker."""

    def start(self) -> None:
        """The gateway first, as impatient clients have it."""
        mill = self.mill
        self.gateway = mill.gateway("--header-timeout", "1", "--body-timeout", "1")
        self.gateway.wait_for_output("event=listening")
        watching = [threading.Thread(target=each) for each in (self._watch, self._ask_early)]
        for thread in watching:
            thread.start()
        mill.broker("--metrics-port", str(self.metrics_port))
        self.toys: Role = mill.worker(f"{TOYS}:Toy")
        self.stacks: Role = mill.worker(f"{TOYS}:Stack")
        for thread in watching:
            thread.join()

    def _watch(self) -> None:
        """Until it has said 200 for a while."""
        with self.mill.client() as client:
            while self.readiness[-20:] != [200] * 20:
                self.readiness.append(client.get("/readyz").status)
                time.sleep(0.01)

    def _ask_early(self) -> None:
        with self.mill.client() as client:
            self.early = client.post("/pipelines/toy", b'"early"', JSON)

    # -------------------------------------------------------------- requests

    @contextmanager
    def busy(self, until: Callable[[], bool]) -> Iterator[None]:
        """The one worker of `toy` is kept busy until this is so."""
        gate = self.mill.folder / "gate"

        def hold() -> None:
            with self.mill.client(timeout_s=40.0) as client:
                client.post_json("/pipelines/toy", {"gate": str(gate)})

        def let_go() -> None:
            try:
                wait_until(until, 8.0, "the worker may go on")
            finally:
                gate.touch()

        threads = [threading.Thread(target=each) for each in (hold, let_go)]
        threads[0].start()
        wait_until(lambda: self.stage("toy")["running"] == 1, 8.0, "it is busy")
        threads[1].start()
        yield
        for thread in threads:
            thread.join()
        gate.unlink()

    def together(self, path: str, values: Sequence[Any], **headers: str) -> list[HttpAnswer]:
        """The answers to as many requests, all sent at the same time."""
        answers: dict[int, HttpAnswer] = {}

        def ask(number: int) -> None:
            names = {**JSON, **{name.replace("_", "-"): text for name, text in headers.items()}}
            with self.mill.client() as client:
                body = json.dumps(values[number]).encode()
                answers[number] = client.post(path, body, names)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(values))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [answers[number] for number in range(len(values))]

    def stage(self, name: str) -> dict[str, Any]:
        """How the only stage of a pipeline stands."""
        (stage,) = self.mill.status()["pipelines"][name]["stages"].values()
        return dict(stage)

    def answered(self, pipeline: str, status: int) -> float:
        """How many requests the gateway has answered so."""
        with self.mill.client() as client:
            text = client.get("/metrics").body.decode()
        start = f'millstream_requests_total{{pipeline="{pipeline}",'
        lines = [line for line in text.splitlines() if line.startswith(start)]
        return sum(float(line.rpartition(" ")[2]) for line in lines if f'status="{status}"' in line)

    def brokers_metrics(self) -> dict[str, float]:
        """Every sample of the broker, by its name and labels as they are written."""
        with Client(self.metrics_port) as client:
            text = client.get("/metrics").body.decode()
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

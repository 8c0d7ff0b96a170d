"""A deployment that has something to show: a slow stage, two versions of it, and load."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.system.deployment import READY_S, Deployment, wait_until

PLUGINS = Path(__file__).parent / "plugins" / "mill.py"
PIPELINES = """
[pipelines.photos]
chain = ["decode", "infer", "encode"]
timeout_s = 20.0

[pipelines.idle]
chain = ["echo"]
"""


@contextmanager
def deployment() -> Iterator[Deployment]:
    """Ready, with a canary at a quarter of the traffic."""
    with Deployment(pipelines=PIPELINES) as mill:
        mill.gateway()
        mill.broker("--state", "none")
        mill.worker(f"{PLUGINS}:Decode")
        mill.worker(f"{PLUGINS}:Infer", "--version", "1", "--processes", "2")
        mill.worker(f"{PLUGINS}:Encode", "--processes", "1")
        mill.wait_workers(4)
        wait_until(lambda: _is_ready(mill), READY_S, "its gateway serves photos")
        _give(mill, b'{"weights": {"1": 100}}')
        mill.worker(f"{PLUGINS}:Infer", "--version", "2")
        mill.wait_workers(5)
        _give(mill, b'{"weights": {"1": 75, "2": 25}}')
        yield mill


def _is_ready(mill: Deployment) -> bool:
    try:
        with mill.client() as client:
            return client.get("/readyz?pipeline=photos").status == 200
    except OSError:
        return False


def _give(mill: Deployment, weights: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    with mill.client() as client:
        assert client.post("/admin/pipelines/photos/traffic", weights, headers).status == 200


class Load:
    """Clients that ask again as soon as they are answered. A context manager."""

    def __init__(self, mill: Deployment, clients: int) -> None:
        self._mill = mill
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with self._mill.client(timeout_s=30.0) as client:
            while not self._over.is_set():
                if client.post("/pipelines/photos", b"7").status != 200:
                    time.sleep(0.05)

"""`millstream.testing`: a chain in this process answers as a deployment of the same plug-ins."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from millstream import Worker
from millstream.testing import ChainError, DeploymentError, Pipeline, deployment, pipeline
from tests.system.deployment import MARK, Deployment, wait_until

pytestmark = pytest.mark.system

PLUGINS = Path(__file__).parent / "plugins" / "parity.py"
STAGES = ("Enter", "Middle", "Leave")
FILE = """
[pipelines.parity]
chain = ["enter", "middle", "leave"]
headers = ["X-Shown"]

[pipelines.parity.stages.leave]
max_batch_size = 2
"""
REQUESTS: dict[str, tuple[bytes, dict[str, str]]] = {
    "json": (b'{"a": [1, 2.5, null]}', {}),
    "json with a type": (b"[1]", {"Content-Type": "application/json; charset=utf-8"}),
    "no json": (b"{", {}),
    "empty": (b"", {}),
    "deep": (b"[" * 200 + b"]" * 200, {}),
    "text": ("grün".encode("latin-1"), {"Content-Type": "text/plain; charset=latin-1"}),
    "odd charset": (b"x", {"Content-Type": "text/plain; charset=nope"}),
    "bytes come back": (b"\x00\xff", {"Content-Type": "image/png"}),
    "msgpack out": (b'{"a": 1}', {"Accept": "application/msgpack"}),
    "msgpack in": (b"\x81\xa1a\x01", {"Content-Type": "application/msgpack"}),
    "what a plug-in may know": (b'{"do": "about"}', {"X-Shown": "yes", "X-Hidden": "no"}),
    "a set cannot travel": (b'{"do": "set"}', {}),
    "small array": (b'{"do": "array", "count": 3}', {}),
    "large array": (b'{"do": "array", "count": 40000}', {}),
    "raises": (b'{"do": "raise"}', {}),
    "rejects": (b'{"do": "reject"}', {}),
    "returns an exception": (b'{"do": "return"}', {}),
    "writes into its item": (b'{"do": "write", "data": "xy"}', {}),
    "one result too few": (b'{"do": "short"}', {}),
    "stream": (b'{"do": "stream", "count": 3}', {}),
    "stream as lines": (b'{"do": "stream", "count": 2}', {"Accept": "application/x-ndjson"}),
    "empty stream": (b'{"do": "stream", "count": 0}', {}),
    "stream that breaks": (b'{"do": "stream", "count": 3, "breaks_at": 2}', {}),
    "stream that breaks at once": (b'{"do": "stream", "count": 3, "breaks_at": 0}', {}),
    "bytes": (b'{"do": "bytes"}', {}),
    "no answer can hold it": (b'{"do": "object"}', {}),
    "nan": (b'{"do": "nan"}', {}),
}


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    with Deployment(pipelines=FILE) as mill:
        mill.broker()
        for stage in STAGES:
            mill.worker(f"{PLUGINS}:{stage}", "--version", "7")
        mill.gateway()
        mill.wait_ready()
        yield mill


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    file = tmp_path_factory.mktemp("parity") / "pipeline.toml"
    file.write_text(FILE)
    with pipeline(file, *(f"{PLUGINS}:{stage}" for stage in STAGES), version="7") as run:
        yield run


@pytest.mark.parametrize("what", REQUESTS)
def test_a_chain_in_this_process_answers_as_a_deployment(
    what: str, mill: Deployment, chain: Pipeline
) -> None:
    body, headers = REQUESTS[what]
    headers = {"X-Request-Id": "same", **headers}
    with mill.client() as client:
        real = client.request("POST", "/pipelines/parity", body, headers)
    here = chain(
        body,
        content_type=headers.get("Content-Type"),
        accept=headers.get("Accept", ""),
        headers=headers,
        request_id="same",
    )
    assert here.status == real.status
    assert nameless(here.body) == nameless(real.body)
    for name, value in here.headers.items():
        assert real.headers[name.lower()] == value, name
    if here.status >= 400:
        assert here.code == real.code


def nameless(body: bytes) -> bytes:
    """Without the ids of errors, which are drawn by chance."""
    return re.sub(rb"error [0-9a-f]{12}", b"error ...", body)


class TestDeployment:
    """The same, as real processes."""

    def test_a_pipeline_file_and_scripts(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "pipeline.toml"
        file.write_text(FILE)
        mark = str(tmp_path)
        scripts = (f"{PLUGINS}:{stage}" for stage in STAGES)
        with (
            contextlib.suppress(ZeroDivisionError),
            deployment(file, *scripts, env={MARK: mark}, compress="1KiB") as mill,
        ):
            folder = Path(mill.broker.removeprefix("ipc://")).parent
            assert folder.is_dir()
            assert living(mark)
            array = np.arange(3, dtype=np.float32)
            assert mill.client.call("parity", array)["sum"] == 3
            with urllib.request.urlopen(f"{mill.url}/pipelines", timeout=10) as answer:
                assert b"parity" in answer.read()
            assert "worker ready" in mill.logs()
            raise ZeroDivisionError  # as a test that fails
        assert "worker ready" in capsys.readouterr().err
        assert not living(mark)
        assert not folder.exists()
        with pytest.raises(RuntimeError, match="not running"):
            _ = mill.url

    def test_a_script_that_serves(self, tmp_path: Path) -> None:
        script = tmp_path / "app.py"
        script.write_text(APP)
        with pipeline(script) as run:
            assert run(b'"a"').json() == "A"
            assert run.plugins["loud"].version == "3"
        with deployment(script, access_log=True) as mill:
            assert mill.client.call("loud", "a") == "A"
            # Lines of requests are written some moments later, and all of them only if asked for.
            wait_until(lambda: "status=200" in mill.logs(), 30.0, "the request's line")

    def test_one_whose_setup_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("lost.py").write_text(
            "from millstream import Worker\n\n\n"
            "class Lost(Worker):\n"
            "    def setup(self):\n        open('no-such-model')\n\n"
            "    def forward(self, batch):\n        return batch\n"
        )
        Path("pipeline.toml").write_text('[pipelines.lost]\nchain = ["lost"]\n')
        with (
            pytest.raises(DeploymentError, match=r"no-such-model(.|\n)*----- broker"),
            deployment("pipeline.toml", "lost.py", env={MARK: str(tmp_path)}),
        ):
            pytest.fail("it has started")
        assert not living(str(tmp_path))

    def test_ctrl_c_while_it_starts(self, tmp_path: Path) -> None:
        script = tmp_path / "test_slow.py"
        script.write_text(SLOW)
        env = {**os.environ, MARK: str(tmp_path)}
        with subprocess.Popen(
            [sys.executable, "-u", script],
            env=env,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as testing:
            wait_until((tmp_path / "setting-up").exists, 60.0, "setup has begun")
            testing.send_signal(signal.SIGINT)
            assert testing.wait(30.0) in (130, -signal.SIGINT)
        assert not living(str(tmp_path))

    def test_what_cannot_be_started(self, tmp_path: Path) -> None:
        with pytest.raises(ChainError, match="scripts need a pipeline file"):
            deployment("one.py", "two.py")
        with pytest.raises(ChainError, match="no such file"):
            deployment(tmp_path / "none.toml", "two.py")
        with pytest.raises(ChainError, match="serve has no option 'prot'; did you mean port"):
            deployment(Idle, prot=8000)  # type: ignore[call-arg]
        with pytest.raises(ChainError, match="no top-level name of its file"):
            deployment(type("Inner", (Idle,), {"__module__": __name__}))


class Idle(Worker):
    def forward(self, batch: list[Any]) -> list[Any]:
        return batch


APP = """
from millstream import Pipeline, serve, stage


@stage(max_batch_size=4)
def loud(batch):
    return [text.upper() for text in batch]


if __name__ == "__main__":
    serve(Pipeline("loud", [loud.replicas(version="3")]), port=8000)
"""

SLOW = """
import time
from pathlib import Path

from millstream import Worker
from millstream.testing import deployment


class Slow(Worker):
    def setup(self):
        Path("setting-up").touch()
        time.sleep(600)

    def forward(self, batch):
        return batch


if __name__ == "__main__":
    with deployment(Slow):
        print("it has started")
"""


def living(mark: str) -> list[int]:
    """The processes that bear this mark, but for those that are gone and not seen to."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found

"""`millstream export app.py`: the same as separate processes, under honcho or systemd."""

import configparser
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config import load_pipelines
from tests.system.deployment import Deployment
from tests.system.served import PYTHON, environment

pytestmark = pytest.mark.system

APP = """\
from millstream import Pipeline, Worker, serve, stage

class Double(Worker):
    max_batch_size = 8
    def forward(self, batch):
        return [2 * x for x in batch]

@stage(max_batch_size=8)
def add(batch):
    return [x + 1 for x in batch]

if __name__ == "__main__":
    chain = [Double.replicas(2), add]
    serve(Pipeline("sums", chain, timeout_s=4.0, stages={"add": {"max_wait_ms": 1}}), port=8000)
"""
ROLES = ("gateway", "broker", "double", "add")


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    path = f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"
    with Deployment(env={"PATH": path}) as mill:
        mill.write("app.py", APP)
        yield mill


@pytest.fixture(scope="module")
def out(mill: Deployment) -> Path:
    """The folder of an export, which has just been made."""
    ran = mill.run("export", "app.py", "--out", "deployed")
    assert ran.returncode == 0, ran.stderr
    folder = mill.folder / "deployed"
    written = {line.removeprefix("deployed/") for line in ran.stdout.split()}
    assert written == {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    return folder


def test_what_is_written(out: Path) -> None:
    assert (out / "Procfile").read_text().splitlines()[1:] == [
        "gateway: exec millstream gateway --port $PORT",
        "broker: exec millstream broker app.toml",
        "double: exec millstream worker ../app.py:Double --stage double --processes 2",
        "add: exec millstream worker ../app.py:add --stage add",
    ]
    assert "PORT=8000" in (out / ".env").read_text().splitlines()
    (config,) = load_pipelines([out / "app.toml"]).values()
    assert (config.chain, config.timeout_s) == (("double", "add"), 4.0)
    assert config.stages["add"].max_wait_ms == 1


def test_honcho_serves_the_same(mill: Deployment, out: Path) -> None:
    env = {"PORT": str(mill.port)}
    (out / ".env.test").write_text(f"PORT={mill.port}\n")
    honcho = mill.spawn(
        ["honcho", "start", "--env", ".env,.env.test"], name="honcho", cwd=out, env=env
    )
    honcho.expected_exit = 128 + signal.SIGTERM
    mill.wait_ready()
    with mill.client() as client:
        answer = client.post("/inference", b"20")
    honcho.stop()
    assert (answer.status, answer.json()) == (200, 41)


def test_the_units(mill: Deployment, out: Path) -> None:
    names = [f"app-{role}.service" for role in ROLES]
    for name in names:
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(out / "systemd" / name)
        program, command, *_ = shlex.split(unit["Service"]["ExecStart"])
        assert os.access(program, os.X_OK)
        assert command in ("gateway", "broker", "worker")
        assert unit["Service"]["Restart"] == "always"
        assert unit["Unit"]["PartOf"] == "app.target"
        assert unit["Install"]["WantedBy"] == "app.target"
    target = (out / "systemd" / "app.target").read_text()
    assert all(name in target for name in names)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_finds_nothing_wrong_with_them(mill: Deployment, out: Path) -> None:
    units = sorted((out / "systemd").iterdir())
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", *units],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**mill.env, **environment(mill)},
    )
    complaints = [line for line in ran.stderr.splitlines() if "app" in line and "/systemd/" in line]
    assert (ran.returncode, complaints) == (0, []), ran.stderr


def test_what_is_edited_is_not_replaced(mill: Deployment, out: Path) -> None:
    again = mill.run("export", "app.py", "--out", "deployed")
    assert again.returncode == 0
    procfile = out / "Procfile"
    before = procfile.read_text()
    procfile.write_text(before + "extra: exec sleep 1\n")
    mill.write("app.py", APP.replace("port=8000", "port=8001"))
    refused = mill.run("export", "app.py", "--out", "deployed")
    assert refused.returncode == 2
    assert "deployed/Procfile: not replaced" in refused.stderr
    assert "--force" in refused.stderr
    assert "PORT=8000" in (out / ".env").read_text()  # nothing was written
    assert mill.run("export", "app.py", "--out", "deployed", "--force").returncode == 0
    assert procfile.read_text() == before
    assert "PORT=8001" in (out / ".env").read_text()

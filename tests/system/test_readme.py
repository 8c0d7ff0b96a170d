"""What README.md shows is run: every command, the plug-in, the pipeline files, and the answer.

Only the port differs, so that a Millstream that runs on this machine is left alone.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.config import load_pipelines
from tests.system.deployment import Deployment
from tests.system.readme import ROOT, URL, block_with, blocks
from tests.system.served import environment, stop

pytestmark = pytest.mark.system

BIN = Path(sys.executable).parent

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
needs_make = pytest.mark.skipif(
    shutil.which("make") is None or not (ROOT / ".venv" / "bin" / "honcho").exists(),
    reason="there is no make, or no .venv to make use of",
)


@pytest.fixture
def mill() -> Iterator[Deployment]:
    """A folder for what the README has; the command is on the PATH, the port is another."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    env["PATH"] = f"{BIN}{os.pathsep}{env['PATH']}"
    env["MILLSTREAM_STATE"] = "none"  # the pipeline file is not in a folder of the test's own
    with Deployment(env=env) as mill:
        yield mill


def sh(mill: Deployment, line: str, *, cwd: Path) -> str:
    """What a command that ends by itself writes."""
    line = line.replace(URL, f"http://127.0.0.1:{mill.port}")
    ran = subprocess.run(
        line,
        shell=True,
        cwd=cwd,
        env=mill.env,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return ran.stdout


def shape(value: Any) -> Any:
    """The structure of a JSON value: keys, lengths and types, without the values."""
    match value:
        case dict():
            return {key: shape(inner) for key, inner in value.items()}
        case list():
            return [shape(inner) for inner in value]
        case _:
            return type(value).__name__


def test_every_block_is_run_by_a_test() -> None:
    assert [block.lines[0].split()[:2] for block in blocks("sh")] == [
        ["make", "run"],
        ["curl", "--data-binary"],
        ["python", "app.py"],
        ["millstream", "broker"],
        ["honcho", "start"],  # by test_procfile.py
    ]
    assert len(blocks("python")) == 2
    assert len(blocks("toml")) == 2
    assert len(blocks("json")) == 1


@needs_make
@needs_curl
def test_make_run_and_the_first_request(mill: Deployment) -> None:
    command = block_with("sh", "make run").lines[0].split()
    # The environment that runs the tests is there already: nothing to install.
    make = [*command, "-o", ".venv/.stamp-run", f"PORT={mill.port}"]
    running = mill.spawn(make, name="make", cwd=ROOT)
    running.expected_exit = -signal.SIGINT  # make ends itself by the signal that it got
    mill.wait_ready()
    (curl,) = block_with("sh", "samples/3.png").lines
    answer = json.loads(sh(mill, curl, cwd=ROOT))
    shown = json.loads(blocks("json")[0].text)
    assert answer["digit"] == shown["digit"] == 3
    assert shape(answer) == shape(shown)
    os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C does
    running.check_exit()
    assert "Error 130" in running.output
    assert "Traceback" not in running.output


@needs_curl
def test_one_file_is_enough(mill: Deployment) -> None:
    mill.write("app.py", block_with("python", "serve(").text)
    command, curl = block_with("sh", "python app.py").lines
    role = mill.spawn(command.split(), name="app", env=environment(mill))
    role.wait_for_output("Ctrl-C ends it")
    assert json.loads(sh(mill, curl, cwd=mill.folder)) == {"text": "HELLO", "length": 5}
    stop(role)


@needs_curl
def test_the_plug_in_that_is_shown(mill: Deployment) -> None:
    mill.write("shout.py", block_with("python", "Reject").text)
    mill.write("shout.toml", block_with("toml", "[pipelines.shout]").text)
    *commands, curl = block_with("sh", "millstream broker").lines
    for line in reversed(commands):  # they start in any order
        mill.spawn(
            ["sh", "-c", f"exec {line}"],
            name=line.split()[1],
            env={"MILLSTREAM_PORT": str(mill.port)},
        )
    mill.wait_ready()
    assert json.loads(sh(mill, curl, cwd=mill.folder)) == "HELLO"
    with mill.client() as client:
        refused = client.post_json("/pipelines/shout", 5)
    assert (refused.status, refused.code) == (422, "rejected")
    assert refused.json()["error"]["message"] == "send a JSON string"


def test_the_settings_that_are_shown_are_the_defaults(tmp_path: Path) -> None:
    shown = tmp_path / "shown.toml"
    shown.write_text(block_with("toml", "timeout_s").text)
    bare = tmp_path / "bare.toml"
    bare.write_text('[pipelines.digits]\nchain = ["preprocess", "infer", "postprocess"]\n')
    (with_all,) = load_pipelines([str(shown)]).values()
    (with_none,) = load_pipelines([str(bare)]).values()
    for name in with_none.__struct_fields__:
        if name != "stages":
            assert getattr(with_all, name) == getattr(with_none, name), name


def test_files_that_are_named_are_there() -> None:
    text = (ROOT / "README.md").read_text()
    links = [part.split(")")[0] for part in text.split("](")[1:]]
    assert links
    for link in links:
        assert link.startswith("http") or (ROOT / link).exists(), link

"""`millstream new x && cd x && make test && make run`, in an environment that is made for it.

All but one thing is as on a fresh machine: pip finds what it is to install in the environment that
runs the tests, and downloads nothing.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.deployment import Deployment
from tests.system.readme import block_with, blocks

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(shutil.which("make") is None, reason="there is no make"),
]
PYTHON = f"""\
#!/bin/sh
# Python, whose new environments know the packages of another, pip among them.
[ "$2" = venv ] || exec {sys.executable} "$@"
{sys.executable} -m venv --without-pip "$3" || exit
echo "import site; site.addsitedir('{sysconfig.get_path("purelib")}')" \
    >"$(echo "$3"/lib/python*/site-packages)/others.pth"
"""


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Deployment]:
    """A folder, and processes that are told of the environment which is made there."""
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {
        "PATH": path,
        "PIP_NO_INDEX": "1",
        "PYTHON": str(python),
        "MILLSTREAM": "millstream",  # whichever is there
        "MAKEFLAGS": "",
    }
    with Deployment(env=env) as mill:
        yield mill


@pytest.mark.timeout(300)
@pytest.mark.parametrize("option", ["", "--one-file"])
def test_a_new_project_works_as_it_is(option: str, mill: Deployment) -> None:
    made = mill.run("new", "the-mill", *filter(None, [option]))
    assert made.returncode == 0, made.stderr
    folder = mill.folder / "the-mill"
    tested = subprocess.run(
        ["make", "test"],
        cwd=folder,
        env=mill.env,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert re.search(r"\d passed", tested.stdout)
    assert (folder / ".venv" / "bin" / "python").exists()

    if option:  # the address that is meant for commands is not for it
        del mill.env["MILLSTREAM_BROKER"]
    env = {"PORT": str(mill.port)}
    running = mill.spawn(["make", "run"], name="make", cwd=folder, env=env)
    mill.wait_ready()
    readme = folder / "README.md"
    (curl,) = block_with("sh", "curl", readme).lines
    body = re.search(r"-d '(.*?)' ", curl)
    content_type = re.search(r"Content-Type: (\S+)'", curl)
    assert body
    assert content_type
    with mill.client() as client:
        headers = {"Content-Type": content_type[1]}
        answer = client.request("POST", "/pipelines/the-mill", body[1].encode(), headers)
    assert answer.json() == json.loads(blocks("json", readme)[0].text)
    os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C does
    running.expected_exit = running.wait()
    assert running.expected_exit in (0, 2, -signal.SIGINT)  # make's, or that of what it ran
    assert "Traceback" not in running.output


def test_what_is_made_is_free_of_findings(mill: Deployment) -> None:
    """Of one file; of a project test_docs_of_tools.py sees it."""
    mill.run("new", "the-mill", "--one-file")
    ran = mill.run("check", "the-mill/app.py", "--seconds", "0.1", "--strict")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "nothing is wrong" in ran.stdout

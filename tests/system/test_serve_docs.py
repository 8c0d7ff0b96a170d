"""The files that docs/serve.md shows are served or exported, by the commands that it shows."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ports import HOST, free_port
from tests.system.client import Client
from tests.system.deployment import Deployment, Role
from tests.system.readme import ROOT, block_with, blocks
from tests.system.served import serve, stop

pytestmark = pytest.mark.system

PAGE = ROOT / "docs" / "serve.md"
REQUESTS: dict[str, list[tuple[str, str, Any]]] = {
    "app.py": [("/inference", "a good day", {"mood": "fine"}), ("/pipelines/app", "bad", None)],
    "functions.py": [],
    "asking.py": [],
    "several.py": [("/pipelines/clean", " Ab ", "ab"), ("/pipelines/length", " Ab ", 2)],
}
"""By file: where to send what, and the answer, where it matters. (What is served of functions, and
of those that wait, `test_serve.py` shows.)"""


def files() -> dict[str, str]:
    """The Python files of the page, by the name in their first line."""
    texts = [block.text for block in blocks("python", PAGE)]
    return {text.splitlines()[0].removeprefix("# "): text for text in texts}


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    with Deployment() as mill:
        for name, text in files().items():
            mill.write(name, text)
        yield mill


def test_each_block_is_run_here() -> None:
    assert set(files()) == set(REQUESTS)
    assert [block.lines[0].split()[:2] for block in blocks("sh", PAGE)] == [
        ["python", "app.py"],
        ["millstream", "run"],
        ["millstream", "export"],
    ]


def test_what_is_shown_serves_and_answers(mill: Deployment) -> None:
    ports = {name: free_port() for name in REQUESTS}
    (run,) = block_with("sh", "millstream run", PAGE).lines
    _, command, script, *options = run.split()
    roles: dict[str, Role] = {
        script: serve(mill, script, command, *options, MILLSTREAM_PORT=str(ports[script])),
        "several.py": serve(mill, "several.py", MILLSTREAM_PORT=str(ports["several.py"])),
    }
    for name, role in roles.items():
        role.wait_for_output("Ctrl-C ends it")
        with Client(ports[name]) as client:
            for path, text, expected in REQUESTS[name]:
                answer = client.post(path, json.dumps(text).encode())
                assert answer.status == 200, answer
                assert expected is None or answer.json() == expected
    shown = block_with("", "app.py serves at", PAGE).text
    told = roles["app.py"].output.replace(f"{HOST}:{ports['app.py']}", f"{HOST}:8000")
    assert shown.rstrip() in told
    for role in roles.values():
        stop(role)


def test_what_is_shown_can_be_exported(mill: Deployment) -> None:
    (export,) = block_with("sh", "millstream export", PAGE).lines
    _, command, script, *options = export.split()
    for name in {script, "functions.py", "asking.py"}:
        ran = mill.run(command, name, *options)
        assert ran.returncode == 0, ran.stderr
        assert (mill.folder / "deployed" / f"{name.removesuffix('.py')}.toml").exists()
        shutil.rmtree(mill.folder / "deployed")

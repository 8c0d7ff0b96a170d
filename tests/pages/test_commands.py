"""Pages whose commands speak to a deployment that is there: tools, traffic, and several hosts."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.cli.ask import ask
from tests.pages.blocks import ROOT, Block, blocks_of, is_server
from tests.pages.ledger import HOSTS, TOOLS, TRAFFIC, runner
from tests.pages.shell import Shell
from tests.ports import free_port
from tests.system.deployment import READY_S, STATUS_S, Deployment, wait_until

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(200),
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl"),
]

INFER = Path(__file__).parent / "plugins" / "versioned.py"
DIGITS = '[pipelines.digits]\nchain = ["infer"]\n'
EXTRAS = "pip install"
"""Commands that begin so are not run: what is installed is no matter of a deployment."""


def commands_of(page: str) -> Iterator[tuple[Block, str]]:
    """Those that are run here."""
    for block in blocks_of(ROOT / page):
        if runner(block) == "test_commands.py":
            for command in block.commands:
                yield block, command


# ------------------------------------------------------------------ tools


@pytest.mark.parametrize("page", TOOLS)
def test_tools(press: Shell, page: str) -> None:
    for _, command in commands_of(page):
        if command.startswith((EXTRAS, "make ")):
            continue
        if not is_server(command):
            press.run(command)
            continue
        press.start(command).wait_for_output("event=listening")


# ------------------------------------------------------------------ traffic


@pytest.fixture(scope="module")
def digits() -> Iterator[Shell]:
    """The pipeline digits, with versions 1 and 2 in its folder of models, and 3 built elsewhere."""
    with Deployment(pipelines=DIGITS) as mill:
        script = mill.folder / "examples" / "digits" / "infer.py"
        script.parent.mkdir(parents=True)
        script.write_text(INFER.read_text())
        for folder in ("models/digits/1", "models/digits/2", "build/model"):
            place = mill.folder / folder
            place.mkdir(parents=True)
            (place / "digits.pt").write_text(folder)
            (place / "READY").touch()
        mill.broker()
        mill.gateway()
        shell = Shell(mill)
        yield shell


def test_traffic(digits: Shell) -> None:
    """In the order of the ledger: each page leaves off where the next one may begin."""
    started: set[str] = set()
    for page in TRAFFIC:
        commands = [command for _, command in commands_of(page)]
        if started:
            begin_anew(digits, brings_3=any(each.startswith("cp ") for each in commands))
        for command in commands:
            if not is_server(command):
                digits.run(command)
            elif command not in started:
                digits.start(command)
                digits.mill.wait_ready()
                started.add(command)
            if command.startswith("cp "):
                wait_until(lambda: "3" in traffic(digits), READY_S, f"{page}: 3 is found")


def begin_anew(digits: Shell, *, brings_3: bool) -> None:
    """Version 2 answers; a page that brings 3 finds none."""
    traffic(digits, weights={"2": 100})
    if brings_3:
        shutil.rmtree(digits.mill.folder / "models/digits/3")
        wait_until(lambda: "3" not in traffic(digits), READY_S, "3 has gone")


def traffic(digits: Shell, **change: Any) -> set[str]:
    """The versions that are there, after this change."""
    body = json.dumps({"pipeline": "digits", **change}).encode()
    answer = ask(digits.mill.address, "traffic", keys=None, body=body, timeout_s=STATUS_S)
    known = json.loads(answer)["versions"]
    return {each["version"] for each in known if each["state"] != "gone"}


# ------------------------------------------------------------------ several hosts


def test_hosts() -> None:
    """All of them are this one, and the address of the broker is another."""
    port = free_port()
    replaced = {
        "tcp://0.0.0.0:5570": f"tcp://127.0.0.1:{port}",
        "tcp://10.0.0.5:5570": f"tcp://127.0.0.1:{port}",
        "--host 0.0.0.0": "--host 127.0.0.1",
    }
    with Deployment(address=f"tcp://127.0.0.1:{port}") as mill:
        mill.write("digits.toml", DIGITS)
        mill.write("infer.py", "from millstream import Worker\n\n\nclass Infer(Worker):\n"
                   "    def forward(self, batch):\n        return batch\n")  # fmt: skip
        shell = Shell(mill, replaced)
        for page in HOSTS:
            if page != HOSTS[0]:  # each begins by making keys
                shutil.rmtree(mill.folder / "keys")
            for _, command in commands_of(page):
                if is_server(command):
                    shell.start(command, port=mill.port)
                else:
                    shell.run(command)
            mill.wait_ready()

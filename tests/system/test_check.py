"""`millstream check` as a command: its exit codes, what it prints, and plug-ins that take its child
along.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from millstream.__main__ import main
from tests.system.deployment import COMMAND, wait_until

pytestmark = pytest.mark.system

ECHO = """\
import os
from pathlib import Path

from millstream import Worker


class Echo(Worker):
    def setup(self):
        print("loading")
        self.example = 1
        {setup}

    def forward(self, batch):
        {forward}
        return batch
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("MILLSTREAM_RATE", "MILLSTREAM_PIPELINE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def script(*, setup: str = "pass", forward: str = "pass") -> None:
    Path("echo.py").write_text(ECHO.format(setup=setup, forward=forward))


class Ran(NamedTuple):
    """What the command came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def check(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """The command, in this process; its child is one of its own."""

    def run(*options: str) -> Ran:
        code = main(["check", *options, "--seconds", "0.05"])
        return Ran(code, *capfd.readouterr())

    return run


Check: TypeAlias = Callable[..., Ran]


def test_nothing_wrong(check: Check) -> None:
    script()
    ran = check("echo.py", "--json", "--rate", "10")
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)  # and nothing that the plug-in has printed
    assert report["stages"][0]["gives"] == "JSON, 1 bytes"
    assert report["load"]["stages"][0]["workers"] == 1
    assert "loading" in ran.err


def test_what_the_procfile_starts(check: Check) -> None:
    script()
    Path("p.toml").write_text('[pipelines.p]\nchain = ["ecoh"]\n')
    Path("Procfile").write_text(
        "broker: exec millstream broker p.toml\necho: exec millstream worker echo.py\n"
    )
    ran = check()
    assert ran.code == 1
    assert "wrong: p.toml:2: the chain has a stage 'ecoh'" in ran.out


def test_notes_count_if_asked_for(check: Check) -> None:
    script()
    Path("echo.py").write_text(Path("echo.py").read_text().replace("self.example = 1", ""))
    assert check("echo.py").code == 0
    ran = check("echo.py", "--strict")
    assert ran.code == 1
    assert "note: echo.py:7: Echo was not run" in ran.out


@pytest.mark.parametrize(
    ("where", "code", "words"),
    [
        ("setup", "os.kill(os.getpid(), 11)", "by SIGSEGV in the setup of echo (echo.py:7)"),
        ("forward", "os._exit(7)", "with exit code 7 in the warm-up of echo (echo.py:7)"),
    ],
)
def test_a_plug_in_that_takes_the_process_along(
    where: str, code: str, words: str, check: Check
) -> None:
    script(**{where: code})
    ran = check("echo.py")
    assert ran.code == 1
    assert f"wrong: the process has ended {words}; a worker would die of it, too" in ran.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["ehco.py"], "ehco.py: no such file; did you mean echo.py?"),
        (["p.tmol"], "is no Python script"),
        (["none.toml", "echo.py"], "none.toml: no such file"),
        (["echo.py", "--input", "none"], "--input: none: no such file"),
        (["echo.py", "--rate", "0"], "--rate: must be a number"),
        ([], "what is to be checked?"),
    ],
)
def test_wrong_usage(options: list[str], words: str, check: Check) -> None:
    script()
    ran = check(*options)
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert words in line


def test_ctrl_c_leaves_nothing() -> None:
    script(setup="Path('in-setup').touch(); __import__('time').sleep(600)")
    words = [*COMMAND, "check", "echo.py"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as checking:
        wait_until(Path("in-setup").exists, 60.0, "setup has begun")
        (child,) = psutil.Process(checking.pid).children()
        checking.send_signal(signal.SIGINT)  # it alone, as `kill` does
        assert checking.wait(30.0) == 130
        assert checking.stdout is not None
        assert checking.stdout.read() == b""
    wait_until(lambda: not child.is_running(), 10.0, "the child is gone")


def test_it_needs_neither_broker_nor_web_server() -> None:
    code = (
        "import sys; from millstream.check.child import check\n"
        "from millstream.check.report import Asked\n"
        "check(Asked(targets=['echo.py'], seconds=0.01, rate_per_s=10.0), lambda _: None)\n"
        "print([name for name in ('aiohttp', 'torch', 'zmq') if name in sys.modules])"
    )
    script()
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ran.stdout.splitlines()[-1] == b"[]"

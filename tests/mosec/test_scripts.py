"""Scripts and their mistakes: how they are run, and how they end."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types
import pytest

from millstream import mosec
from millstream.mosec import Runtime, Server, Worker
from tests.mosec.conftest import SCRIPTS
from tests.ports import free_port
from tests.system.deployment import COMMAND, READY_S, Deployment, wait_until

SHIM = Path(mosec.__file__).parent / "shim"


def run(*argv: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """A command that ends by itself."""
    return subprocess.run(
        argv,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_script_finds_the_package_by_the_path_and_ends_with_its_daemon() -> None:
    with Deployment(env={"PYTHONPATH": str(SHIM)}) as mill:
        argv = [sys.executable, str(SCRIPTS / "short.py"), "--port", str(mill.port)]
        role = mill.spawn([*argv, "--with-daemon"], name="script")
        mill.wait_ready()
        with mill.client() as client:
            assert client.post("/inference", b'{"n": 3}').json() == {"n": 3}
        (reader,) = [
            child
            for child in psutil.Process(role.pid).children()
            if "sys.stdin.read()" in child.cmdline()[-1]
        ]
        reader.terminate()
        role.expected_exit = 2
        role.check_exit()
        assert "daemon 'reader' has ended with exit code -15" in role.output


def test_the_module_prints_the_folder_for_the_path() -> None:
    done = run(sys.executable, "-m", "millstream.mosec")
    assert Path(done.stdout.strip()) == SHIM.resolve()


def test_a_dry_run_sends_the_example_through_all_stages() -> None:
    done = run(*COMMAND, "mosec", str(SCRIPTS / "short.py"), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert '"result_size"' in done.stderr
    assert '"forward_ms": {"Echo_1"' in done.stderr


class Echo(Worker):
    """Gives back what it gets."""

    def forward(self, data: Any) -> Any:
        return data


@pytest.fixture(autouse=True)
def _level(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server sets it for its workers."""
    monkeypatch.setenv("MOSEC_LOGGER_LEVEL", "")


@pytest.mark.parametrize(
    ("append", "wanted"),
    [
        ({"worker": dict}, "Runtime: worker must be inherited from mosec.Worker"),
        ({"worker": Worker}, "Runtime: Worker has no forward"),
        ({"num": 0}, "Runtime: worker number must be no less than 1"),
        ({"num": True}, "Runtime: worker number must be integer"),
        ({"max_batch_size": 0}, "Runtime: maximum batch size must be no less than 1"),
        ({"timeout": -1}, "Runtime: forward timeout must be no less than 0"),
        ({"env": []}, "Runtime: len(env) must equal to num"),
        ({"env": [{"A": 1}]}, "Runtime: env must be a list of string dictionary"),
        ({"start_method": "thread"}, "Runtime: start method must be one of"),
        ({"route": "/metrics"}, "append_worker: '/metrics' is reserved"),
        ({"route": ["/a", "/"]}, "append_worker: '/' is reserved"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_its_place(
    append: dict[str, Any],
    wanted: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["script.py"])
    with pytest.raises(SystemExit) as ended:
        Server().append_worker(**{"worker": Echo, **append})
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(rf"\S*test_scripts.py:\d+: {re.escape(wanted)}", line)


def test_other_mistakes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def error_of(*argv: str, run: bool = False) -> str:
        monkeypatch.setattr(sys, "argv", ["script.py", *argv])
        with pytest.raises(SystemExit) as ended:
            Server().run() if run else Server()
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert error_of("--port", "x").endswith("argument --port: invalid int value: 'x'")
    assert error_of(run=True).endswith("run: no worker is registered; append_worker(…) adds one")
    monkeypatch.setattr(sys, "argv", ["script.py"])
    twice = Runtime(Echo)
    server = Server()
    server.register_runtime({"/a": [twice, twice]})
    with pytest.raises(SystemExit):
        server.register_daemon("d", None)  # type: ignore[arg-type]
    with pytest.raises(SystemExit):
        server.run()
    assert "/a: Echo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        ([], "has ended without running a Server"),
        (["--prot", "80"], "no such option: --prot; did you mean --port?"),
    ],
)
def test_a_mistake_of_the_command_is_told_in_one_line(
    tmp_path: Path, argv: list[str], wanted: str
) -> None:
    path = tmp_path / "script.py"
    path.write_text("from mosec import Server\nServer()\n")
    done = run(*COMMAND, "mosec", str(path), *argv)
    assert done.returncode == 2
    assert wanted in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_that_is_taken_is_told_in_one_line() -> None:
    with Deployment() as mill:
        port = str(free_port())
        first = mill.start("mosec", str(SCRIPTS / "short.py"), "--port", port)
        first.wait_for_output("listening url=", READY_S)
        done = run(*COMMAND, "mosec", str(SCRIPTS / "short.py"), "--port", port)
        assert done.returncode == 2
        assert f":{port}: Address already in use" in done.stderr.splitlines()[-1]
        first.send(signal.SIGINT)
        wait_until(lambda: not first.is_running, READY_S)


def test_a_worker_that_cannot_be_made_ends_it_with_its_own_traceback(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "from mosec import Server, Worker\n"
        "class Broken(Worker):\n"
        "    def __init__(self): self.model = {}['weights']\n"
        "    def forward(self, data): return data\n"
        "if __name__ == '__main__':\n"
        "    server = Server(); server.append_worker(Broken); server.run()\n"
    )
    done = run(*COMMAND, "mosec", str(path), "--port", str(free_port()))
    assert done.returncode == 3
    assert "line 3, in __init__" in done.stderr
    assert "KeyError: 'weights'" in done.stderr

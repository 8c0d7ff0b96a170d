"""The commands as processes: signals, exit codes, one-line complaints, and starts in any order."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.client import HttpAnswer
from tests.system.deployment import Deployment, Role, wait_until

pytestmark = pytest.mark.system

PLUGINS = Path(__file__).parent / "plugins"
ECHO = PLUGINS / "echo.py"
ECHO_PIPELINE = '[pipelines.echo]\nchain = ["echo"]\n'
PATH = "/pipelines/echo"


@pytest.fixture
def mill() -> Iterator[Deployment]:
    """A deployment that has not started anything yet."""
    with Deployment(pipelines=ECHO_PIPELINE) as mill:
        yield mill


@pytest.fixture(scope="module")
def running() -> Iterator[Deployment]:
    """A deployment that is up."""
    with Deployment(pipelines=ECHO_PIPELINE) as mill:
        mill.broker()
        mill.worker(ECHO)
        mill.gateway()
        mill.wait_ready()
        yield mill


def complaint(stderr: str) -> str:
    """The one line among its log with which a worker's command ends."""
    (line,) = [line for line in stderr.splitlines() if line.startswith("millstream worker: ")]
    return line.removeprefix("millstream worker: ")


# Starts


def test_all_start_in_any_order_and_an_early_request_is_answered(mill: Deployment) -> None:
    answers: list[HttpAnswer] = []

    def ask_early() -> None:
        with mill.client() as client:
            answers.append(client.post(PATH, b'"early"'))

    gateway = mill.gateway()
    gateway.wait_for_output("listening")
    with mill.client() as client:
        assert client.get("/livez").status == 200
        unready = client.get("/readyz")
        assert unready.status == 503
        assert unready.json()["reasons"]
    asking = threading.Thread(target=ask_early)
    asking.start()
    worker = mill.worker(ECHO)
    worker.wait_for_output("worker started")
    assert not answers
    mill.broker()
    mill.wait_ready()
    asking.join(20)
    assert [(answer.status, answer.json()) for answer in answers] == [(200, "early")]


def test_a_second_broker_at_the_same_address_says_so(running: Deployment) -> None:
    ran = running.run("broker", "pipelines.toml")
    assert ran.returncode == 2
    assert ran.stderr == f"millstream: a broker is already running at {running.address}\n"
    with running.client() as client:
        assert client.post(PATH, b"1").status == 200


# Signals


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_each_role_ends_in_order(mill: Deployment, signum: signal.Signals) -> None:
    roles = [mill.broker(), mill.worker(ECHO, "--processes", "2"), mill.gateway()]
    mill.wait_ready()
    for role in reversed(roles):
        role.stop(signum)
        assert "Traceback" not in role.output


def test_ctrl_c_before_anything_is_ready_is_quiet(mill: Deployment) -> None:
    roles = [mill.worker(ECHO), mill.gateway()]
    roles[0].wait_for_output("worker started")
    roles[1].wait_for_output("listening")
    for role in roles:
        role.stop(signal.SIGINT)
        assert "Traceback" not in role.output


# Complaints


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("gateway --prot 1", "no such option: --prot; did you mean --port?"),
        ("broker pipeline.toml", "pipeline.toml: "),
        ("broker typo.toml", "did you mean timeout_s?"),
        ("worker ehco.py", "ehco.py: "),
        ("worker loud.py --device gpu", "--device: "),
        ("broker pipelines.toml --broker tcp://0.0.0.0:5570", "millstream keys DIR"),
        ("broker pipelines.toml --broker tcp://*:5570", "--insecure"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_loaded(
    running: Deployment, line: str, complaint: str
) -> None:
    running.write("typo.toml", '[pipelines.echo]\nchain = ["echo"]\ntimeout = 3.0\n')
    running.write("loud.py", "raise SystemExit('this script must not be loaded')\n")
    ran = running.run(*line.split())
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert complaint in ran.stderr
    assert ran.stderr.startswith("millstream: ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("with_broker", "options"), [(True, ()), (True, ("--processes", "2")), (False, ())]
)
def test_a_setup_that_raises_is_shown_once(
    running: Deployment, mill: Deployment, with_broker: bool, options: tuple[str, ...]
) -> None:
    where = running if with_broker else mill
    error = "OSError: the weights are not where they should be"
    ran = where.run("worker", str(PLUGINS / "broken_setup.py"), *options)
    assert ran.returncode == 3
    assert ran.stderr.count("Traceback (most recent call last)") == 1
    assert ran.stderr.count('raise OSError("the weights are not where they should be")') == 1
    assert complaint(ran.stderr) == f"setup failed: {error}"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("class Echo(\n", "SyntaxError: '(' was never closed"),
        ("import no_such_module_at_all\n", "No module named 'no_such_module_at_all'"),
        ("x = 1\n", "Worker"),
    ],
)
def test_a_script_that_cannot_be_loaded(running: Deployment, script: str, said: str) -> None:
    path = running.write("unloadable.py", script)
    ran = running.run("worker", str(path), "--processes", "2")
    assert ran.returncode == 3
    assert ran.stderr.count("Traceback (most recent call last)") <= 1
    assert complaint(ran.stderr).startswith("unloadable.py: ")
    assert said in complaint(ran.stderr)


def test_a_stage_that_no_pipeline_has(running: Deployment) -> None:
    ran = running.run("worker", str(ECHO), "--stage", "ehco")
    assert ran.returncode == 2
    assert "ehco" in complaint(ran.stderr)
    assert "Traceback" not in ran.stderr


def test_a_port_that_is_taken(running: Deployment) -> None:
    ran = running.run("gateway", "--port", str(running.port))
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert f"127.0.0.1:{running.port}" in ran.stderr


# Status


def test_status_shows_pipelines_and_stages(running: Deployment) -> None:
    ran = running.run("status")
    assert ran.returncode == 0
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert lines[0].startswith(f"broker at {running.address}, up ")
    assert any(line.startswith("pipeline echo: ready, ") for line in lines)
    head = next(line.split() for line in lines if "queue" in line)
    assert head == ["stage", "queue", "running", "ready", "batch", "t(b)", "done", "failed"]
    echo = next(line.split() for line in lines if line.split()[:1] == ["echo"])
    assert echo[1:5] == ["0", "0", "1/1", "32"]
    assert str(ECHO) in ran.stdout


def test_status_without_a_broker(mill: Deployment) -> None:
    for options in ((), ("--json",)):
        ran = mill.run("status", *options)
        assert ran.returncode == 1
        assert ran.stdout == ""
        assert ran.stderr.startswith(f"millstream: no broker answers at {mill.address}")
        assert ran.stderr.count("\n") == 1


def test_status_watch_goes_on_until_ctrl_c(running: Deployment) -> None:
    watch: Role = running.start("status", "--watch")
    wait_until(lambda: watch.output.count("pipeline echo: ready") >= 2, 30, "two reports")
    watch.stop(signal.SIGINT)
    assert "Traceback" not in watch.output

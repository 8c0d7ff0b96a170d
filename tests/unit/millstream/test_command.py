"""The command line: each mistake is one line and exit code 2, and help is complete."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from millstream import __version__
from millstream.__main__ import main
from millstream.cli.app import COMMANDS

NO_KEYS = ": no such folder; make keys with: millstream keys DIR"
PIPELINE = '[pipelines.a]\nchain = ["infer"]\n'


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests, and a default address of their own."""
    for name in [name for name in os.environ if name.startswith("MILLSTREAM_")]:
        monkeypatch.delenv(name)
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a script and a pipeline file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.py").write_text("raise SystemExit('this script must not be loaded')\n")
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "models").mkdir()
    return tmp_path


def complaint(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line that a wrong command ends with."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"millstream: .+\n", err), err
    return err.removeprefix("millstream: ").rstrip("\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "",
            f"a command is missing, one of {', '.join(COMMANDS)}; see --help",
        ),
        ("wroker", "no such command: wroker; did you mean worker?"),
        ("xyz", f"no such command: xyz; there are {', '.join(COMMANDS)}"),
        ("--prot", "no such option: --prot"),
        ("gateway --prot 1", "no such option: --prot; did you mean --port?"),
        ("gateway --zzz", "no such option: --zzz"),
        ("gateway -p 1", "no such option: -p"),
        ("gateway --port", "option '--port' requires an argument"),
        ("gateway --port=", "--port: must be a port, 1 to 65535, not ''"),
        ("gateway --port x", "--port: must be a port, 1 to 65535, not 'x'"),
        ("gateway --port 0", "--port: must be a port, 1 to 65535, not '0'"),
        ("gateway --port 65536", "--port: must be a port, 1 to 65535, not '65536'"),
        ("gateway --port 80.5", "--port: must be a port, 1 to 65535, not '80.5'"),
        ("gateway --host a/b", "--host: must be a host such as 127.0.0.1, not 'a/b'"),
        ("gateway --max-body 0", "--max-body: must be a size such as 64MiB, not '0'"),
        ("gateway --max-body 1TB", "--max-body: must be a size such as 64MiB, not '1TB'"),
        ("gateway --arena much", "--arena: must be a size such as 64MiB, not 'much'"),
        ("gateway --arena -1", "--arena: must be a size such as 64MiB, not '-1'"),
        ("gateway --arena=", "--arena: must be a size such as 64MiB, not ''"),
        (
            "worker infer.py --arena 1048575",
            "--arena: must be 0 (no arena) or at least 1MiB, not '1048575'",
        ),
        (
            "gateway --body-timeout nan",
            "--body-timeout: must be a number of seconds, more than 0 and at most 86400, not 'nan'",
        ),
        (
            "gateway --cors-origin http://a.example,b.example",
            "--cors-origin: must be an origin such as https://example.org, or '*', not 'b.example'",
        ),
        (
            "gateway --cors-origin https://a.example/",
            "--cors-origin: must be an origin such as https://example.org, or '*', "
            "not 'https://a.example/'",
        ),
        ("gateway --compress few", "--compress: must be a size such as 64MiB, not 'few'"),
        ("call p", "give either JSON or --file FILE, and not both"),
        ("call p 1 --file x", "give either JSON or --file FILE, and not both"),
        ("call p --file no.png", "no.png: No such file or directory"),
        ("call p 1 --retries -1", "--retries: must be a whole number, 0 or more, not '-1'"),
        (
            "call p 1 --url host:80",
            "'host:80' is no URL of a gateway, such as http://127.0.0.1:8000",
        ),
        ("gateway extra", "got unexpected extra argument(s) (extra)"),
        ("gateway --access-log=1", "option '--access-log' does not take a value"),
        ("gateway --keys no", f"no{NO_KEYS}"),
        (
            "gateway --broker localhost:1",
            "--broker: 'localhost:1' is no address of a broker; "
            "one is ipc:///run/millstream/broker.sock or tcp://10.0.0.5:5570",
        ),
        (
            "gateway --broker tcp://*:5570",
            "--broker: 'tcp://*:5570' names no host to connect to; "
            "give the broker's own, such as tcp://127.0.0.1:5570",
        ),
        ("worker", "SCRIPT.py[:Class] is missing"),
        ("worker ifner.py", "ifner.py: no such file; did you mean infer.py?"),
        ("worker other.py", "other.py: no such file"),
        ("worker pipeline.toml", "pipeline.toml: is no Python script, whose name ends with .py"),
        ("worker infer.py:", "infer.py:: '' is no name of a class"),
        ("worker infer.py:a-b", "infer.py:a-b: 'a-b' is no name of a class"),
        ("worker infer:py", "infer:py: is no Python script, whose name ends with .py"),
        (
            "worker infer.py --processes 0",
            "--processes: must be a whole number, 1 or more, not '0'",
        ),
        (
            "worker infer.py --processes two",
            "--processes: must be a whole number, 1 or more, not 'two'",
        ),
        (
            "worker infer.py --device gpu",
            "--device: must be auto, cpu, cuda or a list such as cuda:0,1, not 'gpu'",
        ),
        (
            "worker infer.py --device cuda:0,",
            "--device: must be auto, cpu, cuda or a list such as cuda:0,1, not 'cuda:0,'",
        ),
        (
            "worker infer.py --stage a/b",
            "--stage: must be 1 to 64 of the characters A-Z a-z 0-9 _ . -, not 'a/b'",
        ),
        ("worker infer.py --models no", "--models: no: no such folder"),
        (
            "worker infer.py --models ./modles/",
            "--models: ./modles/: no such folder; did you mean models?",
        ),
        ("worker infer.py --models infer.py", "--models: infer.py: is no folder"),
        (
            "worker infer.py --models models --version 3",
            "--version and --models exclude each other: there each folder is one",
        ),
        (
            "worker infer.py --models models --model-dir models",
            "--model-dir and --models exclude each other: there each folder is one",
        ),
        (
            "worker infer.py --versions all",
            "--versions is about the versions in --models DIR, which is missing",
        ),
        (
            "worker infer.py --models models --versions 3",
            "--versions: must be latest:N, all, or specific with a list such as specific:2,5, "
            "not '3'",
        ),
        (
            "worker infer.py --keep-warm -1",
            "--keep-warm: must be a number of seconds, 0 to 86400, not '-1'",
        ),
        ("broker", "PIPELINE.toml is missing"),
        ("broker no.toml", "no.toml: no such file"),
        ("broker pipelin.toml", "pipelin.toml: no such file; did you mean pipeline.toml?"),
        (
            "broker pipeline.toml --metrics-port -1",
            "--metrics-port: must be a port, 1 to 65535, not '-1'",
        ),
        (
            "broker pipeline.toml --broker tcp://0.0.0.0:5570",
            "tcp://0.0.0.0:5570 lets other hosts in, so it needs keys: make them with "
            "'millstream keys DIR', then give '--keys DIR' on each side "
            "(or --insecure, to let anybody join)",
        ),
        (
            "broker pipeline.toml --broker tcp://0.0.0.0:5570 --keys no",
            "no: no such folder; make keys with: millstream keys DIR",
        ),
        ("keys", "DIR is missing"),
        ("status --jsn", "no such option: --jsn; did you mean --json?"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_one_line(capsys: pytest.CaptureFixture[str], line: str, message: str) -> None:
    assert complaint(capsys, *line.split(" ") if line else ()) == message


@pytest.mark.parametrize(
    ("setting", "line", "message"),
    [
        ("PORT=x", "gateway", "MILLSTREAM_PORT: must be a port, 1 to 65535, not 'x'"),
        ("PORT=x", "gateway --port y", "--port: must be a port, 1 to 65535, not 'y'"),
        (
            "ARENA=4KiB",
            "worker infer.py",
            "MILLSTREAM_ARENA: must be 0 (no arena) or at least 1MiB, not '4KiB'",
        ),
        ("ACCESS_LOG=1", "gateway --keys no", f"no{NO_KEYS}"),
        ("ACCESS_LOG=Off", "gateway --keys no", f"no{NO_KEYS}"),
        ("ACCESS_LOG=maybe", "gateway", "MILLSTREAM_ACCESS_LOG: must be 1 or 0, not 'maybe'"),
        (
            "VERSIONS=latest",
            "worker infer.py --models models",
            "MILLSTREAM_VERSIONS: must be latest:N, all, or specific with a list such as "
            "specific:2,5, not 'latest'",
        ),
        (
            "MODELS=models",
            "worker infer.py --version 3",
            "--version and --models exclude each other: there each folder is one",
        ),
        (
            "PROCESSES=0",
            "worker infer.py",
            "MILLSTREAM_PROCESSES: must be a whole number, 1 or more, not '0'",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_environment_is_named(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    setting: str,
    line: str,
    message: str,
) -> None:
    variable, _, value = setting.partition("=")
    monkeypatch.setenv(f"MILLSTREAM_{variable}", value)
    assert complaint(capsys, *line.split()) == message


def test_a_mistake_in_a_pipeline_file(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "pipeline.toml").write_text(PIPELINE + "[pipelines.a.stages.infer]\nmax_wait = 1\n")
    assert complaint(capsys, "broker", "pipeline.toml") == (
        "pipeline.toml: [pipelines.a.stages.infer] max_wait: no such key; did you mean max_wait_ms?"
    )


def test_a_broker_folder_that_is_not_ours_alone(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    open_folder = folder / "millstream"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    message = (
        f"ipc://{open_folder}/broker.sock: others may write to the folder {open_folder} "
        "(mode 0777); chmod 700 it"
    )
    for command in (["broker", "pipeline.toml"], ["gateway"], ["worker", "infer.py"], ["status"]):
        assert complaint(capsys, *command) == message


def test_a_path_too_long(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = folder / ("x" * 100)
    deep.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert complaint(capsys, "status").startswith("the path of an ipc address has at most 107 ")


def test_keys_are_made_once(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert main(["keys", "k"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(
        "Keys made in k:\n"
        "  on the broker's host   broker.public  broker.secret  clients/\n"
        "  on every other host    broker.public  client.public  client.secret\n"
    )
    assert complaint(capsys, "keys", "k") == "k/broker.public is there already; choose a new folder"
    (folder / "k" / "client.secret").chmod(0o644)
    assert complaint(capsys, "worker", "infer.py", "--keys", "k") == (
        "k/client.secret: others can read or change it (mode 0644); chmod 600 it"
    )
    (folder / "k" / "broker.secret").write_text("nonsense")
    assert complaint(capsys, "broker", "pipeline.toml", "--keys", "k") == (
        "k/broker.secret: holds no key, which is 40 characters of z85"
    )


def test_help_names_every_variable_and_shows_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^  {command}  ", overview, re.MULTILINE)
        assert main([command, "-h"]) == 0
        text = capsys.readouterr().out
        assert f"Example:\n    millstream {command} " in text
        words = " ".join(text.split())
        for option in re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE):
            assert f"MILLSTREAM_{option[2:].replace('-', '_').upper()}" in words


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"millstream {__version__}\n"


def test_what_a_command_loads(folder: Path) -> None:
    """A mistake is told before anything is loaded; a worker's host needs no web server."""
    code = (
        "import sys; from millstream.__main__ import main\n"
        "codes = [main(['--help']), main(['worker', 'infer.py', '--device', 'x'])]\n"
        "codes += [main(['gateway', '--access-log', '--keys', 'no', '--cors-origin', '*'])]\n"
        "heavy = {'aiohttp', 'zmq', 'torch', 'numpy', 'rich', 'asyncio', 'prometheus_client',\n"
        " 'sqlite3', 'pydantic'}\n"
        "print('loaded', codes, sorted(heavy & set(sys.modules)))"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "loaded [0, 2, 2] []"


def test_a_signal_in_the_last_moment_changes_no_exit_code() -> None:
    """Python has taken its handlers back by then."""
    code = (
        "import os, signal, sys; from millstream.__main__ import main\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):\n"
        "        kill(pid, number)\n"
        "late = Late()\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\n"
        "sys.argv[1:] = ['--version']\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0

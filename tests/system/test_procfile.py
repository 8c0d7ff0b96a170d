"""The Procfile under honcho, as `make run` starts it: the digits pipeline, scaled, and its end.

One deployment serves all tests here; the last one stops it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.client import HttpAnswer
from tests.system.deployment import STOP_S, Deployment, Role, wait_until
from tests.system.load import Load, Request
from tests.system.readme import ROOT, block_with

pytestmark = pytest.mark.system

DIGITS = ROOT / "examples" / "digits"
BIN = Path(sys.executable).parent
PATH = "/pipelines/digits"
PNG = {"Content-Type": "image/png"}
SIGTERM_EXIT = 143
"""honcho's, after SIGTERM: 128 + 15."""
WORKERS = {"preprocess": 2, "infer": 4, "postprocess": 1}
"""Of each stage, with the options that the README shows."""


@pytest.fixture(scope="module")
def mill() -> Iterator[Deployment]:
    """A deployment whose processes honcho starts."""
    if not (DIGITS / "model" / "digits.pt").exists():
        subprocess.run([sys.executable, DIGITS / "train.py"], check=True, timeout=55)
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    # Whoever runs the tests may have a broker of their own beside that pipeline file.
    with Deployment(env={"PATH": path, "MILLSTREAM_STATE": "none"}) as mill:
        yield mill


@pytest.fixture(scope="module")
def honcho(mill: Deployment) -> Role:
    """The Procfile with two workers for two of its stages, ready."""
    (mill.folder / "examples").symlink_to(ROOT / "examples")
    shutil.copy(ROOT / "Procfile", mill.folder)
    # honcho prefers what .env says to what it is told, so another port is another such file.
    mill.write(".env", f"{(ROOT / '.env').read_text()}\nPORT={mill.port}\n")
    (line,) = block_with("sh", "honcho start").lines
    role = mill.spawn(["sh", "-c", f"exec {line}"], name="honcho")
    role.expected_exit = SIGTERM_EXIT
    mill.wait_ready()
    mill.wait_workers(sum(WORKERS.values()))
    return role


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("digit", range(10))
def test_curl_gets_the_digit_of_each_sample(mill: Deployment, honcho: Role, digit: int) -> None:
    sample = DIGITS / "samples" / f"{digit}.png"
    curl = ["curl", "-sS", "--fail", "--max-time", "20", "--data-binary", f"@{sample}"]
    url = f"http://127.0.0.1:{mill.port}{PATH}"
    for header in ([], ["-H", "Content-Type: image/png"]):
        ran = subprocess.run([*curl, *header, url], capture_output=True, timeout=25, check=True)
        assert re.match(rb'\{"digit":%d,' % digit, ran.stdout), ran.stdout


def test_each_stage_has_as_many_workers_as_honcho_was_told(mill: Deployment, honcho: Role) -> None:
    stages = mill.status()["pipelines"]["digits"]["stages"]
    ready = {name: stage["ready_workers"] for name, stage in stages.items()}
    assert ready == WORKERS
    assert Counter(worker["stage"] for worker in mill.workers()) == WORKERS


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"not a picture", PNG),
        (b"", PNG),
        (b'{"digit": 3}', {"Content-Type": "application/json"}),
        ((DIGITS / "samples" / "3.png").read_bytes()[:60], PNG),
    ],
    ids=["no picture", "empty", "JSON", "cut short"],
)
def test_what_is_no_picture_is_refused(
    mill: Deployment, honcho: Role, body: bytes, headers: dict[str, str]
) -> None:
    with mill.client() as client:
        answer = client.post(PATH, body, headers)
        assert 400 <= answer.status < 500
        assert answer.code == "rejected"
        sample = (DIGITS / "samples" / "7.png").read_bytes()
        assert client.post(PATH, sample, PNG).json()["digit"] == 7


def test_sigterm_under_load_ends_everything_and_cuts_nobody_off(
    mill: Deployment, honcho: Role
) -> None:
    samples = [(DIGITS / "samples" / f"{digit}.png").read_bytes() for digit in range(10)]

    def make(number: int) -> Request:
        digit = number % 10

        def is_right(answer: HttpAnswer) -> bool:
            return bool(answer.json()["digit"] == digit)

        return Request(samples[digit], PNG, is_right)

    with Load(mill.port, PATH, clients=16, make=make) as load:
        wait_until(lambda: load.answered > 50, 60, "50 answers")
        honcho.send(signal.SIGTERM)
        began = time.monotonic()
        honcho.check_exit(STOP_S)
        took_s = time.monotonic() - began
        wait_until(lambda: load.refused == 16, 10, "each client has seen the end")
    assert load.cut == []
    assert load.wrong == []
    assert set(load.answers) <= {"200", "503 draining"}, load.answers
    assert load.answers["200"] > 50
    exits = re.findall(r"(\S+) stopped \(rc=(-?\d+)\)", honcho.output)
    roles = [
        f"{name}.{number + 1}"
        for name, count in {"gateway": 1, "broker": 1, **WORKERS}.items()
        for number in range(count)
    ]
    assert sorted(exits) == sorted((name, "0") for name in roles)
    assert "SIGKILL" not in honcho.output
    assert "Traceback" not in honcho.output
    assert took_s < STOP_S
    assert mill.processes() == []
    assert list(mill.runtime.iterdir()) == []

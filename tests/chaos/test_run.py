"""A short run of the chaos: every kind of fault, within seconds; see `tests/chaos`."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fault

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 160.0
OPTIONS = ("--seconds", "5", "--rate", "3.6", "--seed", "1", "--well", "0.95")
"""Three times the usual faults, beside other tests: where the machine is busy, deadlines of half a
second pass that say nothing of the code. Alone, and for longer, it is held to more.
"""


@pytest.mark.timeout(180)
def test_a_few_seconds_of_chaos() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", *OPTIONS],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            said, _ = run.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            run.terminate()  # it ends its deployment then
            raise
    assert run.returncode == 0, said
    assert "all holds" in said

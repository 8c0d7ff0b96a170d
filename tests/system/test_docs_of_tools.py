"""What docs/testing.md, docs/check.md and docs/new.md show is run."""

import subprocess
import sys
from pathlib import Path

import pytest

from millstream.__main__ import main
from tests.system.readme import ROOT, Block, block_with, blocks

pytestmark = pytest.mark.system

TESTING, CHECK, NEW = (ROOT / "docs" / f"{name}.md" for name in ("testing", "check", "new"))
SHOUT = """\
from millstream import Worker


class Shout(Worker):
    example = "a"

    def forward(self, batch):
        return [text.upper() for text in batch]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(page: Path) -> list[Block]:
    return blocks("sh", page)


def test_the_tests_that_are_shown() -> None:
    for block in blocks("python", TESTING):
        name = block.lines[0].removeprefix("# ")
        Path(name).write_text(block.text)
    Path("shout.py").write_text(SHOUT)
    Path("pipeline.toml").write_text('[pipelines.shout]\nchain = ["shout"]\n')
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout


def test_a_project_is_made_and_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    new, one_file = commands(NEW)
    assert main(new.lines[0].split()[1:]) == 0
    assert main(one_file.lines[0].split()[1:]) == 0
    assert new.lines[1:] == ["cd languages", "make test", "make run"]  # test_new.py makes them
    monkeypatch.chdir("languages")
    subprocess.run([sys.executable, "train.py"], check=True, capture_output=True)
    capsys.readouterr()
    check, load = commands(CHECK)
    assert main([*check.lines[0].split()[1:], "--seconds", "0.1", "--strict"]) == 0
    shown = block_with("", "nothing is wrong", CHECK)
    told = capsys.readouterr().out
    assert told.splitlines()[0].split(": ")[1] == shown.lines[0].split(": ")[1]
    for line, like in zip(told.splitlines()[1:5], shown.lines[1:5], strict=True):
        assert line.split()[:5] == like.split()[:5]
    assert main([*load.lines[0].split()[1:], "--seconds", "0.1"]) in (0, 1)  # how quick are we?
    assert "For 200 requests a second" in capsys.readouterr().out


def test_the_finding_that_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = block_with("", "wrong: preprocess.py:14", CHECK)
    lines = "import numpy as np\n\nfrom millstream import Worker\n\n\n"
    Path("preprocess.py").write_text(
        f"{lines}class Preprocess(Worker):\n    max_batch_size = 16\n\n"
        "    example = 0\n\n\n\n\n    def forward(self, batch):\n"
        "        return [np.zeros((8, 8)) for _ in batch]\n"
    )
    Path("infer.py").write_text(
        f"{lines}\n\n\nclass Infer(Worker):\n"
        "    example = np.zeros((8, 8), np.float32)\n\n"
        "    def forward(self, batch):\n        return batch\n"
    )
    assert main(["check", "preprocess.py", "infer.py", "--seconds", "0.05"]) == 1
    assert wrong.text in capsys.readouterr().out + "\n"

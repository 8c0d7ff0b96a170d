"""Which worker `millstream profile` takes, and what it says where it may not look into it."""

import os
import socket
import sys
from pathlib import Path

import pytest

from millstream.cli.errors import CommandError
from millstream.profile import run
from millstream.profile.choice import NoChoice, WorkerReport, choose

HERE = socket.gethostname()
WORKERS = [
    WorkerReport("aabb01", "infer", "ready", "", 11, HERE, 0),
    WorkerReport("aabb02", "infer", "ready", "", 12, HERE, 1),
    WorkerReport("ccdd03", "infer", "ready", "", 12, "elsewhere", 2),
    WorkerReport("ccdd04", "post", "ready", "2", 14, "elsewhere", 0),
]


@pytest.mark.parametrize(
    ("word", "id"),
    [
        ("11", "aabb01"),
        ("12", "aabb02"),
        ("infer/1", "aabb02"),
        ("infer/2", "ccdd03"),
        ("CCDD04", "ccdd04"),
        ("aabb01", "aabb01"),
        ("post", "ccdd04"),
    ],
)
def test_a_worker_has_several_names(word: str, id: str) -> None:
    assert choose(WORKERS, word, HERE).id == id


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("infer", "'infer' is 2 workers; give the pid of one: infer/0 (pid 11 at"),
        ("aabb", "'aabb' is 2 workers"),
        ("aab", "no worker is 'aab'; there is infer/0"),
        ("13", "no worker is '13'"),
        ("", "no worker is ''"),
    ],
)
def test_what_names_none_or_several_is_told(word: str, words: str) -> None:
    with pytest.raises(NoChoice) as caught:
        choose(WORKERS, word, HERE)
    assert str(caught.value).startswith(words)


def test_that_it_is_not_here_is_told() -> None:
    with pytest.raises(CommandError, match="is not on this host"):
        run._check_is_here(WORKERS[3], HERE)
    mine = WorkerReport("ee", "infer", "ready", "", os.getpid(), HERE, 0)
    with pytest.raises(CommandError, match="no worker here: it runs in another container"):
        run._check_is_here(mine, HERE)


def test_what_to_do_without_the_right_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = WorkerReport("ee", "infer", "ready", "", os.getpid(), HERE, 0)
    said = "Error: Permission Denied: Try running again with elevated permissions"
    monkeypatch.setattr(run, "_SCOPE", tmp_path / "scope")
    assert "--cap-add SYS_PTRACE" in run._why(said, worker)
    (tmp_path / "scope").write_text("1\n")
    assert "ptrace_scope = 1): run this as root" in run._why(said, worker)
    assert run._why("Error: Failed to find python\n", worker).startswith("py-spy: Error: Failed")
    assert run._why("", worker) == "py-spy: it ended without a word"


def test_that_py_spy_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match=r"pip install 'millstream\[profile\]'"):
        run._py_spy()

"""What a folder's Procfile starts."""

from pathlib import Path

import pytest

from millstream.check.targets import started_by, targets_here
from millstream.cli.errors import CommandError

PROCFILE = """\
gateway: exec millstream gateway --port $PORT
broker: exec millstream broker a.toml b.toml --metrics-port 9000
# old: exec millstream worker old.py
first: exec millstream worker first.py --processes 2 --model-dir models
second: OMP_NUM_THREADS=1 exec millstream worker more/stages.py:Second
broken: 'oh
"""


def test_files_of_a_procfile() -> None:
    assert list(started_by(PROCFILE)) == ["a.toml", "b.toml", "first.py", "more/stages.py:Second"]


def test_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match="what is to be checked"):
        targets_here()
    Path("app.py").touch()
    assert targets_here() == ["app.py"]
    Path("Procfile").write_text(PROCFILE)
    assert len(targets_here()) == 4

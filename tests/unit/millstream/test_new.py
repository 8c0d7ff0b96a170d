"""`millstream new`: what a project may be called, what is written, which Millstream it names."""

from pathlib import Path
from typing import Any

import pytest

from broker.config import load_pipelines
from millstream import __version__
from millstream.__main__ import main
from millstream.new.make import ONE_FILE, PROJECT, make
from millstream.new.requirement import line_of, requirement


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broker", "Millstream itself has a package of that name"),
        ("Workers", "Millstream itself has a package of that name"),
        ("gateway", "Millstream itself has a package of that name"),
        ("examples", "Millstream itself has a package of that name"),
        ("class", "class is a word of Python"),
        ("a b", "is no name of a project"),
        ("-x", "no such option"),
        (".hidden", "is no name of a project"),
        ("no/where", "there is no folder no"),
        ("full", "is not empty"),
        ("file", "there is a file of that name"),
    ],
)
def test_what_a_project_is_not_called(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("full").mkdir()
    Path("full", "something").touch()
    Path("file").touch()
    assert main(["new", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert sorted(path.name for path in Path().iterdir()) == ["file", "full"]


@pytest.mark.parametrize("template", [PROJECT, ONE_FILE])
@pytest.mark.parametrize("is_there", [False, True])
def test_all_files_or_none(template: str, is_there: bool) -> None:
    target = Path("new-mill")
    if is_there:
        target.mkdir()
    names = make(target, template, {"name": "new-mill", "millstream": "millstream==1"})
    assert sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()) == sorted(
        names
    )
    assert ".gitignore" in names
    for path in target.rglob("*"):
        assert path.is_dir() or "{{" not in path.read_text()
    assert [path.name for path in Path().iterdir()] == ["new-mill"]  # nothing half made


def test_the_pipeline_bears_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "v2.5-mill"]) == 0
    assert "cd v2.5-mill && make test" in capsys.readouterr().out
    (config,) = load_pipelines(["v2.5-mill/pipeline.toml"]).values()
    assert config.chain == ("preprocess", "infer", "postprocess")
    assert "/pipelines/v2.5-mill" in Path("v2.5-mill/README.md").read_text()


@pytest.mark.parametrize(
    ("noted", "line"),
    [
        ({"url": "file:///a/b%20c", "dir_info": {"editable": True}}, "-e /a/b c"),
        ({"url": "file:///a/b", "dir_info": {}}, "/a/b"),
        (
            {"url": "https://x/y.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "millstream @ git+https://x/y.git@abc",
        ),
        (
            {"url": "file:///w/millstream-1-py3-none-any.whl", "archive_info": {}},
            "millstream @ file:///w/millstream-1-py3-none-any.whl",
        ),
    ],
)
def test_the_millstream_that_runs_here(noted: dict[str, Any], line: str) -> None:
    assert line_of(noted) == line


def test_of_a_release_it_is_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    class Released:
        def read_text(self, name: str) -> None:
            assert name == "direct_url.json"

    monkeypatch.setattr("importlib.metadata.distribution", lambda _name: Released())
    assert requirement() == f"millstream=={__version__}"

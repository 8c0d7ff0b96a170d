"""What a look finds in folders as people and programs make them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from workers import folders
from workers.folders import Folder, look, look_at


def make(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def only(root: Path) -> Folder:
    (folder,) = look(str(root)).folders
    return folder


def test_versions_and_what_is_none(tmp_path: Path) -> None:
    make(
        tmp_path,
        {"1/w": "", "007/w": "", "7/w": "", "v2/w": "", ".tmp/w": "", "README": "", "3": ""},
    )
    seen = look(str(tmp_path))
    assert {folder.version: Path(folder.path).name for folder in seen.folders} == {
        "1": "1",
        "7": "7",
    }
    assert dict(seen.odd) == {
        "v2": "its name is no number",
        "007": "it is version 7 again",
        "3": "it is no folder",
    }


def test_a_repository_that_is_not_there(tmp_path: Path) -> None:
    assert look(str(tmp_path / "none")).trouble == "it cannot be read: No such file or directory"
    (tmp_path / "file").touch()
    assert look(str(tmp_path / "file")).trouble == "it cannot be read: Not a directory"


def test_more_names_than_anybody_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_NAMES", 3)
    make(tmp_path, {f"{number}/w": "" for number in range(5)})
    seen = look(str(tmp_path))
    assert len(seen.folders) == 3
    assert [why for _, why in seen.odd] == ["there are more than 3 names"]


def test_each_write_shows(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    marks = [only(tmp_path).mark]
    steps: list[Callable[[], object]] = [
        lambda: make(tmp_path, {"1/a": ""}),
        lambda: make(tmp_path, {"1/a": "x"}),
        lambda: make(tmp_path, {"1/sub/b": "y"}),
        lambda: os.utime(tmp_path / "1/a", ns=(1, 1)),
        lambda: (tmp_path / "1/a").rename(tmp_path / "1/c"),
        (tmp_path / "1/sub/b").unlink,
    ]
    for step in steps:
        step()
        marks.append(only(tmp_path).mark)
    assert len(set(marks)) == len(marks)


def test_what_says_nothing_of_the_model_does_not(tmp_path: Path) -> None:
    make(tmp_path, {"1/net.py": "x", "1/sub/w": "y"})
    before = only(tmp_path)
    make(tmp_path, {"1/__pycache__/net.pyc": "z", "1/sub/__pycache__/w.pyc": "z", "1/READY": ""})
    after = only(tmp_path)
    assert after.mark == before.mark
    assert (before.has_marker, after.has_marker) == (False, True)
    assert (before.entries, after.entries) == (3, 3)


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    assert only(tmp_path).entries == 0
    (tmp_path / "1/READY").mkdir()  # a folder of that name is no marker
    assert not only(tmp_path).has_marker


def test_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_ENTRIES", 3)
    make(tmp_path, {f"1/{number}": "" for number in range(4)})
    assert only(tmp_path).trouble == "it has more than 3 files, and no file READY"
    (tmp_path / "1/READY").touch()
    marked = only(tmp_path)
    assert (marked.trouble, marked.has_marker) == ("", True)
    os.utime(tmp_path / "1/READY", ns=(1, 1))
    assert only(tmp_path).mark != marked.mark


def test_links(tmp_path: Path) -> None:
    """As Kubernetes mounts a volume, and as caches of models lay out snapshots."""
    root, blobs = tmp_path / "models", tmp_path / "blobs"
    make(tmp_path, {"blobs/b": "weights", "models/..2024/1/w": "a", "models/..2025/1/w": "bc"})
    (root / "..data").symlink_to("..2024")
    (root / "1").symlink_to("..data/1")
    first = only(root)
    (root / "..new").symlink_to("..2025")
    (root / "..new").rename(root / "..data")
    assert only(root).mark != first.mark

    (root / "2").mkdir()
    (root / "2/w").symlink_to(blobs / "b")
    (root / "2/ring").symlink_to(root / "2")
    (root / "2/nowhere").symlink_to("none")
    before = look_at("2", str(root / "2"))
    assert (before.entries, before.trouble) == (3, "")
    (blobs / "b").write_text("more weights")
    assert look_at("2", str(root / "2")).mark != before.mark


def test_a_link_to_nowhere(tmp_path: Path) -> None:
    (tmp_path / "1").symlink_to("gone")
    assert only(tmp_path).trouble == "it is a link to gone, which is not there"
    (tmp_path / "2").symlink_to("2")
    assert look_at("2", str(tmp_path / "2")).trouble


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_what_cannot_be_read(tmp_path: Path) -> None:
    make(tmp_path, {"1/sub/w": ""})
    (tmp_path / "1/sub").chmod(0)
    try:
        assert only(tmp_path).trouble == "it cannot be read: Permission denied"
    finally:
        (tmp_path / "1/sub").chmod(0o700)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / os.fsdecode(b"\xff\n")).touch()
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    assert only(tmp_path).entries == 1

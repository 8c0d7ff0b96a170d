"""The thread that watches a repository: on a real disk, and where the kernel does not help."""

import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from workers import folders, watching
from workers.repository import Listing
from workers.watching import Watch


@pytest.fixture
def models(tmp_path: Path) -> Path:
    root = tmp_path / "models"
    root.mkdir()
    return root


@pytest.fixture
def watch(models: Path) -> Iterator[Callable[[], Watch]]:
    """Begins to watch; no thread is left in the end."""
    begun: list[Watch] = []

    def begin() -> Watch:
        begun.append(Watch(str(models)))
        return begun[-1]

    yield begin
    for each in begun:
        each.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "models"]


def wait(watched: Watch, matches: Callable[[Listing], bool], within_s: float = 20.0) -> float:
    """Until it lists what matches; returns how long that took."""
    began = time.monotonic()
    while time.monotonic() < began + within_s:
        select.select([watched.fd], [], [], 0.1)
        listing = watched.take()
        if listing is not None and matches(listing):
            return time.monotonic() - began
    raise AssertionError("it was not found")


def has(*versions: str) -> Callable[[Listing], bool]:
    """Whether just these are complete."""
    return lambda listing: (
        {each.version for each in listing.found if each.is_complete} == {*versions}
    )


def put(models: Path, version: str) -> None:
    (models / version).mkdir()
    (models / version / "w").write_text("weights")
    (models / version / "READY").touch()


def test_a_marker_is_noticed_at_once_though_nobody_looks_often(
    models: Path, watch: Callable[[], Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 60.0)
    (models / "1").mkdir()
    watched = watch()
    wait(watched, lambda listing: len(listing.found) == 1)
    (models / "1" / "READY").touch()
    wait(watched, has("1"), 20.0)
    put(models, "2")
    wait(watched, has("1", "2"), 20.0)


def test_nothing_is_said_while_nothing_changes(models: Path, watch: Callable[[], Watch]) -> None:
    put(models, "1")
    watched = watch()
    wait(watched, has("1"))
    assert not select.select([watched.fd], [], [], 1.2)[0]


def test_where_the_kernel_tells_nothing_looking_finds_it(
    models: Path, watch: Callable[[], Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_watches(*_paths: str, **_options: object) -> NoReturn:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr(watching, "watch", no_watches)
    monkeypatch.setattr(watching, "LOOK_S", 0.2)
    monkeypatch.setattr(watching, "TICK_S", 0.05)
    watched = watch()
    put(models, "1")
    wait(watched, has("1"))
    put(models, "2")
    wait(watched, has("1", "2"))


def test_a_repository_that_is_gone_and_comes_back(
    models: Path, watch: Callable[[], Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 0.2)
    monkeypatch.setattr(watching, "TICK_S", 0.05)
    put(models, "1")
    watched = watch()
    wait(watched, has("1"))
    models.rename(models.with_name("elsewhere"))
    wait(watched, lambda listing: bool(listing.trouble))
    models.with_name("elsewhere").rename(models)
    wait(watched, has("1"))


def test_our_own_bug_is_loud_and_no_end(
    models: Path,
    watch: Callable[[], Watch],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put(models, "1")
    looks = [ZeroDivisionError]

    def fails_once(root: str) -> folders.Look:
        if looks:
            raise looks.pop()
        return folders.look(root)

    monkeypatch.setattr(watching, "look", fails_once)
    monkeypatch.setattr(watching, "LOOK_S", 0.05)
    watched = watch()
    wait(watched, has("1"))
    assert "ZeroDivisionError" in caplog.text

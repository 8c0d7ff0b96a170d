"""When a version is complete."""

from msgspec.structs import replace

from workers.folders import Folder, Look
from workers.repository import OLD_S, QUIET_S, Repository

WALL = 1_000_000.0


class Disk:
    """A repository that is looked at each half second."""

    def __init__(self) -> None:
        self.repository = Repository()
        self.now = 100.0

    def look(self, mark: str = "a", **fields: object) -> bool:
        """Whether the one version is complete after another look."""
        self.now += 0.5
        seen = replace(Folder("1", "/m/1", mark.encode(), WALL, 1), **fields)
        listing = self.repository.take_in(Look((seen,)), self.now, WALL)
        return listing.found[0].is_complete

    def settles(self, mark: str, **fields: object) -> bool:
        """Whether it is not complete after another look, and may be without a further change."""
        return not self.look(mark, **fields) and self.repository.is_settling


def test_a_copy_is_complete_when_nothing_has_changed_for_a_while() -> None:
    disk = Disk()
    assert [disk.settles(mark) for mark in "abcdeeee"] == [True] * 8
    assert not disk.settles("e")  # 2 s after it was first seen so
    assert disk.look("e")
    assert not disk.look("f")


def test_a_pause_of_less_is_none() -> None:
    disk = Disk()
    looks = ["a"] * 4 + ["b"] * 4
    assert not any(disk.look(mark) for mark in looks)
    assert QUIET_S == 2.0


def test_a_marker_counts_at_once() -> None:
    assert Disk().look(has_marker=True)
    assert Disk().look(has_marker=True, entries=0)


def test_what_is_old_is_complete_at_first_sight_but_not_when_it_changes_then() -> None:
    disk = Disk()
    assert disk.look(touched=WALL - OLD_S - 1)
    assert not disk.look("b", touched=WALL - OLD_S - 1)  # `cp -p` brings old times along
    assert not Disk().look(touched=WALL - OLD_S + 1)
    assert not Disk().look(touched=WALL + 3600.0)  # a file system with a clock of its own


def test_empty_is_not_complete_and_nobody_waits_for_it() -> None:
    disk = Disk()
    assert not any(disk.look(entries=0) for _ in range(20))
    assert not disk.settles("b", entries=0)


def test_trouble_may_pass() -> None:
    disk = Disk()
    fields: dict[str, object] = {"trouble": "it cannot be read", "entries": 0, "touched": 0.0}
    assert not any(disk.look("x", **fields) for _ in range(4))
    assert disk.look("x", **fields)
    assert not disk.look("a")


def test_a_repository_that_is_away_for_a_while_is_not_forgotten() -> None:
    disk = Disk()
    assert [disk.look() for _ in range(5)][-1]
    assert disk.repository.take_in(Look(trouble="stale"), disk.now, WALL).trouble == "stale"
    assert disk.look()


def test_trouble_is_told_of_what_is_complete() -> None:
    repository = Repository()
    seen = Folder("1", "/m/1", b"a", has_marker=True, trouble="it cannot be read")
    (found,) = repository.take_in(Look((seen,)), 1.0, WALL).found
    assert (found.is_complete, found.trouble) == (True, "it cannot be read")
    half = Folder("1", "/m/1", b"b", trouble="it cannot be read")
    (found,) = repository.take_in(Look((half,)), 2.0, WALL).found
    assert (found.is_complete, found.trouble) == (False, "")

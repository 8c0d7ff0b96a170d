"""What is loaded, kept and let go, with numbers for time."""

from msgspec.structs import replace

from broker.wire.messages import VersionState
from workers.policy import parse_policy
from workers.repository import Found
from workers.supervision import Wish
from workers.versions import GRACE_S, MAX_REPORTED, Action, Load, Retire, Tell, Versions

KEEP_S = 600.0


def found(*versions: str, **fields: object) -> list[Found]:
    return [replace(Found(each, f"/m/{each}", b"a", True), **fields) for each in versions]


class World:
    """Versions, a clock, and a broker that wants something, or nothing, or is not there."""

    def __init__(self, policy: str = "latest:1", keep_warm_s: float = KEEP_S) -> None:
        self.versions = Versions(parse_policy(policy), keep_warm_s)
        self.now = 100.0
        self.wish: Wish | None = Wish()

    def disk(self, *versions: str, **fields: object) -> list[Action]:
        self.versions.found(found(*versions, **fields))
        return self.tick()

    def want(self, *versions: str, rejected: tuple[str, ...] = ()) -> list[Action]:
        self.wish = Wish(frozenset(versions), frozenset(rejected))
        return self.tick()

    def tick(self, after_s: float = 0.5) -> list[Action]:
        self.now += after_s
        return self.versions.tick(self.wish, self.now)

    def warm(self, version: str) -> list[Action]:
        self.versions.warm(version, self.now)
        return self.tick()

    def fail(self, version: str, why: str = "no weights") -> list[Action]:
        self.versions.failed(version, why, self.now)
        return self.tick()

    def end(self, version: str) -> list[Action]:
        self.versions.ended(version)
        return self.tick()

    @property
    def states(self) -> dict[str, str]:
        return {each.version: VersionState(each.state).name for each in self.versions.reports()}

    def detail(self, version: str) -> str:
        (detail,) = [r.detail for r in self.versions.reports() if r.version == version]
        return detail


def loads(actions: list[Action]) -> list[str]:
    return [each.version for each in actions if isinstance(each, Load)]


def retires(actions: list[Action]) -> list[str]:
    return [each.version for each in actions if isinstance(each, Retire)]


def serving(*versions: str, policy: str = "latest:1", keep_warm_s: float = KEEP_S) -> World:
    """One in which the first of these is on disk, loaded, and wanted."""
    world = World(policy, keep_warm_s)
    world.disk(versions[0])
    world.warm(versions[0])
    world.want(versions[0])
    return world


# ------------------------------------------------------------------ taking over


def test_the_newest_is_loaded() -> None:
    world = World()
    assert world.disk("9", "10", "2") == [Load("10", "/m/10")]
    assert world.states == {"2": "FOUND", "9": "FOUND", "10": "LOADING"}
    assert world.warm("10") == []
    assert world.states["10"] == "READY"


def test_one_that_comes_is_loaded_beside_and_the_other_is_kept_warm() -> None:
    world = serving("2")
    assert loads(world.disk("2", "3")) == ["3"]
    assert world.warm("3") == []
    assert world.tick(100 * KEEP_S) == []  # the broker has not let 2 go yet
    assert world.want("3") == []
    assert world.tick(KEEP_S - 1) == []
    assert retires(world.tick(1.0)) == ["2"]
    assert world.states == {"2": "RETIRING", "3": "READY"}
    assert world.end("2") == []
    assert world.states == {"2": "FOUND", "3": "READY"}


def test_only_the_last_one_is_kept_warm() -> None:
    world = serving("2")
    world.disk("2", "3", "4")
    world.warm("4")
    world.want("4")
    world.tick(GRACE_S)
    assert loads(world.disk("2", "3", "4", "5")) == ["5"]
    world.warm("5")
    assert retires(world.want("5")) == ["2"]
    assert world.states["4"] == "READY"


def test_without_keeping_warm_the_old_one_goes_at_once() -> None:
    world = serving("2", keep_warm_s=0.0)
    world.disk("2", "3")
    world.warm("3")
    world.tick(GRACE_S)
    assert retires(world.want("3")) == ["2"]


def test_one_that_was_rolled_back_is_kept_warm_and_then_goes() -> None:
    world = serving("2")
    world.disk("2", "3")
    world.warm("3")
    world.want("3")
    world.tick(KEEP_S / 2)
    assert world.want("2", rejected=("3",)) == []
    assert world.tick(KEEP_S - 1) == []
    assert retires(world.tick(1.0)) == ["3"]
    assert world.end("3") == []
    assert world.tick(KEEP_S) == [], "nobody loads it again for being the newest"
    assert loads(world.disk("2", "3", "4")) == ["4"]
    assert loads(world.want("2", "3")) == ["3"], "but for somebody who wants it"


def test_one_that_was_rolled_back_stays_where_its_folder_was_asked_for() -> None:
    for policy in ("all", "specific:2,3", "latest:2"):
        world = serving("2", policy=policy, keep_warm_s=0.0)
        world.disk("1", "2", "3")
        world.warm("3")
        world.want("2", rejected=("3",))
        gone = retires(world.tick(GRACE_S))
        assert gone == (["3"] if policy == "latest:2" else []), policy


def test_one_that_was_rolled_back_is_better_than_none() -> None:
    world = World()
    world.want("2", rejected=("3",))
    assert loads(world.disk("2", "3")) == ["2"]
    assert loads(world.fail("2")) == ["3"]
    world = serving("2", keep_warm_s=0.0)
    world.disk("3")  # 2 is removed, and goes on
    world.warm("3")
    world.want("2", rejected=("3",))
    assert retires(world.tick(GRACE_S)) == ["3"]


def test_one_that_was_overtaken_while_it_was_loaded_has_its_chance() -> None:
    """Or a trainer that writes faster than can be loaded would starve everybody."""
    world = serving("2", keep_warm_s=0.0)
    assert loads(world.disk("2", "3")) == ["3"]
    assert world.disk("2", "3", "4") == []
    assert world.disk("2", "3", "4", "5") == []
    assert loads(world.warm("3")) == ["5"]  # not 4
    assert world.tick(GRACE_S / 2) == []
    assert world.want("3") == [Retire("2")]
    assert world.states == {"2": "RETIRING", "3": "READY", "4": "FOUND", "5": "LOADING"}


def test_all_are_loaded_one_after_the_other() -> None:
    world = World("all")
    assert loads(world.disk("1", "2", "3")) == ["3"]
    assert loads(world.warm("3")) == ["2"]
    assert loads(world.fail("2")) == ["1"]


# ------------------------------------------------------------------ the broker


def test_what_is_wanted_is_loaded_at_once_whatever_loads() -> None:
    world = serving("4")
    world.disk("1", "2", "3", "4", "5")
    assert world.states["5"] == "LOADING"
    assert loads(world.want("1", "2", "4")) == ["2", "1"]
    world.warm("1")
    assert retires(world.tick(10 * KEEP_S)) == []


def test_nothing_goes_before_a_broker_has_said_what_it_wants() -> None:
    world = serving("2", keep_warm_s=0.0)
    world.disk("2", "3")
    world.warm("3")
    world.wish = None
    assert world.tick(10 * KEEP_S) == []
    assert world.want("2", "3") == []
    assert retires(world.want("3")) == ["2"]


def test_what_a_lost_broker_wanted_is_loaded_all_the_same() -> None:
    world = World()
    world.disk("1", "2")
    world.warm("2")
    world.want("1")
    world.wish = None
    world.fail("1")
    assert loads(world.disk("1", "2", mark=b"b")) == ["1"]


def test_the_last_one_never_goes() -> None:
    world = serving("2", keep_warm_s=0.0)
    world.disk()
    assert world.want() == []
    assert world.tick(10 * KEEP_S) == []
    assert world.states == {"2": "READY"}


def test_one_that_retires_may_be_wanted_again() -> None:
    world = serving("2", keep_warm_s=0.0)
    world.disk("2", "3")
    world.warm("3")
    world.tick(GRACE_S)
    world.want("3")
    assert loads(world.want("2", "3")) == ["2"]
    assert world.end("2") == []  # the workers of before
    assert world.states["2"] == "LOADING"


def test_what_nobody_has_cannot_be_loaded() -> None:
    world = serving("2")
    assert world.want("2", "7", "stable", "") == []


# ------------------------------------------------------------------ failures


def test_where_the_newest_fails_the_next_older_one_is_loaded() -> None:
    world = World()
    world.disk("1", "2", "3")
    assert loads(world.fail("3", "setup failed")) == ["2"]
    assert loads(world.fail("2")) == ["1"]
    world.warm("1")
    assert world.states == {"1": "READY", "2": "FAILED", "3": "FAILED"}
    assert world.detail("3") == "setup failed"
    assert not world.versions.is_hopeless


def test_where_all_fail_before_any_was_ready_there_is_no_hope() -> None:
    world = World()
    assert not world.versions.is_hopeless
    world.disk("1", "2")
    world.fail("2")
    assert not world.versions.is_hopeless
    world.fail("1")
    assert world.versions.is_hopeless


def test_there_is_hope_when_one_was_ready_and_while_one_may_still_come() -> None:
    world = serving("1")
    world.disk("1", "2")
    world.fail("2")
    assert not world.versions.is_hopeless
    waiting = World("specific:5")
    waiting.disk("1", "2")
    assert not waiting.versions.is_hopeless
    unreadable = World()
    unreadable.disk("1", trouble="it cannot be read")
    assert not unreadable.versions.is_hopeless


def test_a_failed_one_is_tried_again_when_it_has_changed_later_each_time() -> None:
    world = serving("1")
    world.disk("1", "2")
    for delay_s, mark in ((1.0, b"b"), (2.0, b"c"), (4.0, b"d")):
        assert world.fail("2") == []
        assert world.tick(10 * KEEP_S) == []
        world.versions.found([*found("1"), *found("2", mark=mark, is_complete=False)])
        assert world.tick() == []
        assert world.states["2"] == "FAILED"
        assert loads(world.disk("1", "2", mark=mark)) == ["2"], delay_s
    world.fail("2")
    assert world.disk("1", "2", mark=b"e") == []
    assert world.tick(6.0) == []
    assert loads(world.tick(1.0)) == ["2"]  # 8 s after it failed


def test_one_that_changed_while_it_was_loaded_and_failed_is_tried_again() -> None:
    world = serving("1")
    world.disk("1", "2", mark=b"half")
    world.disk("1", "2", mark=b"whole")
    assert world.fail("2") == []
    assert loads(world.tick(1.0)) == ["2"]


def test_a_failed_one_is_tried_again_when_it_is_wanted_anew() -> None:
    world = serving("1")
    world.disk("1", "2")
    world.fail("2")
    assert loads(world.want("1", "2")) == ["2"]
    world.fail("2")
    assert world.tick(10 * KEEP_S) == []
    assert world.want("1", "2") == []
    world.want("1")
    assert loads(world.want("1", "2")) == ["2"]


def test_what_cannot_be_read_is_told_and_left_out_until_it_can() -> None:
    world = World()
    actions = world.disk("1", trouble="it cannot be read")
    assert actions == [Tell("1", "it cannot be used", "it cannot be read")]
    assert (world.states, world.detail("1")) == ({"1": "FAILED"}, "it cannot be read")
    assert world.disk("1", trouble="it cannot be read") == []
    assert world.want("1") == []
    assert loads(world.disk("1", mark=b"b")) == ["1"]


# ------------------------------------------------------------------ what is on disk changes


def test_what_is_not_complete_is_nothing_yet() -> None:
    world = World()
    assert world.disk("1", is_complete=False) == []
    assert world.states == {}
    assert loads(world.disk("1")) == ["1"]


def test_one_that_is_removed_while_it_serves_goes_on_until_another_takes_over() -> None:
    world = serving("2", keep_warm_s=0.0)
    assert world.disk() == [Tell("2", "its folder is gone", "its workers go on")]
    assert world.disk() == []
    assert world.states == {"2": "READY"}
    assert loads(world.disk("3")) == ["3"]
    world.warm("3")
    world.tick(GRACE_S)
    assert retires(world.want("3")) == ["2"]
    world.end("2")
    assert world.states == {"3": "READY"}


def test_one_that_is_removed_before_it_serves_is_forgotten() -> None:
    world = World("specific:1,2")
    world.disk("1", "2", "3")
    world.disk("1")
    assert world.states == {"1": "FOUND", "2": "LOADING"}
    world.fail("2")
    assert world.states == {"1": "LOADING"}
    world.disk("1", "2", trouble="no")
    assert world.states == {"1": "LOADING", "2": "FAILED"}


def test_one_that_is_replaced_while_it_serves_is_told_once_and_stays() -> None:
    world = serving("2")
    (tell,) = world.disk("2", mark=b"b", is_complete=False)
    assert isinstance(tell, Tell)
    assert world.detail("2") == tell.event == "its files have changed since it was loaded"
    assert world.disk("2", mark=b"c") == []
    assert world.tick(10 * KEEP_S) == []
    assert world.states == {"2": "READY"}


def test_reports_are_bounded_and_what_has_a_state_is_among_them() -> None:
    world = World("specific:1")
    world.disk(*map(str, range(1, 1000)))
    reports = world.versions.reports()
    assert len(reports) == MAX_REPORTED
    assert [reports[0].version, reports[1].version] == ["1", str(1000 - MAX_REPORTED + 1)]
    assert world.versions.state("2") is VersionState.FOUND
    assert world.versions.state("1000") is None

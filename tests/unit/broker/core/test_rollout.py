"""Versions as they come and go: who takes over, what waits for whom, what the clock does."""

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from broker.core import traffic as t
from broker.core.drain import DRAIN_S
from broker.core.events import Save
from broker.core.pending import TRIED_AGAIN_S
from broker.core.rollout import BROKER, FORGET_S
from broker.core.traffic import Traffic
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    Bye,
    Catalog,
    Dismiss,
    SupervisorBeat,
    VersionReport,
    VersionState,
    Want,
    WorkerDraining,
)
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline

Make = Callable[..., Driver]


def worker(
    driver: Driver, version: str, stage: str = "a", number: int = 1, **keys: object
) -> bytes:
    """A worker of this version, under a supervisor for that."""
    name = f"{stage}{version}.{number}".encode()
    return driver.worker(name, stage, by=b"s" + name, version=version, **keys)


def leave(driver: Driver, name: bytes) -> None:
    """It has drained, and its supervisor with it."""
    driver.forget(name)
    driver.receive(name, Bye(EPOCH))
    driver.supervised.pop(b"s" + name, None)
    driver.receive(b"s" + name, Bye(EPOCH))
    driver.tick()


def versions(driver: Driver, count: int = 1, **keys: object) -> list[str]:
    """Which versions answer requests that come now."""
    seqs = driver.submit(count, **keys)  # type: ignore[arg-type]
    driver.finish_all()
    return [driver.the_answer(seq).version for seq in seqs]


@pytest.fixture
def canary(broker: Make) -> Driver:
    """Versions 2 and 3, with 90 and 10 percent."""
    driver = broker(traffic={"p": t.assign(t.take_over(Traffic(), "2"), {"2": 90, "3": 10})})
    driver.gateway()
    worker(driver, "2")
    worker(driver, "3")
    return driver


# ------------------------------------------------------------------ taking over


def test_a_pipeline_without_versions_has_no_split(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.submit()
    assert driver.ledger.pipelines["p"].split is None
    assert driver.saves == []
    assert driver.scheduler.snapshot(driver.now).pipelines["p"].traffic is None
    driver.finish_all()


def test_the_newest_version_takes_over_when_it_is_ready(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    worker(driver, "9")
    assert versions(driver) == ["9"]
    worker(driver, "10", ready=False)
    assert versions(driver) == ["9"]
    worker(driver, "10")
    assert versions(driver) == ["10"]
    worker(driver, "8")
    assert versions(driver, 3) == ["10"] * 3, "an older one"
    saved = [save for save in driver.saves if isinstance(save, Save)]
    assert [save.traffic.stable for save in saved] == ["9", "10"]
    assert saved[1].traffic.previous == "9"
    assert {save.change.by for save in saved} == {BROKER}
    assert driver.states() == {"8": "ready", "9": "ready", "10": "ready"}


def test_a_version_is_ready_when_each_stage_that_has_versions_has_it(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b", "c"))
    driver.gateway()
    driver.worker(b"wa", "a")
    for stage in ("b", "c"):
        worker(driver, "1", stage)
    worker(driver, "2", "b")
    assert versions(driver, 2) == ["1", "1"]
    assert driver.states() == {"1": "ready", "2": "loading"}
    worker(driver, "2", "c")
    assert versions(driver, 2) == ["2", "2"]


def test_what_names_no_version_is_version_1_beside_one_that_does(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w", max_batch_size=1)
    waiting = driver.submit(5)
    worker(driver, "2", ready=False)
    driver.finish(b"w")
    driver.finish(b"w")
    worker(driver, "2")
    assert versions(driver) == ["2"]
    driver.finish_all()
    assert {driver.the_answer(seq).version for seq in waiting} == {"1"}
    driver.ask("rollback")
    assert driver.document()["weights"] == {"1": 100.0}
    assert versions(driver) == ["1"]


def test_requests_that_came_before_any_worker_get_the_version_that_is_there_first(
    broker: Make,
) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"w", "a")
    early = driver.submit(3)
    worker(driver, "4", "b")
    worker(driver, "5", "b")
    driver.finish_all()
    assert [driver.the_answer(seq).version for seq in early] == ["4"] * 3


def test_a_version_that_was_rolled_back_does_not_take_over_again(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    worker(driver, "1")
    second = worker(driver, "2")
    driver.ask("rollback", by="me", why="it is wrong")
    assert driver.document()["rejected"] == {"2": "it is wrong"}
    leave(driver, second)
    worker(driver, "2", number=2)
    assert versions(driver) == ["1"]
    worker(driver, "3")
    assert versions(driver) == ["3"]


def test_neither_a_shadow_nor_what_is_beside_a_split_takes_over(canary: Driver) -> None:
    worker(canary, "4")
    canary.ask("traffic", shadow="4", latest=True)
    assert canary.shares() == {"3": 100.0}, "the newest but the shadow"


# ------------------------------------------------------------------ the choice


def test_shares_are_met_through_the_broker(canary: Driver) -> None:
    canary.check_each = 100
    answered = Counter(versions(canary, 1000))
    assert answered == {"2": 900, "3": 100}


def test_shares_are_met_though_workers_come_and_go_between(canary: Driver) -> None:
    answered: Counter[str] = Counter()
    for number in range(100):
        answered.update(versions(canary))
        worker(canary, "2", number=2 + number % 2, ready=number % 3 > 0)
    assert answered["3"] == pytest.approx(10, abs=1)


def test_the_same_key_is_always_answered_by_the_same_version(canary: Driver) -> None:
    for key in (2**64 - 1, 7, 12345678901234567890):
        assert len(set(versions(canary, 5, key=key))) == 1
    assert {versions(canary, key=key)[0] for key in range(1, 200)} == {"2", "3"}


def test_a_version_that_is_asked_for_is_what_answers(canary: Driver) -> None:
    worker(canary, "1")
    for version in ("1", "2", "3"):
        assert versions(canary, 3, version=version) == [version] * 3


@pytest.mark.parametrize("state", [VersionState.FOUND, VersionState.LOADING, "broken"])
def test_a_version_that_is_known_and_not_there_is_not_ready(
    broker: Make, state: VersionState | str
) -> None:
    driver = broker()
    driver.gateway()
    driver.supervisor(b"m", "a", has_models=True)
    driver.models(b"m", v1=VersionState.READY, v2=state)
    driver.worker(b"w1", by=b"m", version="1")
    (known,) = driver.submit(version="2")
    (unknown,) = driver.submit(version="3")
    assert driver.failure(known) is ErrorCode.NOT_READY
    assert driver.failure(unknown) is ErrorCode.UNKNOWN_VERSION


def test_a_version_whose_worker_died_is_waited_for_by_who_asked_for_it(canary: Driver) -> None:
    (asked,) = canary.submit(version="3")
    canary.lose(b"a3.1")
    (another,) = canary.submit(version="3")
    canary.run(4.0)
    worker(canary, "3", number=2)
    canary.tick()
    canary.finish_all()
    assert canary.the_answer(asked).version == "3"
    assert canary.the_answer(another).version == "3"


def test_after_absent_s_it_is_not_waited_for(canary: Driver) -> None:
    canary.supervised[b"sa3.1"].remove(b"a3.1")
    canary.lose(b"a3.1")
    canary.supervised.pop(b"sa3.1")
    canary.receive(b"sa3.1", Bye(EPOCH))
    (asked,) = canary.submit(version="3")
    canary.run(4.8)
    assert asked not in canary.answered()
    canary.run(0.4)
    assert canary.failure(asked) is ErrorCode.NOT_READY
    (late,) = canary.submit(version="3")
    assert canary.failure(late) is ErrorCode.NOT_READY


def test_what_waits_for_a_version_that_is_lost_is_answered_by_another(canary: Driver) -> None:
    canary.submit(1, version="3", tick=True)
    canary.submit(40)
    chosen = [seq for seq, item in canary.items().items() if item.version == "3"]
    canary.lose(b"a3.1")
    canary.tick()
    canary.finish_all()
    moved = [seq for seq in chosen if seq in canary.answered()]
    assert moved
    assert {canary.the_answer(seq).version for seq in moved} == {"2"}
    worker(canary, "3", number=2)
    canary.tick()
    canary.finish_all()
    assert {canary.the_answer(seq).version for seq in chosen if seq not in moved} == {"3"}


def test_one_version_that_does_not_get_on_does_not_stop_the_other(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"w", "a", max_batch_size=4)
    for version in ("1", "2"):
        worker(driver, version, "b", max_batch_size=1)
    driver.submit(30, version="1")
    for _ in range(20):
        if driver.batches[b"w"]:
            driver.finish(b"w")  # nobody takes what version 1 has
    seqs = driver.submit(4, version="2")
    for _ in range(20):
        for name in (b"w", b"b2.1"):
            if driver.batches[name]:
                driver.finish(name)
    assert set(seqs) <= set(driver.answered())
    driver.finish_all()


# ------------------------------------------------------------------ draining


def test_a_version_that_retires_serves_what_was_admitted_for_it(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"w", "a", max_batch_size=1)
    worker(driver, "2", "b")
    admitted = driver.submit(3)
    worker(driver, "3", "b")
    driver.receive(b"b2.1", WorkerDraining(EPOCH))
    driver.tick()
    driver.run(0.5)
    assert not driver.told(b"b2.1", Dismiss), "three are on their way to it"
    (new,) = driver.submit()
    driver.finish_all()
    driver.run(0.15)
    assert driver.told(b"b2.1", Dismiss)
    assert [driver.the_answer(seq).version for seq in admitted] == ["2"] * 3
    assert driver.the_answer(new).version == "3"


def test_a_version_that_retires_goes_at_once_where_nothing_is_for_it(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    worker(driver, "2")
    worker(driver, "3")
    driver.submit(5)
    driver.receive(b"a2.1", WorkerDraining(EPOCH))
    driver.tick()
    assert driver.told(b"a2.1", Dismiss)
    assert driver.states()["2"] == "loading", "its supervisor is there"
    driver.finish_all()


def test_the_only_worker_that_drains_is_given_what_comes(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    worker(driver, "2", max_batch_size=1)
    driver.submit(3)
    driver.receive(b"a2.1", WorkerDraining(EPOCH))
    assert driver.states() == {"2": "leaving"}
    assert versions(driver) == ["2"]
    driver.run(DRAIN_S + 1.0)
    assert driver.told(b"a2.1", Dismiss)


# ------------------------------------------------------------------ a broker that restarts


def test_a_new_broker_holds_requests_until_the_versions_are_back(broker: Make) -> None:
    kept = t.assign(t.take_over(Traffic(), "2"), {"2": 50, "3": 50})
    driver = broker(traffic={"p": kept})
    driver.gateway()
    early = driver.submit(10)
    worker(driver, "1")
    worker(driver, "3")
    driver.tick()
    driver.finish_all()
    assert {driver.the_answer(seq).version for seq in driver.answered()} == {"3"}
    assert len(driver.answered()) == 5
    assert not driver.scheduler.snapshot(driver.now).pipelines["p"].reasons
    worker(driver, "2")
    driver.tick()
    driver.finish_all()
    assert Counter(driver.the_answer(seq).version for seq in early) == {"2": 5, "3": 5}


def test_a_version_is_waited_for_while_a_stage_may_yet_turn_out_to_lack_it(broker: Make) -> None:
    driver = broker(
        p=pipeline("a", "b"),
        traffic={"p": t.assign(t.take_over(Traffic(), "2"), {"2": 50, "3": 50})},
    )
    driver.gateway()
    for version in ("2", "3"):
        worker(driver, version, "a")
    worker(driver, "2", "b")
    early = driver.submit(10)
    driver.finish_all()
    assert {driver.the_answer(seq).version for seq in driver.answered()} == {"2"}
    worker(driver, "3", "b")
    driver.tick()
    driver.finish_all()
    assert Counter(driver.the_answer(seq).version for seq in early) == {"2": 5, "3": 5}


def test_nothing_takes_over_while_a_stage_may_yet_turn_out_to_lack_it(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    for version in ("1", "2"):
        worker(driver, version, "a")
    assert driver.traffic()["stable"] == ""
    worker(driver, "1", "b")
    assert driver.traffic()["stable"] == "1"
    worker(driver, "2", "b")
    assert [save.traffic.stable for save in driver.saves if isinstance(save, Save)] == ["1", "2"]


def test_after_absent_s_it_makes_do_with_what_there_is(broker: Make) -> None:
    driver = broker(traffic={"p": t.take_over(Traffic(), "2")})
    driver.gateway()
    (early,) = driver.submit(left_s=60.0)
    worker(driver, "1")
    driver.run(4.8)
    assert early not in driver.answered()
    assert driver.batches[b"a1.1"] == []
    driver.run(0.4)
    driver.finish_all()
    assert driver.the_answer(early).version == "1"
    worker(driver, "2")
    assert versions(driver) == ["2"], "its share still stands"


def test_workers_without_a_version_do_not_get_what_is_kept_for_one(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"), traffic={"p": t.take_over(Traffic(), "2")})
    driver.gateway()
    driver.worker(b"w", "a")
    (early,) = driver.submit()
    driver.finish(b"w")
    worker(driver, "1", "b")
    worker(driver, "2", "b")
    driver.tick()
    driver.finish_all()
    assert driver.the_answer(early).version == "2"


def test_a_new_broker_does_not_call_unknown_what_may_be_on_its_way(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    (early,) = driver.submit(version="7")
    assert early not in driver.answered()
    driver.owed.discard((b"g1", early))  # its gateway submits it again
    worker(driver, "6")
    (late,) = driver.submit(version="7")
    assert driver.failure(late) is ErrorCode.UNKNOWN_VERSION


# ------------------------------------------------------------------ what supervisors are to load


def wanted(driver: Driver, supervisor: bytes = b"m") -> list[list[str]]:
    return [want.versions for want in driver.told(supervisor, Want)]


@pytest.fixture
def repository(broker: Make) -> Driver:
    """A supervisor with models: 1 is loaded, 2 is on disk, 3 has failed."""
    driver = broker()
    driver.gateway()
    driver.supervisor(b"m", "a", has_models=True)
    driver.worker(b"w1", by=b"m", version="1")
    driver.models(b"m", v1=VersionState.READY, v2=VersionState.FOUND, v3="no file net.pt")
    return driver


def test_a_supervisor_is_told_what_is_wanted(repository: Driver) -> None:
    assert wanted(repository) == [[], ["1"]]
    repository.supervisor(b"m", "a", has_models=True)
    assert wanted(repository)[2:] == [["1"]], "once more with each hello"
    repository.supervisor(b"s2", "a")
    assert wanted(repository, b"s2") == [], "it has no models"


def test_a_supervisor_is_told_what_was_rolled_back_in_all_that_it_serves(broker: Make) -> None:
    driver = broker(p=pipeline("a"), q=pipeline("a"))
    driver.gateway()
    driver.supervisor(b"m", "a", has_models=True)
    for version in "12":
        driver.worker(f"w{version}".encode(), by=b"m", version=version)
        driver.models(b"m", v1=VersionState.READY, v2=VersionState.READY)
    for name, told in (("p", []), ("q", ["2"])):
        driver.ask("rollback", pipeline=name)
        driver.tick()
        latest = driver.told(b"m", Want)[-1]
        assert latest.rejected == told
    assert latest.versions == ["1"]
    driver.ask("traffic", pipeline="q", weights={"1": 1, "2": 1})
    driver.tick()
    latest = driver.told(b"m", Want)[-1]
    assert (latest.versions, latest.rejected) == (["1", "2"], [])


def test_a_change_waits_for_the_version_that_it_names(repository: Driver) -> None:
    repository.ask("traffic", weights={"1": 90, "2": 10}, by="me", why="try it")
    assert repository.reports[b"cli"] == []
    assert wanted(repository)[-1] == ["1", "2"]
    assert repository.traffic()["pending"]["waits_for"] == ["2"]
    repository.models(b"m", v1=VersionState.READY, v2=VersionState.LOADING)
    repository.run(60.0)
    assert repository.shares() == {"1": 100.0}
    repository.worker(b"w2", by=b"m", version="2")
    assert repository.shares() == {"1": 100.0}, "it has more workers, which are not ready"
    repository.models(b"m", v1=VersionState.READY, v2=VersionState.READY)
    document = repository.document()
    assert document["weights"] == {"1": 90.0, "2": 10.0}
    assert (document["canary"], document["stable"], document["pending"]) == ("2", "1", None)
    assert document["changed"]["what"] == "traffic 1=90 2=10"
    assert repository.saves[-1].change.by == "me"


def test_a_version_that_fails_changes_nothing(repository: Driver) -> None:
    repository.ask("traffic", weights={"2": 1})
    repository.models(b"m", v1=VersionState.READY, v2="the file is cut short")
    assert "version 2 failed: the file is cut short" in repository.refused()
    assert repository.shares() == {"1": 100.0}
    assert wanted(repository)[-1] == ["1"]


def test_one_that_had_failed_before_is_tried_again(repository: Driver) -> None:
    repository.ask("traffic", weights={"3": 1})
    repository.run(TRIED_AGAIN_S - 0.5)
    assert repository.reports[b"cli"] == []
    repository.run(1.0)
    assert "no file net.pt" in repository.refused()
    repository.ask("traffic", weights={"3": 1})
    repository.models(b"m", v1=VersionState.READY, v3=VersionState.LOADING)
    repository.run(TRIED_AGAIN_S + 1.0)
    assert repository.reports[b"cli"] == []
    repository.worker(b"w3", by=b"m", version="3")
    repository.models(b"m", v1=VersionState.READY, v3=VersionState.READY)
    assert repository.document()["stable"] == "3"


def test_a_later_change_takes_the_place_of_one_that_waits(repository: Driver) -> None:
    repository.ask("traffic", b"first", weights={"2": 1})
    repository.ask("traffic", b"second", shadow="2")
    assert "another change" in repository.refused(b"first")
    repository.worker(b"w2", by=b"m", version="2")
    assert repository.document(b"second")["shadow"] == "2"
    assert repository.shares() == {"1": 100.0}, "it was loaded as a shadow: it takes nothing over"


def test_one_that_nobody_has_any_longer_is_given_up(repository: Driver) -> None:
    repository.ask("traffic", weights={"2": 1})
    repository.models(b"m", v1=VersionState.READY)
    repository.run(4.8)
    assert repository.reports[b"cli"] == []
    repository.run(1.0)
    assert "version 2 does not get ready: nobody has it any longer" in repository.refused()


def test_a_version_may_lie_on_disk_for_long_before_it_is_asked_for(repository: Driver) -> None:
    repository.run(FORGET_S)
    repository.ask("traffic", weights={"2": 1})
    repository.run(1.0)
    assert repository.reports[b"cli"] == []
    repository.models(b"m", v1=VersionState.READY, v2=VersionState.LOADING)
    repository.worker(b"w2", by=b"m", version="2")
    repository.models(b"m", v1=VersionState.READY, v2=VersionState.READY)
    assert repository.document()["stable"] == "2"


def test_a_version_takes_over_when_all_its_workers_are_loaded(repository: Driver) -> None:
    repository.models(b"m", v1=VersionState.READY, v2=VersionState.LOADING)
    repository.worker(b"w2", by=b"m", version="2")
    repository.run(1.0)
    assert (repository.shares(), repository.states()["2"]) == ({"1": 100.0}, "ready")
    assert versions(repository, 3) == ["1"] * 3
    repository.worker(b"w22", by=b"m", version="2")
    repository.models(b"m", v1=VersionState.READY, v2=VersionState.READY)
    assert repository.shares() == {"2": 100.0}
    repository.supervisor(b"n", "a", has_models=True)
    repository.models(b"n", v2=VersionState.LOADING)
    assert repository.shares() == {"2": 100.0}, "one more host"


def test_a_version_that_one_stage_has_and_another_lacks_is_given_up(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    for stage in ("a", "b"):
        driver.supervisor(stage.encode(), stage, has_models=True)
        driver.worker(b"1" + stage.encode(), stage, by=stage.encode(), version="1")
    driver.models(b"a", v1=VersionState.READY, v2=VersionState.FOUND)
    driver.models(b"b", v1=VersionState.READY)
    driver.ask("traffic", weights={"2": 1})
    driver.worker(b"2a", "a", by=b"a", version="2")
    driver.models(b"a", v1=VersionState.READY, v2=VersionState.READY)
    driver.run(4.0)
    assert driver.reports[b"cli"] == []
    driver.run(2.0)
    assert "version 2 does not get ready: no ready worker of it at b" in driver.refused()


def test_what_is_not_there_may_be_a_copy_that_goes_on(repository: Driver) -> None:
    repository.ask("traffic", weights={"4": 1})
    assert "has no version '4'; there is 1, 2, 3 (a folder counts" in repository.refused()


def test_a_broker_that_drains_makes_no_more_changes(repository: Driver) -> None:
    repository.ask("traffic", weights={"2": 1})
    repository.drain()
    assert "draining" in repository.refused()
    repository.ask("rollback")
    assert "draining" in repository.refused()


def test_a_version_comes_back_for_a_rollback(repository: Driver) -> None:
    repository.worker(b"w2", by=b"m", version="2")
    assert repository.shares() == {"2": 100.0}
    repository.models(b"m", v1=VersionState.FOUND, v2=VersionState.READY)
    repository.forget(b"w1")
    repository.receive(b"w1", Bye(EPOCH))
    repository.ask("rollback")
    assert wanted(repository)[-1] == ["1", "2"]
    repository.worker(b"w1", by=b"m", version="1")
    assert repository.document()["weights"] == {"1": 100.0}
    assert wanted(repository)[-1] == ["1"]


def test_what_requests_wait_for_that_were_begun_is_loaded_again(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    for stage in ("a", "b"):
        driver.supervisor(stage.encode(), stage, has_models=True)
        driver.worker(b"1" + stage.encode(), stage, by=stage.encode(), version="1")
        driver.models(stage.encode(), v1=VersionState.READY)
    (early,) = driver.submit()
    driver.finish(b"1a")
    driver.forget(b"1b")
    driver.receive(b"1b", Bye(EPOCH))
    driver.ask("traffic", latest=True)
    driver.worker(b"2a", "a", by=b"a", version="2")
    driver.worker(b"2b", "b", by=b"b", version="2")
    driver.models(b"b", v1=VersionState.FOUND, v2=VersionState.READY)
    driver.models(b"a", v1=VersionState.READY, v2=VersionState.READY)
    driver.run(1.0)
    assert driver.shares() == {"2": 100.0}
    assert wanted(driver, b"b")[-1] == ["1", "2"]
    driver.worker(b"1c", "b", by=b"b", version="1")
    driver.tick()
    driver.finish_all()
    assert driver.the_answer(early).version == "1"
    driver.run(1.0)
    assert wanted(driver, b"b")[-1] == ["2"]


def test_a_repository_goes_with_its_supervisor(repository: Driver) -> None:
    assert repository.states() == {"1": "ready", "2": "found", "3": "failed"}
    repository.supervised.pop(b"m")
    repository.receive(b"m", Bye(EPOCH))
    assert repository.states() == {"1": "ready", "2": "gone", "3": "gone"}
    repository.run(FORGET_S + 6.0, beats=False)
    assert set(repository.states()) == {"1"}


def test_a_beat_without_news_sends_no_catalog(repository: Driver) -> None:
    repository.run(1.0)
    before = len(repository.told(b"g1", Catalog))
    repository.receive(
        b"m",
        SupervisorBeat(
            EPOCH,
            [],
            versions=[
                VersionReport("1", VersionState.READY),
                VersionReport("2", VersionState.FOUND),
                VersionReport("3", VersionState.FAILED, "no file net.pt"),
            ],
        ),
    )
    repository.run(1.0)
    assert len(repository.told(b"g1", Catalog)) == before


# ------------------------------------------------------------------ promotion


def test_a_promotion_walks_up_by_the_clock(canary: Driver) -> None:
    canary.ask("promote", version="3", steps=[1, 25, 100], every_s=60, by="me")
    assert canary.document()["weights"] == {"2": 99.0, "3": 1.0}
    seen = [canary.shares()["3"]]
    for _ in range(3):
        canary.run(59.5)
        assert canary.shares()["3"] == seen[-1]
        canary.run(0.7)
        seen.append(canary.shares()["3"])
    assert seen == [1.0, 25.0, 100.0, 100.0]
    document = canary.traffic()
    assert (document["promotion"], document["stable"], document["previous"]) == (None, "3", "2")
    assert [save.change.what for save in canary.saves[-3:]] == [
        "promote 3: 25 %", "promote 3: 100 %", "promote 3: done"
    ]  # fmt: skip


def test_a_promotion_waits_while_its_version_is_away(canary: Driver) -> None:
    canary.ask("promote", version="3", steps=[10, 100], every_s=10)
    canary.lose(b"a3.1")
    canary.run(30.0)
    assert canary.traffic()["promotion"]["step"] == 0
    worker(canary, "3", number=2)
    canary.run(0.2)
    assert canary.traffic()["promotion"]["step"] == 1


def test_a_promotion_is_stopped_where_it_stands(canary: Driver) -> None:
    canary.ask("promote", version="3", steps=[10, 100], every_s=10)
    canary.ask("promote", stop=True)
    assert canary.document()["promotion"] is None
    canary.run(20.0)
    assert canary.shares() == {"2": 90.0, "3": 10.0}
    canary.ask("promote", stop=True)
    assert "no version is being promoted" in canary.refused()


def test_a_promotion_goes_on_with_the_next_broker(broker: Make) -> None:
    kept = t.promote(t.take_over(Traffic(), "2"), "3", steps=(10.0, 100.0), every_s=60.0)
    assert kept.promotion is not None
    kept = replace(kept, promotion=replace(kept.promotion, elapsed_s=50.0))
    driver = broker(traffic={"p": kept})
    worker(driver, "2")
    worker(driver, "3")
    driver.run(9.0)
    assert driver.shares()["3"] == 10.0
    driver.run(2.0)
    assert driver.shares()["3"] == 100.0


# ------------------------------------------------------------------ what is said of it


def test_readiness_is_that_of_the_versions_that_get_requests(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    worker(driver, "1", "a")
    worker(driver, "2", "b")
    (reason,) = driver.scheduler.snapshot(driver.now).pipelines["p"].reasons
    assert reason == "a: no ready worker of version 2"
    worker(driver, "2", "a")
    assert driver.shares() == {"2": 100.0}
    assert driver.scheduler.snapshot(driver.now).pipelines["p"].ready


def test_gateways_are_told_of_shares_and_names(canary: Driver) -> None:
    canary.ask("traffic", sticky="header:X-User", labels={"best": "2"})
    canary.tick()
    (info,) = canary.told(b"g1", Catalog)[-1].pipelines
    assert (info.sticky, info.labels) == (
        "header:X-User", {"best": "2", "stable": "2", "canary": "3"}
    )  # fmt: skip
    assert [(each.name, each.state, each.share) for each in info.states] == [
        ("2", "ready", 90.0), ("3", "ready", 10.0)
    ]  # fmt: skip

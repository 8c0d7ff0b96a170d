"""Who joins, who is asked who it is, who is lost, and what a stage without hands means."""

from collections.abc import Callable

import pytest

from broker.core.events import DrainAsked, PeerLost, Unreadable
from broker.core.peers import Gateway, Supervisor, Worker
from broker.wire.errors import ErrorCode
from broker.wire.messages import (
    NO_EPOCH,
    PROTOCOL_VERSION,
    SILENCE_S,
    Beat,
    Bye,
    Cancel,
    Catalog,
    GatewayBeat,
    GatewayHello,
    Refused,
    Results,
    Submit,
    SubmitItem,
    SupervisorBeat,
    SupervisorHello,
    ToBroker,
    Unknown,
    Welcome,
    Who,
    WorkerBeat,
    WorkerDraining,
    WorkerHealth,
    WorkerHello,
    WorkerReport,
)
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline

Make = Callable[..., Driver]


# ------------------------------------------------------------------ hello


def test_a_gateway_is_welcomed_and_told_what_is_served(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    welcome, catalog = driver.sent[b"g1"]
    assert welcome == Welcome(EPOCH, PROTOCOL_VERSION)
    assert isinstance(catalog, Catalog)
    assert [info.name for info in catalog.pipelines] == ["p"]


def test_a_gateway_that_says_hello_again_keeps_its_items(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    (seq,) = driver.submit()
    driver.receive(b"g1", GatewayHello(PROTOCOL_VERSION))
    driver.finish_all()
    assert driver.result(seq) == b"1"


def test_a_worker_is_sent_nothing_before_it_is_warm(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(ready=False)
    assert driver.told(b"w1", Welcome)
    (seq,) = driver.submit()
    assert driver.payloads() == []
    driver.worker(ready=True)
    driver.tick()
    assert driver.payloads() == [[seq]]
    driver.worker(ready=False)  # two hellos that arrive in the wrong order
    driver.finish()
    assert driver.result(seq) == b"1"


@pytest.mark.parametrize("concurrency", [1, 9])
def test_a_worker_that_holds_something_is_as_it_was(broker: Make, concurrency: int) -> None:
    driver = broker()
    driver.gateway()
    worker = driver.worker(concurrency=2)
    driver.submit(6)
    held = len(driver.batches[worker])
    assert held > 1
    driver.worker(concurrency=concurrency, repeatable=False)
    driver.tick()
    assert len(driver.batches[worker]) == held
    driver.finish_all()
    driver.worker(concurrency=concurrency, repeatable=False)
    driver.submit(20)
    assert len(driver.batches[worker]) == concurrency


def test_the_catalog_follows_what_is_ready(broker: Make) -> None:
    driver = broker()
    driver.gateway()

    def seen() -> tuple[int, int, str]:
        driver.tick()
        stage = driver.told(b"g1", Catalog)[-1].pipelines[0].stages[0]
        return stage.ready_workers, stage.workers, stage.reason

    assert seen() == (0, 0, "no worker")
    driver.worker(ready=False)
    assert seen() == (0, 1, "its workers are loading or leaving")
    driver.worker(ready=True)
    assert seen() == (1, 1, "")
    driver.lose(b"w1")
    assert seen() == (0, 0, "no worker")


@pytest.mark.parametrize(
    "hello",
    [
        GatewayHello(99),
        WorkerHello(99, b"s1", "a"),
        SupervisorHello(99, "a"),
        WorkerHello(PROTOCOL_VERSION, b"s1", "nope"),
        WorkerHello(PROTOCOL_VERSION, b"s1", "a", "nowhere"),
        SupervisorHello(PROTOCOL_VERSION, "nope"),
        SupervisorHello(PROTOCOL_VERSION, "a", "nowhere"),
    ],
    ids=str,
)
def test_who_does_not_fit_is_told_why(broker: Make, hello: ToBroker) -> None:
    driver = broker(p=pipeline("a"), q=pipeline("b"))
    driver.receive(b"x1", hello)
    ((refused),) = driver.sent[b"x1"]
    assert isinstance(refused, Refused)
    assert refused.reason
    assert b"x1" not in driver.ledger.peers


def test_without_a_pipeline_a_worker_serves_its_stage_in_all(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"), q=pipeline("b"), r=pipeline("a"))
    driver.gateway()
    driver.worker(b"w1", "b")
    driver.worker(b"w2", "a", by=b"s2", pipeline="r")
    (first,) = driver.submit(pipeline="q")
    driver.finish(b"w1")
    (second,) = driver.submit(pipeline="r")
    assert driver.finish(b"w2").pipeline == "r"
    (third,) = driver.submit(pipeline="p")
    assert driver.payloads(b"w2") == []
    driver.cancel(third)
    assert driver.answered() == [first, second]


# ------------------------------------------------------------------ strangers, roles


@pytest.mark.parametrize(
    "message",
    [
        Submit(EPOCH, [SubmitItem(1, "p", b"", b"", 1.0)]),
        Cancel(EPOCH, [1]),
        GatewayBeat(EPOCH),
        Results(EPOCH, 1, [], 0.1),
        WorkerBeat(EPOCH),
        WorkerDraining(EPOCH),
        SupervisorBeat(EPOCH),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_stranger_is_asked_who_it_is_but_not_all_the_time(
    broker: Make, message: ToBroker
) -> None:
    driver = broker()
    for _ in range(10):
        driver.receive(b"x1", message)
    assert driver.sent[b"x1"] == [Who(EPOCH)]
    driver.now += 0.3
    driver.receive(b"x1", message)
    assert driver.sent[b"x1"] == [Who(EPOCH)] * 2
    driver.receive(b"x2", Bye(EPOCH))
    assert driver.sent[b"x2"] == []
    assert driver.ledger.pipelines["p"].items == 0


def test_a_message_of_another_epoch_is_not_acted_on(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    for epoch in (NO_EPOCH, EPOCH + 1, -1):
        driver.receive(b"g1", Submit(epoch, [SubmitItem(1, "p", b"", b"", 1.0)]))
    assert driver.told(b"g1", Who) == [Who(EPOCH)]
    assert driver.ledger.pipelines["p"].items == 0


@pytest.mark.parametrize(
    "message",
    [
        Results(EPOCH, 1, [], 0.1),
        WorkerBeat(EPOCH),
        SupervisorBeat(EPOCH, [WorkerReport(b"w1", WorkerHealth.GONE)]),
        WorkerHello(PROTOCOL_VERSION, b"s1", "a", ready=True),
        SupervisorHello(PROTOCOL_VERSION, "a"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_peer_out_of_its_role_changes_nothing(broker: Make, message: ToBroker) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    (seq,) = driver.submit()
    driver.receive(b"g1", message)
    assert [each.peer for each in driver.misbehaved] == [b"g1"]
    assert isinstance(driver.ledger.peers[b"g1"], Gateway)
    assert isinstance(driver.ledger.peers[b"w1"], Worker)
    driver.finish()
    assert driver.result(seq) == b"1"


def test_a_worker_or_supervisor_does_not_become_a_gateway(broker: Make) -> None:
    driver = broker()
    driver.worker()
    for peer in (b"w1", b"s1"):
        driver.receive(peer, GatewayHello(PROTOCOL_VERSION))
        driver.receive(peer, Submit(EPOCH, [SubmitItem(1, "p", b"", b"", 1.0)]))
    assert len(driver.misbehaved) == 4
    assert driver.ledger.pipelines["p"].items == 0


def test_ids_that_could_be_read_in_a_broken_submit_are_refused(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    (held,) = driver.submit()
    driver.owed.add((b"g1", 77))
    driver.event(Unreadable(b"g1", [held, 77]))
    driver.event(Unreadable(b"x1", [1]))
    driver.event(Unreadable(b"w1", [1]))
    driver.tick()
    assert driver.failure(77) is ErrorCode.BAD_REQUEST
    driver.finish()
    assert driver.result(held) == b"1"


# ------------------------------------------------------------------ beats and silence


def test_everyone_hears_a_beat(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.run(2.01)
    for peer in (b"g1", b"w1", b"s1"):
        assert len(driver.told(peer, Beat)) in (4, 5)


def test_a_beat_is_told_what_the_broker_does_not_hold(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    held = driver.submit(2)
    driver.receive(b"g1", GatewayBeat(EPOCH, [*held, 50, 51]))
    driver.receive(b"g1", GatewayBeat(EPOCH, held))
    assert driver.told(b"g1", Unknown) == [Unknown(EPOCH, [50, 51])]


def test_what_is_answered_in_the_turn_of_a_beat_is_not_unknown(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    (seq,) = driver.submit()
    driver.answer(b"w1", driver.take(), tick=False)
    driver.receive(b"g1", GatewayBeat(EPOCH, [seq, 50]))
    driver.tick()
    assert driver.told(b"g1", Unknown) == [Unknown(EPOCH, [50])]
    assert driver.result(seq) == b"1"


def test_a_silent_gateway_is_lost_with_its_items(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.gateway(b"g2")
    driver.worker(max_batch_size=2)
    driver.submit(10)
    (seq,) = driver.submit(gateway=b"g2")
    driver.silent.add(b"g1")
    driver.run(SILENCE_S + 0.7)
    assert b"g1" not in driver.ledger.peers
    assert driver.ledger.pipelines["p"].items == 1
    driver.finish_all()
    assert driver.answered() == []
    assert driver.result(seq, b"g2") == b"1"


def test_a_gateway_that_leaves_or_cannot_be_reached(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.gateway(b"g2")
    driver.submit(3)
    driver.submit(3, gateway=b"g2")
    driver.receive(b"g1", Bye(EPOCH))
    driver.event(PeerLost(b"g2", "no connection"))
    driver.event(PeerLost(b"g2", "no connection"))
    driver.receive(b"g1", Bye(EPOCH))
    assert driver.ledger.peers == {}
    assert driver.ledger.pipelines["p"].items == 0


def test_an_answer_for_a_gateway_that_just_left_goes_nowhere(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.submit()
    driver.answer(b"w1", driver.take(), tick=False)
    driver.receive(b"g1", Bye(EPOCH))
    driver.tick()
    assert driver.answered() == []


def test_a_silent_worker_is_kept_as_long_as_its_supervisor_speaks_for_it(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.submit(left_s=60.0)
    driver.run(10.0)
    assert b"w1" in driver.ledger.peers
    driver.supervised[b"s1"].remove(b"w1")  # the supervisor beats, but says nothing of it
    driver.run(SILENCE_S + 0.7)
    assert b"w1" not in driver.ledger.peers
    driver.cancel(1)


def test_a_workers_own_beats_count(broker: Make) -> None:
    driver = broker()
    driver.worker()
    driver.silent.add(b"s1")
    driver.receive(b"s1", Bye(EPOCH))
    for _ in range(10):
        driver.run(1.0)
        driver.receive(b"w1", WorkerBeat(EPOCH, []))
    assert b"w1" in driver.ledger.peers


@pytest.mark.parametrize("health", [WorkerHealth.STOPPED, WorkerHealth.GONE, 17, -1])
def test_what_a_supervisor_reports_is_believed(broker: Make, health: int) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.worker(b"w2", by=b"s2")
    driver.receive(b"s2", SupervisorBeat(EPOCH, [WorkerReport(b"w1", health)]))
    assert b"w1" in driver.ledger.peers, "it is not its worker"
    driver.receive(b"s1", SupervisorBeat(EPOCH, [WorkerReport(b"w1", health)]))
    assert b"w1" not in driver.ledger.peers
    driver.receive(b"s1", SupervisorBeat(EPOCH, [WorkerReport(b"w1", health)]))
    driver.receive(b"s1", SupervisorBeat(EPOCH, [WorkerReport(b"", health)]))


def test_a_worker_that_was_thought_lost_is_asked_and_comes_back(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.receive(b"s1", SupervisorBeat(EPOCH, [WorkerReport(b"w1", WorkerHealth.STOPPED)]))
    driver.receive(b"w1", WorkerBeat(EPOCH, []))
    assert driver.told(b"w1", Who)
    driver.worker()
    (seq,) = driver.submit()
    driver.finish()
    assert driver.result(seq) == b"1"


def test_a_standstill_of_the_broker_itself_is_nobodys_silence(broker: Make) -> None:
    driver = broker(p=pipeline("a", absent_s=5.0), q=pipeline("z"))
    driver.gateway()
    driver.worker()
    (seq,) = driver.submit(left_s=3600.0)
    driver.now += 600.0
    driver.tick()
    driver.run(1.0)
    assert set(driver.ledger.peers) == {b"g1", b"w1", b"s1"}
    assert not driver.ledger.pipelines["q"].stages[0].absent
    driver.finish()
    assert driver.result(seq) == b"1"


def test_after_a_standstill_the_dead_are_found_as_soon_as_ever(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.now += 600.0
    driver.beat()  # what had piled up is read before the turn ends
    driver.tick()
    driver.silent |= {b"g1", b"s1"}
    driver.run(SILENCE_S + 0.7)
    assert driver.ledger.peers == {}


# ------------------------------------------------------------------ a stage without hands


def test_a_stage_that_nobody_attends_is_waited_for_then_refused(broker: Make) -> None:
    driver = broker(p=pipeline("a", absent_s=5.0))
    driver.gateway()
    early = driver.submit(2)
    driver.run(4.9)
    assert driver.answered() == []
    driver.run(0.3)
    assert [driver.failure(seq) for seq in early] == [ErrorCode.NOT_READY] * 2
    (late,) = driver.submit()
    assert driver.failure(late) is ErrorCode.NOT_READY
    assert driver.told(b"g1", Catalog)[-1].pipelines[0].stages[0].reason
    driver.worker()
    driver.run(0.2)
    (served,) = driver.submit()
    driver.finish_all()
    assert driver.result(served) == b"%d" % served


def test_what_passed_the_stage_before_it_emptied_is_answered(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b", absent_s=5.0))
    driver.gateway()
    driver.worker(b"wa", "a")
    driver.worker(b"wb", "b", by=b"s2")
    driver.submit(3, left_s=60.0)
    driver.finish(b"wa")
    driver.forget(b"wa")
    driver.receive(b"wa", Bye(EPOCH))
    driver.supervised.pop(b"s1")
    driver.receive(b"s1", Bye(EPOCH))
    driver.run(5.2)
    assert [driver.failure(seq) for seq in (2, 3)] == [ErrorCode.NOT_READY] * 2
    driver.finish(b"wb")
    assert driver.result(1) == b"1"


def test_a_middle_stage_that_is_absent_refuses_all_before_it(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b", absent_s=1.0))
    driver.gateway()
    driver.worker(b"wa", "a", max_batch_size=1)
    driver.submit(4, left_s=60.0)
    driver.run(0.5)
    driver.finish(b"wa")
    driver.run(1.0)
    assert {driver.failure(seq) for seq in (1, 4)} == {ErrorCode.NOT_READY}
    driver.finish_all()
    driver.run(0.2)
    assert {driver.failure(seq) for seq in (1, 2, 3, 4)} == {ErrorCode.NOT_READY}


def test_a_supervisor_is_hope_enough(broker: Make) -> None:
    driver = broker(p=pipeline("a", absent_s=1.0, timeout_s=60.0))
    driver.gateway()
    driver.supervisor()
    (seq,) = driver.submit(left_s=60.0)
    driver.run(20.0)
    assert driver.answered() == []
    driver.worker()
    driver.tick()
    driver.finish()
    assert driver.result(seq) == b"1"


def test_a_supervisor_that_does_not_know_its_stage_yet_is_hope_for_all(broker: Make) -> None:
    driver = broker(p=pipeline("a", absent_s=1.0), q=pipeline("b", absent_s=1.0))
    driver.gateway()
    driver.supervisor(b"s1", stage="")
    (seq,) = driver.submit(left_s=60.0)
    driver.run(5.0)
    assert driver.answered() == []
    driver.supervisor(b"s1", stage="b")
    driver.run(1.3)
    assert driver.failure(seq) is ErrorCode.NOT_READY
    assert isinstance(driver.ledger.peers[b"s1"], Supervisor)
    assert not driver.ledger.pipelines["q"].stages[0].absent


def test_absence_counts_from_the_last_that_left(broker: Make) -> None:
    driver = broker(p=pipeline("a", absent_s=5.0))
    driver.gateway()
    driver.worker()
    driver.run(20.0)
    driver.supervised.clear()
    driver.lose(b"w1")
    driver.receive(b"s1", Bye(EPOCH))
    (seq,) = driver.submit(left_s=60.0)
    driver.run(4.8)
    assert driver.answered() == []
    driver.run(0.4)
    assert driver.failure(seq) is ErrorCode.NOT_READY


def test_a_draining_broker_still_welcomes(broker: Make) -> None:
    driver = broker()
    driver.event(DrainAsked())
    driver.gateway()
    assert driver.told(b"g1", Catalog)[-1].draining


def test_a_stage_that_is_not_ready_says_why_its_workers_fail(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1")
    failed = WorkerReport(b"w2", WorkerHealth.GONE, "exit code 3", failure="setup failed: no disk")
    driver.receive(b"s1", SupervisorBeat(EPOCH, [failed]))
    driver.tick()

    def reasons() -> list[str]:
        return driver.scheduler.snapshot(driver.now).pipelines["p"].reasons

    assert reasons() == []
    driver.lose(b"w1")
    driver.receive(b"s1", SupervisorBeat(EPOCH, [failed]))
    driver.tick()
    assert reasons() == ["a: no worker; setup failed: no disk"]
    assert driver.told(b"g1", Catalog)[-1].pipelines[0].stages[0].reason == reasons()[0][3:]
    driver.worker(b"w3")
    driver.tick()
    driver.lose(b"w3")
    assert reasons() == ["a: no worker"]


def test_a_worker_that_names_another_stage_stays_where_it_is(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.worker(b"w1", "a")
    driver.worker(b"w1", "b", version="7", repeatable=False)
    a, b = driver.ledger.pipelines["p"].stages
    assert (b.workers, b.versioned, b.repeatable) == ({}, False, True)
    assert list(a.workers) == [b"w1"]

"""What is told of traced requests, and that nothing is kept of them."""

from collections.abc import Callable

from broker.core.traces import KEPT_S
from broker.wire.messages import (
    Answers,
    Bye,
    RequestTrace,
    Results,
    Submit,
    SubmitItem,
    Traces,
    WorkerDraining,
)
from tests.unit.broker.core.driver import EPOCH, Driver, pipeline

Make = Callable[..., Driver]


def span(seq: int) -> bytes:
    return seq.to_bytes(24)


def submit(driver: Driver, *seqs: int, traced: tuple[int, ...] = (), left_s: float = 10.0) -> None:
    """These requests, of which some are traced."""
    items = [SubmitItem(seq, "p", b"%d" % seq, b"meta", left_s) for seq in seqs]
    driver.owed.update((b"g1", seq) for seq in seqs)
    driver.receive(b"g1", Submit(EPOCH, items, [(seq, span(seq)) for seq in traced or seqs]))
    driver.tick()


def told(driver: Driver) -> dict[int, RequestTrace]:
    """By number, what the gateway was told."""
    messages = [each for each in driver.sent[b"g1"] if isinstance(each, Answers | Traces)]
    traces = [trace for message in messages for trace in message.traces]
    found = {trace.seq: trace for trace in traces}
    assert len(found) == len(traces), "each is told once"
    assert not driver.ledger.traced, "nothing is left"
    return found


def finish(driver: Driver, worker: bytes = b"w1") -> None:
    """A worker answers its oldest batch after a second, and says how long each phase took."""
    driver.now += 1.0
    batch = driver.batches[worker].pop(0)
    phases = [0.1, 0.2, 0.3, 0.4] if batch.traced else []
    driver.receive(
        worker,
        Results(EPOCH, batch.lease, [b"r"] * len(batch.items), 0.9, phases=phases),
    )
    driver.tick()


def test_each_run_and_wait_is_told_with_the_answer(broker: Make) -> None:
    driver = broker(p=pipeline("a", "b"))
    driver.gateway()
    driver.worker(b"w1", "a", index=3)
    driver.worker(b"w2", "b")
    submit(driver, 1)
    finish(driver, b"w1")
    finish(driver, b"w2")
    trace = told(driver)[1]
    assert trace.age_s == 2.0
    first, last = trace.visits
    assert (first.stage, first.entered_s, first.sent_s, first.ended_s) == ("a", 0.0, 0.0, 1.0)
    assert (last.stage, last.entered_s, last.sent_s, last.ended_s) == ("b", 1.0, 1.0, 2.0)
    assert (first.index, first.attempt, first.outcome) == (3, 1, "")
    assert first.phases == [0.1, 0.2, 0.3, 0.4]


def test_only_batches_with_a_traced_request_are_timed(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(max_batch_size=4)
    driver.submit(1, key=0)
    driver.worker(b"w2", max_batch_size=4)
    assert not driver.batches[b"w1"][0].traced
    submit(driver, 11, 12, 13, traced=(11, 13))
    (batch,) = driver.batches[b"w2"]
    assert batch.traced
    finish(driver, b"w2")
    traces = told(driver)
    assert set(traces) == {11, 13}
    visit = traces[11].visits[0]
    assert (visit.links, visit.size) == ([span(11), span(13)], 3)
    driver.finish_all()


def test_a_lost_worker_has_a_visit_of_its_own(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1")
    submit(driver, 1)
    driver.now += 1.0
    driver.lose(b"w1")
    driver.now += 1.0
    driver.worker(b"w2")
    driver.tick()
    finish(driver, b"w2")
    lost, ran = told(driver)[1].visits
    assert (lost.outcome, lost.attempt, lost.ended_s) == ("worker_lost", 1, 1.0)
    assert (ran.outcome, ran.attempt, ran.entered_s, ran.sent_s) == ("", 2, 1.0, 2.0)


def test_what_had_not_begun_is_given_back(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker(b"w1")
    submit(driver, 1)
    driver.worker(b"w2")
    driver.receive(b"w1", WorkerDraining(EPOCH, [driver.batches[b"w1"][0].lease]))
    driver.tick()
    finish(driver, b"w2")
    assert [visit.outcome for visit in told(driver)[1].visits] == ["returned", ""]


def test_what_is_too_late_or_unwanted_shows_where_it_was(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    submit(driver, 1, 2, 3, left_s=0.5)
    driver.cancel(3)
    driver.tick(1.0)
    traces = told(driver)
    states = {seq: (t.visits[0].sent_s, t.visits[0].outcome) for seq, t in traces.items()}
    assert states[1][1] == "deadline_exceeded"
    assert states[1][0] >= 0.0
    assert states[3][1] == "cancelled"
    assert all(trace.visits[0].ended_s < 0.0 for trace in traces.values())
    driver.finish_all()


def test_a_request_that_is_refused_has_none(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    driver.drain()
    submit(driver, 1)
    assert told(driver) == {}


def test_a_gateway_that_leaves_takes_its_traces_along(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    submit(driver, 1)
    driver.owed.clear()
    driver.gateways.remove(b"g1")
    driver.receive(b"g1", Bye(EPOCH))
    assert told(driver) == {}


def test_a_request_that_begins_anew_keeps_its_trace_for_a_while(broker: Make) -> None:
    driver = broker()
    driver.gateway()
    driver.worker()
    submit(driver, 1)
    item = driver.items()[1]
    assert item.lease is not None
    driver.ledger.end_lease(item.lease, driver.now)
    driver.ledger.restart(item, "its memory is gone")
    submit(driver, 1)
    driver.batches[b"w1"].pop(0)
    finish(driver)
    assert len(told(driver)[1].visits) == 2
    driver.receive(b"g1", Submit(EPOCH, []))
    driver.run(KEPT_S)
    assert not driver.ledger.traced

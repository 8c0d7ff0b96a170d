"""A worker's side of the protocol, with numbers for time."""

from typing import Any

import pytest

from broker.wire.messages import (
    NO_EPOCH,
    PROTOCOL_VERSION,
    SILENCE_S,
    Batch,
    Beat,
    Dismiss,
    FromWorker,
    Refused,
    Renew,
    Results,
    Welcome,
    Who,
    WorkerBeat,
    WorkerDraining,
    WorkerHello,
)
from workers.session import LEAVE_S, Life, WorkerSession


def make() -> WorkerSession:
    return WorkerSession(WorkerHello(PROTOCOL_VERSION, b"sup", "infer"), 0.0)


def ready(epoch: int = 1) -> WorkerSession:
    """A session at 1.0 whose broker has just welcomed it as ready."""
    session = make()
    session.start(0.0)
    session.receive(Welcome(epoch, PROTOCOL_VERSION), 0.1)
    warm(session, 1.0)
    session.receive(Welcome(epoch, PROTOCOL_VERSION), 1.0)
    return session


def warm(session: WorkerSession, now: float) -> list[FromWorker]:
    return session.warm(
        now, max_batch_size=8, concurrency=1, repeatable=True, timings=[(1, 0.5), (8, 1.0)]
    )


def batch(lease: int, epoch: int = 1) -> Batch:
    return Batch(epoch, lease, "p", False, False, [])


def finish(session: WorkerSession, held: Any, now: float, **kwargs: Any) -> list[FromWorker]:
    fields: dict[str, Any] = {"outcomes": [], "run_s": 0.1, "sample": False, "content_type": ""}
    return session.finish(held, now, **{**fields, **kwargs})


def hello_of(messages: list[FromWorker]) -> WorkerHello:
    (message,) = messages
    assert isinstance(message, WorkerHello)
    return message


def test_the_first_hello_is_not_ready_the_second_is() -> None:
    session = make()
    assert not hello_of(session.start(0.0)).ready
    assert session.life is Life.LOADING
    hello = hello_of(warm(session, 9.0))
    assert (hello.ready, hello.max_batch_size) == (True, 8)
    assert hello.timings == [(1, 0.5), (8, 1.0)]


def test_hello_is_said_each_second_until_welcomed() -> None:
    session = make()
    session.start(0.0)
    assert session.tick(0.9) == []
    assert hello_of(session.tick(1.0)).epoch == NO_EPOCH
    assert session.tick(1.5) == []
    assert len(session.tick(2.0)) == 1
    session.receive(Welcome(3, PROTOCOL_VERSION), 2.1)
    assert session.epoch == 3
    assert session.tick(3.5) == []


def test_an_idle_worker_beats_with_what_it_holds() -> None:
    session = ready()
    assert session.tick(1.5) == []
    session.receive(batch(5), 1.6)
    assert session.tick(2.0) == [WorkerBeat(1, [5])]
    assert session.next_due() == 3.0


def test_silence_makes_it_say_hello_again() -> None:
    session = ready()
    session.receive(Beat(1), 2.0)
    assert not any(isinstance(m, WorkerHello) for m in session.tick(2.0 + SILENCE_S - 0.1))
    silent = session.tick(2.0 + SILENCE_S)
    assert isinstance(silent[0], WorkerHello)
    assert silent[0].ready
    assert not any(isinstance(m, WorkerHello) for m in session.tick(2.5 + SILENCE_S))
    assert any(isinstance(m, WorkerHello) for m in session.tick(3.1 + SILENCE_S))


def test_batches_are_taken_in_order_and_once() -> None:
    session = ready()
    for lease in (5, 6, 5):
        session.receive(batch(lease), 2.0)
    first, second, none = session.take(), session.take(), session.take()
    assert first is not None
    assert second is not None
    assert (first.batch.lease, second.batch.lease, none) == (5, 6, None)
    assert first.received == 2.0
    assert session.holding == [5, 6]
    assert session.renew(first) == [Renew(1, 5)]
    assert finish(session, first, 2.5, content_type="a/b", out_of_memory=4) == [
        Results(1, 5, [], 0.1, False, "a/b", [], 4)
    ]
    assert session.holding == [6]


def test_a_broker_that_asks_is_told_what_is_held() -> None:
    session = ready()
    session.receive(batch(5), 2.0)
    hello = hello_of(session.receive(Who(1), 2.1))
    assert (hello.ready, hello.epoch, hello.holding) == (True, 1, [5])
    assert session.receive(Who(1), 2.15) == []  # one hello answers a burst of them


def test_a_new_epoch_forgets_what_the_old_one_sent_ahead() -> None:
    session = ready()
    session.receive(batch(5), 2.0)
    session.receive(batch(6), 2.0)
    running = session.take()
    hello = hello_of(session.receive(Who(2), 2.5))
    assert (hello.epoch, hello.holding) == (1, [5, 6])
    session.receive(Welcome(2, PROTOCOL_VERSION), 2.6)
    assert session.take() is None
    assert session.holding == []
    assert finish(session, running, 3.0) == [Results(1, 5, [], 0.1, False, "")]


def test_messages_of_another_epoch_are_answered_with_hello() -> None:
    session = ready()
    assert hello_of(session.receive(batch(9, epoch=2), 2.0)).epoch == 1
    assert session.take() is None
    session.receive(Dismiss(2), 2.0)
    assert session.life is Life.READY


def test_what_was_learnt_goes_into_the_next_hello() -> None:
    session = ready()
    session.receive(batch(5), 2.0)
    finish(session, session.take(), 2.5, outcomes=[b""] * 3, run_s=0.25, sample=True)
    session.receive(batch(6), 2.0)
    finish(session, session.take(), 2.6, outcomes=[b""] * 8, run_s=2.0, sample=True)
    timings = hello_of(session.receive(Who(1), 3.0)).timings
    assert timings == [(1, 0.5), (3, 0.25), (8, pytest.approx(1.2))]


def test_a_refusal_is_asked_about_again_later() -> None:
    session = make()
    session.start(0.0)
    session.receive(Refused(1, "unknown stage"), 0.1)
    assert session.contact.reason == "unknown stage"
    assert session.tick(3.0) == []
    assert len(session.tick(5.0)) == 1
    session.receive(Welcome(1, PROTOCOL_VERSION), 5.1)
    assert session.contact.reason == ""


# ------------------------------------------------------------------ drain


def test_a_drain_gives_back_what_is_not_begun_and_waits() -> None:
    session = ready()
    session.receive(batch(5), 2.0)
    session.receive(batch(6), 2.0)
    running = session.take()
    assert session.drain(2.1) == [WorkerDraining(1, [6])]
    assert session.drain(2.2) == []
    session.receive(Dismiss(1), 2.3)
    assert session.life is Life.DRAINING  # it still runs one
    finish(session, running, 2.5)
    assert session.closed


def test_a_draining_worker_serves_until_dismissed() -> None:
    session = ready()
    session.drain(2.0)
    session.receive(batch(7), 2.5)
    held = session.take()
    assert held is not None
    assert WorkerDraining(1) in session.tick(3.1)
    finish(session, held, 3.2)
    assert session.life is Life.DRAINING
    session.receive(Dismiss(1), 3.3)
    assert session.closed
    assert session.tick(9.0) == []


def test_nobody_waits_for_a_broker_that_is_not_there() -> None:
    session = ready()
    session.drain(1.0 + SILENCE_S)
    assert session.closed


def test_a_broker_that_falls_silent_ends_the_drain() -> None:
    session = ready()
    session.drain(1.5)
    session.tick(3.9)
    assert not session.closed
    session.tick(1.0 + SILENCE_S)
    assert session.closed


def test_a_drain_ends_even_undismissed() -> None:
    session = ready()
    session.drain(2.0)
    for tenth in range(20, 20 + int(LEAVE_S * 10)):
        session.receive(Beat(1), tenth / 10)
        session.tick(tenth / 10)
        assert not session.closed
    assert session.next_due() <= 2.0 + LEAVE_S
    session.tick(2.0 + LEAVE_S)
    assert session.closed


def test_a_new_broker_learns_of_the_drain() -> None:
    session = ready()
    session.drain(2.0)
    session.receive(Who(2), 2.1)
    assert session.receive(Welcome(2, PROTOCOL_VERSION), 2.2) == [WorkerDraining(2)]


def test_a_dismissal_that_nobody_asked_for_is_ignored() -> None:
    session = ready()
    session.receive(Dismiss(1), 2.0)
    assert session.life is Life.READY

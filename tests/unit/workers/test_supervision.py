"""A supervisor's side of the protocol, with numbers for time."""

import pytest

from broker.wire.messages import (
    BEAT_S,
    PROTOCOL_VERSION,
    SILENCE_S,
    Beat,
    Excuse,
    FromSupervisor,
    Kill,
    Refused,
    SupervisorBeat,
    SupervisorHello,
    VersionReport,
    VersionState,
    Want,
    Welcome,
    Who,
    WorkerHealth,
    WorkerReport,
)
from workers.supervision import MAX_FAILURE_CHARS, Excused, KillOrder, SupervisorSession, Wish

ALIVE = WorkerReport(b"w1", WorkerHealth.ALIVE)


def make() -> SupervisorSession:
    return SupervisorSession(SupervisorHello(PROTOCOL_VERSION), 0.0)


def welcomed() -> SupervisorSession:
    session = make()
    session.start(0.0)
    session.receive(Welcome(4, PROTOCOL_VERSION), 0.0)
    session.tick([], 0.0)
    return session


def beat_of(messages: list[FromSupervisor]) -> SupervisorBeat:
    (message,) = messages
    assert isinstance(message, SupervisorBeat)
    return message


def test_nothing_is_reported_to_a_broker_that_has_not_welcomed_us() -> None:
    session = make()
    assert len(session.start(0.0)) == 1
    assert session.tick([ALIVE], 0.5) == []
    assert isinstance(session.tick([ALIVE], 1.0)[0], SupervisorHello)


def test_a_welcome_is_answered_with_a_beat_at_once() -> None:
    session = make()
    session.start(0.0)
    session.receive(Welcome(4, PROTOCOL_VERSION), 0.3)
    assert session.next_due() == 0.3
    assert beat_of(session.tick([ALIVE], 0.3)) == SupervisorBeat(4, [ALIVE], False)
    assert session.tick([ALIVE], 0.3 + BEAT_S - 0.01) == []
    assert len(session.tick([ALIVE], 0.3 + BEAT_S)) == 1


def test_the_stage_is_told_when_it_is_known() -> None:
    session = welcomed()
    (hello,) = session.stage_known("infer", 0.2)
    assert isinstance(hello, SupervisorHello)
    assert hello.stage == "infer"
    assert session.stage_known("infer", 0.3) == []


def test_a_death_is_reported_at_once_and_for_a_while() -> None:
    session = welcomed()
    session.died(b"w2", "signal 9 (SIGKILL)", 0.1)
    gone = WorkerReport(b"w2", WorkerHealth.GONE, "signal 9 (SIGKILL)")
    assert session.next_due() == 0.1
    assert beat_of(session.tick([ALIVE], 0.1)).reports == [ALIVE, gone]
    session.receive(Beat(4), 2.0)
    assert beat_of(session.tick([ALIVE], 2.0)).reports == [ALIVE, gone]
    assert beat_of(session.tick([ALIVE], 0.1 + SILENCE_S)).reports == [ALIVE]


def test_a_drain_is_said_in_the_next_beat() -> None:
    session = welcomed()
    session.draining = True
    session.changed(0.1)
    assert beat_of(session.tick([], 0.1)).draining


def test_an_order_to_kill() -> None:
    session = welcomed()
    assert session.receive(Kill(4, b"w1", "hangs"), 0.1) == ([], KillOrder(b"w1", "hangs"))
    replies, order = session.receive(Kill(3, b"w1", "of another life"), 0.2)
    assert order is None
    assert len(replies) == 1


def test_a_death_that_is_a_requests_fault() -> None:
    session = welcomed()
    assert session.receive(Excuse(4, b"w1"), 0.1) == ([], Excused(b"w1"))
    assert session.receive(Excuse(3, b"w1"), 0.2)[1] is None


def test_what_the_kernel_killed_for_want_of_memory_is_told_so() -> None:
    session = welcomed()
    session.died(b"w2", "killed", 0.1, out_of_memory=True)
    gone = WorkerReport(b"w2", WorkerHealth.GONE, "killed", True)
    assert beat_of(session.tick([], 0.1)).reports == [gone]


@pytest.mark.parametrize(("epoch", "told"), [(4, 12), (3, 0)])
def test_what_a_dead_worker_had_begun_is_told_to_the_broker_that_sent_it(
    epoch: int, told: int
) -> None:
    session = welcomed()
    session.died(b"w2", "killed", 0.1, begun=(epoch, 12))
    (gone,) = beat_of(session.tick([], 0.1)).reports
    assert gone.begun == told


def test_a_new_broker_is_told_who_we_are() -> None:
    session = welcomed()
    (hello,), _ = session.receive(Who(9), 1.0)
    assert isinstance(hello, SupervisorHello)
    session.receive(Welcome(9, PROTOCOL_VERSION), 1.1)
    assert beat_of(session.tick([], 1.1)).epoch == 9


def test_a_refusal_is_kept_for_the_log() -> None:
    session = make()
    session.start(0.0)
    session.receive(Refused(4, "unknown stage"), 0.1)
    assert session.contact.reason == "unknown stage"


def test_what_is_wanted_counts_in_one_epoch_and_while_the_broker_is_heard() -> None:
    session = welcomed()
    assert session.wish(0.1) is None
    session.receive(Want(4, ["2", "3"]), 0.1)
    assert session.wish(0.2) == Wish(frozenset({"2", "3"}))
    assert session.wish(0.1 + SILENCE_S) is None
    session.receive(Beat(4), 5.0)
    session.receive(Want(3, []), 5.1)  # of another life: it makes us say hello
    session.receive(Welcome(4, PROTOCOL_VERSION), 5.2)
    assert session.wish(5.3) == Wish(frozenset({"2", "3"}))
    session.receive(Want(4, [], ["3"]), 5.4)
    assert session.wish(5.5) == Wish(rejected=frozenset({"3"}))
    session.receive(Welcome(9, PROTOCOL_VERSION), 5.6)
    assert session.wish(5.7) is None


def test_versions_and_what_is_wrong_with_them_all() -> None:
    session = welcomed()
    session.changed(0.1)
    versions = [VersionReport("3", VersionState.FAILED, "x" * 1000)]
    beat = beat_of(session.tick([ALIVE], 0.1, versions=versions, trouble="nothing there"))
    assert beat.versions == [VersionReport("3", VersionState.FAILED, "x" * MAX_FAILURE_CHARS)]
    none = WorkerReport(b"", WorkerHealth.GONE, failure="nothing there")
    assert beat.reports == [ALIVE, none]

"""Who waits for the broker's word."""

import msgspec

from broker.wire.messages import Ask, Report
from gateway.questions import PATIENCE_S, Questions

EPOCH = 7
OTHER = 8


def report(ask: Ask | None, body: bytes = b"{}", epoch: int = EPOCH) -> Report:
    assert ask is not None
    return Report(epoch, body, id=ask.id)


def test_one_report_answers_all_who_ask_for_the_status() -> None:
    questions = Questions()
    said: list[Report | None] = []
    asked = questions.status(said.append, 0.0, EPOCH)
    assert asked is not None
    assert asked.what == "status"
    assert questions.status(said.append, 0.1, EPOCH) is None
    questions.report(report(asked))
    assert said == [report(asked), report(asked)]
    questions.report(report(asked, b"late"))
    questions.tick(100.0, EPOCH)
    assert len(said) == 2
    assert questions.status(said.append, 100.0, EPOCH) is not None


def test_each_report_answers_its_own_question() -> None:
    questions = Questions()
    first: list[Report | None] = []
    second: list[Report | None] = []
    one = questions.put("rollback", b"{}", first.append, due=10.0, epoch=EPOCH)
    two = questions.put("traffic", b"{}", second.append, due=10.0, epoch=EPOCH)
    assert one.id != two.id
    assert (two.what, two.body) == ("traffic", b"{}")
    questions.report(report(two, b"2"))
    assert (first, second) == ([], [report(two, b"2")])
    questions.report(msgspec.structs.replace(report(one), id=99))
    questions.report(report(one, b"1"))
    assert first == [report(one, b"1")]


def test_a_report_without_an_id_is_an_older_brokers_status() -> None:
    questions = Questions()
    said: list[Report | None] = []
    other: list[Report | None] = []
    questions.status(said.append, 0.0, EPOCH)
    questions.put("traffic", b"{}", other.append, due=10.0, epoch=EPOCH)
    questions.report(Report(EPOCH, b"{}"))
    assert (said, other) == ([Report(EPOCH, b"{}")], [])


def test_nobody_waits_for_long() -> None:
    questions = Questions()
    said: list[Report | None] = []
    asked = questions.status(said.append, 0.0, EPOCH)
    questions.status(said.append, 1.0, EPOCH)
    questions.put("traffic", b"{}", said.append, due=PATIENCE_S + 0.5, epoch=EPOCH)
    questions.tick(PATIENCE_S, EPOCH)
    assert said == [None]
    questions.report(report(asked))
    assert said == [None, report(asked)]
    questions.tick(PATIENCE_S + 1.0, EPOCH)
    assert said == [None, report(asked), None]


def test_nobody_waits_for_a_broker_that_is_gone() -> None:
    questions = Questions()
    said: list[Report | None] = []
    questions.put("traffic", b"{}", said.append, due=100.0, epoch=EPOCH)
    questions.tick(1.0, EPOCH)
    assert said == []
    questions.tick(1.0, OTHER)
    assert said == [None]
    questions.status(said.append, 1.0, OTHER)
    questions.tick(1.0, 0)
    assert said == [None, None]

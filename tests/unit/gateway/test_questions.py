"""Who waits for the broker's word."""

from gateway.questions import PATIENCE_S, Questions


def test_one_report_answers_all() -> None:
    questions = Questions()
    said: list[bytes | None] = []
    assert questions.add(said.append, 0.0)
    assert not questions.add(said.append, 0.1)
    questions.report(b"{}")
    assert said == [b"{}", b"{}"]
    questions.report(b"late")
    questions.tick(100.0)
    assert said == [b"{}", b"{}"]
    assert questions.add(said.append, 100.0)


def test_nobody_waits_for_long() -> None:
    questions = Questions()
    said: list[bytes | None] = []
    questions.add(said.append, 0.0)
    questions.add(said.append, 1.0)
    questions.tick(PATIENCE_S)
    assert said == [None]
    questions.report(b"{}")
    assert said == [None, b"{}"]

"""What is told of the last hour: bounded, in order, and times of refusals as two lines."""

from broker.core.diary import CALM_STEPS, KEPT_S, MOST_ENTRIES, Diary
from broker.core.events import Note

WALL_S = 1_000_000.0


def whats(diary: Diary, now: float) -> list[str]:
    return [each.what for each in diary.latest(1000, now)]


def test_the_latest_of_the_last_hour_are_told_in_order() -> None:
    diary = Diary(WALL_S)
    diary.note(Note("worker_lost", {"pid": 7}), 1.0)
    diary.note(Note("worker_ready", {"pid": 8}), 2.0)
    (lost, ready) = diary.latest(10, 2.0)
    assert (lost.number, lost.at, lost.fields) == (1, WALL_S + 1.0, {"pid": 7})
    assert (ready.number, ready.what) == (2, "worker_ready")
    assert [each.number for each in diary.latest(1, 2.0)] == [2]
    assert diary.latest(0, 2.0) == []
    assert whats(diary, 1.5 + KEPT_S) == ["worker_ready"]


def test_a_flood_is_bounded() -> None:
    diary = Diary(WALL_S)
    for number in range(10 * MOST_ENTRIES):
        diary.note(Note("worker_lost", {}), number / 1e3)
    assert len(diary.latest(10_000, 10.0)) == MOST_ENTRIES


def test_refusals_begin_and_end_once() -> None:
    diary = Diary(WALL_S)
    diary.refused("p", {}, 0.0)
    for second in range(1, 4):
        diary.refused("p", {"queue_full": 10 * second}, float(second))
    assert whats(diary, 4.0) == ["refusing_began"]
    for second in range(4, 4 + CALM_STEPS + 5):
        diary.refused("p", {"queue_full": 30}, float(second))
    began, ended = diary.latest(10, 20.0)
    assert began.fields == {"pipeline": "p", "code": "queue_full"}
    assert ended.what == "refusing_ended"
    assert ended.fields == {"pipeline": "p", "requests": 30, "seconds": 2}

    diary.refused("p", {"queue_full": 30, "overloaded": 1}, 30.0)
    assert diary.latest(1, 30.0)[0].fields["code"] == "overloaded"

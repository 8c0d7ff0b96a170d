"""Neighbours in a batch that differ, rows, and time that runs out while others are run."""

import threading

import pytest

from tests.cases.standing import Standing

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 2, 3], [1, 2, 3, 4], [5], [[1, 2]], [1, 2, 3], []],
        [[9007199254740993], [0.5], [9007199254740993], [True], [0.25], [7]],
    ],
    ids=["shapes", "dtypes"],
)
def test_neighbours_that_differ_change_nobodys_answer(
    standing: Standing, rows: list[list[object]]
) -> None:
    """2**53 + 1 has no float of its own: converted to stand beside 0.5 it loses its last digit."""
    alone = [standing.together("/pipelines/stack", [row])[0].json() for row in rows]
    for _ in range(2):
        answers = standing.together("/pipelines/stack", rows)
        assert [answer.status for answer in answers] == [200] * len(rows)
        assert [answer.json() for answer in answers] == alone


def test_a_request_is_one_item_however_many_rows_it_has(standing: Standing) -> None:
    def all_have_come() -> bool:
        stage = standing.stage("toy")
        return bool(stage["queued"] + stage["running"] == 1 + 12)

    with standing.busy(until=all_have_come):
        answers = standing.together(
            "/pipelines/toy", [{"rows": [0] * count} for count in range(12)]
        )
    results = [answer.json() for answer in answers]
    assert [result["rows"] for result in results] == list(range(12))
    assert max(result["items"] for result in results) == 8, "the cap is one of items"


def test_what_is_late_is_told_in_time_and_never_run(standing: Standing) -> None:
    before = standing.stage("toy")
    seen = threading.Event()
    with standing.busy(until=seen.is_set):
        answers = standing.together("/pipelines/toy", [1, 2, 3], X_Timeout_Ms="100")
        running = standing.stage("toy")["running"]
        seen.set()
    # By what was learnt from other tests it may be plain at arrival.
    assert {answer.code for answer in answers} <= {"deadline_exceeded", "overloaded"}
    assert running == 1, "they were answered before the worker was free"
    after = standing.stage("toy")
    assert after["done"] - before["done"] == 1, "only what kept it busy has been run"
    assert after["queued"] == 0

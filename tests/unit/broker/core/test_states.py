"""The tables: every row, and a loud story for every pair that stands in none."""

from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from broker.core.peers import Worker
from broker.core.states import (
    BROKER_ROWS,
    ITEM_ROWS,
    TABLES,
    WORKER_ROWS,
    BrokerState,
    BrokerTrigger,
    InvalidTransition,
    ItemState,
    ItemTrigger,
    WorkerState,
    WorkerTrigger,
    invalid,
    mermaid,
)
from broker.wire.messages import WorkerHello
from tests.unit.broker.core.driver import Driver

MACHINES: list[tuple[str, Any, type[IntEnum], type[IntEnum]]] = [
    ("item", ITEM_ROWS, ItemState, ItemTrigger),
    ("worker", WORKER_ROWS, WorkerState, WorkerTrigger),
    ("broker", BROKER_ROWS, BrokerState, BrokerTrigger),
]


def pairs() -> list[tuple[str, Any, Any, Any]]:
    return [
        (name, rows, state, trigger)
        for name, rows, states, triggers in MACHINES
        for state in states
        for trigger in triggers
    ]


@pytest.mark.parametrize(("name", "rows", "state", "trigger"), pairs())
def test_every_pair_follows_the_table_or_is_loud(
    name: str, rows: Any, state: Any, trigger: Any
) -> None:
    following = TABLES[name][state].get(trigger)
    assert rows[state][trigger] is following
    if following is None:
        with pytest.raises(InvalidTransition, match=f"'it'.*{trigger.name} while {state.name}"):
            invalid(state, trigger, "it")
    else:
        assert following, f"a state of {name} that counts as false looks like none"


def test_the_machines_raise_the_story_of_who_it_was(broker: Callable[..., Driver]) -> None:
    driver = broker()
    driver.gateway()
    worker = driver.worker()
    (seq,) = driver.submit()
    item = driver.items()[seq]
    with pytest.raises(InvalidTransition, match="<item 1 p/a LEASED attempts=0>: DISPATCH"):
        item.advance(ItemTrigger.DISPATCH)
    driver.lose(worker)
    record = Worker(worker, WorkerHello(1, b"s1", "a"), [], 0.0)
    record.advance(WorkerTrigger.LEAVE)
    with pytest.raises(InvalidTransition, match="<worker 7731 a GONE>: WARM while GONE"):
        record.advance(WorkerTrigger.WARM)
    with pytest.raises(InvalidTransition, match="STOP while RUNNING"):
        driver.ledger.advance(BrokerTrigger.STOP)


def test_ends_are_ends() -> None:
    for state in (ItemState.ANSWERED, ItemState.EXPIRED, ItemState.CANCELLED):
        assert TABLES["item"][state] == {ItemTrigger.LATE: state}
    assert TABLES["worker"][WorkerState.GONE] == {}
    assert TABLES["broker"][BrokerState.STOPPED] == {}


def test_late_changes_nothing() -> None:
    for state in ItemState:
        assert TABLES["item"][state][ItemTrigger.LATE] is state


def test_only_what_a_worker_has_is_requeued_and_only_a_queued_item_dispatched() -> None:
    rows = TABLES["item"]
    at_workers = [ItemState.LEASED, ItemState.STREAMING]
    assert [state for state in rows if ItemTrigger.REQUEUE in rows[state]] == at_workers
    assert [state for state in rows if ItemTrigger.DISPATCH in rows[state]] == [ItemState.QUEUED]


def test_a_drain_is_never_undone() -> None:
    for trigger in (WorkerTrigger.WARM, WorkerTrigger.LOAD, WorkerTrigger.DRAIN):
        assert TABLES["worker"][WorkerState.DRAINING][trigger] is WorkerState.DRAINING


@pytest.mark.parametrize("name", TABLES)
def test_the_pictures_show_every_arrow(name: str) -> None:
    picture = mermaid(name)
    assert picture.startswith("stateDiagram-v2\n")
    for state, row in TABLES[name].items():
        for trigger, following in row.items():
            (line,) = [
                line
                for line in picture.splitlines()
                if line.strip().startswith(f"{state.name} --> {following.name}: ")
            ]
            assert trigger.name.lower() in line


@pytest.mark.parametrize("name", sorted(TABLES))
def test_the_pictures_of_the_architecture_are_those_of_the_tables(name: str) -> None:
    page = Path(__file__).parents[4] / "ARCHITECTURE.md"
    assert mermaid(name) in page.read_text()

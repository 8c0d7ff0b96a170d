"""States as tables: what may follow what. A pair that stands in no table is our own bug, and loud.

A late or second result is an ordinary event with a row of its own (LATE). `python -m
broker.core.states` prints the pictures that ARCHITECTURE.md shows.
"""

from enum import IntEnum
from typing import Any, NoReturn, TypeVar


class ItemState(IntEnum):
    QUEUED = 1
    LEASED = 2
    ANSWERED = 3
    EXPIRED = 4
    CANCELLED = 5
    STREAMING = 6  # it is being answered, value by value


class ItemTrigger(IntEnum):
    DISPATCH = 0  # put into a batch
    ADVANCE = 1  # its result came, and another stage follows
    REQUEUE = 2  # its worker is lost, or gave it back
    ANSWER = 3  # its one answer goes out
    EXPIRE = 4  # its deadline passed
    CANCEL = 5  # nobody waits any longer
    LATE = 6  # a result that nobody needs
    OPEN = 7  # its result is a stream


class WorkerState(IntEnum):
    LOADING = 1
    READY = 2
    DRAINING = 3
    GONE = 4


class WorkerTrigger(IntEnum):
    WARM = 0  # HELLO with ready
    LOAD = 1  # HELLO without
    DRAIN = 2
    LOSE = 3  # dead, silent, stopped, hung or without a route
    LEAVE = 4  # in order


class BrokerState(IntEnum):
    RUNNING = 1
    DRAINING = 2
    STOPPED = 3


class BrokerTrigger(IntEnum):
    DRAIN = 0
    STOP = 1


Q, T, W, B = ItemState, ItemTrigger, WorkerState, WorkerTrigger

_ITEMS: dict[ItemState, dict[ItemTrigger, ItemState]] = {
    Q.QUEUED: {
        T.DISPATCH: Q.LEASED,
        T.ADVANCE: Q.QUEUED,  # the result of a worker that had been given up
        T.ANSWER: Q.ANSWERED,
        T.EXPIRE: Q.EXPIRED,
        T.CANCEL: Q.CANCELLED,
        T.LATE: Q.QUEUED,
    },
    Q.LEASED: {
        T.ADVANCE: Q.QUEUED,
        T.REQUEUE: Q.QUEUED,
        T.ANSWER: Q.ANSWERED,
        T.EXPIRE: Q.EXPIRED,
        T.CANCEL: Q.CANCELLED,
        T.LATE: Q.LEASED,
        T.OPEN: Q.STREAMING,
    },
    Q.ANSWERED: {T.LATE: Q.ANSWERED},
    Q.EXPIRED: {T.LATE: Q.EXPIRED},
    Q.CANCELLED: {T.LATE: Q.CANCELLED},
    Q.STREAMING: {
        T.REQUEUE: Q.QUEUED,  # before its first value
        T.ANSWER: Q.ANSWERED,  # its end
        T.EXPIRE: Q.EXPIRED,
        T.CANCEL: Q.CANCELLED,
        T.LATE: Q.STREAMING,
    },
}

_WORKERS: dict[WorkerState, dict[WorkerTrigger, WorkerState]] = {
    W.LOADING: {
        B.WARM: W.READY,
        B.LOAD: W.LOADING,
        B.DRAIN: W.DRAINING,
        B.LOSE: W.GONE,
        B.LEAVE: W.GONE,
    },
    W.READY: {
        B.WARM: W.READY,
        B.DRAIN: W.DRAINING,
        B.LOSE: W.GONE,
        B.LEAVE: W.GONE,
    },
    W.DRAINING: {
        B.WARM: W.DRAINING,
        B.LOAD: W.DRAINING,
        B.DRAIN: W.DRAINING,
        B.LOSE: W.GONE,
        B.LEAVE: W.GONE,
    },
    W.GONE: {},
}

_BROKER: dict[BrokerState, dict[BrokerTrigger, BrokerState]] = {
    BrokerState.RUNNING: {BrokerTrigger.DRAIN: BrokerState.DRAINING},
    BrokerState.DRAINING: {
        BrokerTrigger.DRAIN: BrokerState.DRAINING,
        BrokerTrigger.STOP: BrokerState.STOPPED,
    },
    BrokerState.STOPPED: {},
}

TABLES: dict[str, dict[Any, dict[Any, Any]]] = {
    "item": _ITEMS,
    "worker": _WORKERS,
    "broker": _BROKER,
}

_S = TypeVar("_S", bound=IntEnum)
_T = TypeVar("_T", bound=IntEnum)


class InvalidTransition(Exception):
    """A bug of ours: this pair stands in no table."""


def rows(table: dict[_S, dict[_T, _S]], triggers: type[_T]) -> list[list[_S | None]]:
    """A table made quick: `rows[state][trigger]` is the state that follows, None where none may.

    States are numbered from 1, so that `rows[state][trigger] or invalid(…)` is the whole step.
    """
    none: list[_S | None] = []
    return [none, *([table[state].get(trigger) for trigger in triggers] for state in table)]


def invalid(state: IntEnum, trigger: IntEnum, who: object) -> NoReturn:
    """Raise InvalidTransition with the story of `who`."""
    raise InvalidTransition(f"{who!r}: {trigger.name} while {state.name}")


ITEM_ROWS = rows(_ITEMS, ItemTrigger)
WORKER_ROWS = rows(_WORKERS, WorkerTrigger)
BROKER_ROWS = rows(_BROKER, BrokerTrigger)


def mermaid(name: str) -> str:
    """The picture of one table, as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for state, row in TABLES[name].items():
        arrows: dict[str, list[str]] = {}
        for trigger, following in row.items():
            arrows.setdefault(following.name, []).append(trigger.name.lower())
        lines += [f"    {state.name} --> {to}: {', '.join(why)}" for to, why in arrows.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    for table_name in TABLES:
        sys.stdout.write(f"{table_name}\n\n```mermaid\n{mermaid(table_name)}\n```\n\n")

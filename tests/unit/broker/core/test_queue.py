"""The order in which items leave a queue, and that the dead cost nothing."""

from collections import Counter
from itertools import pairwise
from typing import Any

from broker.core.config import PipelineConfig
from broker.core.item import Item
from broker.core.peers import Gateway
from broker.core.queue import LOW_EVERY, MANY_CLIENTS, SWEEP_AT, StageQueue
from broker.core.stage import Pipeline
from broker.core.states import ItemState
from broker.wire.messages import GatewayHello, Priority

HIGH, NORMAL, LOW = Priority.HIGH, Priority.NORMAL, Priority.LOW


class Ward:
    """A queue, and items to put into it."""

    def __init__(self) -> None:
        self.queue = StageQueue()
        self._pipeline = Pipeline("p", PipelineConfig(chain=("a",)), 0.0)
        self._gateway = Gateway(b"g", GatewayHello(1), 0.0)
        self._ids = 0

    def item(self, *, client: int = 0, priority: int = NORMAL, deadline: float = 10.0) -> Item:
        self._ids += 1
        return Item(
            id=self._ids,
            gateway=self._gateway,
            seq=self._ids,
            pipeline=self._pipeline,
            stage=self._pipeline.stages[0],
            payload=b"",
            meta=b"",
            body_size=0,
            size=0,
            deadline=deadline,
            client=client,
            priority=priority,
            version="",
            answered_by="1",
            entered=0.0,
        )

    def push(self, **keys: Any) -> Item:
        item = self.item(**keys)
        self.queue.push(item)
        return item

    def die(self, item: Item) -> None:
        item.state = ItemState.CANCELLED
        self.queue.discard(item)

    def take(self, most: int = 1000) -> list[Item]:
        taken, _ = self.queue.take(most)
        for item in taken:
            item.state = ItemState.LEASED
        return taken

    def entries(self) -> int:
        return len(list(self.queue))


def test_arrival_order_and_no_more_than_asked() -> None:
    ward = Ward()
    items = [ward.push() for _ in range(10)]
    assert ward.take(3) == items[:3]
    assert ward.queue.live == 7
    assert ward.take() == items[3:]
    assert ward.take() == []
    assert ward.queue.live == 0


def test_priority_goes_first() -> None:
    ward = Ward()
    low, normal, high = ward.push(priority=LOW), ward.push(), ward.push(priority=HIGH)
    assert ward.take() == [high, normal, low]


def test_low_priority_gets_its_floor_and_no_more() -> None:
    ward = Ward()
    for _ in range(20 * LOW_EVERY):
        ward.push(priority=HIGH)
        ward.push(priority=NORMAL)
        ward.push(priority=LOW)
    first = [ward.take(1)[0].priority for _ in range(10 * LOW_EVERY)]
    assert Counter(first) == {HIGH: 10 * (LOW_EVERY - 1), LOW: 10}
    low = [place for place, priority in enumerate(first) if priority == LOW]
    assert {after - before for before, after in pairwise(low)} == {LOW_EVERY}


def test_low_priority_alone_gets_every_slot() -> None:
    ward = Ward()
    items = [ward.push(priority=LOW) for _ in range(50)]
    assert ward.take() == items


def test_a_flood_of_one_client_does_not_delay_another() -> None:
    ward = Ward()
    flood = [ward.push(client=1) for _ in range(1000)]
    others = [ward.push(client=2), ward.push(client=3), ward.push(client=2)]
    taken = ward.take(8)
    assert set(others) <= set(taken)
    assert [item.client for item in taken] == [1, 2, 3, 1, 2, 1, 1, 1]
    assert [item for item in taken if item.client == 1] == flood[:5]


def test_shares_are_even_while_all_have_work_and_nothing_is_left_lying() -> None:
    ward = Ward()
    for client in range(5):
        for _ in range(100):
            ward.push(client=client)
    assert set(Counter(item.client for item in ward.take(250)).values()) == {50}
    assert len(ward.take()) == 250


def test_a_client_that_comes_back_does_not_get_more_than_its_turn() -> None:
    ward = Ward()
    for _ in range(20):
        ward.push(client=1)
    order = []
    for _ in range(10):
        ward.push(client=2)
        order += [item.client for item in ward.take(2)]
    assert Counter(order) == {1: 10, 2: 10}


def test_deadline_before_arrival_within_a_client() -> None:
    ward = Ward()
    for deadline in (9.0, 3.0, 7.0, 7.0, 1.0, 12.0, 11.0):
        ward.push(deadline=deadline)
    taken = ward.take()
    assert [item.deadline for item in taken] == [1.0, 3.0, 7.0, 7.0, 9.0, 11.0, 12.0]
    assert taken[2].id < taken[3].id


def test_a_tight_deadline_does_not_pass_another_clients_turn() -> None:
    ward = Ward()
    first = ward.push(client=1, deadline=9.0)
    second = ward.push(client=2, deadline=1.0)
    assert ward.take() == [first, second]


def test_what_was_given_back_goes_before_everything() -> None:
    ward = Ward()
    held = [ward.push(priority=LOW) for _ in range(3)]
    assert ward.take() == held
    urgent = ward.push(priority=HIGH, deadline=0.1)
    for item in reversed(held):
        item.state = ItemState.QUEUED
        ward.queue.push_front(item)
    assert ward.take(2) == held[:2]
    assert ward.take(2) == [held[2], urgent]


def test_the_dead_take_no_slot() -> None:
    ward = Ward()
    items = [ward.push(client=n % 3, priority=n % 2) for n in range(30)]
    for item in items[::2]:
        ward.die(item)
    assert ward.queue.live == 15
    assert sorted(ward.take(), key=lambda item: item.id) == items[1::2]
    assert ward.queue.live == 0


def test_the_dead_are_swept_before_they_outnumber_the_living() -> None:
    ward = Ward()
    for turn in range(20 * SWEEP_AT):
        keep = ward.push(client=turn % 7, deadline=float(turn % 11))
        gone = ward.push(client=turn % 5)
        ward.die(gone)
        assert ward.entries() <= 2 * max(ward.queue.live, SWEEP_AT) + 2
        assert keep.state is ItemState.QUEUED
    assert len(ward.take(10_000)) == 20 * SWEEP_AT


def test_sweeping_changes_no_order() -> None:
    def scene(*, dead: int) -> list[tuple[int, float]]:
        ward = Ward()
        for n in range(40):
            ward.push(client=n % 3, priority=n % 2, deadline=float(n * 7 % 13))
        for _ in range(dead):
            ward.die(ward.push(client=1))
        returned = [ward.take(1)[0] for _ in range(3)]
        for item in reversed(returned):
            item.state = ItemState.QUEUED
            ward.queue.push_front(item)
        return [(item.client, item.deadline) for item in ward.take()]

    assert scene(dead=3 * SWEEP_AT) == scene(dead=0)


def test_an_empty_queue_remembers_no_clients() -> None:
    ward = Ward()
    for client in range(1000):
        ward.die(ward.push(client=client))
        ward.push(client=client)
        ward.take()
    assert ward.entries() == 0
    assert sum(len(shares.clients) for shares in ward.queue._shares) <= 1


def test_untake_lets_a_taken_item_be_discarded() -> None:
    ward = Ward()
    first, second = ward.push(), ward.push()
    assert ward.queue.take(1) == ([first], [])
    ward.queue.untake()
    ward.die(first)
    assert ward.queue.live == 1
    assert ward.take() == [second]


def test_a_newcomer_waits_for_its_own_and_for_as_many_of_each_other_client() -> None:
    ward = Ward()
    for client, count in ((1, 100), (2, 3), (3, 1)):
        for _ in range(count):
            ward.push(client=client)
    assert ward.queue.ahead_of(NORMAL, 1, 99.0) == 104
    assert ward.queue.ahead_of(NORMAL, 2, 99.0) == 3 + 4 + 1
    assert ward.queue.ahead_of(NORMAL, 3, 99.0) == 1 + 2 + 2
    assert ward.queue.ahead_of(NORMAL, 4, 99.0) == 3
    assert ward.queue.ahead_of(HIGH, 1, 99.0) == 0
    newcomer = ward.push(client=4)
    assert ward.take().index(newcomer) == 3


def test_a_newcomer_due_sooner_waits_only_for_what_is_due_before_it() -> None:
    ward = Ward()
    for deadline in (1.0, 2.0, 4.0, 5.0):
        ward.push(deadline=deadline)
    ward.push(deadline=3.0)
    ward.die(ward.push(deadline=2.5))
    assert [ward.queue.ahead_of(NORMAL, 0, due) for due in (0.5, 2.0, 3.0, 9.0)] == [0, 2, 3, 5]


def test_low_priority_waits_for_no_more_than_its_floor_leaves() -> None:
    ward = Ward()
    for _ in range(10 * LOW_EVERY):
        ward.push(priority=HIGH)
    assert ward.queue.ahead_of(LOW, 0, 99.0) == LOW_EVERY - 1
    assert ward.queue.ahead_of(NORMAL, 0, 99.0) == 10 * LOW_EVERY
    newcomer = ward.push(priority=LOW)
    assert ward.take().index(newcomer) == LOW_EVERY - 1


def test_with_many_clients_the_estimate_is_as_good_as_the_count() -> None:
    ward = Ward()
    for client in range(3 * MANY_CLIENTS):
        for _ in range(2):
            ward.push(client=client)
    expected = ward.queue.ahead_of(NORMAL, -1, 99.0)
    newcomer = ward.push(client=-1)
    assert ward.take().index(newcomer) == expected == 3 * MANY_CLIENTS


def test_room_for_a_newcomer_is_made_by_lower_priority_then_by_the_greediest() -> None:
    ward = Ward()
    greedy = [ward.push(client=1) for _ in range(5)]
    modest = [ward.push(client=2) for _ in range(2)]
    low = [ward.push(client=3, priority=LOW) for _ in range(3)]
    assert ward.queue.greediest(NORMAL, 2) is low[-1]
    assert ward.queue.greediest(LOW, 3) is None
    for item in low:
        ward.die(item)
    assert ward.queue.greediest(NORMAL, 2) is greedy[-1]
    ward.die(greedy[-1])
    assert ward.queue.greediest(NORMAL, 2) is greedy[-2]
    ward.die(greedy[-2])
    assert ward.queue.greediest(NORMAL, 2) is None, "it would have as many itself"
    assert ward.queue.greediest(NORMAL, 1) is None
    assert ward.queue.greediest(HIGH, 1) is greedy[-3]
    assert all(item.state is ItemState.QUEUED for item in modest)


def test_what_is_late_uses_up_no_turn() -> None:
    ward = Ward()
    for _ in range(20):
        ward.push(client=1)
    stale = [ward.push(client=2, deadline=1.0) for _ in range(5)]
    fresh = ward.push(client=2, deadline=9.0)
    low = [ward.push(priority=LOW, deadline=1.0), ward.push(priority=LOW, deadline=9.0)]
    taken, late = ward.queue.take(LOW_EVERY, 5.0)
    assert late == [*stale, low[0]]
    assert taken[1] is fresh
    assert taken[-1] is low[1]
    assert ward.queue.live == 28 - 6 - LOW_EVERY

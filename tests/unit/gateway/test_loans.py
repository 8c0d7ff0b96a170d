"""The pending table with payloads in shared memory: what it publishes, drops, and says of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.payload.folder import ArenaFolder
from broker.wire.frames import blob, refs_of
from broker.wire.messages import (
    Answer,
    Answers,
    Catalog,
    Claims,
    Free,
    GatewayHello,
    PipelineInfo,
    StageInfo,
    Submit,
    SubmitItem,
    ToBroker,
    Unknown,
    Welcome,
    Who,
)
from gateway.memory import UploadMemory
from gateway.pending import PendingTable
from tests.unit.gateway.uploads import make_folder

CATALOG = [PipelineInfo("p", [StageInfo("s")])]


class World:
    """A table, its memory, and a broker that shares it."""

    def __init__(self, folder: ArenaFolder) -> None:
        self.folder = folder
        self.memory = UploadMemory(1 << 20)
        self.table: PendingTable[str] = PendingTable(
            0.0, memory=self.memory, fetch=self.memory.fetch
        )

    def welcome(self, now: float, epoch: int = 7, *, catalog: bool = True) -> list[ToBroker]:
        self.table.receive(Welcome(epoch, 1, self.folder.name, self.folder.token), now)
        if catalog:
            self.table.receive(Catalog(epoch, CATALOG), now)
        return self.table.outgoing(now)

    def add(self, now: float, *, due: float = 100.0) -> SubmitItem:
        """A request with a payload of 100 KB in shared memory."""
        stored = self.memory.store(b"x" * 100_000)
        assert stored is not None
        item = SubmitItem(0, "p", blob(b"", [stored.ref]), b"", 0.0)
        assert self.table.add(item, "owner", due, now) is None
        return item


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(make_folder(tmp_path, monkeypatch))
    yield world
    world.memory.close()


def hellos(messages: list[ToBroker]) -> list[GatewayHello]:
    return [message for message in messages if type(message) is GatewayHello]


def payloads(messages: list[ToBroker]) -> list[object]:
    """References, and in their place bytes, of what is submitted."""
    items = [item for message in messages if type(message) is Submit for item in message.items]
    return [refs_of(item.payload) or item.payload.buffers for item in items]  # type: ignore[union-attr]


def generation_of(item: SubmitItem) -> int:
    (ref,) = refs_of(item.payload)
    return ref.generation


def test_it_says_hello_again_with_its_arena(world: World) -> None:
    assert [hello.arena for hello in hellos(world.table.outgoing(0.0))] == [0]
    (hello,) = hellos(world.welcome(0.1))
    assert (hello.arena, hello.generation) == (world.memory.arena, 0)
    assert not hellos(world.welcome(0.2))
    world.add(0.3)
    world.table.outgoing(0.3)
    world.table.receive(Who(8), 1.0)
    (hello,) = hellos(world.table.outgoing(1.0))
    assert (hello.arena, hello.generation) == (world.memory.arena, world.memory.generation)


def test_it_is_freed_when_both_have_done_with_it(world: World) -> None:
    world.welcome(0.0)
    item = world.add(0.0)
    generation = generation_of(item)
    world.table.outgoing(0.0)
    world.table.receive(Free(6, [generation]), 0.1)  # of another broker
    world.table.receive(Answers(7, [Answer(item.seq, b"1")]), 0.1)
    world.table.outgoing(0.1)
    assert world.memory.used_bytes > 0
    world.table.receive(Free(7, [generation]), 0.2)
    assert world.memory.used_bytes == 0


def test_who_has_its_answer_may_still_look(world: World) -> None:
    world.welcome(0.0)
    item = world.add(0.0)
    (ref,) = refs_of(item.payload)
    world.table.outgoing(0.0)
    world.table.receive(Free(7, [ref.generation]), 0.1)
    ((_, _, settled),) = world.table.receive(Answers(7, [Answer(item.seq, b"1")]), 0.1)
    assert settled is item
    assert bytes(world.memory.fetch(ref)) == b"x" * 100_000
    assert world.table.has_outgoing
    assert world.table.outgoing(0.1) == []
    assert world.memory.used_bytes == 0
    assert not world.table.has_outgoing


def test_what_never_went_out_is_freed_at_once(world: World) -> None:
    world.welcome(0.0)
    world.table.cancel(world.add(0.0).seq)
    world.add(0.0, due=0.1)
    assert len(world.table.tick(0.2)) == 1
    assert payloads(world.table.outgoing(0.2)) == []
    assert world.memory.used_bytes == 0


def test_the_homeless_keep_theirs(world: World) -> None:
    world.welcome(0.0, catalog=False)
    item = world.add(0.0)
    world.table.receive(Catalog(7, CATALOG), 0.1)
    ((owner, same),) = world.table.take_homeless()
    world.table.outgoing(0.1)
    assert same is item
    assert world.memory.used_bytes > 0
    same.seq = 0
    assert world.table.add(same, owner, 100.0, 0.1) is None
    assert payloads(world.table.outgoing(0.1)) == [refs_of(item.payload)]


def test_another_broker_is_lent_it_anew(world: World) -> None:
    world.welcome(0.0)
    item = world.add(0.0)
    refs = refs_of(item.payload)
    assert payloads(world.table.outgoing(0.0)) == [refs]
    assert payloads(world.welcome(1.0, epoch=8)) == [refs]
    assert payloads(world.welcome(2.0, epoch=9)) == [refs]
    world.table.receive(Claims(9, world.memory.generation, [refs[0].generation]), 2.0)
    world.table.receive(Answers(9, [Answer(item.seq, b"1")]), 2.1)
    world.table.outgoing(2.1)
    assert world.memory.used_bytes > 0
    world.table.receive(Claims(9, world.memory.generation, []), 2.2)
    assert world.memory.used_bytes == 0


@pytest.mark.parametrize("how", ["unknown", "who"])
def test_the_same_broker_gets_bytes_the_second_time(world: World, how: str) -> None:
    world.welcome(0.0)
    item = world.add(0.0)
    generation = generation_of(item)
    world.table.outgoing(0.0)
    if how == "unknown":
        world.table.receive(Unknown(7, [item.seq]), 1.0)
        out = world.table.outgoing(1.0)
    else:
        world.table.receive(Who(7), 1.0)
        world.table.outgoing(1.0)
        out = world.welcome(1.1)
    assert payloads(out) == [[b"x" * 100_000]]
    assert len(item.payload) == 100_000
    # Its word that it is free may be on its way still, and is of no harm: the slot is not used.
    assert world.memory.used_bytes > 0
    world.table.receive(Free(7, [generation]), 1.2)
    assert world.memory.used_bytes == 0


def test_without_its_arena_the_bytes_go_out(world: World) -> None:
    world.welcome(0.0)
    world.add(0.0)
    world.table.outgoing(0.0)
    world.table.receive(Welcome(8, 1), 1.0)
    world.table.receive(Catalog(8, CATALOG), 1.0)
    out = world.table.outgoing(1.0)
    assert [hello.arena for hello in hellos(out)] == [0]
    assert payloads(out) == [[b"x" * 100_000]]


def test_claims_are_asked_for_at_most_once_a_second(world: World) -> None:
    world.welcome(0.0)
    said = []
    for tenth in range(1, 41):
        world.table.receive(Catalog(7, CATALOG), tenth / 10)
        world.table.ask_claims()
        world.table.tick(tenth / 10)
        said += hellos(world.table.outgoing(tenth / 10))
    assert 3 <= len(said) <= 4
    assert {hello.arena for hello in said} == {world.memory.arena}

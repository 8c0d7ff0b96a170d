"""What a worker's session says of shared memory."""

from collections.abc import Collection, Sequence

from broker.wire.frames import blob
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Batch,
    BatchItem,
    Claims,
    Free,
    FromWorker,
    Gone,
    Outcome,
    Ref,
    Results,
    SlotKey,
    Welcome,
    Who,
    WorkerBeat,
    WorkerDraining,
    WorkerHello,
)
from workers.session import Held, WorkerSession

OWN = 7
OTHER = 8
A: SlotKey = (OTHER, 1)
B: SlotKey = (OTHER, 2)
C: SlotKey = (OTHER, 3)


class Memory:
    """A memory that is told what is looked at, and notes what it is asked for."""

    def __init__(self) -> None:
        self.arena = 0
        self.generation = 0
        self.asked: list[tuple[str, object]] = []
        self.viewed: set[SlotKey] = set()
        self.ended: list[SlotKey] = []
        self.counted: set[SlotKey] = set()

    def join(self, folder: str, token: str) -> bool:
        if not folder or self.arena:
            return False
        self.arena, self.generation = OWN, 20
        return True

    def publish(self, refs: Sequence[Ref]) -> None:
        self.asked.append(("publish", [ref.generation for ref in refs]))

    def drop(self, refs: Sequence[Ref]) -> None:
        self.asked.append(("drop", [ref.generation for ref in refs]))

    def free(self, generations: Sequence[int]) -> None:
        self.asked.append(("free", generations))

    def settle(self, generation: int, held: Collection[int]) -> None:
        self.asked.append(("settle", (generation, held)))

    def kept(self, slots: Collection[SlotKey]) -> list[SlotKey]:
        kept = [slot for slot in slots if slot in self.viewed]
        self.counted.update(kept)
        return kept

    def gone(self) -> list[SlotKey]:
        gone, self.ended = self.ended, []
        self.counted.difference_update(gone)
        return gone

    def all_kept(self) -> list[SlotKey]:
        return sorted(self.counted)


def sharing(epoch: int = 1, *, concurrency: int = 1) -> tuple[WorkerSession, Memory]:
    """A session at 1.0 that is ready, welcome, and has an arena."""
    memory = Memory()
    session = WorkerSession(WorkerHello(PROTOCOL_VERSION, b"sup", "infer"), 0.0, memory)
    session.start(0.0)
    session.receive(welcome(epoch), 0.1)
    session.warm(1.0, max_batch_size=8, concurrency=concurrency, repeatable=True, timings=[])
    session.receive(welcome(epoch), 1.0)
    return session, memory


def welcome(epoch: int) -> Welcome:
    return Welcome(epoch, PROTOCOL_VERSION, "folder", "token")


def ref(slot: SlotKey) -> Ref:
    return Ref(*(slot[0], slot[1] * 64, slot[1], 0, 100_000))


def batch(lease: int, *slots: SlotKey, epoch: int = 1) -> Batch:
    item = BatchItem(blob(b"", [ref(slot) for slot in slots]), b"", 1.0)
    return Batch(epoch, lease, "p", False, False, [item])


def taken(session: WorkerSession, *slots: SlotKey, lease: int = 5) -> Held:
    session.receive(batch(lease, *slots), 1.1)
    held = session.take()
    assert held is not None
    return held


def finish(session: WorkerSession, held: Held, *outcomes: Outcome) -> list[FromWorker]:
    return session.finish(
        held, 1.5, outcomes=list(outcomes), run_s=0.1, sample=False, content_type=""
    )


def kept_of(messages: list[FromWorker]) -> list[SlotKey]:
    (message,) = messages
    assert isinstance(message, WorkerHello | WorkerBeat | Results)
    return message.kept


def test_a_welcome_that_brings_an_arena_is_answered_with_hello() -> None:
    session = WorkerSession(WorkerHello(PROTOCOL_VERSION, b"sup", "infer"), 0.0, Memory())
    (first,) = session.start(0.0)
    assert isinstance(first, WorkerHello)
    assert (first.arena, first.generation) == (0, 0)
    (again,) = session.receive(welcome(1), 0.1)
    assert isinstance(again, WorkerHello)
    assert (again.arena, again.generation) == (OWN, 20)
    assert session.receive(welcome(1), 0.2) == []


def test_results_are_published_and_dropped() -> None:
    session, memory = sharing()
    held = taken(session)
    finish(session, held, blob(b"", [ref((OWN, 11)), ref((OWN, 12))]), b"small")
    assert memory.asked == [("publish", [11, 12]), ("drop", [11, 12])]


def test_small_results_ask_for_nothing() -> None:
    session, memory = sharing()
    held = taken(session)
    assert finish(session, held, b"small", blob(b"", [b"frame"])) == [
        Results(1, 5, [b"small", blob(b"", [b"frame"])], 0.1, False, "")
    ]
    assert memory.asked == []


def test_results_for_a_broker_that_is_gone_are_dropped_alone() -> None:
    session, memory = sharing()
    held = taken(session)
    session.receive(Who(2), 1.2)
    session.receive(welcome(2), 1.3)
    finish(session, held, blob(b"", [ref((OWN, 11))]))
    assert memory.asked == [("drop", [11])]


def test_results_say_which_slots_of_the_batch_are_kept() -> None:
    session, memory = sharing()
    held = taken(session, A, B)
    memory.viewed = {A}
    assert kept_of(finish(session, held, b"")) == [A]
    assert kept_of(session.tick(2.6)) == [A]
    memory.ended = [A]
    assert session.tick(2.7) == [Gone(1, [A])]
    assert kept_of(session.tick(3.7)) == []


def test_what_is_gone_is_said_with_the_next_results() -> None:
    session, memory = sharing()
    memory.counted, memory.ended = {C}, [C]
    assert finish(session, taken(session), b"")[1:] == [Gone(1, [C])]


def test_words_of_the_broker_reach_the_memory() -> None:
    session, memory = sharing()
    session.receive(Free(1, [3, 4]), 1.2)
    session.receive(Claims(1, 20, [5]), 1.2)
    session.receive(Claims(1, 21, []), 1.2)  # about an arena of before
    session.receive(Free(2, [6]), 1.2)
    assert memory.asked == [("free", [3, 4]), ("settle", (20, [5]))]


# ------------------------------------------------------------------ batches that are held


def test_a_hello_names_the_slots_of_all_batches_held() -> None:
    session, memory = sharing()
    memory.counted = {C}
    taken(session, A)
    session.receive(batch(6, B), 1.2)
    assert kept_of(session.receive(Who(1), 1.3)) == [A, B, C]


def test_what_a_hello_named_is_gone_with_its_batch() -> None:
    session, memory = sharing()
    held = taken(session, A, B)
    session.receive(Who(1), 1.3)
    session.receive(welcome(1), 1.4)
    memory.viewed = {B}
    results, gone = finish(session, held, b"")
    assert kept_of([results]) == [B]
    assert gone == Gone(1, [A])
    assert session.tick(1.6) == []


def test_but_not_while_another_batch_has_it() -> None:
    session, _ = sharing(concurrency=2)
    first = taken(session, A)
    second = taken(session, A, lease=6)
    session.receive(Who(1), 1.3)
    session.receive(welcome(1), 1.4)
    assert len(finish(session, first, b"")) == 1
    assert finish(session, second, b"")[1:] == [Gone(1, [A])]


def test_a_beat_names_the_slots_of_batches_too() -> None:
    session, _ = sharing(concurrency=2)
    held = taken(session, A)
    assert kept_of(session.tick(2.0)) == [A]
    assert finish(session, held, b"")[1:] == [Gone(1, [A])]


def test_what_another_epoch_sent_ahead_is_gone() -> None:
    session, _ = sharing()
    taken(session, A)
    session.receive(batch(6, B), 1.2)
    assert kept_of(session.receive(Who(2), 1.3)) == [A, B]
    assert session.receive(welcome(2), 1.4) == [Gone(2, [B])]


def test_what_is_given_back_is_gone() -> None:
    session, _ = sharing()
    session.receive(batch(6, B), 1.2)
    session.receive(Who(1), 1.3)
    session.receive(welcome(1), 1.4)
    assert session.drain(1.5) == [WorkerDraining(1, [6]), Gone(1, [B])]


def test_nothing_is_gone_for_a_broker_that_does_not_know_us() -> None:
    session, memory = sharing()
    memory.counted = {A}
    session.receive(Who(2), 1.3)
    memory.ended = [A]
    assert session.tick(1.4) == []
    assert session.receive(welcome(2), 1.5) == [Gone(2, [A])]


# ------------------------------------------------------------------ a full arena


def test_a_full_arena_asks_once_a_second() -> None:
    session, _ = sharing()
    assert session.ask_again(1.5) == []
    assert len(session.ask_again(2.1)) == 1
    assert session.ask_again(3.0) == []
    session.receive(Who(1), 3.2)
    assert session.ask_again(9.0) == [], "a hello is under way"

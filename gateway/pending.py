"""The table of requests that wait for their answer, and the gateway's half of the protocol.

Pure: no sockets, no clock, no logging. Events go in as method calls with the time; out come the
messages to send (`outgoing`) and the answers to give (`Settled`). The owner of a request is opaque.

A request is *held* while no broker can take it, *submitted* once it went out in the current epoch,
and leaves the table with its one answer, at the latest at its deadline. Whatever happens to the
broker in between only moves requests from submitted back to held:

    Welcome with a new epoch     everything is submitted again, marked `again`
    Unknown, Who                 what the broker does not have is submitted again
    silence, Catalog.draining    new requests are held
    answer `draining`            no answer: the request is held for the next broker

A request that is answered by a stream stays in the table until its end; its values are to be taken
with `take_streamed` after each `receive`, before what that returned. Once one has come it is never
submitted again: whatever would have that done ends it with an error.

Call `outgoing` after any other call, and `tick` no later than `next_due` says. The shared memory of
a request that has left stays as it is until that `outgoing`.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from msgspec import Struct

from broker.wire.errors import ErrorCode
from broker.wire.memory import NoMemory, OwnMemory
from broker.wire.messages import (
    BEAT_S,
    NO_EPOCH,
    PROTOCOL_VERSION,
    SILENCE_S,
    Answer,
    Answers,
    Ask,
    Blob,
    Bye,
    Cancel,
    Catalog,
    Claims,
    Credit,
    Failure,
    Free,
    FromBroker,
    GatewayBeat,
    GatewayHello,
    Refused,
    SpanKey,
    Streamed,
    Submit,
    SubmitItem,
    ToBroker,
    Unknown,
    Value,
    Values,
    Welcome,
    Who,
)
from broker.wire.wheel import TimerWheel
from gateway.bounds import Bounds, BoundsByPipeline
from gateway.loans import Fetch, Loans
from gateway.tracing import Trace

Owner = TypeVar("Owner")

HELLO_EVERY_S = 1.0
LONG_ABSENT_S = 60.0
HELLO_SELDOM_S = 5.0
"""Without a broker for long, hellos are rarer: they queue up in the socket until one comes."""
HELLO_AT_LEAST_S = 0.2
"""A second `Who` within this time was caused by the same stale messages as the first."""
ABSENT_S = SILENCE_S + 5.0
"""Without a broker for this long, new requests are refused instead of held."""
WAITING_AFTER_S = 1.0
"""What was submitted longer ago is named in beats, so that a lost message is noticed."""
MAX_SUBMIT_ITEMS = 512
"""Of one Submit, so that one message does not occupy the broker for long."""
RETRY_AFTER_S = 1.0


class Entry(Struct, Generic[Owner], eq=False):
    """One request in the table. `epoch` is the broker's life that it was last submitted to."""

    item: SubmitItem
    owner: Owner
    due: float
    bounds: Bounds
    size_bytes: int
    epoch: int = NO_EPOCH
    sent_s: float = 0.0  # when last submitted
    taken: bool = False  # a broker may have it, or have had it
    values: int = 0  # of the stream that answers it
    values_taken: int = 0  # of these, what its client has read
    trace: Trace | None = None


Settled: TypeAlias = tuple[Owner, Answer, SubmitItem]
"""The one answer of a request that has just left the table, and what had been submitted."""


class PendingTable(Generic[Owner]):
    """Requests by sequence number, and what is known of the broker."""

    def __init__(
        self,
        now: float,
        *,
        host: str = "",
        pid: int = 0,
        memory: OwnMemory = NoMemory(),  # noqa: B008  # it has no state
        fetch: Fetch | None = None,
        others: Callable[[int, float], int] = lambda waiting, now: -1,
    ) -> None:
        """`memory` is where large payloads lie, and `fetch` reads them there. `others` says how
        many clients there are beside those of so many requests that wait.
        """
        self.catalog: Catalog | None = None
        self.bounds = BoundsByPipeline()
        self.refusal = ""
        """Why a broker did not accept this gateway; "" while one does."""
        self.submitted = 0
        """Requests that a broker was sent, without those that one had before."""
        self.resubmitted = 0
        """Requests that a broker was sent again: it may have lost them, or is another one."""
        self.settled = 0
        """Requests that were answered with what a broker said."""
        self.late_answers = 0
        self.stale_messages = 0
        self._host = host
        self._pid = pid
        self._memory = memory
        self._others = others
        self._loans = Loans(memory, fetch)
        self._entries: dict[int, Entry[Owner]] = {}
        self._wheel: TimerWheel[int, Entry[Owner]] = TimerWheel()
        self._fresh: list[Entry[Owner]] = []  # to go out with the next Submit
        self._cancelled: list[int] = []
        self._streamed: list[tuple[Owner, Value]] = []
        self._credits: dict[int, int] = {}  # by seq, values that clients have taken
        self._out: list[ToBroker] = []
        self._next_seq = 1
        self._epoch = NO_EPOCH
        self._welcomed = False
        self._forgotten = False  # the broker knows nothing of us: all is to be submitted again
        self._broker_draining = False
        self._draining = False  # this gateway
        self._up = False  # a broker takes requests
        self._heard_s = now - SILENCE_S
        self._up_s = now  # when a broker that takes requests was last heard
        self._beat_s = now
        self._claims_wanted = False
        self._traced: list[Entry[Owner]] = []  # of what is fresh, perhaps again
        self._sent: list[Trace] = []  # of what was submitted, until they are taken
        self._say_hello(now)

    # -------------------------------------------------------------- what is known

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def epoch(self) -> int:
        """The broker's current life, NO_EPOCH before the first."""
        return self._epoch

    @property
    def up(self) -> bool:
        """Whether a broker takes requests, as far as the last tick knows."""
        return self._up

    def next_due(self) -> float:
        """When `tick` must be called at the latest."""
        due = self._wheel.next_due()
        beat = self._beat_s + BEAT_S
        return beat if due is None else min(due, beat)

    # -------------------------------------------------------------- requests

    def add(self, item: SubmitItem, owner: Owner, due: float, now: float) -> Failure | None:
        """Take a request in, and give it its number (`item.seq`); or say why not, and forget it."""
        if not self._up:
            if self._draining:
                return _failure(ErrorCode.DRAINING, "this gateway is shutting down")
            if now - self._up_s > ABSENT_S:
                return _failure(ErrorCode.NOT_READY, self.trouble(now))
        size_bytes = len(item.payload)
        bounds = self.bounds.of(item.pipeline)
        if not bounds.fits(size_bytes, up=self._up):
            return _failure(ErrorCode.QUEUE_FULL, "too many requests wait for this pipeline")
        bounds.items += 1
        bounds.held_bytes += size_bytes
        seq = item.seq = self._next_seq
        self._next_seq = seq + 1
        entry = self._entries[seq] = Entry(item, owner, due, bounds, size_bytes)
        self._wheel.add(due, seq, entry)
        if self._up:
            self._fresh.append(entry)
        return None

    def trace(self, seq: int, trace: Trace) -> None:
        """This one, which was added just now, is traced."""
        entry = self._entries[seq]
        entry.trace = trace
        if self._up:
            self._traced.append(entry)

    def take_traced(self) -> list[Trace]:
        """Those that were submitted of late; again where that was done again. They say as what and
        when.
        """
        sent, self._sent = self._sent, []
        return sent

    def cancel(self, seq: int) -> None:
        """Nobody waits for this one any longer; one that is not in the table is no error."""
        entry = self._entries.get(seq)
        if entry is not None:
            self._remove(entry)
            self._cancel_at_broker(entry)

    def take_homeless(self) -> list[tuple[Owner, SubmitItem]]:
        """Take out all that came in before any catalog was known, for its owner to add again.

        Only after a catalog can their pipeline be named, their headers chosen, their deadline set.
        Shared memory that their payloads refer to is the owners' again, to add or to drop.
        """
        homeless = [entry for entry in self._entries.values() if not entry.taken]
        for entry in homeless:
            self._take_out(entry)
        return [(entry.owner, entry.item) for entry in homeless]

    def _remove(self, entry: Entry[Owner]) -> None:
        self._take_out(entry)
        payload = entry.item.payload
        if type(payload) is Blob and payload.refs:
            self._loans.leave(entry.item)

    def _take_out(self, entry: Entry[Owner]) -> None:
        seq = entry.item.seq
        del self._entries[seq]
        self._wheel.discard(entry.due, seq)
        entry.bounds.items -= 1
        entry.bounds.held_bytes -= entry.size_bytes

    def _cancel_at_broker(self, entry: Entry[Owner]) -> None:
        if self._welcomed and self._is_out(entry):
            self._cancelled.append(entry.item.seq)

    def _settle(self, entry: Entry[Owner], answer: Answer) -> Settled[Owner]:
        self._remove(entry)
        return entry.owner, answer, entry.item

    # -------------------------------------------------------------- time

    def tick(self, now: float) -> list[Settled[Owner]]:
        """Deadlines, beats, silence. Returns the requests that are answered by it."""
        settled = [self._expire(entry) for entry in self._wheel.expired(now)]
        if now >= self._beat_s + BEAT_S:
            self._beat_s = now
            listening = self._listening(now)
            if listening:
                self._out.append(GatewayBeat(self._epoch, self._waiting(now)))
                self._repeat_credits()
            else:
                self._up = False
                settled += self._break_streams("the broker was lost while it streamed")
            if self._claims_wanted or not (listening and self._catalog_is_current()):
                absent = now - self._heard_s > LONG_ABSENT_S
                if now - self._hello_s >= (HELLO_SELDOM_S if absent else HELLO_EVERY_S):
                    self._say_hello(now)
        if self._draining and not self._up:
            settled += self._release_held()
        return settled

    def _listening(self, now: float) -> bool:
        return self._welcomed and now - self._heard_s < SILENCE_S

    def _catalog_is_current(self) -> bool:
        return self.catalog is not None and self.catalog.epoch == self._epoch

    def _waiting(self, now: float) -> list[int]:
        epoch, before = self._epoch, now - WAITING_AFTER_S
        return [
            seq
            for seq, entry in self._entries.items()
            if entry.epoch == epoch and entry.sent_s < before
        ]

    def _expire(self, entry: Entry[Owner]) -> Settled[Owner]:
        self._cancel_at_broker(entry)
        if entry.taken:
            failure = _failure(
                ErrorCode.DEADLINE_EXCEEDED, "the deadline passed before there was a result"
            )
        else:
            failure = _failure(
                ErrorCode.NOT_READY, "no broker took the request before its deadline"
            )
        return self._settle(entry, Answer(entry.item.seq, failure))

    def ask_claims(self) -> None:
        """The arena is full: have the broker say which slots are held, at the next beat or so."""
        self._claims_wanted = True

    def ask(self, question: Ask) -> None:
        """Ask the broker something. The `Report` that answers is not for the table."""
        self._out.append(question)

    def _say_hello(self, now: float) -> None:
        self._hello_s = now
        self._claims_wanted = False
        memory = self._memory
        hello = GatewayHello(
            PROTOCOL_VERSION, self._host, self._pid, memory.arena, memory.generation
        )
        self._out.append(hello)

    # -------------------------------------------------------------- messages in

    def receive(self, message: FromBroker, now: float) -> list[Settled[Owner]]:
        """Act on what the broker sent. Returns the requests that are answered by it."""
        self._heard_s = now
        handler = self._HANDLERS.get(type(message))
        if handler is not None:
            settled: list[Settled[Owner]] = handler(self, message, now)
            return settled
        if message.epoch != self._epoch:
            self._meet_stranger(now)
            return []
        self._revive(now)
        if type(message) is Answers:
            if message.freed:
                self._memory.free(message.freed)
            self.bounds.learn_grown(message.grown)
            return self._on_answers(message)
        if type(message) is Values:
            return self._on_values(message)
        if type(message) is Unknown:
            return self._on_unknown(message)
        if type(message) is Free:
            self._memory.free(message.generations)
        elif type(message) is Claims:
            self._memory.settle(message.generation, message.held)
        return []

    def _meet_stranger(self, now: float) -> None:
        """A message of another epoch than ours: dropped, and the broker is asked to welcome us."""
        self.stale_messages += 1
        if self._welcomed:
            self._forget(now)

    def _forget(self, now: float) -> None:
        self._welcomed = self._up = False
        self._forgotten = True
        if now - self._hello_s >= HELLO_AT_LEAST_S:
            self._say_hello(now)

    def _on_welcome(self, message: Welcome, now: float) -> list[Settled[Owner]]:
        self.refusal = ""
        self._welcomed = True
        if message.epoch != self._epoch:
            self._epoch = message.epoch
            self._broker_draining = False
            self._forgotten = True
        if self._forgotten:
            self._forgotten = False
            self._up = False
            self._cancelled.clear()
            settled = self._break_streams("the broker was lost while it streamed")
            for entry in self._entries.values():
                entry.epoch = NO_EPOCH
        else:
            settled = []
        if self._memory.join(message.arenas, message.token):
            self._say_hello(now)
        self._revive(now)
        return settled

    def _on_who(self, _message: Who, now: float) -> list[Settled[Owner]]:
        self._forget(now)
        return []

    def _on_refused(self, message: Refused, _now: float) -> list[Settled[Owner]]:
        self.refusal = message.reason
        return []

    def _on_catalog(self, message: Catalog, now: float) -> list[Settled[Owner]]:
        if message.epoch != self._epoch or not self._welcomed:
            self._meet_stranger(now)
            return []
        self.catalog = message
        self.bounds.update(message.pipelines)
        self._broker_draining = message.draining
        self._up = self._up and not message.draining
        self._revive(now)
        return self._release_held() if self._draining and not self._up else []

    def _revive(self, now: float) -> None:
        """After a word from our broker: submit what was held for want of one."""
        if not self._welcomed or self._broker_draining or self.catalog is None:
            return
        self._up_s = now
        if not self._up:
            self._up = True
            self._fresh = [e for e in self._entries.values() if e.epoch != self._epoch]
            self._traced = [e for e in self._fresh if e.trace is not None]

    def _on_answers(self, message: Answers) -> list[Settled[Owner]]:
        settled = []
        entries = self._entries
        for answer in message.answers:
            entry = entries.get(answer.seq)
            if entry is None:
                self.late_answers += 1
            elif type(answer.outcome) is bytes:  # nearly always
                settled.append(self._settle(entry, answer))
            elif type(answer.outcome) is Streamed and answer.outcome.values != entry.values:
                settled.append(self._break(entry, "values of the stream were lost"))
            elif (
                type(answer.outcome) is Failure
                and answer.outcome.code == ErrorCode.DRAINING
                and not entry.values
            ):
                self._broker_draining = True
                self._up = False
                entry.epoch = NO_EPOCH
                entry.taken = False  # bounds and prediction apply anew
                entry.item.again = False
            else:
                settled.append(self._settle(entry, answer))
        self.settled += len(settled)
        if self._draining and not self._up:
            settled += self._release_held()
        return settled

    def _on_unknown(self, message: Unknown) -> list[Settled[Owner]]:
        settled = []
        for seq in message.seqs:
            entry = self._entries.get(seq)
            if entry is None or not self._is_out(entry):
                continue
            if entry.values:
                settled.append(self._break(entry, "the end of the stream was lost"))
                continue
            entry.epoch = NO_EPOCH  # held; while no broker takes it, `outgoing` leaves it so
            self._fresh.append(entry)
            if entry.trace is not None:
                self._traced.append(entry)
        return settled

    def _on_values(self, message: Values) -> list[Settled[Owner]]:
        settled = []
        for value in message.values:
            entry = self._entries.get(value.seq)
            if entry is None or not self._is_out(entry):
                self.late_answers += 1
                self._cancelled.append(value.seq)
            elif value.number > entry.values + 1:
                settled.append(self._break(entry, "a value of the stream was lost"))
            elif value.number > entry.values:
                if not entry.values:  # from now on the broker looks after its time
                    self._wheel.discard(entry.due, value.seq)
                entry.values += 1
                self._streamed.append((entry.owner, value))
        return settled

    _HANDLERS: ClassVar[dict[type, Callable[[Any, Any, float], Any]]] = {
        Welcome: _on_welcome,
        Who: _on_who,
        Refused: _on_refused,
        Catalog: _on_catalog,
    }

    # -------------------------------------------------------------- streams

    @property
    def has_streamed(self) -> bool:
        """Whether `take_streamed` has something."""
        return bool(self._streamed)

    def take_streamed(self) -> list[tuple[Owner, Value]]:
        """The values that have come, in order, with their owners."""
        streamed, self._streamed = self._streamed, []
        return streamed

    def credit(self, seq: int, values: int) -> None:
        """Its client has taken so many values, from the first one on."""
        entry = self._entries.get(seq)
        if entry is not None:
            entry.values_taken = self._credits[seq] = values

    def _repeat_credits(self) -> None:
        """One that was lost would have a worker wait for ever."""
        for seq, entry in self._entries.items():
            if entry.values_taken:
                self._credits[seq] = entry.values_taken

    def _break(self, entry: Entry[Owner], why: str) -> Settled[Owner]:
        self._cancel_at_broker(entry)
        return self._settle(entry, Answer(entry.item.seq, _failure(ErrorCode.WORKER_LOST, why)))

    def _break_streams(self, why: str) -> list[Settled[Owner]]:
        return [self._break(entry, why) for entry in list(self._entries.values()) if entry.values]

    # -------------------------------------------------------------- messages out

    @property
    def has_outgoing(self) -> bool:
        """Whether `outgoing` may have something."""
        return bool(
            self._out or self._fresh or self._cancelled or self._credits or self._loans.has_left
        )

    def outgoing(self, now: float) -> list[ToBroker]:
        """The messages to send now, each exactly once, in order."""
        self._loans.flush()
        if self._fresh:
            if self._up:
                self._submit(now)
            self._fresh = []
        if self._cancelled:
            self._out.append(Cancel(self._epoch, self._cancelled))
            self._cancelled = []
        if self._credits:
            if self._welcomed:
                self._out.append(Credit(self._epoch, list(self._credits.items())))
            self._credits = {}
        if not self._out:
            return []
        out, self._out = self._out, []
        return out

    def _submit(self, now: float) -> None:
        epoch = self._epoch
        entries = self._entries
        items = []
        known = 0
        for entry in self._fresh:
            item = entry.item
            if entries.get(item.seq) is not entry or entry.epoch == epoch:
                continue  # cancelled or expired in the meantime, or listed twice
            item.left_s = max(entry.due - now, 0.0)
            if entry.taken:
                known += 1
            item.again = entry.taken
            payload = item.payload
            if type(payload) is Blob and payload.refs:
                self._loans.lend(item, epoch)
            entry.taken = True
            entry.epoch = epoch
            entry.sent_s = now
            items.append(item)
        self.submitted += len(items) - known
        self.resubmitted += known
        traced = self._take_traced(now) if self._traced else {}
        for start in range(0, len(items), MAX_SUBMIT_ITEMS):
            some = items[start : start + MAX_SUBMIT_ITEMS]
            submit = Submit(epoch, some, others=self._others(len(entries), now))
            if traced:
                submit.traced = [(i.seq, traced[i.seq]) for i in some if i.seq in traced]
            self._out.append(submit)

    def _take_traced(self, now: float) -> dict[int, SpanKey]:
        """The traced ones among those that are submitted now, by number."""
        found = {}
        for entry in self._traced:
            trace = entry.trace
            seq = entry.item.seq
            if trace is not None and self._entries.get(seq) is entry:
                trace.seq, trace.submitted_s = seq, now
                found[seq] = trace.context.key()
                self._sent.append(trace)
        self._traced = []
        return found

    # -------------------------------------------------------------- leaving

    def drain(self) -> list[Settled[Owner]]:
        """Hold nothing from now on: what no broker takes is answered at once."""
        self._draining = True
        return [] if self._up else self._release_held()

    def abandon(self) -> list[Settled[Owner]]:
        """The time for draining is over: answer all that is left, and say goodbye."""
        entries = list(self._entries.values())
        for entry in entries:
            self._cancel_at_broker(entry)
        return self._refuse_draining(entries)

    def farewell(self) -> Bye:
        """The last message, once the table is empty."""
        return Bye(self._epoch, "drained")

    def _release_held(self) -> list[Settled[Owner]]:
        return self._refuse_draining([e for e in self._entries.values() if not self._is_out(e)])

    def _is_out(self, entry: Entry[Owner]) -> bool:
        """Whether the broker of the current epoch should have it."""
        return entry.epoch == self._epoch != NO_EPOCH

    def _refuse_draining(self, entries: Iterable[Entry[Owner]]) -> list[Settled[Owner]]:
        failure = _failure(ErrorCode.DRAINING, "this gateway is shutting down")
        return [self._settle(entry, Answer(entry.item.seq, failure)) for entry in entries]

    def trouble(self, now: float) -> str:
        """Why no broker takes requests, in words; "" while one does."""
        if self.refusal:
            return f"the broker refused this gateway: {self.refusal}"
        if self._heard_s <= now - SILENCE_S:
            return "no broker answers"
        if self._broker_draining:
            return "the broker is shutting down"
        if not self._up:
            return "the broker has not said yet what it serves"
        return ""


def _failure(code: ErrorCode, message: str) -> Failure:
    return Failure(code, message, retry_after_s=RETRY_AFTER_S)

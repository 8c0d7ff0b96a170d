"""A pipeline in virtual time: the broker's own core, and workers that take as long as was learnt.

So batches form, are sent ahead, held back and refused as they will be. What it does not know: other
work on the same processors, payloads that differ from each other, and the gateway's own time beyond
`HOP_S`.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random

from msgspec import Struct

from broker.core.config import PipelineConfig, StageConfig
from broker.core.events import Action, Received, Send
from broker.core.scheduler import Scheduler
from broker.wire.messages import (
    PROTOCOL_VERSION,
    Answers,
    Batch,
    Failure,
    GatewayBeat,
    GatewayHello,
    Results,
    Submit,
    SubmitItem,
    SupervisorBeat,
    SupervisorHello,
    ToBroker,
    WorkerHealth,
    WorkerHello,
    WorkerReport,
)
from millstream.advise.model import GAP_S, HOP_S, StageModel

EPOCH = 1
GATEWAY = b"gateway"
SUPERVISOR = b"supervisor"
BEAT_S = 1.0
WARM_UP_SHARE = 0.1
"""Of the requests, the first are not counted: they find empty queues."""

DEVIATION = 1.25
"""The standard deviation of what is normally distributed, over its mean deviation."""
LEAST_NOISE = 0.2
"""No batch is quicker than this share of what is usual."""

SEED = 1
"""Of all chance: loads that are compared are compared by the same arrivals."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of the requests that count. Times in seconds; `waits_s` and `busy` have each
    stage: how long those waited there that were not answered in time, and how busy its workers
    were.
    """

    sent: int
    in_time: int
    refused: int
    p50_s: float
    p99_s: float
    waits_s: list[float]
    busy: list[float]

    @property
    def share(self) -> float:
        """Of what was sent, what was answered in time."""
        return self.in_time / self.sent if self.sent else 0.0


def simulate(
    stages: list[StageModel],
    *,
    rate_per_s: float,
    slo_s: float,
    timeout_s: float,
    requests: int,
) -> Outcome:
    """So many Poisson arrivals at this rate; those are in time that are answered within `slo_s`.
    Their deadline is `timeout_s`, as clients have it that name none.
    """
    run = _Run(stages, rate_per_s=rate_per_s, timeout_s=timeout_s, requests=requests)
    run.play()
    return run.outcome(slo_s)


class _Worker:
    """One worker: what it holds, and how much of that it runs."""

    __slots__ = ("busy_s", "id", "place", "running", "stage", "waiting")

    def __init__(self, id: bytes, place: int, stage: StageModel) -> None:
        self.id = id
        self.place = place
        self.stage = stage
        self.waiting: list[Batch] = []
        self.running = 0
        self.busy_s = 0.0


class _Run:
    def __init__(
        self,
        stages: list[StageModel],
        *,
        rate_per_s: float,
        timeout_s: float,
        requests: int,
    ) -> None:
        self._stages = stages
        self._rate = rate_per_s
        self._timeout_s = timeout_s
        self._requests = requests
        self._rng = Random(SEED)
        self._now = 0.0
        self._order = count()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._turn_at = -1.0
        self._sent_s: dict[int, float] = {}
        self._took_s: dict[int, float] = {}
        self._spans: dict[int, list[float]] = {}
        self._refused: set[int] = set()
        self._workers: dict[bytes, _Worker] = {}
        config = PipelineConfig(
            chain=tuple(stage.name for stage in stages),
            timeout_s=timeout_s,
            stages={each.name: StageConfig(max_batch_size=each.cap) for each in stages},
        )
        self._core = Scheduler({"p": config}, epoch=EPOCH, now=0.0)
        self._join()

    def _join(self) -> None:
        self._tell(GATEWAY, GatewayHello(PROTOCOL_VERSION))
        for place, stage in enumerate(self._stages):
            supervisor = SUPERVISOR + b"%d" % place
            self._tell(supervisor, SupervisorHello(PROTOCOL_VERSION, stage.name))
            timings = [(1, stage.run_s(1)), (stage.cap, stage.run_s(stage.cap))]
            for number in range(stage.workers):
                worker = _Worker(b"w%d-%d" % (place, number), place, stage)
                self._workers[worker.id] = worker
                hello = WorkerHello(
                    PROTOCOL_VERSION,
                    supervisor,
                    stage.name,
                    ready=True,
                    max_batch_size=stage.cap,
                    concurrency=stage.concurrency,
                    repeatable=stage.repeatable,
                    timings=timings,
                    index=number,
                )
                self._tell(worker.id, hello)

    def play(self) -> None:
        """Until all requests have ended."""
        self._after(0.0, self._beat)
        self._after(self._rng.expovariate(self._rate), lambda: self._arrive(1))
        while len(self._took_s) < self._requests:
            due = self._core.next_deadline()
            if self._heap and self._heap[0][0] <= due:
                self._now, _, do = heappop(self._heap)
                do()
            else:
                self._now = max(due, self._now)
                self._tick()

    # ------------------------------------------------------------------ what happens

    def _after(self, seconds: float, do: Callable[[], None]) -> None:
        heappush(self._heap, (self._now + seconds, next(self._order), do))

    def _tell(self, peer: bytes, message: ToBroker) -> None:
        self._perform(self._core.handle(Received(peer, message), self._now))
        if self._turn_at != self._now:  # what comes in one moment is one turn
            self._turn_at = self._now
            self._after(0.0, self._tick)

    def _tick(self) -> None:
        self._turn_at = -1.0
        self._perform(self._core.tick(self._now))

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            if type(action) is not Send:
                continue
            message = action.message
            if type(message) is Batch:
                worker = self._workers[action.peer]
                self._after(HOP_S, lambda w=worker, m=message: self._take(w, m))  # type: ignore[misc]
            elif type(message) is Answers:
                self._answered(message)

    def _beat(self) -> None:
        self._after(BEAT_S, self._beat)
        self._tell(GATEWAY, GatewayBeat(EPOCH))
        for place in range(len(self._stages)):
            reports = [
                WorkerReport(worker.id, WorkerHealth.ALIVE)
                for worker in self._workers.values()
                if worker.place == place
            ]
            self._tell(SUPERVISOR + b"%d" % place, SupervisorBeat(EPOCH, reports))

    def _arrive(self, seq: int) -> None:
        self._sent_s[seq] = self._now
        item = SubmitItem(seq, "p", b"", b"", self._timeout_s - HOP_S)
        self._after(HOP_S, lambda: self._tell(GATEWAY, Submit(EPOCH, [item])))
        if seq < self._requests:
            self._after(self._rng.expovariate(self._rate), lambda: self._arrive(seq + 1))

    def _answered(self, answers: Answers) -> None:
        for answer in answers.answers:
            self._took_s[answer.seq] = self._now + HOP_S - self._sent_s[answer.seq]
            self._spans[answer.seq] = answer.spans
            if type(answer.outcome) is Failure:
                self._refused.add(answer.seq)

    # ------------------------------------------------------------------ workers

    def _take(self, worker: _Worker, batch: Batch) -> None:
        worker.waiting.append(batch)
        self._begin(worker)

    def _begin(self, worker: _Worker) -> None:
        stage = worker.stage
        while worker.waiting and worker.running < stage.concurrency:
            batch = worker.waiting.pop(0)
            worker.running += 1
            noise = max(self._rng.gauss(1.0, DEVIATION * stage.spread), LEAST_NOISE)
            run_s = stage.run_s(len(batch.items)) * noise
            worker.busy_s += run_s / stage.concurrency
            self._after(run_s, lambda w=worker, b=batch, s=run_s: self._end(w, b, s))  # type: ignore[misc]

    def _end(self, worker: _Worker, batch: Batch, run_s: float) -> None:
        outcomes = [b"" for _ in batch.items]
        results = Results(EPOCH, batch.lease, list(outcomes), run_s)
        self._after(HOP_S, lambda: self._tell(worker.id, results))
        self._after(GAP_S, lambda: self._next(worker))

    def _next(self, worker: _Worker) -> None:
        worker.running -= 1
        self._begin(worker)

    # ------------------------------------------------------------------ what came of it

    def outcome(self, slo_s: float) -> Outcome:
        """Counted without the first of them."""
        first = int(self._requests * WARM_UP_SHARE)
        counted = range(first + 1, self._requests + 1)
        took = sorted(self._took_s[seq] for seq in counted if seq not in self._refused)
        late = [seq for seq in counted if self._took_s[seq] > slo_s or seq in self._refused]
        lasted_s = max(self._now, 1e-9)
        return Outcome(
            sent=len(counted),
            in_time=len(counted) - len(late),
            refused=sum(seq in self._refused for seq in counted),
            p50_s=took[len(took) // 2] if took else 0.0,
            p99_s=took[len(took) * 99 // 100] if took else 0.0,
            waits_s=[self._waited_s(late, place) for place in range(len(self._stages))],
            busy=[
                sum(each.busy_s for each in self._workers.values() if each.place == place)
                / (lasted_s * stage.workers)
                for place, stage in enumerate(self._stages)
            ],
        )

    def _waited_s(self, late: list[int], place: int) -> float:
        """A stage that holds those before it back makes their queues long, and not its own."""
        waits = [self._spans[seq][2 * place] for seq in late if len(self._spans[seq]) > 2 * place]
        return sum(waits) / len(late) if late else 0.0

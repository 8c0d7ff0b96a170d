"""Once a second: what came and went in each pipeline, how busy workers were, who is forgotten."""

from broker.core.ledger import Ledger
from broker.core.peers import Supervisor, Worker
from broker.core.recent import Totals
from broker.core.stage import Pipeline
from broker.wire.errors import ErrorCode


def take_a_step(ledger: Ledger, step_s: float, now: float) -> None:
    """So many seconds have passed since the last step."""
    for pipeline in ledger.pipelines.values():
        stages = pipeline.stages
        pipeline.recent.fold(
            _totals(pipeline),
            [stage.queued for stage in stages],
            [stage.done for stage in stages],
            step_s,
        )
        ledger.diary.refused(pipeline.name, by_name(pipeline.refused), now)
    for peer in ledger.peers.values():
        if type(peer) is Worker:
            peer.look(step_s, now)
    supervisors = {id for id, peer in ledger.peers.items() if type(peer) is Supervisor}
    ledger.posts.forget(supervisors, now)


def _totals(pipeline: Pipeline) -> Totals:
    tallies = pipeline.tallies.values()
    return Totals(
        answered=sum(tally.answered for tally in tallies),
        failed=sum(tally.failed for tally in tallies),
        withdrawn=pipeline.cancelled + pipeline.begun_anew,
        refused=pipeline.refused.total(),
        items=pipeline.items,
    )


def by_name(counts: dict[int, int]) -> dict[str, int]:
    """Counts by error code, by its name."""
    return {ErrorCode(code).name.lower(): count for code, count in counts.items()}

"""What `millstream advise` does, once its options are read."""

import msgspec
from msgspec import Struct

from broker.wire.keys import ClientKeys
from millstream.advise.learnt import POINTS, NotLearnt, learnt, parse
from millstream.advise.model import StageModel
from millstream.advise.search import Goal, Unreachable, advise
from millstream.advise.simulation import Outcome
from millstream.advise.words import tables
from millstream.cli.ask import ask
from millstream.cli.errors import CommandError
from millstream.cli.tables import show, write_line

ASKED = msgspec.json.encode({"points": POINTS, "events": 0})


class Document(Struct, frozen=True):
    """What `--json` shows."""

    pipeline: str
    version: str
    goal: Goal
    now: list[StageModel]
    advised: list[StageModel]
    outcome: Outcome
    doubtful: Outcome
    notes: list[str]


def show_advice(
    address: str,
    pipeline: str,
    *,
    keys: ClientKeys | None,
    rate_per_s: float,
    slo_s: float,
    share: float,
    as_json: bool,
) -> int:
    """Exit code 0; CommandError with exit code 1 where nothing can be advised, and why."""
    body = ask(address, "status", keys=keys, body=ASKED)
    try:
        known = learnt(parse(body), pipeline)
        rate = rate_per_s or known.rate_per_s
        if not rate:
            raise CommandError(f"no requests come to {pipeline} now: give --rate N")
        goal = Goal(rate_per_s=rate, slo_s=slo_s, share=share, timeout_s=known.timeout_s)
        advice = advise(known.stages, goal)
    except (NotLearnt, Unreachable) as error:
        raise CommandError(str(error), code=1) from None
    except msgspec.MsgspecError as error:
        raise CommandError(f"the broker's report cannot be read: {error}", code=1) from None
    if as_json:
        document = Document(
            pipeline,
            known.version,
            goal,
            known.stages,
            advice.stages,
            advice.outcome,
            advice.doubtful,
            known.notes,
        )
        write_line(msgspec.json.encode(document).decode())
    else:
        show(tables(pipeline, known, advice, goal))
    return 0

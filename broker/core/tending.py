"""What an operator may ask of one worker: to leave for good, or for a successor.

Both are its supervisor's to do; the answer says that it was told. A worker that is gone stands for
its place, so that one which was drained can be restarted.
"""

import msgspec

from broker.core.ledger import Ledger
from broker.core.peers import Post, Supervisor, Worker
from broker.core.posts import Place, Vacancy
from broker.wire.errors import ErrorCode
from broker.wire.messages import Report, Tend, TendKind

LONGEST_REASON = 200


class CannotTend(Exception):
    """It is not done; the message is one line."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def tend(ledger: Ledger, worker: str, wish: TendKind, *, by: str, why: str, now: float) -> Report:
    """Tell the supervisor of this worker, which is named as `status` has it. Raises CannotTend."""
    post, place = _find(ledger, worker)
    supervisor = ledger.peers.get(post[0])
    if not isinstance(supervisor, Supervisor):
        raise CannotTend(ErrorCode.NOT_READY, "its supervisor is not there")
    if wish is TendKind.DRAIN and place.vacancy is Vacancy.DRAINED:
        raise CannotTend(ErrorCode.BAD_REQUEST, "it has been drained already")
    what = "drained" if wish is TendKind.DRAIN else "restarted"
    reason = f"{what} by {by or 'an operator'}" + (f": {why}" if why else "")
    reason = reason[:LONGEST_REASON]
    place.to_drain = wish is TendKind.DRAIN
    if wish is TendKind.RESTART and place.vacancy is Vacancy.DRAINED:
        place.vacancy, place.changed_at = Vacancy.LOST, now
    elif wish is TendKind.DRAIN and place.vacancy is Vacancy.LOST:
        place.vacancy, place.changed_at = Vacancy.DRAINED, now
    ledger.send(supervisor.id, Tend(ledger.epoch, post[1], post[2], wish, reason))
    ledger.note(
        f"worker_{wish.name.lower()}_asked",
        worker=worker[:8],
        stage=place.hello.stage,
        pid=place.hello.pid,
        by=by,
        why=why,
    )
    told = {
        "worker": worker,
        "asked": wish.name.lower(),
        "stage": place.hello.stage,
        "last_of_stage": _is_last(ledger, place),
    }
    return Report(ledger.epoch, msgspec.json.encode(told))


def _find(ledger: Ledger, worker: str) -> tuple[Post, Place]:
    try:
        found = ledger.posts.find(bytes.fromhex(worker))
    except ValueError:
        found = None
    if found is None:
        raise CannotTend(ErrorCode.NOT_FOUND, f"there is no worker {worker[:100]!r}")
    return found


def _is_last(ledger: Ledger, place: Place) -> bool:
    """Whether no other worker of its stages is ready."""
    peer = ledger.peers.get(place.worker)
    return isinstance(peer, Worker) and any(
        not any(other.serving for other in stage.workers.values() if other is not peer)
        for stage in peer.stages
    )

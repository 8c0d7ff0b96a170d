"""Changes of a pipeline's traffic: made, kept, told; and those that wait for versions.

What follows from a change that is made is left to `rollout.refresh`.
"""

from broker.core.document import document
from broker.core.events import Change, Save
from broker.core.ledger import Ledger
from broker.core.stage import Pipeline
from broker.core.traffic import Traffic, TrafficError
from broker.core.versions import FAILED, GONE, Pending, Version
from broker.wire.errors import ErrorCode
from broker.wire.messages import Report

TRIED_AGAIN_S = 2.0
"""A version that had failed when it was wanted is reported anew within this time."""


class NoSuchVersion(TrafficError):
    """Nobody has the version that was named."""


def adopt(
    ledger: Ledger,
    pipeline: Pipeline,
    traffic: Traffic,
    change: Change,
    now: float,
    *,
    asker: bytes = b"",
) -> None:
    """This is in force from now on. What follows from it is left to `refresh`."""
    rollout = pipeline.rollout
    if traffic.promotion is not None and traffic.promotion != rollout.traffic.promotion:
        rollout.stepped_at = now
    rollout.traffic = traffic
    rollout.awaited &= traffic.weights.keys()
    for name in traffic.named() - rollout.versions.keys():
        rollout.versions[name] = Version(name, now)
    rollout.changed, rollout.changed_at = change, now
    rollout.saves.append((change, asker))
    ledger.stale[pipeline] = None
    ledger.catalog_changed = True
    ledger.note(
        "traffic_changed", pipeline=pipeline.name, change=change.what, by=change.by, why=change.why
    )


def save(ledger: Ledger, pipeline: Pipeline, now: float) -> None:
    """What was adopted since is to be kept; whoever asked for it is told then."""
    rollout = pipeline.rollout
    for made, asker in rollout.saves:
        report = None
        if asker:
            report = Report(ledger.epoch, document(pipeline, now, ledger.wall_offset_s))
        ledger.actions.append(Save(pipeline.name, rollout.traffic, made, asker, report))
    rollout.saves = []


def try_pending(ledger: Ledger, pipeline: Pipeline, now: float) -> None:
    """Make the change that waits, if it can be made now, or never."""
    rollout = pipeline.rollout
    pending = rollout.pending
    if pending is None:
        return
    if pending.waits_for <= rollout.up():
        rollout.pending = None
        try:
            traffic = pending.make(rollout.traffic)
        except TrafficError as error:
            refuse(ledger, pending.asker, ErrorCode.BAD_REQUEST, str(error))
            return
        adopt(ledger, pipeline, traffic, pending.change, now, asker=pending.asker)
        return
    for name in sorted(pending.waits_for - rollout.ready):
        version = rollout.versions.get(name)
        if version is None or _is_hopeless(pipeline, pending, version, now):
            why = "nobody has it any longer"
            if version is not None and version.state != GONE:
                why = version.detail or "no supervisor loads it"
            drop_pending(ledger, pipeline, f"version {name} does not get ready: {why}")
            return
        if version.state != FAILED:
            pending.doubtful.discard(name)
        elif name not in pending.doubtful or now - pending.since > TRIED_AGAIN_S:
            drop_pending(
                ledger, pipeline, f"version {name} failed: {version.detail or 'no detail'}"
            )
            return


def _is_hopeless(pipeline: Pipeline, pending: Pending, version: Version, now: float) -> bool:
    """Whether some stage had nobody for this version for `absent_s`, though it is wanted: before
    that it may have lain on disk for as long as it liked.
    """
    since = max(version.attended_at, pending.since)
    return not version.attended and now - since > pipeline.config.absent_s


def drop_pending(ledger: Ledger, pipeline: Pipeline, why: str) -> None:
    """The change that waits, if there is one, is not made: tell whoever asked for it."""
    pending = pipeline.rollout.pending
    if pending is None:
        return
    pipeline.rollout.pending = None
    ledger.stale[pipeline] = None
    refuse(ledger, pending.asker, ErrorCode.NOT_READY, f"the traffic is as it was: {why}")


def refuse(ledger: Ledger, asker: bytes, code: ErrorCode, message: str) -> None:
    """Say why what was asked cannot be."""
    if asker:
        ledger.reply(asker, Report(ledger.epoch, b"", code, message))

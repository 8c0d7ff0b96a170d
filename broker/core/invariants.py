"""What must hold between any two events. Tests check it after every one."""

from collections import Counter
from itertools import product

from broker.core.item import Item
from broker.core.ledger import Ledger
from broker.core.mirror import Mirror
from broker.core.peers import Gateway, Worker
from broker.core.slots import slots_of
from broker.core.stage import Pipeline, Stage
from broker.core.states import ItemState
from broker.wire.messages import SlotKey


class Broken(AssertionError):
    """A count that disagrees with what is there, or an item in two places or in none."""


def check(ledger: Ledger) -> None:
    """Raise Broken where the ledger contradicts itself."""
    items = [
        item
        for peer in ledger.peers.values()
        if isinstance(peer, Gateway)
        for item in peer.items.values()
    ]
    copies = [mirror.copies for mirror in ledger.mirrors.values()]
    for mirror in ledger.mirrors.values():
        items += mirror.gateway.items.values()
        _check_pairs(ledger, mirror)
    for pipeline in (*ledger.pipelines.values(), *copies):
        own = [item for item in items if item.pipeline is pipeline]
        _same(f"items of {pipeline.name}", pipeline.items, len(own))
        _same(f"bytes of {pipeline.name}", pipeline.bytes, sum(item.size for item in own))
        bodies = sum(item.body_size for item in own)
        _same(f"bytes of bodies of {pipeline.name}", pipeline.body_bytes, bodies)
        leases = [each for each in ledger.leases.values() if each.stage.pipeline is pipeline]
        _same(f"growth of {pipeline.name}", pipeline.growing, sum(each.growth for each in leases))
        for stage in pipeline.stages:
            _check_stage(ledger, stage, [item for item in own if item.stage is stage])
        if not pipeline.is_copy:
            _check_counts(pipeline)
        if pipeline not in ledger.stale and not pipeline.is_copy:
            _check_versions(pipeline, own)
    _same("items", ledger.held, len(items))
    _same("deadlines", len(ledger.wheel), len(items))
    _check_leases(ledger)
    _check_streams(ledger, items)
    _check_slots(ledger, items)


def _check_stage(ledger: Ledger, stage: Stage, items: list[Item]) -> None:
    where = f"{stage.pipeline.name}/{stage.name}"
    queued = [item for item in items if item.state is ItemState.QUEUED]
    leased = [item for item in items if item.state is ItemState.LEASED]
    streaming = [item for item in items if item.state is ItemState.STREAMING]
    _same(f"states at {where}", len(queued) + len(leased) + len(streaming), len(items))
    _same(f"queued at {where}", stage.queued, len(queued))
    _same(f"leased at {where}", stage.leased, len(leased))
    _same(f"streaming at {where}", stage.streaming, len(streaming))
    if queued and stage not in ledger.busy_stages and not stage.pipeline.is_copy:
        raise Broken(f"{where} has work, and nobody will look at it")
    waiting: list[Item] = []
    for lane in stage.lanes.values():
        living = [item for item in lane.queue if item.state is ItemState.QUEUED]
        _same(f"live in a queue of {where}", lane.queue.live, len(living))
        turns = Counter((i.priority, i.client) for i in living if i.waits_in is not None)
        _same(f"turns in a queue of {where}", lane.queue.counts(), turns)
        here = living + list(lane.suspects)
        wrong = [item for item in here if stage.lane(item.version) is not lane]
        if wrong and stage.pipeline not in ledger.stale:
            raise Broken(f"{wrong} of {where} wait for another version than theirs")
        waiting += here
    _same(f"places at {where}", len({item.id for item in waiting}), len(waiting))
    _same(f"waiting at {where}", sorted(i.id for i in waiting), sorted(i.id for i in queued))
    alone = [lease for lease in ledger.leases.values() if lease.stage is stage and lease.alone]
    _same(f"suspects out at {where}", stage.suspects_out, len(alone))


def _check_counts(pipeline: Pipeline) -> None:
    """Whatever came in is somewhere, or has left in one way; so it is of each stage."""
    name = pipeline.name
    answered = sum(tally.answered + tally.failed for tally in pipeline.tallies.values())
    gone = answered + pipeline.forgotten + pipeline.cancelled + pipeline.begun_anew
    _same(f"requests admitted to {name}", pipeline.admitted, gone + pipeline.items)
    came = pipeline.admitted
    for stage in pipeline.stages:
        here = stage.queued + stage.leased + stage.streaming
        left = stage.failed + sum(stage.flow.left.values())
        _same(f"items that came to {name}/{stage.name}", came, stage.done + left + here)
        came = stage.done


def _check_versions(pipeline: Pipeline, items: list[Item]) -> None:
    """Where a pipeline has versions, each item has one as soon as there is one to be had."""
    split, rollout = pipeline.split, pipeline.rollout
    if split is None:
        if any(stage.versioned for stage in pipeline.stages) or rollout.pending is not None:
            raise Broken(f"{pipeline.name} has versions, and nothing that chooses one")
        return
    without = [item for item in items if not item.version]
    if split.shares and without:
        raise Broken(f"{without} of {pipeline.name} have no version")
    stages = [stage for stage in pipeline.stages if stage.versioned] or pipeline.stages
    for version, stage in product(rollout.served, stages):
        lane = stage.lane(version)
        if not any(each.serving and lane.suits(each) for each in stage.workers.values()):
            raise Broken(f"version {version} is not served at {stage.name}")
    if not rollout.ready <= rollout.served <= rollout.versions.keys():
        raise Broken(f"versions of {pipeline.name}: {rollout.ready}, {rollout.served}")
    if rollout.pending is not None and rollout.pending.waits_for <= rollout.up():
        raise Broken(f"a change of {pipeline.name} waits for nothing")
    if rollout.saves:
        raise Broken(f"changes of {pipeline.name} are not saved")


def _check_pairs(ledger: Ledger, mirror: Mirror) -> None:
    """Of each copy that is under way the request is known, and of each such request the copy."""
    name = mirror.pipeline.name
    under_way = {pair.copy.seq for pair in mirror.pairs.values() if pair.shadow is None}
    answered = {answer.seq for answer in mirror.gateway.answers}
    _same(f"copies of {name}", under_way - answered, set(mirror.gateway.items))
    held = sum(pair.size for pair in mirror.pairs.values())
    _same(f"bytes of answers of {name}", mirror.held, held)
    for pair in mirror.pairs.values():
        if pair.stable is None and pair.item.gateway.pairs.get(pair.item.seq) is not pair:
            raise Broken(f"{pair.item!r} has a copy, and nobody knows of it")
    if mirror.fork.forked is not mirror.forked or mirror.pipeline.mirror is not mirror:
        raise Broken(f"copies of {name} are made elsewhere")


def _check_leases(ledger: Ledger) -> None:
    workers = [peer for peer in ledger.peers.values() if isinstance(peer, Worker)]
    held = [lease for worker in workers for lease in worker.leases.values()]
    _same("leases", sorted(lease.id for lease in held), sorted(ledger.leases))
    for worker in workers:
        if len(worker.leases) > worker.credit:
            raise Broken(f"{worker!r} holds {len(worker.leases)} leases, beyond its credit")
        if len(worker.leases) > 1 and any(lease.alone for lease in worker.leases.values()):
            raise Broken(f"{worker!r} holds something beside a suspect")
        for stage in worker.stages:
            if (worker in stage.idle) is not _would_begin(worker):
                raise Broken(f"{worker!r} is idle, or is not, at {stage.name}")
            if stage.workers.get(worker.id) is not worker:
                raise Broken(f"{worker!r} is no worker of {stage.name}")
    for lease in held:
        for item in lease.items:
            if item.lease is lease and item.state is not ItemState.LEASED:
                raise Broken(f"{item!r} is under {lease!r}")


def _check_streams(ledger: Ledger, items: list[Item]) -> None:
    held = {}
    for peer in ledger.peers.values():
        if isinstance(peer, Worker):
            held.update({(peer.id, key): item for key, item in peer.streams.items()})
    streaming = {}
    for item in items:
        stream = item.stream
        if (stream is not None) is not (item.state is ItemState.STREAMING):
            raise Broken(f"{item!r} streams, or does not")
        if stream is None:
            continue
        streaming[stream.worker.id, stream.key] = item
        if stream.values and item.size != item.body_size + stream.window.bytes:
            raise Broken(f"{item!r} has {stream.window.bytes} bytes on their way, of {item.size}")
        if item.lease is not None:
            raise Broken(f"{item!r} streams, and is leased")
    _same("streams", held, streaming)


def _check_slots(ledger: Ledger, items: list[Item]) -> None:
    held: list[SlotKey] = list(ledger.outgoing)
    for item in items:
        if item.slots != slots_of(item.payload):
            raise Broken(f"{item!r} holds {item.slots}, which its payload does not refer to")
        held += item.slots
    for lease in ledger.leases.values():
        held += lease.slots
    for mirror in ledger.mirrors.values():
        for pair in mirror.pairs.values():
            held += pair.slots
    for peer in ledger.peers.values():
        if type(peer) is Worker:
            held += peer.kept
    for keys in ledger.slots.limbo.values():
        held += keys
    holds = Counter(held)
    _same("holders of slots", ledger.slots.counts, holds)
    if both := ledger.slots.free & holds.keys():
        raise Broken(f"slots {sorted(both)} are held, and about to be called free")


def _would_begin(worker: Worker) -> bool:
    alone = any(lease.alone for lease in worker.leases.values())
    begins = worker.serving and not worker.is_full
    return begins and not alone and len(worker.leases) < worker.concurrency


def _same(what: str, one: object, other: object) -> None:
    if one != other:
        raise Broken(f"{what}: {one} is not {other}")

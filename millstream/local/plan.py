"""From what a script says to what is started: the pipeline file, and one role for each process.

Pure: knows classes, texts and the command line, and starts nothing.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from broker.config import NAME_IS, ConfigError, is_name, pipeline_of
from millstream.local.declare import Pipeline, is_stage
from millstream.local.mistakes import Mistake, Place, place_of
from millstream.local.options import Chosen, choose
from millstream.local.targets import target_of
from millstream.local.toml import pipeline_file
from workers.api import Worker
from workers.checks import ContractError, check_class
from workers.functions import worker_class
from workers.placement import Placement
from workers.whereabouts import where

GATEWAY, BROKER, WORKER = "gateway", "broker", "worker"


class Role(Struct, frozen=True, kw_only=True):
    """One process that is started: `millstream COMMAND [TARGET] OPTIONS…`."""

    name: str
    """As in a Procfile."""
    command: str
    script: str = ""
    """Of a worker: the absolute path of its file, and what in there it serves."""
    attribute: str = ""
    stage: str = ""
    pipeline: str = ""
    """Of a worker: the one that it serves in, alone; "" for each that has its stage."""
    options: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """What is added to the environment."""

    def arguments(self, pipelines: str, *, script: str = "") -> list[str]:
        """The words after `millstream`; `pipelines` is the path of the pipeline file."""
        if self.command == BROKER:
            return [BROKER, pipelines, *self.options]
        if self.command == WORKER:
            target = script or self.script
            if self.attribute:
                target = f"{target}:{self.attribute}"
            return [WORKER, target, *self.options]
        return [self.command, *self.options]


class Plan(Struct, frozen=True, kw_only=True):
    """A deployment on this host. Travels as JSON."""

    file: str
    """The script that described it, and its line."""
    line: int
    pipelines: str
    """The text of the pipeline file."""
    chains: dict[str, list[str]]
    routes: dict[str, list[str]] = {}
    """Further paths of pipelines that have some."""
    roles: tuple[Role, ...]
    host: str
    port: int
    uds: str
    broker: str
    """The address, where one was named; "" for one that nobody else knows."""
    drain_s: float

    @property
    def place(self) -> Place:
        """Where the script says so."""
        return Place(self.file, self.line)

    @property
    def stages(self) -> tuple[Role, ...]:
        """The roles that are workers."""
        return tuple(role for role in self.roles if role.command == WORKER)


class _Use(NamedTuple):
    """A stage of a pipeline, and who serves it."""

    pipeline: Pipeline
    stage: str
    worker: type[Worker]
    options: Mapping[str, str]


def make_plan(
    pipelines: Sequence[Pipeline],
    options: Mapping[str, Any],
    environ: Mapping[str, str],
    place: Place,
) -> Plan:
    """What is to be started for these pipelines. Raises Mistake."""
    chosen = choose(options, environ, place)
    tables: dict[str, dict[str, Any]] = {}
    uses: list[_Use] = []
    for pipeline in pipelines:
        chain = _uses(pipeline)
        if pipeline.name in tables:
            raise Mistake(f"{pipeline.place}: there are two pipelines {pipeline.name!r}")
        tables[pipeline.name] = table_of(pipeline, [use.stage for use in chain])
        uses += chain
    chains = {name: table["chain"] for name, table in tables.items()}
    return _plan_with(chosen, pipeline_file(tables), chains, _roles(uses, chosen), place)


class ScriptOf(NamedTuple):
    """A plug-in of a pipeline file: its path, and which class of it, "" where there is one."""

    path: str
    class_name: str


def plan_of_files(
    pipelines: str,
    chains: dict[str, list[str]],
    scripts: Sequence[ScriptOf],
    *,
    options: Mapping[str, Any],
    environ: Mapping[str, str],
    place: Place,
) -> Plan:
    """What is to be started for the text of a pipeline file, and scripts that know their stages.
    Raises Mistake.
    """
    chosen = choose(options, environ, place)
    roles = [*_first_roles(chosen)]
    for script in scripts:
        stem = os.path.splitext(os.path.basename(script.path))[0]
        name = _role_name(script.class_name or stem, "", {role.name for role in roles})
        roles.append(
            Role(
                name=name,
                command=WORKER,
                script=script.path,
                attribute=script.class_name,
                options=chosen.everybody,
            )
        )
    return _plan_with(chosen, pipelines, chains, tuple(roles), place)


def _plan_with(
    chosen: Chosen,
    pipelines: str,
    chains: dict[str, list[str]],
    roles: tuple[Role, ...],
    place: Place,
) -> Plan:
    return Plan(
        file=place.file,
        line=place.line,
        pipelines=pipelines,
        chains=chains,
        roles=roles,
        host=chosen.host,
        port=chosen.port,
        uds=chosen.uds,
        broker=chosen.broker_address,
        drain_s=chosen.drain_s,
    )


# ------------------------------------------------------------------ pipelines


def chain_of(pipeline: Pipeline) -> list[str]:
    """The names of its stages. Raises Mistake."""
    return [use.stage for use in _uses(pipeline)]


def table_of(pipeline: Pipeline, chain: list[str]) -> dict[str, Any]:
    """As a pipeline file has it. Raises Mistake."""
    table = {"chain": chain, **{k: _plain(v) for k, v in pipeline.settings.items()}}
    if table.get("guard") is True:
        table["guard"] = {}
    try:
        pipeline_of(str(pipeline.place), pipeline.name, table)
    except ConfigError as error:
        raise Mistake(str(error)) from None
    return table


def _plain(value: object) -> object:
    """Only what a pipeline file may hold: other kinds of mappings and sequences become those."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value


def _uses(pipeline: Pipeline) -> list[_Use]:
    place = pipeline.place
    if not isinstance(pipeline.name, str) or not is_name(pipeline.name):
        raise Mistake(f"{place}: a pipeline's name is {NAME_IS}, not {pipeline.name!r:.80}")
    chain: object = pipeline.chain
    if isinstance(chain, str) or not isinstance(chain, Sequence):
        raise Mistake(f"{place}: the chain of {pipeline.name} must be a list of stages")
    if not chain:
        raise Mistake(f"{place}: the chain of {pipeline.name} is empty: name its stages")
    uses = [_use(pipeline, each) for each in chain]
    first: dict[str, _Use] = {}
    for use in uses:
        other = first.setdefault(use.stage, use)
        if other is not use:
            raise Mistake(_twice(pipeline, other, use))
    return uses


def _use(pipeline: Pipeline, thing: object) -> _Use:
    if not is_stage(thing):
        what = (
            f"{thing.__module__}.{thing.__qualname__}" if isinstance(thing, type) else repr(thing)
        )
        raise Mistake(
            f"{pipeline.place}: {what:.80} in the chain of {pipeline.name} is no stage: "
            "a stage is a subclass of millstream.Worker, or a function with @stage above it"
        )
    placement = thing if isinstance(thing, Placement) else None
    worker = placement.worker if placement is not None else worker_class(thing)
    assert worker is not None
    try:
        check_class(worker)
    except ContractError as error:
        raise Mistake(f"{where(worker, error.hook)}: {error}") from None
    options = dict(placement.options) if placement is not None else {}
    stage = options.pop("stage", None) or worker.stage or worker.__name__.lower()
    if not isinstance(stage, str) or not is_name(stage):
        raise Mistake(
            f"{place_of(worker)}: {worker.__name__}: a stage's name is {NAME_IS}, not {stage!r:.80}"
        )
    return _Use(pipeline, stage, worker, options)


def _twice(pipeline: Pipeline, one: _Use, other: _Use) -> str:
    what = f"{pipeline.place}: the stage {one.stage} is in the chain of {pipeline.name} twice"
    if one.worker is other.worker:
        return (
            f"{what}: give one of them another name, as in {one.worker.__name__}.replicas(stage=…)"
        )
    both = f"{one.worker.__name__} ({place_of(one.worker)}) and {other.worker.__name__}"
    return f"{what}: by {both} ({place_of(other.worker)}); give one of them another `stage`"


# ------------------------------------------------------------------ roles


def _roles(uses: Sequence[_Use], chosen: Chosen) -> tuple[Role, ...]:
    roles = [*_first_roles(chosen)]
    for use, pipeline in _shared(uses):
        options = [word for key, value in use.options.items() for word in (f"--{key}", value)]
        if pipeline:
            options = ["--pipeline", pipeline, *options]
        target = target_of(use.worker, use.pipeline.place)
        roles.append(
            Role(
                name=_role_name(use.stage, pipeline, {role.name for role in roles}),
                command=WORKER,
                script=target.file,
                attribute=target.attribute,
                stage=use.stage,
                pipeline=pipeline,
                options=("--stage", use.stage, *options, *chosen.everybody),
            )
        )
    return tuple(roles)


def _first_roles(chosen: Chosen) -> tuple[Role, Role]:
    """Gateway and broker."""
    gateway = Role(
        name=GATEWAY,
        command=GATEWAY,
        options=(*chosen.gateway, *chosen.everybody),
        env=chosen.gateway_env,
    )
    return gateway, Role(name=BROKER, command=BROKER, options=(*chosen.broker, *chosen.everybody))


def _shared(uses: Sequence[_Use]) -> list[tuple[_Use, str]]:
    """Who is to be started, and for which pipeline alone; "" where all share those workers.

    A class that is named again without options means the workers that there are. One stage that
    pipelines serve by different classes, or with different options, has workers for each of them.
    """
    found: list[tuple[_Use, str]] = []
    for stage in dict.fromkeys(use.stage for use in uses):
        same = [use for use in uses if use.stage == stage]
        told = [use for use in same if use.options] or same
        first = told[0]
        if all(use.worker is first.worker and use.options in ({}, first.options) for use in same):
            found.append((first, ""))
        else:
            found += [(use, use.pipeline.name) for use in same]
    return found


def _role_name(stage: str, pipeline: str, taken: set[str]) -> str:
    """A name that a Procfile takes, and that no other role has."""
    words = [pipeline, stage] if pipeline else [stage]
    name = "-".join(words).replace(".", "-")
    if name in taken:
        name = f"worker-{name}"
    number = 2
    while name in taken:
        name, number = f"{name}-{number}", number + 1
    return name

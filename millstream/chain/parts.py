"""Scripts, classes and pipeline files to the parts of a chain; or all that is wrong with them."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeGuard, TypeVar

from msgspec import Struct

from broker.config import ConfigError, did_you_mean, load_pipelines, pipeline_of
from broker.core.config import PipelineConfig, StageConfig
from millstream.chain.findings import ChainError, Finding, place_in
from millstream.chain.scripts import Scripts, explained
from millstream.local.declare import Pipeline, Stage, is_stage, pipelines_of
from millstream.local.mistakes import Mistake, Place, caller, place_of
from millstream.local.plan import Plan, chain_of, table_of
from millstream.local.record import record
from workers import checks, making
from workers.api import Worker
from workers.checks import Shape
from workers.functions import worker_class
from workers.loader import LoadError
from workers.placement import Placement

Given: TypeAlias = Stage | Pipeline | str | os.PathLike[str]
"""A stage, a pipeline of `serve`, a script (`SCRIPT.py[:Class]`, or one that calls `serve`), or a
pipeline file."""


_P = TypeVar("_P", Pipeline, PipelineConfig)


class Part(Struct, eq=False):
    """A plug-in, made, and which stage it is."""

    name: str
    plugin: Worker
    shape: Shape
    place: str
    config: StageConfig = StageConfig()


class Parts(Struct, eq=False):
    """A pipeline, and who serves its stages, first to last."""

    name: str
    config: PipelineConfig
    parts: list[Part]
    warnings: list[str]


class Settings(Struct, frozen=True, kw_only=True):
    """What plug-ins are told before `setup`."""

    device: str = "cpu"
    version: str = ""
    model_dir: str = ""


def assemble(given: Sequence[Given], settings: Settings, *, name: str = "") -> Parts:
    """The pipeline that these make; `name` chooses one where there are several.

    Without a pipeline file they are its stages in this order. Raises ChainError with all findings.
    """
    if app := app_in(given):
        return _of_plan(recorded(app, os.environ), settings, name)
    place = caller()
    if any(isinstance(each, Pipeline) for each in given):
        chosen = _choose({each.name: each for each in declared(given, place)}, name, place)
        return _of_pipeline(chosen, settings)
    files = [os.fspath(each) for each in given if is_pipeline_file(each)]
    findings: list[Finding] = []
    scripts = Scripts()
    configs = _read(files, findings)
    parts = []
    for each in given:
        if not is_pipeline_file(each):
            try:
                parts.append(_part(each, settings, scripts))
            except ChainError as error:
                findings += error.findings
    if findings:
        raise ChainError(findings)
    if not files:
        return Parts(name or "pipeline", *_in_order(parts), scripts.warnings)
    config = _choose(configs, name, files[0])
    name = next(key for key, value in configs.items() if value is config)
    return Parts(name, config, _by_chain(config, configs, parts, files), scripts.warnings)


def app_in(given: Sequence[Given]) -> str:
    """The script that serves what it defines, where that is all that is given; else ""."""
    if len(given) != 1 or not isinstance(given[0], str | os.PathLike):
        return ""
    script = os.fspath(given[0])
    try:
        text = Path(script).read_text() if script.endswith(".py") else ""
    except (OSError, UnicodeDecodeError):
        return ""
    return script if re.search(r"\bserve\s*\(", text) else ""


def recorded(app: str, environ: Mapping[str, str]) -> Plan:
    """What such a script would serve. Raises ChainError."""
    try:
        return record(app, (), environ)
    except Mistake as mistake:
        raise ChainError([Finding("", str(mistake))]) from None


def declared(given: Sequence[Given], place: Place) -> list[Pipeline]:
    """The pipelines that are given. Raises ChainError where anything else is among them."""
    try:
        return pipelines_of([given], place)  # type: ignore[list-item]  # it says what is wrong
    except Mistake as mistake:
        raise ChainError([Finding("", str(mistake))]) from None


def is_pipeline_file(given: Given) -> TypeGuard[str | os.PathLike[str]]:
    """Whether it is one by its name."""
    return isinstance(given, str | os.PathLike) and os.fspath(given).endswith(".toml")


def _read(files: Sequence[str], findings: list[Finding]) -> dict[str, PipelineConfig]:
    try:
        return load_pipelines(files)
    except ConfigError as error:
        findings.append(Finding("", str(error)))
        return {}


# ------------------------------------------------------------------ plug-ins


def _part(given: Given, settings: Settings, scripts: Scripts) -> Part:
    if isinstance(given, str | os.PathLike):
        return _made(scripts.plugin(os.fspath(given)), {}, settings)
    if not is_stage(given):
        what = getattr(given, "__name__", None) or repr(given)
        raise ChainError([Finding("", f"{what:.80} is no stage: no subclass of millstream.Worker")])
    placement = given if isinstance(given, Placement) else Placement(_class_of(given), {})
    cls = placement.worker
    try:
        scripts.warnings += checks.check_class(cls)
    except checks.ContractError as error:
        raise ChainError([Finding(str(place_of(cls)), str(error))]) from None
    return _made(cls, placement.options, settings)


def _class_of(stage: object) -> type[Worker]:
    cls = worker_class(stage)
    assert cls is not None
    return cls


def _made(cls: type[Worker], options: Mapping[str, str], settings: Settings) -> Part:
    place = place_of(cls)
    try:
        plugin, shape = making.make(cls)
    except LoadError as error:
        raise ChainError([explained(place.file, error)]) from None
    making.settle(
        plugin,
        folder=Path(place.file).parent if place.file else Path.cwd(),
        device=settings.device,
        version=settings.version or options.get("version", ""),
        index=0,
        model_dir=settings.model_dir or options.get("model-dir", ""),
    )
    return Part(options.get("stage") or shape.stage, plugin, shape, str(place))


# ------------------------------------------------------------------ chains


def _of_plan(plan: Plan, settings: Settings, name: str) -> Parts:
    """What a script would serve, of the files in which its workers find it."""
    tables = tomllib.loads(plan.pipelines)["pipelines"]
    configs = {key: pipeline_of(str(plan.place), key, table) for key, table in tables.items()}
    config = _choose(configs, name, plan.place)
    name = next(key for key, value in configs.items() if value is config)
    scripts = Scripts()
    parts = []
    for stage in config.chain:
        roles = [role for role in plan.stages if role.stage == stage]
        role = next((each for each in roles if each.pipeline == name), roles[0])
        options = dict(zip(role.options[::2], role.options[1::2], strict=False))
        given = {key.removeprefix("--"): value for key, value in options.items()}
        parts.append(_made(scripts.plugin(f"{role.script}:{role.attribute}"), given, settings))
    _configure(config, {part.name: part for part in parts})
    return Parts(name, config, parts, scripts.warnings)


def _of_pipeline(pipeline: Pipeline, settings: Settings) -> Parts:
    """The same of one that is given as it is."""
    try:
        table = table_of(pipeline, chain_of(pipeline))
        config = pipeline_of(str(pipeline.place), pipeline.name, table)
    except Mistake as mistake:
        raise ChainError([Finding("", str(mistake))]) from None
    scripts = Scripts()
    parts = [_part(stage, settings, scripts) for stage in pipeline.chain]
    _configure(config, {part.name: part for part in parts})
    return Parts(pipeline.name, config, parts, scripts.warnings)


def _in_order(parts: Sequence[Part]) -> tuple[PipelineConfig, list[Part]]:
    """The stages as they were given."""
    if not parts:
        raise ChainError([Finding("", "there is no stage", "give plug-ins, first to last")])
    if findings := list(_twice(parts, [part.name for part in parts])):
        raise ChainError(findings)
    return PipelineConfig(chain=tuple(part.name for part in parts)), list(parts)


def _choose(pipelines: Mapping[str, _P], name: str, where: object) -> _P:
    there = ", ".join(pipelines)
    if name and name not in pipelines:
        hint = did_you_mean(name, pipelines) or f"; there are {there}"
        raise ChainError([Finding(str(where), f"there is no pipeline {name!r}{hint}")])
    if not name and len(pipelines) > 1:
        raise ChainError([Finding(str(where), f"has several pipelines ({there})", "name one")])
    return pipelines[name or next(iter(pipelines))]


def _by_chain(
    config: PipelineConfig,
    configs: Mapping[str, PipelineConfig],
    parts: Sequence[Part],
    files: Sequence[str],
) -> list[Part]:
    by_stage = {part.name: part for part in parts}
    known = list(dict.fromkeys(stage for each in configs.values() for stage in each.chain))
    findings = [
        *_unknown(parts, known, files),
        *_twice(parts, known),
        *_unserved(config, by_stage, files),
    ]
    if findings:
        raise ChainError(findings)
    _configure(config, by_stage)
    return [by_stage[stage] for stage in config.chain]


def _configure(config: PipelineConfig, by_stage: Mapping[str, Part]) -> None:
    for stage, settings in config.stages.items():
        by_stage[stage].config = settings


def _unknown(
    parts: Sequence[Part], known: Sequence[str], files: Sequence[str]
) -> Iterable[Finding]:
    """Plug-ins for stages that no pipeline has."""
    for part in parts:
        if part.name not in known:
            hint = did_you_mean(part.name, known) or f"; there are {', '.join(known)}"
            yield Finding(
                part.place,
                f"{_named(part)} serves the stage {part.name!r}, which no pipeline of "
                f"{', '.join(files)} has{hint}",
                f'set `stage = "…"` in the class, or name {part.name!r} in the chain',
            )


def _unserved(
    config: PipelineConfig, by_stage: Mapping[str, Part], files: Sequence[str]
) -> Iterable[Finding]:
    """Stages that nobody serves."""
    for stage in config.chain:
        if stage not in by_stage:
            hint = did_you_mean(stage, by_stage)
            yield Finding(
                _place_in_any(files, stage),
                f"the chain has a stage {stage!r}, which none of the plug-ins serves{hint}",
                "give the script of that stage, too, or correct the chain",
            )


def _twice(parts: Sequence[Part], stages: Iterable[str]) -> Iterable[Finding]:
    """Stages that several plug-ins serve."""
    for stage in dict.fromkeys(stages):
        same = [part for part in parts if part.name == stage]
        if len(same) > 1:
            others = " and ".join(f"{_named(part)} ({part.place})" for part in same[1:])
            yield Finding(
                same[0].place,
                f"{_named(same[0])} and {others} both serve the stage {stage!r}",
                'leave one out, or set another `stage = "…"` in its class',
            )


def _place_in_any(files: Sequence[str], words: str) -> str:
    places = [place_in(path, Path(path).read_text(), words) for path in files]
    return next((each for each in places if ":" in each), files[0])


def _named(part: Part) -> str:
    return type(part.plugin).__name__

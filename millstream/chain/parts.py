"""Scripts, classes and pipeline files to the parts of a chain; or all that is wrong with them."""

import linecache
import os
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from msgspec import Struct

from broker.config import ConfigError, did_you_mean, load_pipelines
from broker.core.config import PipelineConfig, StageConfig
from millstream.chain.mistakes import ChainError, Mistake, folder_of, place_in, place_of
from workers import checks, loader, making
from workers.api import Worker
from workers.checks import Shape
from workers.loader import LoadError

Given: TypeAlias = type[Worker] | str | os.PathLike[str]
"""A class, `SCRIPT.py[:Class]`, or a pipeline file."""


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
    """The pipeline that these make; `name` chooses one of several in a file.

    Without a pipeline file they are its stages in this order. Raises ChainError with all mistakes.
    """
    files = [os.fspath(each) for each in given if is_pipeline_file(each)]
    mistakes: list[Mistake] = []
    warnings: list[str] = []
    pipelines = _read(files, mistakes)
    parts = []
    for each in given:
        if not is_pipeline_file(each):
            try:
                parts.append(_part(each, settings, warnings))
            except ChainError as error:
                mistakes += error.mistakes
    if mistakes:
        raise ChainError(mistakes)
    if not files:
        return Parts(name or "pipeline", *_in_order(parts), warnings)
    name = _choose(pipelines, name, files)
    config = pipelines[name]
    return Parts(name, config, _by_chain(name, pipelines, parts, files), warnings)


def is_pipeline_file(given: Given) -> TypeGuard[str | os.PathLike[str]]:
    """Whether it is one by its name."""
    return not isinstance(given, type) and os.fspath(given).endswith(".toml")


def _read(files: Sequence[str], mistakes: list[Mistake]) -> dict[str, PipelineConfig]:
    try:
        return load_pipelines(files)
    except ConfigError as error:
        mistakes.append(Mistake("", str(error)))
        return {}


# ------------------------------------------------------------------ plug-ins


def _part(given: Given, settings: Settings, warnings: list[str]) -> Part:
    if isinstance(given, type):
        cls, folder = given, folder_of(given)
        warnings += _checked(cls)
    else:
        script, class_name = _split(os.fspath(given))
        cls, found = _loaded(script, class_name)
        warnings += found
        folder = Path(script).resolve().parent
    try:
        plugin, shape = making.make(cls)
    except LoadError as error:
        raise ChainError([Mistake(place_of(cls), str(error), trace=error.trace)]) from None
    making.settle(
        plugin,
        folder=folder,
        device=settings.device,
        version=settings.version,
        index=0,
        model_dir=settings.model_dir,
    )
    return Part(shape.stage, plugin, shape, place_of(cls))


def _checked(cls: type[Any]) -> list[str]:
    if not issubclass(cls, Worker):
        raise ChainError([Mistake("", f"{cls.__name__} is no subclass of millstream.Worker")])
    try:
        return checks.check_class(cls)
    except checks.ContractError as error:
        raise ChainError([Mistake(place_of(cls), str(error))]) from None


def _split(text: str) -> tuple[str, str]:
    """SCRIPT.py[:Class] taken apart, as the command `millstream worker` does."""
    path, colon, class_name = text.rpartition(":")
    return (text, "") if not colon or text.endswith(".py") else (path, class_name)


def _loaded(script: str, class_name: str) -> tuple[type[Worker], list[str]]:
    try:
        return loader.load(script, class_name)
    except LoadError as error:
        raise ChainError([_explained(script, error)]) from None


def _explained(script: str, error: LoadError) -> Mistake:
    """What keeps a script from being loaded, and the line of it where that is."""
    message = str(error).removeprefix(f"{Path(script).name}: ").removeprefix(f"{script}: ")
    cause = error.__context__
    line = _line_in(script, cause)
    where = f"{script}:{line}" if line else script
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        what = f"there is no module {cause.name!r}"
        package = cause.name.partition(".")[0]
        return Mistake(where, what, f"install it (pip install {package}), or check its name")
    return Mistake(where, message, trace="" if isinstance(cause, SyntaxError) else error.trace)


def _line_in(script: str, cause: BaseException | None) -> int:
    """The last line of the script on the way to an error; 0 where there is none."""
    if isinstance(cause, SyntaxError):
        return cause.lineno or 0
    linecache.checkcache()
    path = str(Path(script).resolve())
    frames = traceback.extract_tb(cause.__traceback__ if cause is not None else None)
    return next((each.lineno or 0 for each in reversed(frames) if each.filename == path), 0)


# ------------------------------------------------------------------ chains


def _in_order(parts: Sequence[Part]) -> tuple[PipelineConfig, list[Part]]:
    """The stages as they were given."""
    if not parts:
        raise ChainError([Mistake("", "there is no stage", "give plug-ins, first to last")])
    mistakes = list(_twice(parts, [part.name for part in parts]))
    if mistakes:
        raise ChainError(mistakes)
    return PipelineConfig(chain=tuple(part.name for part in parts)), list(parts)


def _choose(pipelines: dict[str, PipelineConfig], name: str, files: Sequence[str]) -> str:
    if name and name not in pipelines:
        hint = did_you_mean(name, pipelines) or f"; there are {', '.join(pipelines)}"
        raise ChainError([Mistake(files[0], f"there is no pipeline {name!r}{hint}")])
    if not name and len(pipelines) > 1:
        there = ", ".join(pipelines)
        raise ChainError([Mistake(files[0], f"has several pipelines ({there})", "name one")])
    return name or next(iter(pipelines))


def _by_chain(
    name: str, pipelines: dict[str, PipelineConfig], parts: Sequence[Part], files: Sequence[str]
) -> list[Part]:
    config = pipelines[name]
    by_stage = {part.name: part for part in parts}
    known = {stage for each in pipelines.values() for stage in each.chain}
    mistakes = [
        *_unknown(parts, known, files),
        *_twice(parts, known),
        *_unserved(config, by_stage, files),
    ]
    if mistakes:
        raise ChainError(mistakes)
    for stage, settings in config.stages.items():
        by_stage[stage].config = settings
    return [by_stage[stage] for stage in config.chain]


def _unknown(parts: Sequence[Part], known: set[str], files: Sequence[str]) -> Iterable[Mistake]:
    """Plug-ins for stages that no pipeline has."""
    for part in parts:
        if part.name not in known:
            hint = did_you_mean(part.name, known) or f"; there are {', '.join(sorted(known))}"
            yield Mistake(
                part.place,
                f"{_named(part)} serves the stage {part.name!r}, which no pipeline of "
                f"{', '.join(files)} has{hint}",
                f'set `stage = "…"` in the class, or name {part.name!r} in the chain',
            )


def _unserved(
    config: PipelineConfig, by_stage: dict[str, Part], files: Sequence[str]
) -> Iterable[Mistake]:
    """Stages that nobody serves."""
    for stage in config.chain:
        if stage not in by_stage:
            hint = did_you_mean(stage, by_stage)
            yield Mistake(
                _place_in_any(files, stage),
                f"the chain has a stage {stage!r}, which none of the plug-ins serves{hint}",
                "give the script of that stage, too, or correct the chain",
            )


def _twice(parts: Sequence[Part], stages: Iterable[str]) -> Iterable[Mistake]:
    """Stages that several plug-ins serve."""
    for stage in dict.fromkeys(stages):
        same = [part for part in parts if part.name == stage]
        if len(same) > 1:
            others = " and ".join(f"{_named(part)} ({part.place})" for part in same[1:])
            yield Mistake(
                same[0].place,
                f"{_named(same[0])} and {others} both serve the stage {stage!r}",
                'leave one out, or set another `stage = "…"` in its class',
            )


def _place_in_any(files: Sequence[str], words: str) -> str:
    places = [place_in(path, Path(path).read_text(), words) for path in files]
    return next((each for each in places if ":" in each), files[0])


def _named(part: Part) -> str:
    return type(part.plugin).__name__

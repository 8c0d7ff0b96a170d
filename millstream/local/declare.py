"""What a script says of its pipelines: `Pipeline`, and the forms that `serve` takes besides."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, Unpack

from millstream.local.mistakes import Mistake, Place, caller
from workers.api import Worker
from workers.functions import StageFunction, worker_class
from workers.placement import Placement

Stage: TypeAlias = type[Worker] | StageFunction[..., Any] | Placement
"""A class, a function with @stage above it, or either with `.replicas(…)` behind it."""


class StageSettings(TypedDict, total=False):
    """As under [pipelines.NAME.stages.STAGE] of a pipeline file."""

    max_batch_size: int
    max_wait_ms: float
    max_queue_items: int
    forward_timeout_s: float
    setup_timeout_s: float


class Settings(TypedDict, total=False):
    """As under [pipelines.NAME] of a pipeline file."""

    timeout_s: float
    max_items: int
    max_bytes: int
    attempts: int
    absent_s: float
    stream_idle_s: float
    headers: Sequence[str]
    guard: Mapping[str, Any]
    shadow: Mapping[str, Any]
    stages: Mapping[str, StageSettings]


class Pipeline:
    """A named chain of stages, for `serve`; the keywords are the settings of a pipeline file."""

    def __init__(self, name: str, chain: Sequence[Stage], **settings: Unpack[Settings]) -> None:
        self.name = name
        self.chain = chain
        self.settings: Mapping[str, Any] = settings
        self.place = caller()
        """Where the script says so."""


Served: TypeAlias = Pipeline | Sequence[Stage | Pipeline] | Mapping[str, Sequence[Stage]]
"""What `serve` takes: a chain, chains by name, or pipelines with settings."""


def pipelines_of(served: Sequence[Served], place: Place) -> list[Pipeline]:
    """All pipelines that are meant, a single chain by the name of its script. Raises Mistake."""
    if not served:
        raise Mistake(f"{place}: nothing is to be served: give serve a list of stages")
    found: list[Pipeline] = []
    everything: Iterable[object] = served
    for each in everything:
        if isinstance(each, Pipeline):
            found.append(each)
        elif isinstance(each, Mapping):
            found += [_pipeline(name, chain, place) for name, chain in each.items()]
        elif is_stage(each):
            raise Mistake(f"{place}: put the stages into a list: serve([…])")
        elif isinstance(each, Iterable) and not isinstance(each, str | bytes):
            found += _of_list(list(each), place)
        else:
            raise Mistake(f"{place}: {each!r:.80} is neither a list of stages nor a Pipeline")
    if not found:
        raise Mistake(f"{place}: no pipeline is given")
    return found


def is_stage(thing: object) -> bool:
    """Whether it may stand in a chain."""
    return isinstance(thing, Placement) or worker_class(thing) is not None


def script_name(file: str) -> str:
    """What a pipeline is called that bears no name: as its script."""
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", os.path.splitext(os.path.basename(file))[0])
    return stem.strip(".-")[:64] or "app"


def _of_list(items: list[Any], place: Place) -> list[Pipeline]:
    pipelines = [item for item in items if isinstance(item, Pipeline)]
    if pipelines and len(pipelines) == len(items):
        return pipelines
    if pipelines:
        raise Mistake(f"{place}: a list is of stages or of pipelines, not of both")
    return [_pipeline(script_name(place.file), items, place)]


def _pipeline(name: str, chain: Sequence[Stage], place: Place) -> Pipeline:
    pipeline = Pipeline(name, chain)
    pipeline.place = place
    return pipeline

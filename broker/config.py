"""Reads pipeline files (TOML) into `PipelineConfig`s, or says in one line what is wrong and where.

Knows files and texts, and nothing of sockets or of what the settings do.
"""

import difflib
import json
import math
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from broker.core.config import (
    GuardConfig,
    MosecConfig,
    PipelineConfig,
    ShadowConfig,
    StageConfig,
)

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Names of pipelines and stages: they stand in URLs, metrics and logs. "." and ".." are none."""
NAME_IS = "1 to 64 of the characters A-Z a-z 0-9 _ . -"

WEEK_S = 7 * 24 * 3600
"""No duration is longer: in milliseconds it still fits the 32 bits of a poll timeout."""

COMPARISONS = ("exact", "close", "top1", "plugin")
"""How answers of a shadow are compared with those of the stable version."""

_ROUTE = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+")
_OUR_PATHS = frozenset(
    {"pipelines", "admin", "livez", "readyz", "metrics", "openapi.json", "docs", "ui"}
)
"""What the paths of a gateway's own begin with, but for those of other protocols."""

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

_S = TypeVar("_S", PipelineConfig, ShadowConfig, StageConfig, GuardConfig, MosecConfig)


class ConfigError(Exception):
    """A pipeline file cannot be used; the message is one line for its author."""


def load_pipelines(paths: Iterable[str | os.PathLike[str]]) -> dict[str, PipelineConfig]:
    """The pipelines of all these files together, by name, in their order.

    Raises ConfigError: for a file that cannot be read or holds no pipeline, for what is no TOML,
    for unknown keys, wrong types and values out of range, and for a pipeline that is there twice.
    """
    pipelines: dict[str, PipelineConfig] = {}
    origin: dict[str, str] = {}
    routes: dict[str, str] = {}
    for path in [os.fspath(path) for path in paths]:
        for name, table in _pipeline_tables(path).items():
            where = f"{path}: [pipelines.{name}]"
            if name in pipelines:
                raise ConfigError(f"{where}: this pipeline is already defined in {origin[name]}")
            pipelines[name] = _pipeline(where, name, table)
            for route in pipelines[name].routes:
                if (other := routes.setdefault(route, name)) != name:
                    raise ConfigError(f"{where} routes: {route} is a route of {other} already")
            origin[name] = path
    return pipelines


def pipeline_of(source: str, name: str, table: object) -> PipelineConfig:
    """One pipeline that stands in no file; messages name `source` in its place. Raises ConfigError,
    as `load_pipelines` does.
    """
    return _pipeline(f"{source}: [pipelines.{name}]", name, table)


def is_name(text: str) -> bool:
    """Whether a pipeline or a stage may bear this name."""
    return NAME.fullmatch(text) is not None and text not in {".", ".."}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean X?" where one of the known words is near enough, else ""."""
    nearest = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {nearest[0]}?" if nearest else ""


def nearest_file(path: str, suffix: str) -> str:
    """The same for a file that is missing: which one beside it, with this suffix, may be meant."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ""
    stems = [other.removesuffix(suffix) for other in names if other.endswith(suffix)]
    nearest = difflib.get_close_matches(name.removesuffix(suffix), stems, n=1, cutoff=0.6)
    return f"; did you mean {os.path.join(folder, nearest[0] + suffix)}?" if nearest else ""


# ------------------------------------------------------------------ files


def _pipeline_tables(path: str) -> dict[str, object]:
    """The table `pipelines` of a file, by name, unchecked below that."""
    document = _document(path)
    for key in document:
        if key != "pipelines":
            hint = did_you_mean(key, ["pipelines"])
            raise ConfigError(f"{path}: {_key(key)}: no such key{hint}")
    tables = document.get("pipelines")
    if not isinstance(tables, dict) or not tables:
        raise ConfigError(f"{path}: has no pipeline; one begins with [pipelines.NAME]")
    return tables


def _document(path: str) -> dict[str, object]:
    try:
        text = Path(path).read_bytes().decode()
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file{nearest_file(path, '.toml')}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, not a pipeline file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:  # a NUL in the path, or bytes that are no UTF-8
        raise ConfigError(f"{path}: is not UTF-8 text, so it is no TOML") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {_one_line(str(error))}") from None
    except RecursionError:
        raise ConfigError(f"{path}: is not valid TOML: nested too deeply") from None


# ------------------------------------------------------------------ tables


class _Rule(NamedTuple):
    """What a value must be, as a test and in words ("must be …")."""

    holds: Callable[[object], bool]
    wanted: str


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(least: int, most: int, unit: str) -> _Rule:
    def holds(value: object) -> bool:
        return type(value) is int and least <= value <= most

    return _Rule(holds, f"a whole number{unit}, {least} or more")


def _duration(limit: int, unit: str, *, zero: bool) -> _Rule:
    def holds(value: object) -> bool:
        if not _is_number(value):
            return False
        assert isinstance(value, int | float)
        return 0 <= value <= limit and (zero or value > 0)

    least = "0 or more" if zero else "more than 0"
    return _Rule(holds, f"a number of {unit}, {least} and at most {limit}")


def _between(least: float, most: float, wanted: str) -> _Rule:
    def holds(value: object) -> bool:
        if not _is_number(value):
            return False
        assert isinstance(value, int | float)
        return least <= value <= most

    return _Rule(holds, f"{wanted}, {least:g} to {most:g}")


def _is_chain(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(part, str) for part in value)


def _is_headers(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, str) and _TOKEN.fullmatch(part) for part in value
    )


def _is_routes(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(route, str) and _ROUTE.fullmatch(route) and route.split("/")[1] not in _OUR_PATHS
        for route in value
    )


_INT64 = 2**63 - 1
_ITEMS = _whole(1, _INT64, "")
_SECONDS = _duration(WEEK_S, "seconds", zero=False)

_PIPELINE_RULES: dict[str, _Rule] = {
    "chain": _Rule(_is_chain, 'a list of stage names, such as ["preprocess", "infer"]'),
    "timeout_s": _SECONDS,
    "max_items": _ITEMS,
    "max_bytes": _whole(1, _INT64, " of bytes"),
    "attempts": _ITEMS,
    "absent_s": _duration(WEEK_S, "seconds", zero=True),
    "stream_idle_s": _SECONDS,
    "headers": _Rule(_is_headers, 'a list of header names, such as ["x-user"]'),
    "routes": _Rule(
        _is_routes,
        'a list of paths that are not a gateway\'s own, such as ["/v1/embeddings"]',
    ),
    "guard": _Rule(lambda value: isinstance(value, dict), "a table [pipelines.NAME.guard]"),
    "mosec": _Rule(lambda value: isinstance(value, dict), "a table [pipelines.NAME.mosec]"),
    "shadow": _Rule(lambda value: isinstance(value, dict), "a table [pipelines.NAME.shadow]"),
    "stages": _Rule(lambda value: isinstance(value, dict), "tables [pipelines.NAME.stages.STAGE]"),
}

_STAGE_RULES: dict[str, _Rule] = {
    "max_batch_size": _ITEMS,
    "max_wait_ms": _duration(WEEK_S * 1000, "milliseconds", zero=True),
    "max_queue_items": _ITEMS,
    "forward_timeout_s": _SECONDS,
    "setup_timeout_s": _SECONDS,
}

_GUARD_RULES: dict[str, _Rule] = {
    "min_requests": _ITEMS,
    "error_margin": _between(0, 1, "a share"),
    "latency_ratio": _between(1, 1000, "a factor"),
    "latency_margin_ms": _duration(WEEK_S * 1000, "milliseconds", zero=True),
    "false_alarms": _between(1e-9, 0.5, "a chance"),
    "agreement": _between(0, 1, "a share"),
    "watch_s": _duration(WEEK_S, "seconds", zero=True),
}

_TOLERANCE = _Rule(
    lambda value: _is_number(value) and isinstance(value, int | float) and value >= 0,
    "a number, 0 or more",
)

_SHADOW_RULES: dict[str, _Rule] = {
    "compare": _Rule(
        lambda value: value in COMPARISONS, f"one of {', '.join(map(json.dumps, COMPARISONS))}"
    ),
    "rtol": _TOLERANCE,
    "atol": _TOLERANCE,
    "key": _Rule(lambda value: isinstance(value, str), "the name of a key of its answers"),
}


_MOSEC_RULES: dict[str, _Rule] = {
    "namespace": _Rule(
        lambda value: (
            isinstance(value, str) and bool(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", value))
        ),
        "the beginning of a metric's name",
    ),
    "streams": _Rule(lambda value: isinstance(value, bool), "true or false"),
    "openapi": _Rule(lambda value: isinstance(value, str), "JSON in a string"),
}


def _pipeline(where: str, name: str, table: object) -> PipelineConfig:
    """One [pipelines.NAME], its stages included."""
    _check_name(where, "a pipeline's name", name)
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: must be a table, not {_shown(table)}")
    _check(where, table, _PIPELINE_RULES, elsewhere=(_STAGE_RULES, "[pipelines.NAME.stages.STAGE]"))
    if "chain" not in table:
        raise ConfigError(f"{where}: chain is missing; it names the stages, first to last")
    chain = table["chain"]
    for stage in chain:
        _check_name(f"{where} chain", "a stage's name", stage)
        if chain.count(stage) > 1:
            raise ConfigError(f"{where} chain: the stage {stage} is in it twice")
    headers = tuple(dict.fromkeys(header.lower() for header in table.get("headers", ())))
    stages = {
        stage: _stage(f"{where[:-1]}.stages.{stage}]", stage, settings, chain)
        for stage, settings in table.get("stages", {}).items()
    }
    values = table | {"headers": headers, "stages": stages}
    if "guard" in table:
        values["guard"] = _part(where, "guard", table["guard"], _GUARD_RULES, GuardConfig)
    if "shadow" in table:
        values["shadow"] = _part(where, "shadow", table["shadow"], _SHADOW_RULES, ShadowConfig)
    if "mosec" in table:
        values["mosec"] = _part(where, "mosec", table["mosec"], _MOSEC_RULES, MosecConfig)
    return _convert(where, values, PipelineConfig)


def _part(
    where: str, key: str, table: Mapping[str, object], rules: Mapping[str, _Rule], to: type[_S]
) -> _S:
    """One [pipelines.NAME.KEY]."""
    at = f"{where[:-1]}.{key}]"
    _check(at, table, rules, elsewhere=(_PIPELINE_RULES, "[pipelines.NAME]"))
    return _convert(at, table, to)


def _stage(where: str, name: str, table: object, chain: Sequence[str]) -> StageConfig:
    """One [pipelines.NAME.stages.STAGE]."""
    if name not in chain:
        hint = did_you_mean(name, chain)
        raise ConfigError(f"{where}: the chain has no such stage{hint}")
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: must be a table, not {_shown(table)}")
    _check(where, table, _STAGE_RULES, elsewhere=(_PIPELINE_RULES, "[pipelines.NAME]"))
    return _convert(where, table, StageConfig)


def _check(
    where: str,
    table: Mapping[str, object],
    rules: Mapping[str, _Rule],
    *,
    elsewhere: tuple[Mapping[str, _Rule], str],
) -> None:
    """Each key has a rule and each value keeps it. `elsewhere`: another table's keys, its name."""
    others, other_table = elsewhere
    for key, value in table.items():
        rule = rules.get(key)
        if rule is None:
            hint = f"; it belongs in {other_table}" if key in others else did_you_mean(key, rules)
            raise ConfigError(f"{where} {_key(key)}: no such key{hint}")
        if not rule.holds(value):
            raise ConfigError(f"{where} {key}: must be {rule.wanted}, not {_shown(value)}")


def _check_name(where: str, what: str, name: str) -> None:
    if not is_name(name):
        raise ConfigError(f"{where}: {what} is {NAME_IS}, not {_shown(name)}")


def _convert(where: str, values: Mapping[str, object], to: type[_S]) -> _S:
    try:
        return msgspec.convert(values, to)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_one_line(str(error))}") from None


# ------------------------------------------------------------------ texts


def _key(key: str) -> str:
    """A key as it stands in the file; quoted only where it must be."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _shown(value: object) -> str:
    """A value in a message, as TOML writes it, cut to a length that can be read."""
    if isinstance(value, dict):
        return "a table"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _one_line(text: str) -> str:
    return " ".join(text.split())

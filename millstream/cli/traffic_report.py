"""The broker's answers about versions as tables: rows, columns, and how each cell reads."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from millstream.cli.tables import Table, duration, shortened


class Version(Struct):
    """One version of a pipeline. Answers may grow: whatever is missing has a default."""

    version: str
    state: str = ""
    detail: str = ""
    workers: int = 0
    ready_workers: int = 0
    share: float = 0.0


class Promotion(Struct):
    version: str
    steps: list[float] = []
    step: int = 0
    every_s: float = 0.0
    elapsed_s: float = 0.0


class Pending(Struct):
    waits_for: list[str] = []
    what: str = ""


class Change(Struct):
    at: float = 0.0
    by: str = ""
    what: str = ""
    why: str = ""
    traffic: dict[str, Any] = {}


class Traffic(Struct):
    """Who gets what of one pipeline."""

    pipeline: str = ""
    follows: bool = False
    weights: dict[str, float] = {}
    stable: str = ""
    canary: str = ""
    shadow: str = ""
    sticky: str = ""
    labels: dict[str, str] = {}
    rejected: dict[str, str] = {}
    promotion: Promotion | None = None
    pending: Pending | None = None
    versions: list[Version] = []
    changed: Change | None = None


class _History(Struct):
    changes: list[Change] = []


# ------------------------------------------------------------------ traffic


def traffic(body: bytes) -> list[Table]:
    """The traffic document. Raises msgspec.MsgspecError where it is none."""
    about = msgspec.json.decode(body, type=Traffic)
    follows = "the newest version takes over" if about.follows else "shares stay as they are"
    lines = [f"traffic of {about.pipeline}: {follows}", *(f"  {line}" for line in _lines(about))]
    if not about.versions:
        return [Table([*lines, "  no versions are known"])]
    head = ("version", "share", "role", "state", "ready", "detail")
    return [Table(lines, head, [_row(each, about) for each in about.versions])]


def _lines(about: Traffic) -> Iterator[str]:
    if about.pending is not None:
        yield waiting(about)
    if about.promotion is not None:
        yield _promotion(about.promotion)
    if about.sticky:
        yield f"sticky: {about.sticky}"
    if about.labels:
        yield "labels: " + ", ".join(f"{name}={each}" for name, each in about.labels.items())
    for version, why in about.rejected.items():
        yield f"rejected: {version}" + (f" ({why})" if why else "")
    if about.changed is not None:
        changed = about.changed
        why = f" ({changed.why})" if changed.why else ""
        yield f"last change: {_moment(changed.at)} by {changed.by}: {changed.what}{why}"


def _promotion(promotion: Promotion) -> str:
    steps = promotion.steps
    share = steps[promotion.step] if promotion.step < len(steps) else 0.0
    left_s = max(promotion.every_s - promotion.elapsed_s, 0.0)
    return (
        f"promotion of {promotion.version}: step {promotion.step + 1} of {len(steps)} "
        f"({share:g} %), {duration(left_s)} left of {duration(promotion.every_s)}"
    )


def _row(version: Version, about: Traffic) -> tuple[str, ...]:
    name = version.version
    roles = {"stable": about.stable, "canary": about.canary, "shadow": about.shadow}
    return (
        name,
        f"{version.share:.4g} %",
        ", ".join(role for role, each in roles.items() if each == name) or "-",
        version.state or "-",
        f"{version.ready_workers}/{version.workers}",
        shortened(version.detail) or ("on disk, not loaded" if version.state == "found" else "-"),
    )


def waiting(about: Traffic) -> str:
    """What a change that is not made yet waits for."""
    names = about.pending.waits_for if about.pending is not None else []
    known = {each.version: each for each in about.versions}
    said = []
    for name in names:
        each = known.get(name)
        if each is None or not each.state:
            said.append(name)
        elif each.workers:
            ready = f"{each.ready_workers} of {each.workers} workers ready"
            said.append(f"{name} ({each.state}, {ready})")
        else:
            said.append(f"{name} ({each.state})")
    return f"waiting for version {', '.join(said) or '?'} of {about.pipeline}"


# ------------------------------------------------------------------ history, comparison


def history(body: bytes) -> list[Table]:
    """The changes, newest first. Raises msgspec.MsgspecError."""
    changes = msgspec.json.decode(body, type=_History).changes
    if not changes:
        return [Table(["no changes are known"])]
    rows = [
        (
            _moment(each.at),
            each.by or "-",
            each.what or "-",
            _split(each.traffic.get("weights")),
            " ".join(each.why.split()) or "-",
        )
        for each in changes
    ]
    return [Table(["changes, the latest first"], ("when", "by", "what", "shares", "why"), rows)]


def _split(weights: object) -> str:
    if not isinstance(weights, dict):
        return "-"
    shares = {v: float(w) for v, w in weights.items() if isinstance(w, int | float)}
    total = sum(shares.values()) or 1.0
    return " ".join(f"{v}={100.0 * share / total:.4g}%" for v, share in shares.items()) or "-"


def compared(body: bytes) -> list[Table]:
    """Whatever figures there are of two versions. Raises msgspec.MsgspecError."""
    about = msgspec.json.decode(body, type=dict[str, Any])
    a, b = dict(_flat(about.pop("a", {}))), dict(_flat(about.pop("b", {})))
    names = [str(each.pop("version", title)) for each, title in ((a, "a"), (b, "b"))]
    head = ("figure", *names)
    rows = [(key, a.get(key, "-"), b.get(key, "-")) for key in dict.fromkeys([*a, *b])]
    pipeline = about.pop("pipeline", "")
    lines = [f"pipeline {pipeline}: {names[0]} and {names[1]}"]
    lines += [f"  {key}: {value}" for key, value in _flat(about)]
    return [Table(lines, head, rows)]


def _flat(value: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested figures as one list, their names joined."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flat(each, f"{prefix} {key}".strip())
    elif isinstance(value, list):
        yield prefix, ", ".join(map(_figure, value)) or "-"
    elif value is not None:
        yield prefix or "value", _figure(value)


def _figure(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return " ".join(f"{key} {text}" for key, text in _flat(value))
    return " ".join(str(value).split())


def _moment(at: float) -> str:
    """In the time of whoever reads it."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (ValueError, OverflowError, OSError):
        return f"{at:g}"

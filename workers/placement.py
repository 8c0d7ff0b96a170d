"""How the workers of one stage are to run, as a script says it: `Infer.replicas(2, device=…)`."""

import difflib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

if TYPE_CHECKING:
    from workers.api import Worker


class Uses(TypedDict, total=False):
    """The options of `millstream worker`, by their names there."""

    stage: str
    device: str
    version: str
    model_dir: "str | os.PathLike[str]"
    models: "str | os.PathLike[str]"
    versions: str
    keep_warm: float
    arena: str
    max_batches: int
    max_age: float
    max_rss: str
    metrics_port: int


class Placement(NamedTuple):
    """A stage's class, and the options of its `millstream worker`."""

    worker: "type[Worker]"
    options: Mapping[str, str]
    """By name without the dashes before it, as on a command line."""


def place(worker: "type[Worker]", processes: int | None, uses: Mapping[str, Any]) -> Placement:
    """Raises TypeError for an option that there is not, or a value that is none of its kind."""
    given = {"processes": processes, **uses}
    options: dict[str, str] = {}
    for key, value in given.items():
        kind = _KINDS.get(key)
        if kind is None:
            nearest = difflib.get_close_matches(key, _KINDS, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise TypeError(f"{worker.__name__}.replicas: there is no option {key!r}{hint}")
        if value is None:
            continue
        if not isinstance(value, kind) or isinstance(value, bool) or value == "":
            raise TypeError(f"{worker.__name__}.replicas: {key} = {value!r:.80} will not do")
        text = os.path.abspath(value) if key in ("model_dir", "models") else str(value)
        options[key.replace("_", "-")] = text
    if processes is not None and processes < 1:
        raise TypeError(f"{worker.__name__}.replicas: there is at least 1, not {processes}")
    return Placement(worker, options)


_KINDS: dict[str, Any] = {
    "processes": int,
    "stage": str,
    "device": str,
    "version": str,
    "model_dir": str | os.PathLike,
    "models": str | os.PathLike,
    "versions": str,
    "keep_warm": int | float,
    "arena": str | int,
    "max_batches": int,
    "max_age": int | float,
    "max_rss": str | int,
    "metrics_port": int,
}

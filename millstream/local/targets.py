"""Where a worker process finds a class: a file, and a name in it.

That is the file that defines the class, so that its workers import no more than it needs; for the
classes of `app.py` it is `app.py`.
"""

import os
import sys
from types import ModuleType
from typing import NamedTuple

from millstream.local.mistakes import Mistake, Place, place_of
from workers.api import Worker
from workers.functions import worker_class


class Target(NamedTuple):
    """FILE:ATTRIBUTE, as `millstream worker` is told."""

    file: str
    """As an absolute path."""
    attribute: str


def target_of(cls: type[Worker], place: Place) -> Target:
    """Where to load a class from; `place` is where it is served. Raises Mistake."""
    home = sys.modules.get(cls.__module__)
    main = sys.modules.get("__main__")
    # A module of a package may import its neighbours in ways that it cannot when it is a script.
    is_packaged = home is not None and bool(getattr(home, "__package__", ""))
    for module in (main, home) if is_packaged else (home, main):
        if module is not None and (target := _in(module, cls)) is not None:
            return target
    if home is main and not getattr(main, "__file__", None):
        raise Mistake(
            f"{place}: {cls.__name__} was typed in, and workers load their classes from files: "
            "put it into one"
        )
    raise Mistake(
        f"{place_of(cls)}: {cls.__qualname__} is no top-level name of its file, where a worker "
        "could find it: move it there"
    )


def _in(module: ModuleType, cls: type[Worker]) -> Target | None:
    file = getattr(module, "__file__", None)
    if not file or not file.endswith(".py"):
        return None
    names = [name for name, value in vars(module).items() if worker_class(value) is cls]
    if not names:
        return None
    name = cls.__name__ if cls.__name__ in names else names[0]
    return Target(os.path.abspath(file), name)

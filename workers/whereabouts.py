"""Where a plug-in, or what it raised, stands: a file and a line, for messages."""

import inspect
import os
from types import TracebackType
from typing import Any

from workers.api import Worker


def where(cls: type[Worker], hook: str = "") -> str:
    """FILE:LINE of one of its hooks, or of the class (or function) itself; "" if nobody knows."""
    thing: Any = inspect.getattr_static(cls, hook or "forward", None)
    thing = thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing
    is_function = isinstance(vars(cls).get("forward"), staticmethod)  # a @stage
    code = getattr(thing, "__code__", None)
    if code is not None and (is_function or (hook and thing is not getattr(Worker, hook, None))):
        return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    try:
        file, line = inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return ""
    return f"{os.path.basename(file)}:{line}"


def line_of(error: BaseException, folder: str) -> str:
    """FILE:LINE of the last line in this folder that an error came through; "" for none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{os.path.basename(error.filename)}:{error.lineno}"
    found = ""
    frames: TracebackType | None = error.__traceback__
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if os.path.dirname(os.path.abspath(file)) == folder:
            found = f"{os.path.basename(file)}:{frames.tb_lineno}"
        frames = frames.tb_next
    return found

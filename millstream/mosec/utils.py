"""What a `forward` is annotated to take and to give."""

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any


class ParseTarget(Enum):
    """Which of the two."""

    INPUT = "INPUT"
    RETURN = "RETURN"


def parse_func_type(func: Callable[..., Any], target: ParseTarget) -> Any:
    """The type of one item: where a list is annotated, that of its elements.

    `Any` where nothing is annotated. Raises TypeError for other generic types.
    """
    annotations = inspect.get_annotations(func, eval_str=True)
    if target is ParseTarget.RETURN:
        found = annotations.get("return", Any)
    else:
        given = [kind for name, kind in annotations.items() if name != "return"]
        found = given[0] if given else Any
    origin = getattr(found, "__origin__", None)
    if origin is None:
        return found
    if origin is list:
        parameters: list[Any] = list(getattr(found, "__args__", ()))
        if len(parameters) != 1:
            raise TypeError(f"{func.__name__}: a batch is annotated as List[…] of one type")
        return parameters[0]
    raise TypeError(f"{func.__name__}: {found} is no type of an item; use a list of items")

"""Splits what `forward` returned into one result per item, or says why that cannot be done.

Never guesses: a str, a dict or a named tuple of the right length is no list of results.
"""

import inspect
import sys
from collections.abc import Sequence
from typing import Any


class WrongResult(Exception):
    """What `forward` returned is not one result per item; the message says what it is."""


def complaint(name: str, where: str, wrong: WrongResult, count: int) -> str:
    """The same in a sentence: whose `forward`, where it stands, and what it must return."""
    return (
        f"{name}.forward returned {wrong} for a batch of {count}: it must be a list, tuple or "
        f"array with one result per item, in the same order; see {where}"
    )


def split(returned: Any, count: int) -> Sequence[Any]:
    """`count` results, in order. Rows of an array are views of it; a tensor is first moved to the
    CPU, once. Raises WrongResult.
    """
    kind = type(returned)
    if kind is list or kind is tuple or isinstance(returned, list):
        results: Sequence[Any] = returned
    elif _is_a(returned, "numpy", "ndarray"):
        results = _rows(returned)
    elif _is_a(returned, "torch", "Tensor"):
        results = _rows(returned.detach().cpu())
    else:
        raise WrongResult(_describe(returned))
    if len(results) != count:
        raise WrongResult(f"{len(results)} results")
    return results


def _rows(array: Any) -> Sequence[Any]:
    if array.ndim == 0:
        raise WrongResult(f"a {type(array).__name__} without axes")
    return list(array)


def _is_a(value: object, module: str, name: str) -> bool:
    found = sys.modules.get(module)  # where nobody has imported it there are none of its objects
    return found is not None and isinstance(value, getattr(found, name))


def _describe(value: object) -> str:
    if inspect.iscoroutine(value):
        value.close()  # else Python complains later, and elsewhere, that nobody awaited it
    name = type(value).__name__
    if isinstance(value, dict | str | bytes | set | tuple):
        return f"a {name} of length {len(value)}, which is no list of results"
    return f"{name}, which is no list, tuple or array of results"

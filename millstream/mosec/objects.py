"""Objects of a script's own classes between stages: Structs, dataclasses and sets, as what travels.

Not by pickle, which would run whatever arrives: a class is looked up by its name among the modules
that the script has loaded, must be one of these kinds, and is given its fields.
"""

import dataclasses
import sys
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

_OBJECT = "\0mosec.object"
_SET = "\0mosec.set"
_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})


def sent(value: Any) -> Any:
    """The same, as it can travel; what cannot is left as it is."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        is_plain = all(type(part) in _PLAIN for part in value)
        return value if is_plain else kind([sent(part) for part in value])
    if kind is dict:
        return {key: sent(part) for key, part in value.items()}
    if kind is set or kind is frozenset:
        return {_SET: [kind is frozenset, [sent(part) for part in value]]}
    names = _fields_of(kind)
    if names is None:
        return value
    fields = {name: sent(getattr(value, name)) for name in names}
    return {_OBJECT: [kind.__module__, kind.__qualname__, fields]}


def _fields_of(kind: type) -> Iterable[str] | None:
    """Of a Struct or a dataclass."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return None


def received(value: Any, *, copies: bool) -> Any:
    """The reverse. `copies`: arrays are such as may be written to, as those of MOSEC are. Raises
    TypeError for an object of no such class.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return _received_dict(value, copies=copies)
    if kind is list or kind is tuple:
        is_plain = all(type(part) in _PLAIN for part in value)
        return value if is_plain else kind([received(part, copies=copies) for part in value])
    if copies and isinstance(value, np.ndarray) and not value.flags.writeable:
        return value.copy()
    return value


def _received_dict(value: dict[Any, Any], *, copies: bool) -> Any:
    if len(value) == 1 and _OBJECT in value:
        return _made(*value[_OBJECT], copies=copies)
    if len(value) == 1 and _SET in value:
        is_frozen, parts = value[_SET]
        made = [received(part, copies=copies) for part in parts]
        return frozenset(made) if is_frozen else set(made)
    for key, part in value.items():
        if type(part) not in _PLAIN:
            value[key] = received(part, copies=copies)
    return value


def _made(module: str, name: str, fields: dict[str, Any], *, copies: bool) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    values = {key: received(part, copies=copies) for key, part in fields.items()}
    if isinstance(found, type) and issubclass(found, msgspec.Struct):
        return found(**values)
    if isinstance(found, type) and dataclasses.is_dataclass(found):
        made = object.__new__(found)
        for key, part in values.items():
            object.__setattr__(made, key, part)
        return made
    raise TypeError(f"{module}.{name} is no Struct or dataclass here")

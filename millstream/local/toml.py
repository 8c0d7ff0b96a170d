"""Tables as the text of a pipeline file. Pure; for what a pipeline file holds, and no more."""

import json
import re
from collections.abc import Mapping, Sequence

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def pipeline_file(pipelines: Mapping[str, Mapping[str, object]]) -> str:
    """The text of a file with these pipelines, by name; their values as TOML has them."""
    blocks: list[str] = []
    for name, table in pipelines.items():
        _add_table(blocks, ("pipelines", name), table)
    return "\n".join(blocks)


def _add_table(blocks: list[str], path: tuple[str, ...], table: Mapping[str, object]) -> None:
    values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_value(value)}\n" for key, value in values.items()]
    if lines or path[-1] == "guard":  # a guard is there where its table is, an empty one too
        blocks.append(f"[{'.'.join(map(_key, path))}]\n" + "".join(lines))
    for key, value in table.items():
        if isinstance(value, Mapping):
            _add_table(blocks, (*path, key), value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(f"{value!r:.80} has no form in TOML")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

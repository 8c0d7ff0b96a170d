"""The pages of the reference that are made of the code: names with their docstrings, the keys of a
pipeline file, error codes."""

import ast
import inspect
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import msgspec

import broker.core.config
import millstream
from broker.core.config import GuardConfig, PipelineConfig, ShadowConfig, StageConfig
from broker.wire.errors import ERRORS, ErrorCode

_HERE_ONLY = {ErrorCode.PAYLOAD_LOST, ErrorCode.OUT_OF_MEMORY}
"""Codes that no client ever sees."""

PAGES = {
    "plug-ins": (
        "Plug-ins",
        "What a script imports from `millstream` to be a stage, and to declare what it takes and"
        " gives. `self.metrics` is a `PluginMetrics`.",
    ),
    "client": (
        "Client",
        "What calls a gateway from Python: `from millstream import Client, AsyncClient`. The errors"
        " are in `millstream.client`.",
    ),
    "one-file": ("One file", "What makes a deployment of one Python file."),
}
"""Of each page of names its title, and what it is."""

FURTHER = {
    "plug-ins": ["workers.plugin_metrics.PluginMetrics", "workers.staging.Staging"],
    "client": [
        f"millstream.client.{name}"
        for name in (
            *("message.Answer", "errors.ClientError", "errors.CallFailed", "errors.NoAnswer"),
            *("errors.TooLate", "errors.BadAnswer"),
        )
    ],
}
"""What stands on them beside the public names of `millstream`."""

_FIRST = {"Worker", "Client", "serve"}
"""What a page begins with."""

_TABLES: list[tuple[str, type[msgspec.Struct]]] = [
    ("[pipelines.NAME]", PipelineConfig),
    ("[pipelines.NAME.stages.STAGE]", StageConfig),
    ("[pipelines.NAME.guard]", GuardConfig),
    ("[pipelines.NAME.shadow]", ShadowConfig),
]


def pages() -> dict[str, str]:
    """The text of each, by its path in the site."""
    names = public_names()
    made = {f"reference/{page}.md": _names(*PAGES[page], names[page]) for page in names}
    made["reference/pipeline-file.md"] = _pipeline_file()
    made["reference/errors.md"] = _errors()
    return made


def public_names() -> dict[str, list[str]]:
    """By page, where each public name is defined, in the order in which they are named."""
    found: dict[str, list[str]] = {}
    for name in sorted(millstream.__all__, key=_FIRST.__contains__, reverse=True):
        if not name.startswith("_"):
            value = getattr(millstream, name)
            page = _page_of(value.__module__)
            found.setdefault(page, []).append(f"{value.__module__}.{value.__qualname__}")
    return {page: [*names, *FURTHER.get(page, [])] for page, names in found.items()}


def _page_of(module: str) -> str:
    if module.startswith("workers."):
        return "plug-ins"
    return "client" if module.startswith("millstream.client.") else "one-file"


def _names(title: str, words: str, names: list[str]) -> str:
    return "\n\n".join([f"# {title}", words, *(f"::: {name}" for name in names)]) + "\n"


# ------------------------------------------------------------------ the pipeline file


def _pipeline_file() -> str:
    parts = [
        "# The pipeline file",
        "What `millstream broker` is told, in TOML. A key that is not known is an error that names"
        " the nearest one; so is a value of another type, or out of its range.",
    ]
    words = doc_of_fields(broker.core.config)
    for header, table in _TABLES:
        parts += [f"## `{header}`", inspect.cleandoc(table.__doc__ or "")]
        parts.append("\n".join(_keys(table, words[table.__name__])))
    return "\n\n".join(parts) + "\n"


def _keys(table: type[msgspec.Struct], words: dict[str, str]) -> Iterator[str]:
    yield "| key | default | |"
    yield "|---|---|---|"
    for field in msgspec.structs.fields(table):
        yield f"| `{field.name}` | {_default(field)} | {_cell(words[field.name])} |"


def _default(field: Any) -> str:
    if field.required:
        return "must be there"
    value = field.default
    if value is msgspec.NODEFAULT or value is None or isinstance(value, msgspec.Struct):
        return ""
    return f"`{json.dumps(value)}`"


def doc_of_fields(module: ModuleType) -> dict[str, dict[str, str]]:
    """By class and field, the text that stands below the field, or below the next one that has one:
    fields that are told of together stand together."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = _docs(node)
    return found


def _docs(node: ast.ClassDef) -> dict[str, str]:
    docs: dict[str, str] = {}
    waiting: list[str] = []
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            waiting.append(part.target.id)
        elif isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
            docs |= dict.fromkeys(waiting, inspect.cleandoc(str(part.value.value)))
            waiting = []
    return docs


# ------------------------------------------------------------------ error codes


def _errors() -> str:
    lines = [
        "# Error codes",
        "",
        'Each error is `{"error": {"code", "message", "request_id"}}` with this status. Where the'
        " same request may succeed later, the answer has `Retry-After`, and"
        " [the client](../client.md) tries again by itself.",
        "",
        "| `code` | status | again? |",
        "|---|---|---|",
    ]
    for number, row in sorted(ERRORS.items(), key=lambda item: (item[1].status, item[0])):
        if number not in _HERE_ONLY:
            again = "yes" if row.retryable else ""
            lines.append(f"| `{row.name}` | {row.status} | {again} |")
    lines += [
        "",
        "`rejected` has the 4xx that the plug-in names. `client_gone` stands in logs and metrics"
        " alone. When each is said is told in [what happens when](../what-happens-when.md) and"
        " [when something fails](../failures.md).",
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

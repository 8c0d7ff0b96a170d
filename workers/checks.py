"""What makes a class a plug-in: which hooks it has, how they are called, and its attributes.

Pure: looks at classes and instances, calls nothing of theirs.
"""

import difflib
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from broker.payload.signature import encode_signature
from workers.api import Worker
from workers.declarations import (
    MAX_SIGNATURE_BYTES,
    BadDeclaration,
    Declaration,
    declaration_of,
    methods_of,
    signature_of,
)

_T = TypeVar("_T")

_ATTRIBUTES = (
    "stage", "max_batch_size", "concurrency", "repeatable", "content_type", "max_streams",
    "example", "inputs", "outputs", "signatures", "streams",
)  # fmt: skip
_HOOKS = ("setup", "forward", "teardown", "decode", "encode")
_HOOK_ARITY = {"setup": 0, "teardown": 0, "decode": 2, "encode": 2}
_MAX_BATCH_SIZE = 1 << 14
"""Each item may take several frames of a message, and those are bounded too."""


_MAX_STREAMS = 1 << 16
_ITERATORS = re.compile(r"\b(Async)?(Iterator|Generator)\b")


class ContractError(Exception):
    """A class does not keep the contract of plug-ins; the message says how, in one line.

    `hook` is the method that it is about, "" for the class as a whole.
    """

    def __init__(self, message: str, hook: str = "") -> None:
        super().__init__(message)
        self.hook = hook


class Shape(Struct, frozen=True):
    """How a plug-in is to be called, found out once."""

    stage: str
    max_batch_size: int
    concurrency: int
    repeatable: bool
    content_type: str
    is_async: bool
    wants_requests: bool
    max_streams: int
    inputs: Declaration = None
    outputs: Declaration = None
    signature: bytes = b""
    """What is declared, as it travels."""


def shape_of(plugin: Worker) -> Shape:
    """The shape of an instance, whose attributes may differ from its class's.

    Raises ContractError for an attribute of the wrong type or out of range.
    """
    is_async = inspect.iscoroutinefunction(plugin.forward)
    concurrency = _integer(plugin, "concurrency", 1024)
    if concurrency > 1 and not is_async:
        raise ContractError(
            f"{type(plugin).__name__}: concurrency = {concurrency} needs `async def forward`",
            "forward",
        )
    inputs, outputs, signature = _declared(plugin)
    return Shape(
        stage=_stage(plugin),
        max_batch_size=_integer(plugin, "max_batch_size", _MAX_BATCH_SIZE),
        concurrency=concurrency,
        repeatable=_typed(plugin, "repeatable", bool),
        content_type=_content_type(plugin),
        is_async=is_async,
        wants_requests=_wants_requests(type(plugin)),
        max_streams=_integer(plugin, "max_streams", _MAX_STREAMS),
        inputs=inputs,
        outputs=outputs,
        signature=signature,
    )


def _declared(plugin: Worker) -> tuple[Declaration, Declaration, bytes]:
    try:
        inputs = declaration_of(plugin.inputs, "inputs")
        outputs = declaration_of(plugin.outputs, "outputs")
        methods = methods_of(plugin.signatures, outputs)
    except BadDeclaration as error:
        raise ContractError(f"{type(plugin).__name__}: {error}") from None
    streams = _typed(plugin, "streams", bool) or _says_streams(type(plugin))
    signature = encode_signature(signature_of(inputs, outputs, methods, streams=streams))
    if len(signature) > MAX_SIGNATURE_BYTES:
        raise ContractError(
            f"{type(plugin).__name__}: what it declares takes {len(signature)} bytes; "
            f"{MAX_SIGNATURE_BYTES} are allowed"
        )
    return inputs, outputs, signature


def _says_streams(cls: type[Worker]) -> bool:
    """Whether `forward` is annotated to return iterators."""
    return bool(_ITERATORS.search(str(getattr(cls.forward, "__annotations__", {}).get("return"))))


def wants_view(decode: Callable[..., Any]) -> bool:
    """Whether a `decode` annotates its body as a memoryview, and so is not given bytes."""
    parameters = list(inspect.signature(decode).parameters.values())
    return bool(parameters) and parameters[0].annotation in (memoryview, "memoryview")


def check_class(cls: type[Worker]) -> list[str]:
    """Raises ContractError for hooks that cannot be called; returns warnings, one line each."""
    name = cls.__name__
    if cls.forward is Worker.forward:
        raise ContractError(f"{name}: define forward(self, batch){_instead_of_forward(cls)}")
    if inspect.isgeneratorfunction(cls.forward) or inspect.isasyncgenfunction(cls.forward):
        raise ContractError(
            f"{name}.forward has a `yield` in it: return one result per item", "forward"
        )
    _wants_requests(cls)
    for hook, arity in _HOOK_ARITY.items():
        _check_arity(cls, hook, arity)
    return _misspelt(cls)


def _positional(cls: type[Worker], hook: str) -> tuple[int, int, bool]:
    """How many arguments a hook needs, and takes, without self; and whether it takes any number."""
    function = inspect.getattr_static(cls, hook)
    skip = 1
    if isinstance(function, staticmethod):
        function, skip = function.__func__, 0
    elif isinstance(function, classmethod):
        function = function.__func__
    if not callable(function):
        raise ContractError(f"{cls.__name__}.{hook} is no method")
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise ContractError(f"{cls.__name__}.{hook}: nobody gives it {parameter.name!r}", hook)
    needed = sum(p.default is p.empty for p in places)
    return needed, len(places), any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _check_arity(cls: type[Worker], hook: str, arity: int) -> None:
    needed, taken, any_number = _positional(cls, hook)
    if needed > arity or (taken < arity and not any_number):
        raise ContractError(
            f"{cls.__name__}.{hook} must take {_count(arity)} beside self, not {taken}", hook
        )


def _wants_requests(cls: type[Worker]) -> bool:
    """Whether `forward` has a second parameter. One with a default is the plug-in's own affair,
    unless it bears the name `requests`."""
    needed, taken, any_number = _positional(cls, "forward")
    if needed > 2 or (taken == 0 and not any_number):
        forms = "forward(self, batch) or forward(self, batch, requests)"
        raise ContractError(f"{cls.__name__}.forward must be {forms}", "forward")
    return needed == 2 or "requests" in inspect.signature(cls.forward).parameters


def _instead_of_forward(cls: type[Worker]) -> str:
    for name in ("predict", "__call__", "infer", "process", "run"):
        if name in vars(cls):
            return f"; {name} is never called"
    return ""


def _misspelt(cls: type[Worker]) -> list[str]:
    """Warnings for names of the class that look like one of the contract's and are none."""
    known = [*_ATTRIBUTES, *_HOOKS]
    defined = {name for base in cls.__mro__ if base not in (Worker, object) for name in vars(base)}
    warnings = []
    for name in sorted(defined - set(known)):
        if name.startswith("_"):
            continue
        nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.8)
        if nearest and nearest[0] not in defined:
            warnings.append(f"{cls.__name__}.{name} means nothing here; did you mean {nearest[0]}?")
    return warnings


def _stage(plugin: Worker) -> str:
    stage = _typed(plugin, "stage", str) or type(plugin).__name__.lower()
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", stage):  # as in pipeline files
        raise ContractError(f"{type(plugin).__name__}: stage = {stage!r} is no name of a stage")
    return stage


def _content_type(plugin: Worker) -> str:
    value = _typed(plugin, "content_type", str)
    if value and not is_content_type(value):
        raise ContractError(f"{type(plugin).__name__}: content_type = {value!r} is none")
    return value


def is_content_type(text: str) -> bool:
    """Whether it may stand in an HTTP header as one; what it means is the client's affair."""
    return re.fullmatch(r"[\x21-\x7e]+/[\x20-\x7e]+", text) is not None


def _integer(plugin: Worker, name: str, most: int) -> int:
    value = _typed(plugin, name, int)
    if not 1 <= value <= most:
        raise ContractError(
            f"{type(plugin).__name__}: {name} = {value} must be between 1 and {most}"
        )
    return value


def _typed(plugin: Worker, name: str, kind: type[_T]) -> _T:
    value: object = getattr(plugin, name)
    if type(value) is not kind:  # not isinstance: True is no batch size
        raise ContractError(
            f"{type(plugin).__name__}: {name} = {value!r} must be {kind.__name__}, "
            f"not {type(value).__name__}"
        )
    return value


def _count(number: int) -> str:
    return "no argument" if number == 0 else f"{number} arguments"

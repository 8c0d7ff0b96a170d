"""A typer program that starts without pydantic.

typer has each value checked by pydantic, even where a function of ours parses it, and to load that
takes a third of a command's start, and 10 MB in every process. Here the functions are just called.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Program(typer.Typer):
    """One whose values are parsed by the `parser` of their option or argument, and by that alone;
    without one, text and flags by what stands here, and others by pydantic after all.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=_Group, **options)

    def command(self, *args: Any, **options: Any) -> Callable[..., Any]:
        """See typer."""
        return super().command(*args, cls=_Command, **options)


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        """See typer; it asks before it parses."""
        return _parsed_plainly(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        """As above."""
        return _parsed_plainly(super().get_params(ctx))


def _parsed_plainly(params: list[Any]) -> list[Any]:
    for param in params:
        # In the place of what typer would make of it, by pydantic, at the first value. A typer that
        # does so otherwise is only slower.
        if hasattr(param, "get_runtime_param") and _Parser.suits(param.type_descriptor):
            param.get_runtime_param = partial(_Parser, param.type_descriptor)
    return params


class _Parser:
    """Makes a value of the text of one parameter."""

    @staticmethod
    def suits(descriptor: Any) -> bool:
        """Whether it is text, a flag, or what a function of ours makes; typer has the others."""
        return bool(descriptor.parameter_info.parser) or descriptor.annotation in (
            *(bool, str, list[str]),
            *(bool | None, str | None, list[str] | None),
        )

    def __init__(self, descriptor: Any) -> None:
        parse: Callable[[Any], Any] | None = descriptor.parameter_info.parser
        self._parse = parse or (_flag if descriptor.annotation is bool else str)

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value, as typer asks for it; a list of a parameter that may be given several times.

        Raises typer.BadParameter.
        """
        if param.multiple or param.nargs == -1:
            return [self._parse(each) for each in value or ()]
        return None if value is None else self._parse(value)


def _flag(text: str | bool) -> bool:
    """What a variable says of a flag, in the words that typer knows."""
    word = str(text).strip().lower()
    if word in ("1", "true", "t", "yes", "y", "on"):
        return True
    if word in ("", "0", "false", "f", "no", "n", "off"):
        return False
    raise typer.BadParameter(f"must be 1 or 0, not {text!r}")

"""One line for each mistake: typer's own exceptions, and ours, as the user gets to read them."""

import os
from typing import NoReturn

import typer


class CommandError(Exception):
    """A command ends with this line on stderr and this exit code."""

    def __init__(self, message: str, *, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


def wrong(message: str) -> NoReturn:
    """For the parser of an option: the line will begin with where the value came from."""
    raise typer.BadParameter(message)


def usage_line(error: typer.TyperException) -> str:
    """What typer found wrong with the command line, in our form."""
    if isinstance(error, typer.BadParameter) and error.param is not None:
        return _value_line(error)
    option = getattr(error, "option_name", None)
    nearest = getattr(error, "possibilities", None)
    if option and nearest is not None:
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        return f"no such option: {option}{hint}"
    text = " ".join(error.format_message().split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _value_line(error: typer.BadParameter) -> str:
    """A missing argument, or a value that will not do and the option or variable that gave it."""
    param = error.param
    assert param is not None
    is_option = param.param_type_name == "option"
    name = param.opts[0] if is_option else str(param.metavar)
    if not error.message:
        return f"{name} is missing"
    if not is_option:
        return error.message
    source = error.ctx.get_parameter_source(param.name) if error.ctx and param.name else None
    if source is not None and source.name == "ENVIRONMENT" and isinstance(param.envvar, str):
        name = param.envvar
        if getattr(param, "is_flag", False):
            return f"{name}: must be 1 or 0, not {os.environ.get(name)!r}"
    return f"{name}: {error.message}"

"""MOSEC's environment variables, and checks of what `append_worker` is given."""

import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping
from os import environ
from typing import Any

MOSEC_ENV_PREFIX = "MOSEC_"
_FALSE = frozenset({"0", "false", "no", "off", "n", "f"})


def truth(text: str) -> bool:
    """Whether a variable says yes: "false" and "0" do not."""
    return text.strip().lower() not in _FALSE


_KINDS: Mapping[str, Callable[[str], Any]] = {
    "path": str,
    "capacity": int,
    "timeout": int,
    "wait": int,
    "address": str,
    "port": int,
    "namespace": str,
    "debug": truth,
    "dry_run": truth,
    "compression": truth,
    "log_level": str,
    "max_request_size": int,
}


def get_env_namespace(prefix: str = MOSEC_ENV_PREFIX) -> Namespace:
    """What the environment says of the options; what cannot be is warned of, and left out."""
    namespace = Namespace()
    for name, kind in _KINDS.items():
        variable = f"{prefix}{name.upper()}"
        text = environ.get(variable)
        if not text:
            continue
        try:
            setattr(namespace, name, kind(text))
        except ValueError as error:
            warnings.warn(f"{variable}={text} is left out: {error}", RuntimeWarning, stacklevel=2)
    return namespace


def validate_int_ge(number: object, name: str, threshold: int = 1) -> None:
    """Raises AssertionError for what is no whole number, or too small a one."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise AssertionError(f"{name} must be integer but you give {type(number)}")
    if number < threshold:
        raise AssertionError(f"{name} must be no less than {threshold}")


def validate_float_ge(number: object, name: str, threshold: float = 0.0) -> None:
    """Likewise for any number."""
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise AssertionError(f"{name} must be float but you give {type(number)}")
    if number < threshold:
        raise AssertionError(f"{name} must be no less than {threshold}")


def validate_env(env: object, num: int) -> None:
    """Raises AssertionError for what is not one dict of strings for each of `num` processes."""
    if env is None:
        return
    if not isinstance(env, list) or not all(_is_strings(each) for each in env):
        raise AssertionError("env must be a list of string dictionary")
    if len(env) != num:
        raise AssertionError("len(env) must equal to num")


def _is_strings(each: object) -> bool:
    return isinstance(each, dict) and all(
        isinstance(key, str) and isinstance(value, str) for key, value in each.items()
    )

"""MOSEC's command-line options, with its environment variables before its defaults.

They are read where a script makes its `Server`: a script may have options of its own beside them,
so that unknown ones are left to it.
"""

import argparse
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from typing import NoReturn

from millstream.mosec.env import get_env_namespace
from millstream.mosec.setting import is_worker

DEFAULT_WAIT_MS = 10


class _Parser(argparse.ArgumentParser):
    """Tells a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        """See the base class, which shows all options before it."""
        self.exit(2, f"{self.prog}: {message}\n")


def build_arguments_parser() -> argparse.ArgumentParser:
    """The parser of these options."""
    parser = _Parser(
        description="A MOSEC service, run by Millstream",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Each is also an environment variable: MOSEC_PORT=8080, MOSEC_TIMEOUT=5000.",
    )
    add = parser.add_argument
    add("--path", default=os.path.join(tempfile.gettempdir(), "mosec"), help="without a meaning: "
        "Millstream has a folder of its own for its sockets")  # fmt: skip
    add("--capacity", type=int, default=1024, help="requests that may wait for an answer; beyond "
        "them 429")  # fmt: skip
    add("--timeout", type=int, default=3000, help="time-out of a request, in milliseconds")
    add("--wait", type=int, default=DEFAULT_WAIT_MS, help="how long a batch is held back to be "
        "filled, in milliseconds, where max_wait_time says nothing")  # fmt: skip
    add("--address", default="0.0.0.0", help="the address to listen at")
    add("--port", type=int, default=8000, help="the port to listen at")
    add("--namespace", default="mosec_service", help="what the names of the metrics begin with")
    add("--debug", action="store_true", help="the same as --log-level debug")
    add("--log-level", choices=["debug", "info", "warning", "error"], default="info",
        help="what is logged")  # fmt: skip
    add("--dry-run", action="store_true", help="run the example of the first stage through all of "
        "them, say what came of it, and end")  # fmt: skip
    add("--compression", action="store_true", help="compress answers with zstd or gzip for clients "
        "that accept it")  # fmt: skip
    add("--max-request-size", type=int, default=10 << 20, help="most bytes of a request's body; "
        "beyond them 413")  # fmt: skip
    return parser


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of this process; argparse's own complaint, and exit code 2, for a wrong value."""
    parser = build_arguments_parser()
    args, unknown = parser.parse_known_args(argv, namespace=get_env_namespace())
    if args.log_level not in ("debug", "info", "warning", "error"):
        parser.error(f"MOSEC_LOG_LEVEL: invalid choice: {args.log_level!r}")
    if not is_worker():  # which is given what its parent was given
        _refuse_misspelt(parser, unknown)
    if args.debug:
        args.log_level = "debug"
    return args


def _refuse_misspelt(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> None:
    """Of options that nobody else seems to know, and that look like one of these."""
    import difflib  # noqa: PLC0415  where there are some

    known = [option for action in parser._actions for option in action.option_strings]
    for word in unknown:
        name = word.partition("=")[0]
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if name.startswith("--") and nearest and not _is_in_script(name):
            parser.error(f"no such option: {name}; did you mean {nearest[0]}?")


def _is_in_script(name: str) -> bool:
    """Whether the script itself speaks of an option."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        with open(file or os.devnull, encoding="utf-8", errors="replace") as script:
            text = script.read()
    except OSError:
        return True
    return name in text or name.removeprefix("--").replace("-", "_") in text


def get_log_level() -> int:
    """The level that the options, or the environment, ask for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parser = build_arguments_parser()
        args, _ = parser.parse_known_args(namespace=get_env_namespace())
    if args.debug:
        return logging.DEBUG
    level = logging.getLevelName(str(args.log_level).upper())
    return level if isinstance(level, int) else logging.INFO

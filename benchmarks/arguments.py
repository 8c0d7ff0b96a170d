"""The command line of `python -m benchmarks`."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

MARKDOWN = Path("benchmarks/RESULTS.md")


def comparison_parser(
    description: str | None,
    *,
    cases: Mapping[str, object],
    peers: Mapping[str, object],
    watches: Mapping[str, object],
) -> argparse.ArgumentParser:
    """Of what compares servers, in some of these cases and with some of these peers."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        type=_name(cases),
        help=f"{', '.join(cases)} (all); or {', '.join(watches)}, which have options of their own",
    )
    parser.add_argument(
        "--only", type=_names(cases), default=tuple(cases), help="the same, joined by commas"
    )
    parser.add_argument(
        "--rounds", type=_count, default=5, help="rounds for each row, or draws (5)"
    )
    parser.add_argument("--seconds", type=_count, default=2, help="length of a measurement (2)")
    parser.add_argument(
        "--clients", type=_counts, default=(), help="connections, a row each (each case's own)"
    )
    parser.add_argument(
        "--seeds", type=_counts, default=(), help="draws of overload, for each chain (its own)"
    )
    parser.add_argument("--peers", type=_names(peers), default=tuple(peers), help="(mosec,triton)")
    parser.add_argument("--quick", action="store_true", help="two rounds of a second: a glance")
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.json"), metavar="OUT")
    parser.add_argument(
        "--markdown",
        type=Path,
        nargs="?",
        const=MARKDOWN,
        metavar="OUT",
        help=f"also bring a Markdown page and its pictures up to date ({MARKDOWN})",
    )
    return parser


def watch_parser(name: str) -> argparse.ArgumentParser:
    """Of what loads Millstream alone."""
    if name == "oip":
        return _oip_parser()
    if name == "streams":
        return _streams_parser()
    if name == "serve":
        return _serve_parser()
    requests, said = {
        "memory": (1_000_000, "Send many tiny requests and watch the broker's memory."),
        "soak": (200_000, "Send many requests of mixed sizes; watch memory, check answers."),
    }[name]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=said)
    parser.add_argument("--requests", type=_count, default=requests, help=f"how many ({requests})")
    parser.add_argument("--json", type=Path, default=Path(f"build/{name}.json"), metavar="OUT")
    return parser


def _oip_parser() -> argparse.ArgumentParser:
    said = "Compare the Open Inference Protocol with the native upload of the same 602 KB."
    parser = argparse.ArgumentParser(prog="python -m benchmarks oip", description=said)
    parser.add_argument("--clients", type=_count, default=8, help="connections (8)")
    parser.add_argument("--rounds", type=_count, default=20, help="of each, in turn (20)")
    parser.add_argument("--seconds", type=_count, default=1, help="length of a measurement (1)")
    return parser


def _serve_parser() -> argparse.ArgumentParser:
    said = "Compare what `serve` starts from one file with the same as single processes."
    parser = argparse.ArgumentParser(prog="python -m benchmarks serve", description=said)
    parser.add_argument("--clients", type=_counts, default=(1, 64), help="connections (1,64)")
    parser.add_argument("--rounds", type=_count, default=8, help="of each, in turn (8)")
    parser.add_argument("--seconds", type=_count, default=1, help="length of a measurement (1)")
    return parser


def _streams_parser() -> argparse.ArgumentParser:
    said = "Open many streams on one worker, and see how late their values are."
    parser = argparse.ArgumentParser(prog="python -m benchmarks streams", description=said)
    parser.add_argument("--streams", type=_count, default=1000, help="at once (1000)")
    parser.add_argument("--seconds", type=_count, default=10, help="that each goes on (10)")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _name(known: Mapping[str, object]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(known)}")
        return text

    return parse


def _names(known: Mapping[str, object]) -> Callable[[str], tuple[str, ...]]:
    parse = _name(known)
    return lambda text: tuple(parse(name) for name in text.split(",") if name)

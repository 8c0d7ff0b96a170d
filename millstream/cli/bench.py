"""The command `millstream bench`: its options, and what they mean together."""
# ruff: noqa: PLC0415  # the start of the others does not wait for what this loads

import mimetypes
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli import amounts, values
from millstream.cli.errors import CommandError
from millstream.cli.options import flag, option

if TYPE_CHECKING:
    from millstream.bench.target import Target

EXAMPLE = (
    "\b\nExample:\n"
    "  millstream bench http://127.0.0.1:8000/pipelines/digits --body 3.png --rate 200\n"
    "  millstream bench URL --data '{\"x\": 1}' --sweep 50,100,200 --slo-ms 100 --plot bench.svg\n"
    "  millstream bench URL --body 3.png --find --slo-ms 100\n"
    "  millstream bench URL --clients 16 --save before.json\n"
    "  millstream bench after.json --compare before.json"
)
DEFAULT_SECONDS = 10.0
FIND_SECONDS = 5.0


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    app.command("bench", epilog=EXAMPLE)(bench)


def bench(
    *,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="Any HTTP service: http://…, https://… or unix:/path/of/socket:/path/of/url. "
            "Or a file of --save, to show it again.",
        ),
    ],
    rate: Annotated[
        float | None,
        option("--rate", amounts.rate, "N", "Open loop: requests a second, whatever comes back."),
    ] = None,
    clients: Annotated[
        int | None,
        option("--clients", amounts.count, "N", "Closed loop: each waits for its answer first."),
    ] = None,
    sweep: Annotated[
        amounts.Rates | None,
        option("--sweep", amounts.rates, "N,N,...", "Open loop, at one rate after the other."),
    ] = None,
    find: Annotated[
        bool, flag("--find", "Search the highest rate that meets the SLO, from --rate or 10 on.")
    ] = False,
    arrivals: Annotated[
        str,
        option(
            "--arrivals",
            values.arrivals,
            "HOW",
            "poisson, as of many users by chance, or constant.",
        ),
    ] = "poisson",
    seconds: Annotated[
        float | None,
        option(
            "--seconds", amounts.seconds, "SECONDS", "Of what counts.  [default: 10; 5 to find]"
        ),
    ] = None,
    requests: Annotated[
        int | None,
        option("--requests", amounts.count, "N", "End after so many, if that is sooner."),
    ] = None,
    warm_up: Annotated[
        float,
        option(
            "--warm-up", amounts.seconds_if_any, "SECONDS", "Load before, which is not counted."
        ),
    ] = 1.0,
    slo_ms: Annotated[
        float | None,
        option("--slo-ms", amounts.milliseconds, "MS", "Answers of 2xx are good within this time."),
    ] = None,
    slo_share: Annotated[
        float,
        option("--slo-share", amounts.percent, "PERCENT", "So many of all sent must be good."),
    ] = 99.0,
    body: Annotated[
        list[str] | None,
        option("--body", str, "FILE", "What to send; several are sent in turn; - is stdin."),
    ] = None,
    data: Annotated[
        list[str] | None,
        option("--data", str, "TEXT", "The same, as text; JSON if no type is said."),
    ] = None,
    method: Annotated[
        str | None,
        option("--method", values.method, "METHOD", "[default: POST with a body, else GET]"),
    ] = None,
    header: Annotated[
        list[str] | None, option("--header", values.header, "'NAME: VALUE'", "To send; any number.")
    ] = None,
    content_type: Annotated[
        str | None, option("--content-type", values.text, "TYPE", "[default: by the body's name]")
    ] = None,
    timeout: Annotated[
        float, option("--timeout", amounts.seconds, "SECONDS", "A request is given up after it.")
    ] = 30.0,
    processes: Annotated[
        int, option("--processes", amounts.count, "N", "That send, each its part.")
    ] = 1,
    connections: Annotated[
        int, option("--connections", amounts.count, "N", "At most, in the open loop.")
    ] = 1000,
    seed: Annotated[
        int, option("--seed", amounts.whole, "N", "Of the chance in the arrivals.")
    ] = 1,
    no_verify: Annotated[
        bool, flag("--no-verify", "Trust any certificate of an https URL.")
    ] = False,
    json: Annotated[bool, flag("--json", "The figures in JSON.")] = False,
    save: Annotated[
        str | None, option("--save", str, "FILE", "Keep the figures, to compare others with.")
    ] = None,
    compare: Annotated[
        str | None, option("--compare", str, "FILE", "Show them beside those of a file of --save.")
    ] = None,
    plot: Annotated[
        str | None,
        option("--plot", values.plot, "FILE", "Draw them, as .svg or .html."),
    ] = None,
) -> int:
    """Send load to an HTTP service, and show what users would see."""
    from millstream.bench.arrivals import Arrivals
    from millstream.bench.load import NO_SLO_S, Load
    from millstream.bench.run import Wanted, run_rates, show_saved
    from millstream.bench.run import find as search

    wanted = Wanted(
        share_percent=slo_share,
        as_json=json,
        save=save or "",
        compare=compare or "",
        plot=plot or "",
    )
    if "://" not in url and not url.startswith("unix:") and os.path.isfile(url):
        if rate or clients or sweep or find:
            raise CommandError(f"{url} is a file of --save: there is nothing to send to")
        return show_saved(url, wanted)
    _check_kind(rate=rate, clients=clients, sweep=sweep, find=find, slo_ms=slo_ms)
    if clients is not None and processes > clients:
        raise CommandError("--processes: there are no more than --clients to share")
    load = Load(
        target=_target(
            url,
            files=body or [],
            texts=data or [],
            method=method,
            headers=header or [],
            content_type=content_type,
            verify=not no_verify,
        ),
        rate_per_s=rate or 0.0,
        clients=clients or 0,
        arrivals=Arrivals(arrivals),
        seconds=seconds or (FIND_SECONDS if find else DEFAULT_SECONDS),
        requests=requests or 0,
        warm_up_s=warm_up,
        slo_s=slo_ms / 1e3 if slo_ms else NO_SLO_S,
        timeout_s=timeout,
        connections=max(connections, processes),
        seed=seed,
        processes=processes,
    )
    if find:
        return search(load, wanted)
    rates = list(sweep.per_s) if sweep else [rate] if rate else []
    return run_rates(load, rates, wanted)


def _check_kind(
    *,
    rate: float | None,
    clients: int | None,
    sweep: "amounts.Rates | None",
    find: bool,
    slo_ms: float | None,
) -> None:
    """Which loads go together."""
    given = [name for name, value in (("--clients", clients), ("--sweep", sweep)) if value]
    given += ["--find"] if find else ["--rate"] if rate else []
    if len(given) > 1:
        raise CommandError(f"{' and '.join(given)} exclude each other")
    if not given:
        raise CommandError("give --rate N, --clients N, --sweep N,N,… or --find: how much to send")
    if find and slo_ms is None:
        raise CommandError("--find needs --slo-ms MS: what is to be met")


def _target(
    url: str,
    *,
    files: list[str],
    texts: list[str],
    method: str | None,
    headers: list[str],
    content_type: str | None,
    verify: bool,
) -> "Target":
    from millstream.bench.target import Target, place_of

    try:
        place_of(url)
    except ValueError as error:
        raise CommandError(f"{url}: {error}") from None
    bodies = [text.encode("utf-8", "surrogateescape") for text in texts]
    bodies += [_read(file) for file in files]
    given = {line.partition(":")[0].lower() for line in headers}
    for name in ("content-length", "transfer-encoding"):
        if name in given:
            raise CommandError(f"--header {name}: is set for each body")
    if bodies and "content-type" not in given:
        guessed = mimetypes.guess_type(files[0])[0] if files else "application/json"
        headers = [
            *headers,
            f"Content-Type: {content_type or guessed or 'application/octet-stream'}",
        ]
    return Target(
        url=url,
        method=method or ("POST" if bodies else "GET"),
        headers=headers,
        bodies=bodies or [b""],
        verify=verify,
    )


def _read(file: str) -> bytes:
    try:
        if file == "-":
            return sys.stdin.buffer.read()
        with open(file, "rb") as source:
            return source.read()
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None

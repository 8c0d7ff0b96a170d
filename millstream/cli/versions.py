"""The commands for versions side by side: who gets which, back again, slowly up, compared."""
# ruff: noqa: PLC0415  # the start of the others does not wait for what these load

from typing import Annotated

import typer

from millstream.cli import amounts, values
from millstream.cli.errors import CommandError
from millstream.cli.options import Broker, Keys, client_keys, find_broker, flag, option

TRAFFIC_EXAMPLE = (
    "\b\nExample:\n"
    "  millstream traffic digits\n"
    "  millstream traffic digits 2=95 3=5 --why 'first look at 3'\n"
    "  millstream traffic digits 2=50 3=50 --sticky header:X-User-Id\n"
    "  millstream traffic digits --shadow 3"
)
ROLLBACK_EXAMPLE = "\b\nExample:\n  millstream rollback digits --why 'many wrong answers'"
PROMOTE_EXAMPLE = (
    "\b\nExample:\n"
    "  millstream promote digits 3 --steps 1,5,25,100 --every 10m\n"
    "  millstream promote digits --stop"
)
COMPARE_EXAMPLE = "\b\nExample:\n  millstream compare digits 2 3"
HISTORY_EXAMPLE = "\b\nExample:\n  millstream history digits --limit 5"

DEFAULT_STEPS = (1.0, 5.0, 25.0, 100.0)
DEFAULT_STEP_S = 600.0

Pipeline = Annotated[
    str, typer.Argument(parser=values.pipeline, metavar="PIPELINE", help="Which one.")
]
Why = Annotated[
    str | None, option("--why", values.reason, "TEXT", "Stands in the history, for others to read.")
]
Json = Annotated[bool, flag("--json", "The broker's answer as it is, in JSON.")]


def add_to(app: typer.Typer) -> None:
    """Make them commands of this program."""
    app.command("traffic", epilog=TRAFFIC_EXAMPLE)(traffic)
    app.command("rollback", epilog=ROLLBACK_EXAMPLE)(rollback)
    app.command("promote", epilog=PROMOTE_EXAMPLE)(promote)
    app.command("compare", epilog=COMPARE_EXAMPLE)(compare)
    app.command("history", epilog=HISTORY_EXAMPLE)(history)


def traffic(
    *,
    pipeline: Pipeline,
    shares: Annotated[
        list[values.Share] | None,
        typer.Argument(
            parser=values.share,
            metavar="VERSION=SHARE",
            help="Who gets how much from now on, in any proportion, such as 2=95 3=5.",
        ),
    ] = None,
    sticky: Annotated[
        str | None,
        option(
            "--sticky",
            values.sticky,
            "RULE",
            "Who has the same header:NAME, cookie:NAME or request-id always gets the same version; "
            "none ends that.",
        ),
    ] = None,
    shadow: Annotated[
        str | None,
        option(
            "--shadow",
            values.version_or_none,
            "VERSION",
            "This version gets copies of requests, and nobody sees its answers; none ends that.",
        ),
    ] = None,
    latest: Annotated[
        bool, flag("--latest", "From now on the newest version takes over when it is ready.")
    ] = False,
    label: Annotated[
        list[str] | None,
        option(
            "--label",
            values.labels,
            "NAME=VERSION",
            "A name for a version that URLs may use; NAME= removes it. Several by commas, or one "
            "by one.",
        ),
    ] = None,
    why: Why = None,
    json: Json = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Show which version gets what share of the requests, or change it."""
    if shares and latest:
        raise CommandError("give shares or --latest, not both: whichever is newest takes over all")
    body: dict[str, object] = {"pipeline": pipeline}
    if shares:
        body["weights"] = values.only_once(shares, "version")
    if sticky is not None:
        body["sticky"] = sticky
    if shadow is not None:
        body["shadow"] = shadow
    if label:
        given = [values.label(each) for group in label for each in group.split(",")]
        body["labels"] = values.only_once(given, "label")
    if latest:
        body["latest"] = True
    from millstream.cli.rollout import change, look

    address = find_broker(broker)
    if len(body) > 1:
        return change(address, "traffic", body, why=why or "", keys=client_keys(keys), as_json=json)
    if why:
        raise CommandError("--why is for a change, and none is asked for")
    return look(address, "traffic", body, keys=client_keys(keys), as_json=json)


def rollback(
    *,
    pipeline: Pipeline,
    why: Why = None,
    json: Json = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Send all requests to the version before, at once."""
    from millstream.cli.rollout import change

    return change(
        find_broker(broker),
        "rollback",
        {"pipeline": pipeline},
        why=why or "",
        keys=client_keys(keys),
        as_json=json,
    )


def promote(
    *,
    pipeline: Pipeline,
    version: Annotated[
        str | None,
        typer.Argument(parser=values.version, metavar="VERSION", help="The one that gets more."),
    ] = None,
    steps: Annotated[
        values.Steps | None,
        option(
            "--steps",
            values.steps,
            "PERCENT,...",
            "Its share, step by step.  [default: 1,5,25,100]",
        ),
    ] = None,
    every: Annotated[
        float | None,
        option(
            "--every",
            amounts.duration,
            "DURATION",
            "How long each step lasts, such as 90s or 10m.  [default: 10m]",
        ),
    ] = None,
    stop: Annotated[bool, flag("--stop", "End it where it stands.")] = False,
    why: Why = None,
    json: Json = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Give a version more and more of the requests, as long as all goes well."""
    body: dict[str, object] = {"pipeline": pipeline}
    if stop:
        if version or steps or every:
            raise CommandError("--stop ends the promotion that there is, and takes nothing else")
        body["stop"] = True
    elif not version:
        raise CommandError("VERSION is missing (or --stop)")
    else:
        body |= {
            "version": version,
            "steps": steps.shares if steps else DEFAULT_STEPS,
            "every_s": every or DEFAULT_STEP_S,
        }
    from millstream.cli.rollout import change

    return change(
        find_broker(broker), "promote", body, why=why or "", keys=client_keys(keys), as_json=json
    )


def compare(
    *,
    pipeline: Pipeline,
    a: Annotated[str, typer.Argument(parser=values.version, metavar="A", help="A version.")],
    b: Annotated[str, typer.Argument(parser=values.version, metavar="B", help="Another one.")],
    json: Json = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Show the figures of two versions beside each other."""
    from millstream.cli.rollout import look

    body: dict[str, object] = {"pipeline": pipeline, "a": a, "b": b}
    return look(find_broker(broker), "compare", body, keys=client_keys(keys), as_json=json)


def history(
    *,
    pipeline: Pipeline,
    limit: Annotated[
        int, option("--limit", amounts.count, "N", "How many changes to show at most.")
    ] = 20,
    json: Json = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Show who changed the traffic when, how and why, the latest first."""
    from millstream.cli.rollout import look

    body: dict[str, object] = {"pipeline": pipeline, "limit": limit}
    return look(find_broker(broker), "history", body, keys=client_keys(keys), as_json=json)

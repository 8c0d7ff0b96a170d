"""Commands beside a deployment: ask how it stands, send it a request, make its keys."""
# ruff: noqa: PLC0415  # each loads what it needs itself

from typing import Annotated

import typer

from millstream.cli import amounts, values
from millstream.cli.options import Broker, Keys, client_keys, find_broker, flag, option


def add_to(app: typer.Typer) -> None:
    """Make them commands of this program."""
    app.command("status", epilog=STATUS_EXAMPLE)(status)
    app.command("call", epilog=CALL_EXAMPLE)(call)
    app.command("keys", epilog=KEYS_EXAMPLE)(keys)


STATUS_EXAMPLE = (
    "\b\nExample:\n"
    "  millstream status --watch\n"
    "  millstream status --json | jq .pipelines.digits.ready"
)
CALL_EXAMPLE = (
    "\b\nExample:\n"
    "  millstream call digits --file examples/digits/samples/3.png\n"
    "  millstream call shout '\"hello\"' --url http://10.0.0.5:8000"
)
KEYS_EXAMPLE = "\b\nExample:\n  millstream keys keys/"


def status(
    *,
    json: Annotated[bool, flag("--json", "The broker's report as it is, in JSON.")] = False,
    watch: Annotated[bool, flag("--watch", "Show it again each second until Ctrl-C.")] = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Show pipelines, stages, queues, workers and versions as the broker sees them."""
    from millstream.cli.status import show_status

    return show_status(find_broker(broker), keys=client_keys(keys), as_json=json, watch=watch)


def call(
    *,
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="Which one to run.")],
    value: Annotated[
        str | None, typer.Argument(metavar="JSON", help="What to send, unless it is a file.")
    ] = None,
    file: Annotated[
        str | None,
        option("--file", str, "FILE", "What to send: any file, '-' for standard input."),
    ] = None,
    content_type: Annotated[
        str | None,
        option("--content-type", str, "TYPE", "Of the file.  [default: by its name]"),
    ] = None,
    url: Annotated[
        str,
        option("--url", str, "URL", "The gateway: http://…, https://… or unix:/path/of/socket."),
    ] = "http://127.0.0.1:8000",
    timeout: Annotated[
        float, option("--timeout", amounts.seconds, "SECONDS", "For the answer, in all.")
    ] = 30.0,
    retries: Annotated[
        int,
        option("--retries", amounts.whole, "N", "How often to send it again, if that may help."),
    ] = 4,
    version: Annotated[
        str | None, option("--version", values.name, "VERSION", "Which release of the model.")
    ] = None,
    stream: Annotated[
        bool, flag("--stream", "Show the values of a stream, each as it comes.")
    ] = False,
) -> int:
    """Send one request and show its answer."""
    from millstream.cli.call import call as send

    return send(
        pipeline,
        value,
        file=file,
        content_type=content_type or "",
        url=url,
        timeout_s=timeout,
        retries=retries,
        version=version or "",
        stream=stream,
    )


def keys(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A new folder for the keys.")],
) -> int:
    """Make the keys that guard a broker on tcp."""
    from millstream.cli.make_keys import make_keys

    return make_keys(folder)

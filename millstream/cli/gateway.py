"""The command `millstream gateway`. What is wrong is told before a web server is loaded."""
# ruff: noqa: PLC0415

import os
from typing import Annotated

import typer

from millstream.cli import amounts, values
from millstream.cli.errors import CommandError
from millstream.cli.options import (
    Arena,
    Broker,
    Keys,
    LogFormat,
    LogLevel,
    NoMetrics,
    client_keys,
    find_broker,
    flag,
    option,
    set_up_log,
)

EXAMPLE = (
    "\b\nExample:\n"
    "  millstream gateway --port 8000 --grpc-port 8001\n"
    "  millstream gateway --host 0.0.0.0 --broker tcp://10.0.0.5:5570 --keys keys/"
)


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    app.command("gateway", epilog=EXAMPLE)(gateway)


def gateway(
    *,
    host: Annotated[
        str, option("--host", values.host, "HOST", "Address to listen at.")
    ] = "127.0.0.1",
    port: Annotated[int, option("--port", amounts.port, "PORT", "Port to listen at.")] = 8000,
    grpc_port: Annotated[
        int | None,
        option(
            "--grpc-port",
            amounts.port,
            "PORT",
            "Port for the Open Inference Protocol over gRPC, 8001 by custom; needs "
            "millstream[grpc].  [default: gRPC is not spoken]",
        ),
    ] = None,
    uds: Annotated[
        str | None,
        option("--uds", str, "PATH", "A Unix socket to listen at, in place of host and port."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        option(
            "--cors-origin",
            values.origins,
            "ORIGIN",
            "Whose pages may call from a browser, such as https://example.org, or '*' for all; "
            "several by commas, or one by one.",
        ),
    ] = None,
    compress: Annotated[
        int,
        option(
            "--compress",
            amounts.size,
            "SIZE",
            "Compress JSON answers from this size on, such as 4KiB; pays where the way to "
            "clients is slower than some 100 Mbit/s.  [default: none is]",
        ),
    ] = 0,
    admin_token: Annotated[
        str | None,
        option(
            "--admin-token",
            values.token,
            "TOKEN",
            "Whoever sends it may use /admin; without one, callers on this host may.",
        ),
    ] = None,
    admin_token_file: Annotated[
        str | None,
        option(
            "--admin-token-file", str, "FILE", "The same from a file, which other users cannot see."
        ),
    ] = None,
    broker: Broker = None,
    keys: Keys = None,
    max_body: Annotated[
        int,
        option("--max-body", amounts.size, "SIZE", "Largest request body, such as 64MiB."),
    ] = 64 << 20,
    arena: Arena = None,
    header_timeout: Annotated[
        float,
        option("--header-timeout", amounts.seconds, "SECONDS", "For the headers of a request."),
    ] = 10.0,
    body_timeout: Annotated[
        float,
        option("--body-timeout", amounts.seconds, "SECONDS", "For the whole body of a request."),
    ] = 30.0,
    keep_alive: Annotated[
        float,
        option("--keep-alive", amounts.seconds, "SECONDS", "For a connection between requests."),
    ] = 75.0,
    slow: Annotated[
        float,
        option("--slow", amounts.seconds, "SECONDS", "A request that takes longer is logged."),
    ] = 5.0,
    drain: Annotated[
        float,
        option("--drain", amounts.seconds, "SECONDS", "For what is held, after SIGTERM."),
    ] = 3.5,
    no_metrics: NoMetrics = False,
    listen_when_ready: Annotated[
        bool,
        flag("--listen-when-ready", "Open the port only once every stage has a ready worker."),
    ] = False,
    access_log: Annotated[
        bool, flag("--access-log", "Log every request, not only failed and slow ones.")
    ] = False,
    trace_sample: Annotated[
        float | None,
        option(
            "--trace-sample",
            amounts.ratio,
            "RATIO",
            "Trace this share of the requests, such as 0.01, and those whose client does; "
            "OTEL_EXPORTER_OTLP_ENDPOINT says where to. Needs millstream[otel].  "
            "[default: none is traced]",
        ),
    ] = None,
    log_format: LogFormat = "auto",
    log_level: LogLevel = "info",
) -> int:
    """Run an HTTP gateway; any number may run beside each other."""
    set_up_log(log_format, log_level)
    address = find_broker(broker)
    client_keys(keys)
    asked = amounts.sampling(trace_sample, os.environ)

    from gateway.options import GatewayOptions, Sampling
    from gateway.server import serve

    return serve(
        GatewayOptions(
            host=host,
            port=port,
            grpc_port=grpc_port,
            uds=uds or "",
            listens_when_ready=listen_when_ready,
            cors_origins=tuple(each for group in cors_origin or () for each in group.split(",")),
            admin_token=_admin_token(admin_token, admin_token_file),
            compress_bytes=compress,
            broker=address,
            keys=keys or "",
            max_body_bytes=max_body,
            arena_bytes=arena,
            header_timeout_s=header_timeout,
            body_timeout_s=body_timeout,
            keep_alive_s=keep_alive,
            slow_s=slow,
            drain_s=drain,
            measured=not no_metrics,
            access_log=access_log,
            sampling=None if asked is None else Sampling(*asked),
        )
    )


def _admin_token(token: str | None, file: str | None) -> str:
    """The one that is given, or ""; raises CommandError."""
    if not file:
        return token or ""
    if token:
        raise CommandError("give --admin-token or --admin-token-file, not both")
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read().strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise CommandError(f"--admin-token-file: {file}: {reason}") from None
    lack = values.lack_of_token(text)
    if lack:
        raise CommandError(f"--admin-token-file: {file}: {lack}")
    return text

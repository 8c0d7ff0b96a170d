"""The commands of `millstream`: their options, their help, and which part each of them starts.

Every part is imported by its own command alone, so that a worker's host needs no web server and
`--help` is quick. What is wrong with options, files or keys is told here, before a part is loaded.
"""
# ruff: noqa: PLC0415

import os
import sys
from typing import Annotated

import typer

from broker.wire.address import (
    AddressError,
    check_ipc_folder,
    default_address,
    needs_keys,
    prepare_ipc_folder,
)
from broker.wire.keys import ClientKeys, KeysError, load_broker_keys, load_client_keys
from millstream import __version__
from millstream.cli import values
from millstream.cli.errors import CommandError, usage_line
from millstream.cli.options import Arena, Broker, Keys, flag, option

COMMANDS = ("broker", "gateway", "worker", "status", "call", "keys")

app = typer.Typer(
    name="millstream",
    help="Inference pipelines: batching, delivery and rollout for your models.",
    add_completion=False,
    rich_markup_mode=None,  # plain help: no boxes, and nothing more to load
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every option of a command is also an environment variable; the command line goes first."
    " 'millstream COMMAND --help' tells more.",
)


def run(argv: list[str]) -> int:
    """Runs one command and returns its exit code; mistakes become one line on stderr."""
    try:
        _check_command(argv)
        code = app(argv, prog_name="millstream", standalone_mode=False)
        return int(code or 0)
    except typer.TyperException as error:
        return _complain(usage_line(error), error.exit_code)
    except CommandError as error:
        return _complain(str(error), error.code)
    except (AddressError, KeysError) as error:
        return _complain(str(error), 2)


def _complain(line: str, code: int) -> int:
    sys.stderr.write(f"millstream: {line}\n")
    return code


def _check_command(argv: list[str]) -> None:
    word = argv[0] if argv else ""
    if word in COMMANDS or word.startswith("-"):
        return
    if not word:
        raise CommandError(f"a command is missing, one of {', '.join(COMMANDS)}; see --help")
    from broker.config import did_you_mean

    hint = did_you_mean(word, COMMANDS) or f"; there are {', '.join(COMMANDS)}"
    raise CommandError(f"no such command: {word}{hint}")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"millstream {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version),
    ] = False,
) -> None:
    pass


@app.command(
    "broker",
    epilog="\b\nExample:\n"
    "  millstream broker pipelines/digits.toml --metrics-port 9100\n"
    "  millstream broker digits.toml --broker tcp://0.0.0.0:5570 --keys keys/",
)
def _broker(
    *,
    pipelines: Annotated[
        list[str], typer.Argument(metavar="PIPELINE.toml", help="Files that define pipelines.")
    ],
    broker: Annotated[
        str | None,
        option(
            "--broker",
            values.listen_address,
            "ADDR",
            "Address to listen at, such as tcp://0.0.0.0:5570.  [default: ipc:// in a folder of "
            "this user]",
        ),
    ] = None,
    metrics_host: Annotated[
        str, option("--metrics-host", values.host, "HOST", "Where to serve the broker's metrics.")
    ] = "127.0.0.1",
    metrics_port: Annotated[
        int | None,
        option("--metrics-port", values.port, "PORT", "Port of GET /metrics; none without it."),
    ] = None,
    keys: Keys = None,
    insecure: Annotated[
        bool, flag("--insecure", "Listen beyond this host without keys: anybody may join.")
    ] = False,
) -> int:
    """Run the broker for the pipelines in these files."""
    from broker.config import ConfigError, load_pipelines

    address = broker or default_address(os.environ)
    try:
        loaded = load_pipelines(pipelines)
    except ConfigError as error:
        raise CommandError(str(error)) from None
    if keys:
        load_broker_keys(keys)
    elif needs_keys(address) and not insecure:
        raise CommandError(
            f"{address} lets other hosts in, so it needs keys: make them with 'millstream keys "
            "DIR', then give '--keys DIR' on each side (or --insecure, to let anybody join)"
        )
    prepare_ipc_folder(address)

    from broker.server import BrokerOptions, serve

    return serve(
        BrokerOptions(
            pipelines=loaded,
            address=address,
            metrics_host=metrics_host,
            metrics_port=metrics_port,
            keys=keys or "",
            insecure=insecure,
        )
    )


@app.command(
    "gateway",
    epilog="\b\nExample:\n"
    "  millstream gateway --port 8000 --grpc-port 8001\n"
    "  millstream gateway --host 0.0.0.0 --broker tcp://10.0.0.5:5570 --keys keys/",
)
def _gateway(
    *,
    host: Annotated[
        str, option("--host", values.host, "HOST", "Address to listen at.")
    ] = "127.0.0.1",
    port: Annotated[int, option("--port", values.port, "PORT", "Port to listen at.")] = 8000,
    grpc_port: Annotated[
        int | None,
        option(
            "--grpc-port",
            values.port,
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
            values.size,
            "SIZE",
            "Compress JSON answers from this size on, such as 4KiB; pays where the way to "
            "clients is slower than some 100 Mbit/s.  [default: none is]",
        ),
    ] = 0,
    broker: Broker = None,
    keys: Keys = None,
    max_body: Annotated[
        int,
        option("--max-body", values.size, "SIZE", "Largest request body, such as 64MiB."),
    ] = 64 << 20,
    arena: Arena = None,
    header_timeout: Annotated[
        float,
        option("--header-timeout", values.seconds, "SECONDS", "For the headers of a request."),
    ] = 10.0,
    body_timeout: Annotated[
        float,
        option("--body-timeout", values.seconds, "SECONDS", "For the whole body of a request."),
    ] = 30.0,
    keep_alive: Annotated[
        float,
        option("--keep-alive", values.seconds, "SECONDS", "For a connection between requests."),
    ] = 75.0,
    slow: Annotated[
        float,
        option("--slow", values.seconds, "SECONDS", "A request that takes longer is logged."),
    ] = 5.0,
    drain: Annotated[
        float,
        option("--drain", values.seconds, "SECONDS", "For what is held, after SIGTERM."),
    ] = 3.5,
    access_log: Annotated[
        bool, flag("--access-log", "Log every request, not only failed and slow ones.")
    ] = False,
) -> int:
    """Run an HTTP gateway; any number may run beside each other."""
    address = _find_broker(broker)
    _client_keys(keys)

    from gateway.options import GatewayOptions
    from gateway.server import serve

    return serve(
        GatewayOptions(
            host=host,
            port=port,
            grpc_port=grpc_port,
            uds=uds or "",
            cors_origins=tuple(each for group in cors_origin or () for each in group.split(",")),
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
            access_log=access_log,
        )
    )


@app.command(
    "worker",
    epilog="\b\nExample:\n"
    "  millstream worker infer.py --processes 2 --device cuda:0,1\n"
    "  millstream worker stages.py:Infer --version 2024-06",
)
def _worker(
    *,
    script: Annotated[
        values.Script,
        typer.Argument(
            parser=values.script,
            metavar="SCRIPT.py[:Class]",
            help="The plug-in: a file, and which class of it where there are several.",
        ),
    ],
    pipeline: Annotated[
        str | None,
        option(
            "--pipeline",
            values.name,
            "NAME",
            "The pipeline to serve in.  [default: every one with such a stage]",
        ),
    ] = None,
    stage: Annotated[
        str | None,
        option("--stage", values.name, "NAME", "The stage to serve.  [default: the class's own]"),
    ] = None,
    processes: Annotated[
        int, option("--processes", values.count, "N", "Worker processes to keep running.")
    ] = 1,
    device: Annotated[
        str,
        option(
            "--device",
            values.device,
            "DEVICE",
            "auto, cpu, cuda, or a list such as cuda:0,1 to spread the processes over.",
        ),
    ] = "auto",
    version: Annotated[
        str | None,
        option("--version", values.name, "VERSION", "Which release of the model this is."),
    ] = None,
    model_dir: Annotated[
        str | None,
        option(
            "--model-dir",
            str,
            "DIR",
            "Folder of the model's files.  [default: 'model' beside the script]",
        ),
    ] = None,
    arena: Arena = None,
    max_batches: Annotated[
        int | None,
        option("--max-batches", values.count, "N", "Replace a worker that has run so many."),
    ] = None,
    max_age: Annotated[
        float | None,
        option("--max-age", values.seconds, "SECONDS", "Replace a worker that is so old."),
    ] = None,
    max_rss: Annotated[
        int | None,
        option(
            "--max-rss",
            values.size,
            "SIZE",
            "Replace a worker that takes more memory, such as 8GiB; shared memory is not counted.",
        ),
    ] = None,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Run worker processes for one stage; they join a running broker at any time."""
    address = _find_broker(broker)
    _client_keys(keys)
    _check_device(device)

    from workers.options import WorkerOptions
    from workers.supervisor import supervise

    return supervise(
        WorkerOptions(
            script=script.path,
            class_name=script.class_name,
            pipeline=pipeline or "",
            stage=stage or "",
            processes=processes,
            device=device,
            version=version or "",
            broker=address,
            keys=keys or "",
            model_dir=model_dir or "",
            arena_bytes=arena,
            max_batches=max_batches,
            max_age_s=max_age,
            max_rss_bytes=max_rss,
        )
    )


@app.command(
    "status",
    epilog="\b\nExample:\n"
    "  millstream status --watch\n"
    "  millstream status --json | jq .pipelines.digits.ready",
)
def _status(
    *,
    json: Annotated[bool, flag("--json", "The broker's report as it is, in JSON.")] = False,
    watch: Annotated[bool, flag("--watch", "Show it again each second until Ctrl-C.")] = False,
    broker: Broker = None,
    keys: Keys = None,
) -> int:
    """Show pipelines, stages, queues, workers and versions as the broker sees them."""
    from millstream.cli.status import show_status

    return show_status(_find_broker(broker), keys=_client_keys(keys), as_json=json, watch=watch)


@app.command(
    "call",
    epilog="\b\nExample:\n"
    "  millstream call digits --file examples/digits/samples/3.png\n"
    "  millstream call shout '\"hello\"' --url http://10.0.0.5:8000",
)
def _call(
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
        float, option("--timeout", values.seconds, "SECONDS", "For the answer, in all.")
    ] = 30.0,
    retries: Annotated[
        int, option("--retries", values.whole, "N", "How often to send it again, if that may help.")
    ] = 4,
    version: Annotated[
        str | None, option("--version", values.name, "VERSION", "Which release of the model.")
    ] = None,
    stream: Annotated[
        bool, flag("--stream", "Show the values of a stream, each as it comes.")
    ] = False,
) -> int:
    """Send one request and show its answer."""
    from millstream.cli.call import call

    return call(
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


@app.command(
    "keys",
    epilog="\b\nExample:\n  millstream keys keys/",
)
def _keys(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A new folder for the keys.")],
) -> int:
    """Make the keys that guard a broker on tcp."""
    from millstream.cli.make_keys import make_keys

    return make_keys(folder)


def _find_broker(given: str | None) -> str:
    """The broker's address for one who connects; the default one must not be somebody else's."""
    if given:
        return given
    address = default_address(os.environ)
    check_ipc_folder(address)
    return address


def _client_keys(folder: str | None) -> ClientKeys | None:
    return load_client_keys(folder) if folder else None


def _check_device(device: str) -> None:
    from workers.devices import DeviceError, assign, inherited_devices

    try:
        assign(device, 1, inherited_devices(os.environ))
    except DeviceError as error:
        raise CommandError(str(error)) from None

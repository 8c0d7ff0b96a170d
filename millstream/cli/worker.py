"""The command `millstream worker`. What is wrong is told before the supervisor is loaded."""
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
    client_keys,
    find_broker,
    option,
    set_up_log,
)

EXAMPLE = (
    "\b\nExample:\n"
    "  millstream worker infer.py --processes 2 --device cuda:0,1\n"
    "  millstream worker stages.py:Infer --version 2024-06\n"
    "  millstream worker infer.py --models models/digits"
)


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    app.command("worker", epilog=EXAMPLE)(worker)


def worker(
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
        int, option("--processes", amounts.count, "N", "Worker processes to keep running.")
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
    models: Annotated[
        str | None,
        option(
            "--models",
            values.folder,
            "DIR",
            "Folder with a folder for each version, named by its number: versions that come are "
            "loaded, and take over, while this runs.",
        ),
    ] = None,
    versions: Annotated[
        str | None,
        option(
            "--versions",
            values.policy,
            "POLICY",
            "Which versions of --models to load: latest:N, all, or specific:2,5.  "
            "[default: latest:1]",
        ),
    ] = None,
    keep_warm: Annotated[
        float,
        option(
            "--keep-warm",
            amounts.seconds_if_any,
            "SECONDS",
            "How long the version of --models that was used before stays loaded.",
        ),
    ] = 600.0,
    arena: Arena = None,
    max_batches: Annotated[
        int | None,
        option("--max-batches", amounts.count, "N", "Replace a worker that has run so many."),
    ] = None,
    max_age: Annotated[
        float | None,
        option("--max-age", amounts.seconds, "SECONDS", "Replace a worker that is so old."),
    ] = None,
    max_rss: Annotated[
        int | None,
        option(
            "--max-rss",
            amounts.size,
            "SIZE",
            "Replace a worker that takes more memory, such as 8GiB; shared memory is not counted.",
        ),
    ] = None,
    metrics_host: Annotated[
        str, option("--metrics-host", values.host, "HOST", "Where to serve the metrics below.")
    ] = "127.0.0.1",
    metrics_port: Annotated[
        int | None,
        option(
            "--metrics-port",
            amounts.port,
            "PORT",
            "Port of GET /metrics about these processes and GPUs, or the next one that is free; "
            "none without it.",
        ),
    ] = None,
    broker: Broker = None,
    keys: Keys = None,
    log_format: LogFormat = "auto",
    log_level: LogLevel = "info",
) -> int:
    """Run worker processes for one stage; they join a running broker at any time."""
    set_up_log(log_format, log_level)
    address = find_broker(broker)
    client_keys(keys)
    _check_device(device)
    for given, name in ((version, "--version"), (model_dir, "--model-dir")):
        if models and given:
            raise CommandError(f"{name} and --models exclude each other: there each folder is one")
    if versions and not models:
        raise CommandError("--versions is about the versions in --models DIR, which is missing")

    from workers.options import WorkerOptions
    from workers.policy import DEFAULT
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
            models=models or "",
            versions=versions or DEFAULT,
            keep_warm_s=keep_warm,
            arena_bytes=arena,
            max_batches=max_batches,
            max_age_s=max_age,
            max_rss_bytes=max_rss,
            metrics_host=metrics_host,
            metrics_port=metrics_port,
        )
    )


def _check_device(device: str) -> None:
    from workers.devices import DeviceError, assign, inherited_devices

    try:
        assign(device, 1, inherited_devices(os.environ))
    except DeviceError as error:
        raise CommandError(str(error)) from None

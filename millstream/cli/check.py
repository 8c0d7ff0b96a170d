"""The command `millstream check`."""
# ruff: noqa: PLC0415  # the start of the others does not wait for what this loads

import mimetypes
import os
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli import amounts, values
from millstream.cli.errors import CommandError
from millstream.cli.options import flag, option

if TYPE_CHECKING:
    from workers.devices import Device

EXAMPLE = (
    "\b\nExample:\n"
    "  millstream check pipeline.toml preprocess.py infer.py postprocess.py\n"
    "  millstream check app.py --rate 200 --slo-ms 100\n"
    "  millstream check --input photo.png      (what the Procfile here starts)"
)


def add_to(app: typer.Typer) -> None:
    """Make it a command of this program."""
    app.command("check", epilog=EXAMPLE)(check)


def check(
    *,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PIPELINE.toml] [SCRIPT.py[:Class]…]",
            help="A pipeline file and the scripts of its stages; scripts alone, first to last; or "
            "one that calls serve.  [default: what the Procfile in this folder starts]",
        ),
    ] = None,
    input: Annotated[
        list[str] | None,
        option(
            "--input",
            str,
            "FILE",
            "A request's body, to run the chain with; more of them are its company in batches.",
        ),
    ] = None,
    content_type: Annotated[
        str | None,
        option("--content-type", str, "TYPE", "Of the input.  [default: by its name]"),
    ] = None,
    pipeline: Annotated[
        str | None,
        option("--pipeline", values.name, "NAME", "Which one, where there are several."),
    ] = None,
    rate: Annotated[
        float | None,
        option("--rate", amounts.rate, "N", "Say what so many requests a second would need."),
    ] = None,
    slo_ms: Annotated[
        float,
        option("--slo-ms", amounts.milliseconds, "MS", "Within this time answers are wanted."),
    ] = 100.0,
    slo_share: Annotated[
        float,
        option("--slo-share", amounts.percent, "PERCENT", "So many of all must be in time."),
    ] = 99.0,
    seconds: Annotated[
        float,
        option("--seconds", amounts.seconds, "SECONDS", "For timing all stages, about."),
    ] = 5.0,
    device: Annotated[
        str,
        option("--device", values.device, "DEVICE", "auto, cpu, cuda, or one such as cuda:1."),
    ] = "auto",
    version: Annotated[
        str | None, option("--version", values.name, "VERSION", "Which release of the model.")
    ] = None,
    model_dir: Annotated[
        str | None, option("--model-dir", values.folder, "DIR", "Folder of the model's files.")
    ] = None,
    strict: Annotated[bool, flag("--strict", "Notes count as findings, too.")] = False,
    json: Annotated[bool, flag("--json", "The report in JSON.")] = False,
) -> int:
    """Load plug-ins, run and time their chain in one process, and say what is wrong.

    Exits 0 where nothing is, 1 where something is, 2 for a wrong option.
    """
    from millstream.check.report import Asked
    from millstream.check.run import show_check
    from millstream.check.targets import targets_here

    inputs = input or []
    for path in inputs:
        if not os.path.isfile(path):
            raise CommandError(f"--input: {path}: no such file")
    place = _device(device)
    asked = Asked(
        targets=_existing(targets) if targets else targets_here(),
        pipeline=pipeline or "",
        inputs=inputs,
        content_type=_type_of(inputs, content_type),
        device=place.name,
        visible=place.visible,
        version=version or "",
        model_dir=model_dir or "",
        seconds=seconds,
        rate_per_s=rate or 0.0,
        slo_s=slo_ms / 1e3,
        share=slo_share / 100.0,
    )
    return show_check(asked, as_json=json, strict=strict)


def _existing(targets: list[str]) -> list[str]:
    for target in targets:
        if target.endswith(".toml"):
            if not os.path.isfile(target):
                from broker.config import nearest_file

                raise CommandError(f"{target}: no such file{nearest_file(target, '.toml')}")
        else:
            values.script(target)
    return targets


def _device(asked: str) -> "Device":
    from workers.devices import DeviceError, assign, inherited_devices

    try:
        return assign(asked, 1, inherited_devices(os.environ))[0]
    except DeviceError as error:
        raise CommandError(str(error)) from None


def _type_of(inputs: list[str], given: str | None) -> str:
    if given is not None or not inputs:
        return given or ""
    return mimetypes.guess_type(inputs[0])[0] or ""

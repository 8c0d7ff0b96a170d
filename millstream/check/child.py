"""The child of a check: loads, runs, times, and tells its parent over a pipe."""

import os
from collections.abc import Callable

import msgspec

from broker.wire.cores import usable_cores
from millstream.chain.findings import ChainError, Finding
from millstream.chain.parts import Settings, assemble
from millstream.check.load import load_of
from millstream.check.report import Asked, Load, Progress, Report
from millstream.check.walk import Walk


def check(asked: Asked, tell: Callable[[str], None]) -> Report:
    """All that is found. `tell` is told what begins."""
    tell("the loading of the plug-ins")
    settings = Settings(device=asked.device, version=asked.version, model_dir=asked.model_dir)
    try:
        parts = assemble(asked.targets, settings, name=asked.pipeline)
    except ChainError as error:
        return Report(pipeline=asked.pipeline, findings=error.findings)
    walk = Walk(parts, asked, tell)
    walk.go()
    report = Report(pipeline=parts.name, stages=walk.reports, findings=walk.notes.findings)
    if asked.rate_per_s:
        _add_load(report, asked, parts.config.timeout_s)
    return report


def _add_load(report: Report, asked: Asked, timeout_s: float) -> None:
    found = load_of(report.stages, asked, timeout_s=timeout_s, has_cores=usable_cores())
    if not isinstance(found, Load):
        report.findings.append(found)
        return
    report.load = found
    if found.cores > found.has_cores:
        what = (
            f"{asked.rate_per_s:g} requests a second keep about {found.cores:.1f} cores busy, and "
            f"this machine has {found.has_cores}"
        )
        report.findings.append(Finding("", what, "serve it from more hosts", is_warning=True))


def run(spec: str, fd: int) -> None:
    """Checks what the spec asks for, and writes lines of JSON to the descriptor."""
    asked = msgspec.json.decode(spec, type=Asked)
    os.set_inheritable(fd, False)

    def tell(doing: str) -> None:
        _write(fd, Progress(doing))

    _write(fd, check(asked, tell))


def _write(fd: int, message: Progress | Report) -> None:
    data = msgspec.json.encode(message) + b"\n"
    while data:
        data = data[os.write(fd, data) :]

"""What the command `millstream check` does, once its options are read."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

import msgspec

from broker.wire.cores import usable_cores
from millstream.chain.findings import Finding
from millstream.check.report import Asked, Progress, Report
from millstream.check.words import tables
from millstream.cli.tables import show, write_line
from workers.cores import threads_per_process

FINE, FOUND = 0, 1
_INTERRUPTED = 130
_STDERR = 2
_messages = msgspec.json.Decoder(Progress | Report)


def show_check(asked: Asked, *, as_json: bool, strict: bool) -> int:
    """0 where nothing is wrong, else 1; with `strict` warnings count, too. 130 after Ctrl-C."""
    report = checked(asked, os.environ)
    if report is None:
        return _INTERRUPTED
    if as_json:
        write_line(msgspec.json.encode(report).decode())
    else:
        show(tables(report))
    return FOUND if any(strict or not each.is_warning for each in report.findings) else FINE


def checked(asked: Asked, environ: Mapping[str, str]) -> Report | None:
    """What a child finds; where it dies of a plug-in, that. None where it was interrupted."""
    fd, theirs = os.pipe()
    spec = msgspec.json.encode(asked).decode()
    words = ["-m", "millstream.check", spec, str(theirs), str(os.getpid())]
    with subprocess.Popen(
        [sys.executable, *words],
        env=_environment(asked, environ),
        stdin=subprocess.DEVNULL,
        stdout=_STDERR,  # what plug-ins print is no part of the report
        pass_fds=(theirs,),
    ) as child:
        os.close(theirs)
        try:
            progress, report = _read(fd)
            child.wait()
        finally:
            os.close(fd)
            child.kill()
    if report is None and child.returncode != _INTERRUPTED:
        return Report(pipeline=asked.pipeline, findings=[_died(progress, child.returncode)])
    return report


def _environment(asked: Asked, environ: Mapping[str, str]) -> dict[str, str]:
    """As a supervisor of one process makes it."""
    threads = str(threads_per_process(usable_cores(), 1))
    env = {"OMP_NUM_THREADS": threads, **environ}
    if asked.visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = asked.visible
    return env


def _read(fd: int) -> tuple[str, Report | None]:
    """What it did last, and its report."""
    doing = "its start"
    with os.fdopen(os.dup(fd), "rb") as lines:
        for line in lines:
            message = _messages.decode(line)
            if isinstance(message, Report):
                return doing, message
            doing = message.doing
            _tell(doing)
    return doing, None


def _tell(doing: str) -> None:
    """For who waits at a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{doing} …" if doing else "\r\x1b[K")
        sys.stderr.flush()


def _died(doing: str, code: int) -> Finding:
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return Finding("", f"the process has ended {how} in {doing}", "a worker would die of it, too")

"""Finds out what a script serves, without serving it: the script runs in a process of its own.

There `serve` writes the plan that it has made, and ends the script. So whoever starts the roles
imports neither the script nor what it needs.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping, Sequence
from typing import NoReturn

import msgspec
from msgspec import Struct

from millstream.local.child import environment
from millstream.local.mistakes import Mistake, shown_path
from millstream.local.plan import Plan
from workers.missing import advice_for

_VARIABLE = "MILLSTREAM_RECORD_TO"
_SHOWN_LINES = 60


class _Record(Struct, frozen=True):
    """What the script's process answers: a plan, or a mistake."""

    plan: Plan | None = None
    mistake: str = ""


class Recording:
    """One run of a script up to its `serve`."""

    def __init__(self, script: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self._script = script
        self._plan_file = tempfile.TemporaryFile()  # noqa: SIM115  closed with the result
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        fd = self._plan_file.fileno()
        self._popen = subprocess.Popen(
            [sys.executable, script, *arguments],
            env={**environment(environ), _VARIABLE: str(fd)},
            stdin=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=(fd,),
            process_group=0,
        )
        self.pidfd = os.pidfd_open(self._popen.pid)

    def has_ended(self, timeout_s: float | None = 0.0) -> bool:
        """Whether it has, at the latest then; None waits for it."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))

    def result(self) -> Plan:
        """Once it has ended. Raises Mistake, with the traceback of the script where it left one."""
        code = self._popen.wait()
        self._plan_file.seek(0)
        self._errors.seek(0)
        answer = self._plan_file.read()
        errors = self._errors.read().decode(errors="replace").strip()
        self._close()
        record = msgspec.json.decode(answer, type=_Record) if answer else _Record()
        if record.plan is not None:
            return record.plan
        shown = shown_path(self._script)
        trace = "\n".join(errors.splitlines()[-_SHOWN_LINES:])
        if record.mistake:
            raise Mistake(record.mistake)
        if code:
            advice = advice_for(trace)
            raise Mistake("\n".join(filter(None, (trace, f"{shown}: cannot be run{advice}"))))
        raise Mistake(f'{shown}: never calls serve(…) below `if __name__ == "__main__":`')

    def cancel(self) -> None:
        """Its result is not wanted any more."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._close()

    def _close(self) -> None:
        os.close(self.pidfd)
        self._plan_file.close()
        self._errors.close()


def record(script: str, arguments: Sequence[str], environ: Mapping[str, str]) -> Plan:
    """What a script serves. Raises Mistake."""
    recording = Recording(script, arguments, environ)
    try:
        recording.has_ended(None)
    except BaseException:  # Ctrl-C
        recording.cancel()
        raise
    return recording.result()


def recorder_of(environ: MutableMapping[str, str]) -> "Recorder | None":
    """Where `serve` is to write its plan, in a process that records; None: it is to serve."""
    fd = environ.pop(_VARIABLE, "")
    return Recorder(int(fd)) if fd.isdigit() else None


class Recorder:
    """The other end of a `Recording`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def plan(self, plan: Plan) -> NoReturn:
        """This is what it serves: the script has nothing more to do."""
        self._end(_Record(plan=plan))

    def mistake(self, mistake: Mistake) -> NoReturn:
        """It cannot be served."""
        self._end(_Record(mistake=str(mistake)))

    def _end(self, record: _Record) -> NoReturn:
        os.write(self._fd, msgspec.json.encode(record))
        sys.stdout.flush()
        os._exit(0)  # what the script would do after its service is not wanted

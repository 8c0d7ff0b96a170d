"""What `millstream profile` does, once its options are read."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from broker.wire.keys import ClientKeys
from millstream.cli.ask import ask
from millstream.cli.errors import CommandError
from millstream.cli.tables import write_line
from millstream.profile.choice import NoChoice, WorkerReport, choose, parse

SUFFIXES = {"flamegraph": ".svg", "speedscope": ".json", "raw": ".txt"}
SPARE_S = 30.0
"""Beyond what it records, py-spy may take so long to find its way through a large process."""

_NO_RIGHT = ("permission denied", "operation not permitted")
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


def profile(
    address: str,
    word: str,
    *,
    keys: ClientKeys | None,
    seconds: float,
    rate: int,
    format: str,
    output: str,
    idle: bool,
) -> int:
    """Exit code 0; CommandError with exit code 1 where it cannot be recorded, and why."""
    program = _py_spy()
    host = socket.gethostname()
    try:
        worker = choose(parse(ask(address, "status", keys=keys)), word, host)
    except NoChoice as error:
        raise CommandError(str(error), code=1) from None
    except msgspec.MsgspecError as error:
        raise CommandError(f"the broker's report cannot be read: {error}", code=1) from None
    _check_is_here(worker, host)
    path = output or f"profile-{worker.stage}-{worker.pid}{SUFFIXES[format]}"
    _check_writable(path)
    write_line(f"recording {worker.name} for {seconds:g} s", to=sys.stderr)
    # Without a pause for each sample: a worker that is stopped is given up, and its work run again.
    command = [program, "record", "--nonblocking", "--pid", str(worker.pid), "--output", path]
    command += ["--format", format, "--duration", str(max(round(seconds), 1)), "--rate", str(rate)]
    return _record([*command, *(["--idle"] if idle else [])], worker, path, seconds)


def _py_spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        raise CommandError("py-spy is missing: pip install 'millstream[profile]'")
    return program


def _check_is_here(worker: WorkerReport, host: str) -> None:
    """That its pid is a process of ours, and not by chance another one."""
    if worker.host != host:
        raise CommandError(
            f"{worker.name} is not on this host ({host}): run millstream profile there", code=1
        )
    try:
        words = Path(f"/proc/{worker.pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    if b"workers" not in words:
        raise CommandError(
            f"process {worker.pid} is no worker here: it runs in another container than this "
            "command, or has just ended",
            code=1,
        )


def _check_writable(path: str) -> None:
    """Before ten seconds are spent."""
    try:
        with open(path, "ab"):
            pass
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from None


def _record(command: list[str], worker: WorkerReport, path: str, seconds: float) -> int:
    # A session of its own: Ctrl-C comes here, and is passed on once.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    interrupted = False
    try:
        said, _ = process.communicate(timeout=seconds + SPARE_S)
    except KeyboardInterrupt:
        interrupted = True
        process.send_signal(signal.SIGINT)  # it writes what it has
        said, _ = process.communicate(timeout=SPARE_S)
    except subprocess.TimeoutExpired:
        raise CommandError(f"py-spy did not end in {SPARE_S:g} s more", code=1) from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode or not os.path.getsize(path):
        _remove_empty(path)
        raise CommandError(_why(said, worker), code=1)
    write_line(path)
    return 130 if interrupted else 0


def _remove_empty(path: str) -> None:
    if os.path.exists(path) and not os.path.getsize(path):
        os.unlink(path)


def _why(said: str, worker: WorkerReport) -> str:
    lowered = said.lower()
    if any(words in lowered for words in _NO_RIGHT):
        return f"no right to look into process {worker.pid}: {_what_to_do(worker.pid)}"
    if "no stacks" in lowered or "no stack counts" in lowered:
        return f"{worker.name} did nothing in that time; --idle records waiting, too"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reason = next((line for line in lines if line.startswith("Error")), lines[-1] if lines else "")
    return f"py-spy: {reason or 'it ended without a word'}"


def _what_to_do(pid: int) -> str:
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return "it has ended"
    if os.geteuid() not in (0, owner):
        return f"it is another user's (uid {owner}): run this as that user, or as root"
    scope = _SCOPE.read_text().strip() if _SCOPE.exists() else "0"
    if scope != "0":
        return (
            f"the kernel lets nobody but its parent (kernel.yama.ptrace_scope = {scope}): run this "
            'as root (sudo env "PATH=$PATH" millstream profile …), or allow it with '
            "sysctl kernel.yama.ptrace_scope=0"
        )
    return "in a container, give it the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE)"

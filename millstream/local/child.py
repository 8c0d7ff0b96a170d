"""One role as a process: started, watched through descriptors, ended. Decides nothing."""

import contextlib
import os
import select
import signal
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent.parent
_MOST_COMPLAINT_BYTES = 1 << 16


class Child:
    """One life of a role."""

    def __init__(
        self, name: str, words: Sequence[str], env: Mapping[str, str], folder: Path, output: int
    ) -> None:
        """`millstream WORDS…`, which writes to the descriptor `output`. Raises OSError."""
        self.name = name
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            self._complaints_fd, complaints = os.pipe()
            ours.callback(os.close, self._complaints_fd)
            theirs.callback(os.close, complaints)
            me = str(os.getpid())
            self._popen = subprocess.Popen(
                # -P: a folder that happens to be the current one lends no modules.
                [sys.executable, "-P", "-m", "millstream.local.role",
                 str(folder), me, str(complaints), *words],
                env=environment(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(complaints,),
                process_group=0,  # Ctrl-C at the terminal is for the parent alone
            )  # fmt: skip
            ours.pop_all()
        self.pid = self._popen.pid
        self.pidfd = os.pidfd_open(self.pid)
        self.complaint = ""
        """Once it has ended: what it had to say to a person."""

    @property
    def code(self) -> int | None:
        """The exit code, as subprocess has it; None while it lives."""
        return self._popen.returncode

    def send(self, signum: signal.Signals) -> None:
        """To one that has ended it is nothing."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signum)

    def has_ended(self, timeout_s: float = 0.0) -> bool:
        """Whether it has, at the latest then; it is reaped then, and its complaint is known."""
        if self.code is not None:
            return True
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll(int(timeout_s * 1000)):
            return False
        self._popen.wait()
        os.close(self.pidfd)
        self.complaint = _read(self._complaints_fd)
        os.close(self._complaints_fd)
        return True


def _read(fd: int) -> str:
    """What is in a pipe now. (Others may still have its other end, and never write.)"""
    os.set_blocking(fd, False)
    parts: list[bytes] = []
    with contextlib.suppress(BlockingIOError):
        while sum(map(len, parts)) < _MOST_COMPLAINT_BYTES and (part := os.read(fd, 65536)):
            parts.append(part)
    return b"".join(parts).decode(errors="replace")


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The same, so that a fresh interpreter finds this package wherever it is started."""
    places = [*site.getsitepackages(), site.getusersitepackages()]
    if str(_ROOT) in {str(Path(place).resolve()) for place in places}:
        return dict(env)
    path = os.pathsep.join(filter(None, (str(_ROOT), env.get("PYTHONPATH"))))
    return {**env, "PYTHONPATH": path}

"""The child process that compares answers for a shadow: started, watched, ended.

It is of the package `workers`, which the broker does not import: it runs plug-ins' code, and numpy.
"""

import os
import site
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from broker.wire import log
from broker.wire.address import parse_address
from broker.wire.keys import ClientKeys

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
"""After a death the next is started so much later, twice as long each time."""

SETTLED_S = 10.0
"""One that has lived so long begins anew with that; and one that has had so long to join, and has
not, hangs."""

_ROOT = Path(__file__).resolve().parent.parent
_ANY = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class ComparerProcess:
    """None at first. Used from the main thread, with which it ends."""

    def __init__(self, address: str, keys: ClientKeys | None) -> None:
        """`address` is where the broker listens."""
        self._task = {"parent_pid": os.getpid(), "address": _reachable(address)}
        if keys is not None:
            self._task |= {name: getattr(keys, name).decode() for name in keys._fields}
        self._popen: subprocess.Popen[bytes] | None = None
        self._wanted = False
        self._wait_s = FIRST_WAIT_S
        self._started = 0.0
        self._start_at = 0.0

    @property
    def pid(self) -> int:
        """Of the living one; 0 while there is none."""
        return self._popen.pid if self._popen is not None else 0

    def want(self, wanted: bool, now: float) -> None:
        """The core knows of none, and wants one; or wants none any longer."""
        self._wanted = wanted
        if not wanted:
            self.close()
        elif self._popen is not None and now - self._started > SETTLED_S:
            self.close()  # it was there, and is silent
        self.tend(now)

    def tend(self, now: float) -> None:
        """Now and then: one that has ended is replaced, after a while."""
        popen = self._popen
        if popen is not None and (code := popen.poll()) is not None:
            self._popen = None
            lived_s = now - self._started
            self._wait_s = FIRST_WAIT_S if lived_s > SETTLED_S else self._wait_s * 2
            self._wait_s = min(self._wait_s, LONGEST_WAIT_S)
            self._start_at = now + self._wait_s
            log.warning("comparer_ended", code=code, again_in_s=self._wait_s)
        if self._wanted and self._popen is None and now >= self._start_at:
            self._start(now)

    def _start(self, now: float) -> None:
        self._started = now
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "workers.comparer"],
                env=_environment(),
                stdin=subprocess.PIPE,
                process_group=0,
            )
        except OSError as error:
            self._start_at = now + LONGEST_WAIT_S
            log.warning("comparer_not_started", reason=str(error))
            return
        assert self._popen.stdin is not None, "it was asked for"
        with suppress(OSError):  # it has ended already; a task is smaller than any pipe
            self._popen.stdin.write(msgspec.json.encode(self._task))
            self._popen.stdin.close()

    def close(self) -> None:
        """End it, if there is one."""
        if self._popen is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, 9)
        self._popen.kill()
        self._popen.wait()
        self._popen = None


def _reachable(address: str) -> str:
    """Where a process on this host connects to a broker that listens here."""
    parsed = parse_address(address, bind=True)
    host = _ANY.get(parsed.host)
    if host is None:
        return address
    return f"tcp://[{host}]:{parsed.port}" if ":" in host else f"tcp://{host}:{parsed.port}"


def _environment() -> dict[str, str]:
    """Ours, so that a fresh interpreter finds this package, and takes few threads."""
    env = {**os.environ, **log.environment()}
    env.setdefault("OMP_NUM_THREADS", "1")
    env.setdefault("OPENBLAS_NUM_THREADS", "1")
    places = [*site.getsitepackages(), site.getusersitepackages()]
    if str(_ROOT) not in {str(Path(place).resolve()) for place in places}:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), env.get("PYTHONPATH"))))
    return env

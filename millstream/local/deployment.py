"""The processes of one deployment, and the folder that they meet in.

Knows how they are started, watched and ended; what is said of it to a person is `launch.py`'s.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from millstream.local import folder as runtime
from millstream.local import probe
from millstream.local.child import Child
from millstream.local.plan import GATEWAY, Plan, Role

_GATEWAY_S = 0.5
"""A gateway takes so long to end, beside what it waits for."""
_ALL_S = 0.75
"""All take so long, beside that: what has not ended by then is killed."""
_TWICE_S = 0.1
_WAIT_S = 0.01


class DeploymentError(Exception):
    """It could not start, or not go on. `complaint` is what the role at fault had to say."""

    def __init__(self, message: str, *, complaint: str = "", code: int = 1) -> None:
        super().__init__(f"{complaint}{message}")
        self.message = message
        self.complaint = complaint
        self.code = code


class Deployment:
    """What `start` returns. A context manager; at its end nothing is left."""

    def __init__(
        self,
        plan: Plan,
        environ: Mapping[str, str],
        output: Callable[[Role], int] | None = None,
    ) -> None:
        """`output` opens what a role writes to: by default a file in the folder, see `logs`."""
        if plan.port == 0 and not plan.uds:
            plan = _at_free_port(plan)
        self.plan = plan
        self.children: dict[str, Child] = {}
        """By the names of their roles: the living, and those that have not been seen to."""
        self.folder = Path()
        """The runtime folder, once it has begun."""
        self._environ = environ
        self._output = output or self._open_log
        self._membership: runtime.Membership | None = None

    @property
    def url(self) -> str:
        """Where the gateway answers, as a client on this host calls it."""
        if self.plan.uds:
            return f"unix:{self.plan.uds}"
        host = probe.reachable(self.plan.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.plan.port}"

    @property
    def broker(self) -> str:
        """The broker's address."""
        return self.plan.broker or runtime.address_in(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # ------------------------------------------------------------------ start

    def begin(self) -> None:
        """Starts every role at once. Raises DeploymentError where the port is taken."""
        plan = self.plan
        if not plan.uds and (why := probe.taken(plan.host, plan.port)):
            raise DeploymentError(
                f"{plan.place}: cannot listen on {plan.host}:{plan.port}: {why}; stop what does, "
                f"or choose another port: serve(…, port={plan.port + 1}), --port or "
                "MILLSTREAM_PORT",
                code=2,
            )
        self.folder = runtime.make()
        self._membership = runtime.Membership(self.folder)
        try:
            self.write_pipelines(plan)
            for role in plan.roles:
                self.start(role)
        except BaseException:
            self.kill()
            raise

    def write_pipelines(self, plan: Plan) -> None:
        """The file that the next broker reads."""
        (self.folder / "pipelines.toml").write_text(plan.pipelines)

    def start(self, role: Role, *, name: str = "") -> Child:
        """One process more, under the role's name or another."""
        env = {**self._environ, **role.env, "MILLSTREAM_BROKER": self.broker}
        output = self._output(role)
        try:
            words = role.arguments(str(self.folder / "pipelines.toml"))
            if role.command == GATEWAY and "--drain" not in words:
                words += ["--drain", str(self.plan.drain_s)]
            child = Child(name or role.name, words, env, self.folder, output)
        finally:
            os.close(output)
        self.children[child.name] = child
        return child

    def _open_log(self, role: Role) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self.folder / f"{role.name}.log", flags, 0o600)

    # ------------------------------------------------------------------ look

    def wait_ready(self, timeout_s: float = 600.0) -> None:
        """Until every stage has a ready worker. Raises DeploymentError where that will not be."""
        began = time.monotonic()
        while not self.is_ready():
            for child in self.ended():
                raise failure(self.plan, child)
            waited_s = time.monotonic() - began
            if waited_s > timeout_s:
                raise DeploymentError(
                    f"{self.plan.place}: not ready within {timeout_s:g} s\n{self.logs()}"
                )
            time.sleep(probe.pause_s(waited_s))

    def is_ready(self) -> bool:
        """Whether every stage has a ready worker."""
        return probe.is_ready(self.plan.host, self.plan.port, self.plan.uds)

    def ended(self) -> list[Child]:
        """Those that have ended since this was asked before."""
        ended = [child for child in self.children.values() if child.has_ended()]
        for child in ended:
            del self.children[child.name]
        return ended

    def logs(self, lines: int = 40) -> str:
        """The ends of all logs, where no other output was chosen."""
        texts = []
        for path in sorted(self.folder.glob("*.log")):
            tail = path.read_text(errors="replace").splitlines()[-lines:]
            texts.append("\n".join([f"----- {path.stem}", *tail]))
        return "\n".join(texts)

    # ------------------------------------------------------------------ stop

    def stop(self, wait: Callable[[float], bool] | None = None) -> list[str]:
        """Drain and end; the names of those that took too long, and were killed.

        The gateway goes first, which answers what it holds; the others then have nothing left to
        do. `wait` waits so many seconds, and says whether to hurry.
        """
        wait = wait or _sleep
        held_until = time.monotonic() + self.plan.drain_s
        is_hurried = self._end([GATEWAY], held_until + _GATEWAY_S, wait)
        is_hurried = is_hurried or self._end(list(self.children), held_until + _ALL_S, wait)
        if is_hurried:
            for _ in range(2):  # the second signal ends at once those that have had one
                self._send(list(self.children), signal.SIGTERM)
                self._until_ended(list(self.children), time.monotonic() + _TWICE_S, _sleep)
        late = list(self.children)
        self.kill()
        return late

    def kill(self) -> None:
        """End what is left, at once, and remove the folder."""
        children = list(self.children.values())
        for child in children:
            child.send(signal.SIGKILL)
        for child in children:
            while not child.has_ended(1.0):
                pass
        self.children.clear()
        if self._membership is not None:
            self._membership.leave()
            self._membership = None

    def _end(self, names: list[str], until: float, wait: Callable[[float], bool]) -> bool:
        self._send(names, signal.SIGTERM)
        return self._until_ended(names, until, wait)

    def _send(self, names: list[str], signum: signal.Signals) -> None:
        for name in names:
            if name in self.children:
                self.children[name].send(signum)

    def _until_ended(self, names: list[str], until: float, wait: Callable[[float], bool]) -> bool:
        """Until none of them is left, or time is up; whether to hurry."""
        while any(name in self.children for name in names):
            if wait(_WAIT_S):
                return True
            self.ended()
            if time.monotonic() > until:
                return False
        return False


def start(plan: Plan, environ: Mapping[str, str] | None = None) -> Deployment:
    """Starts what was planned, without waiting: see `wait_ready`. End it by `stop`, or use `with`.

    With port 0 it listens at one that is free. Raises DeploymentError where the port is taken.
    """
    deployment = Deployment(plan, os.environ if environ is None else environ)
    deployment.begin()
    return deployment


def failure(plan: Plan, child: Child) -> DeploymentError:
    """Why it cannot go on, now that this child has ended."""
    code = child.code or 0
    if child.complaint:
        return DeploymentError("", complaint=child.complaint, code=code if code > 0 else 1)
    how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
    return DeploymentError(
        f"{plan.place}: {child.name} has ended {how}", code=code if code > 0 else 1
    )


def _at_free_port(plan: Plan) -> Plan:
    port = probe.free_port(plan.host)
    roles = [
        replace(role, options=_with_port(role.options, port)) if role.command == GATEWAY else role
        for role in plan.roles
    ]
    return replace(plan, port=port, roles=tuple(roles))


def _with_port(options: tuple[str, ...], port: int) -> tuple[str, ...]:
    kept = list(options)
    with contextlib.suppress(ValueError):
        at = kept.index("--port")
        del kept[at : at + 2]
    return (*kept, "--port", str(port))


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False

"""Runs a planned deployment in the foreground: its lines, its end, and the death of a role."""

import contextlib
import importlib.util
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from millstream.local import probe
from millstream.local.child import Child
from millstream.local.console import Console, say_on_stdout
from millstream.local.deployment import Deployment, DeploymentError, failure
from millstream.local.plan import GATEWAY, Plan, Role
from millstream.local.words import announcement
from workers.backoff import Backoff
from workers.signals import SignalCounter

if TYPE_CHECKING:
    from millstream.local.reload import Reloader

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_IDLE_S = 1.0
_PIECE_BYTES = 1 << 16
_FINAL = (2, 3)
"""Exit codes of a role that would end the same way again: a wrong option, a script that fails."""


def serve_until_signalled(plan: Plan, *, reload_with: Sequence[str] | None = None) -> int:
    """Runs it until Ctrl-C, SIGTERM or SIGHUP; returns the exit code. From the main thread.

    Edits of the script are followed where `reload_with` gives what the script itself is given.
    0 after a drain, 1 where that was cut short, 128 and the signal where a second one ended it at
    once, else that of the role that failed: 2 for what cannot be, 3 for a script that cannot be
    loaded or set up.
    """
    with _signals() as signals:
        return Launch(plan, dict(os.environ), signals, reload_with).run()


@contextlib.contextmanager
def _signals() -> Iterator[SignalCounter]:
    """Takes signals over, and gives them back."""
    before = {signum: signal.getsignal(signum) for signum in _SIGNALS}
    counter = SignalCounter(*_SIGNALS)
    try:
        yield counter
    finally:
        counter.close()
        for signum, handler in before.items():
            signal.signal(signum, handler or signal.SIG_DFL)


class Launch:
    """One life of a deployment in the foreground."""

    def __init__(
        self,
        plan: Plan,
        environ: dict[str, str],
        signals: SignalCounter,
        reload_with: Sequence[str] | None = None,
    ) -> None:
        form = environ.get("MILLSTREAM_LOG_FORMAT", "auto")
        # Its lines are for people, who read them here.
        environ["MILLSTREAM_LOG_FORMAT"] = "human" if form == "auto" else form
        self._console = Console([role.name for role in plan.roles], environ)
        self._deployment = Deployment(plan, environ, self._open_output)
        self._environ = environ
        self._signals = signals
        self._reload_with = reload_with
        self._reloader: Reloader | None = None
        self._poll = select.poll()
        self._poll.register(signals.fd, select.POLLIN)
        self._outputs: dict[int, str] = {}
        self._pidfds: dict[int, Child] = {}
        self._backoffs: dict[str, Backoff] = {}
        self._started: dict[str, float] = {}
        self._waiting: set[str] = set()
        """Names of roles that have died and are to be started again."""
        self._began = time.monotonic()
        self._next_probe = self._began
        self._is_ready = False

    def run(self) -> int:
        """Until a signal, or until it cannot go on; returns the exit code."""
        try:
            if self._reload_with is not None:
                self._reloader = self._follow_edits(self._reload_with)
            self._deployment.begin()
            self._serve()
            return self._stop()
        except DeploymentError as error:
            return self._fail(error)
        finally:
            if self._reloader is not None:
                self._reloader.close()
            self._deployment.kill()
            for fd in list(self._outputs):
                self._read(fd)
            self._close()

    def _serve(self) -> None:
        while not self._signals.count:
            for child in self._deployment.ended():
                self._ended(child)
            now = time.monotonic()
            self._start_again(now)
            if not self._is_ready and now >= self._next_probe:
                self._look(now)
            elif self._is_ready and self._reloader is not None:
                self._reloader.step(now)
            self._wait(self._pause_s(now))

    def _pause_s(self, now: float) -> float:
        due = now + _IDLE_S
        if not self._is_ready:
            due = min(due, self._next_probe)
        for name in self._waiting:
            due = min(due, self._backoffs[name].start_at)
        if self._is_ready and self._reloader is not None:
            due = min(due, self._reloader.next_due(now))
        return max(due - now, 0.0)

    def _look(self, now: float) -> None:
        """Whether it is ready by now, which is told once."""
        if not self._deployment.is_ready():
            self._next_probe = now + probe.pause_s(now - self._began)
            return
        self._is_ready = True
        say_on_stdout(
            announcement(
                self._deployment.plan,
                url=self._deployment.url,
                broker=self._deployment.broker,
                has_docs=importlib.util.find_spec("swagger_ui") is not None,
            )
        )

    def _follow_edits(self, arguments: Sequence[str]) -> "Reloader":
        from millstream.local.reload import Reloader  # noqa: PLC0415  a socket, and watchfiles

        return Reloader(self._deployment, self._environ, arguments, self._console.say)

    # ------------------------------------------------------------------ roles that die

    def _ended(self, child: Child) -> None:
        """Raises DeploymentError where there is no point in going on."""
        now = time.monotonic()
        if self._reloader is not None and self._reloader.took(child):
            return
        if not self._is_ready or child.code in _FINAL:
            raise failure(self._deployment.plan, child)
        backoff = self._backoffs.setdefault(child.name, Backoff())
        backoff.died(b"", now, ready_s=now - self._started.get(child.name, self._began))
        self._waiting.add(child.name)
        self._console.say(f"{failure(self._deployment.plan, child)}; it is started again")

    def _start_again(self, now: float) -> None:
        for role in self._deployment.plan.roles:
            name = role.name
            if name in self._waiting and now >= self._backoffs[name].start_at:
                self._waiting.remove(name)
                self._started[name] = now
                self._deployment.start(role)

    # ------------------------------------------------------------------ the end

    def _stop(self) -> int:
        begun = self._signals.count
        late = self._deployment.stop(lambda wait_s: self._wait(wait_s) > begun)
        if self._signals.count > begun:
            return 128 + self._signals.last
        if late:
            self._console.say(f"killed, since they did not end in time: {', '.join(late)}")
        return 1 if GATEWAY in late else 0  # it alone owes answers

    def _fail(self, error: DeploymentError) -> int:
        """The others end first, so that the reason is the last that is seen."""
        begun = self._signals.count
        self._deployment.stop(lambda wait_s: self._wait(wait_s) > begun)
        self._console.say(str(error))
        return error.code

    # ------------------------------------------------------------------ waiting

    def _open_output(self, role: Role) -> int:
        fd, output = os.pipe()
        os.set_blocking(fd, False)
        self._outputs[fd] = role.name
        self._poll.register(fd, select.POLLIN)
        return output

    def _wait(self, wait_s: float) -> int:
        """Passes on what is written, until something else happens; how many signals came."""
        for child in self._deployment.children.values():
            if child.code is None and child.pidfd not in self._pidfds:
                self._pidfds[child.pidfd] = child
                self._poll.register(child.pidfd, select.POLLIN)
        more = self._reloader.fds if self._is_ready and self._reloader is not None else []
        for fd in more:
            self._poll.register(fd, select.POLLIN)
        ready = self._poll.poll(wait_s * 1000)
        for fd in more:
            self._poll.unregister(fd)
        for fd, _ in ready:
            if fd in self._outputs:
                self._read(fd)
            elif fd in self._pidfds:
                self._poll.unregister(fd)
                self._pidfds.pop(fd).has_ended()
        self._signals.clear()
        self._console.flush()
        return self._signals.count

    def _read(self, fd: int) -> None:
        name = self._outputs[fd]
        try:
            while data := os.read(fd, _PIECE_BYTES):
                self._console.add(name, data)
        except BlockingIOError:
            return
        self._poll.unregister(fd)
        os.close(fd)
        del self._outputs[fd]
        self._console.end(name)

    def _close(self) -> None:
        for fd in self._outputs:
            os.close(fd)
        self._outputs.clear()
        self._console.close()

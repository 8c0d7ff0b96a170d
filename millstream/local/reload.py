"""Brings the running deployment to what its script says after an edit, without losing a request.

A stage whose code has changed gets new workers, and its old ones drain when those are ready. What
cannot be run is told, and the code from before goes on serving.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from broker.wire.keys import load_client_keys
from millstream.cli.ask import ask
from millstream.cli.errors import CommandError
from millstream.local.changes import Changes, changes
from millstream.local.child import Child
from millstream.local.deployment import Deployment, failure
from millstream.local.mistakes import Mistake, shown_path
from millstream.local.plan import Plan, Role
from millstream.local.record import Recording
from millstream.local.sources import Code, look
from millstream.local.watch import SourceWatch, folders_of

_LOOK_S = 0.05
"""How often to ask whether new workers are ready."""
_ANSWER_S = 0.5
_LEAVE_S = 5.0
"""For old workers to finish what they hold."""


class _Replacement(Struct):
    """New workers of a stage that are not ready yet; `code` is the digest of theirs."""

    role: Role
    child: Child
    code: str
    failure: str = ""
    """Why there is nothing more to hope for."""


class Reloader:
    """Follows the edits of one script. Its owner calls `step` whenever something has happened."""

    def __init__(
        self,
        deployment: Deployment,
        environ: Mapping[str, str],
        arguments: Sequence[str],
        say: Callable[[str], None],
    ) -> None:
        """`arguments` are those of the script; `say` tells a person. Raises Mistake."""
        self._deployment = deployment
        self._environ = environ
        self._arguments = arguments
        self._say = say
        self._script = deployment.plan.file
        self._code = _look(deployment.plan)
        """Of what runs."""
        self._seen = self._code
        """Of the latest edit that was looked at."""
        self._watch = SourceWatch(self._code.files)
        self._recording: Recording | None = None
        self._replacements: list[_Replacement] = []
        self._leaving: dict[Child, float] = {}
        self._then: dict[Child, Callable[[], None]] = {}
        """What is to be done when a broker or gateway that makes way has ended."""
        self._edited_at = 0.0
        self._number = 0

    @property
    def fds(self) -> list[int]:
        """Readable when there is something to do."""
        recording = [] if self._recording is None else [self._recording.pidfd]
        return [self._watch.fd, *recording]

    def next_due(self, now: float) -> float:
        """When to call `step` again at the latest."""
        due = now + (_LOOK_S if self._replacements else 60.0)
        return min([due, *self._leaving.values()])

    def step(self, now: float) -> None:
        """Do what there is to do."""
        if self._watch.take():
            self._look_again(now)
        if self._recording is not None and self._recording.has_ended():
            recording, self._recording = self._recording, None
            try:
                self._apply(recording.result())
            except (Mistake, SyntaxError) as error:
                self._cancel()
                self._refuse(str(error))
        if self._recording is None:  # until then it may turn out that they are not wanted
            for replacement in list(self._replacements):
                if replacement.failure:
                    self._replacements.remove(replacement)
                    self._refuse(replacement.failure)
                elif self._is_ready(replacement):
                    self._swap(replacement, now)
        for child, until in list(self._leaving.items()):
            if now >= until:
                child.send(signal.SIGKILL)

    def took(self, child: Child) -> bool:
        """Whether the end of this child, which has just come, was for us to deal with."""
        if (then := self._then.pop(child, None)) is not None:
            then()
            return True
        if self._leaving.pop(child, None) is not None:
            return True
        for replacement in self._replacements:
            if replacement.child is child:
                replacement.failure = str(failure(self._deployment.plan, child))
                return True
        return False

    def close(self) -> None:
        """No more edits are followed."""
        self._watch.close()
        if self._recording is not None:
            self._recording.cancel()

    # ------------------------------------------------------------------ an edit

    def _look_again(self, now: float) -> None:
        try:
            code = _look(self._deployment.plan)
        except SyntaxError as error:
            self._seen = self._code._replace(script="")
            self._refuse(
                f"{shown_path(error.filename or self._script)}:{error.lineno}: "
                f"{type(error).__name__}: {error.msg}"
            )
            return
        if code == self._seen:
            return
        self._seen = code
        self._edited_at = now
        self._cancel()
        if folders_of(code.files) != self._watch.folders:
            self._watch.close()
            self._watch = SourceWatch(code.files)
        if (code.script, code.stages) == (self._code.script, self._code.stages):
            return
        self._recording = Recording(self._script, self._arguments, self._environ)
        # Most edits change no more than this. What the script says of it is known when they are up.
        for role in self._deployment.plan.stages:
            if code.stages[role.name] != self._code.stages[role.name]:
                self._replace(role, code)

    def _cancel(self) -> None:
        """What an earlier edit has begun is not wanted any more."""
        if self._recording is not None:
            self._recording.cancel()
            self._recording = None
        for replacement in self._replacements:
            self._abandon(replacement)
        self._replacements.clear()

    def _abandon(self, replacement: _Replacement) -> None:
        if not replacement.failure:
            self._let_go(replacement.child)

    def _refuse(self, why: str) -> None:
        self._say(f"{why.rstrip()}\n{shown_path(self._script)} goes on with the code from before")

    # ------------------------------------------------------------------ what comes of it

    def _apply(self, plan: Plan) -> None:
        """Raises SyntaxError where the sources have changed again, and are none."""
        old = self._deployment.plan
        if old.port != plan.port and plan.port == 0:
            plan = replace(plan, port=old.port)
        if plan.broker != old.broker:
            raise Mistake(f"{plan.place}: a broker that runs cannot move: end this, and start anew")
        code = _look(plan)
        touched = {n for n, digest in code.stages.items() if digest != self._code.stages.get(n)}
        todo = changes(old, plan, touched)
        self._deployment.plan = plan
        kept = {n: self._code.stages.get(n, "") for n in code.stages}
        self._code = code._replace(stages=kept)
        self._deployment.write_pipelines(plan)

        def go_on() -> None:
            self._begin(todo, code)

        if todo.broker is not None:
            self._restart(todo.broker, go_on)
        else:
            go_on()
        if todo.gateway is not None:
            self._restart(todo.gateway, lambda: None)
        if todo.are_none:
            self._code = code
            self._say(f"{shown_path(self._script)}: nothing that runs is touched by this edit")

    def _restart(self, role: Role, then: Callable[[], None]) -> None:
        """One that cannot run twice: the next comes when the last has gone."""
        child = self._deployment.children.get(role.name)

        def start() -> None:
            self._deployment.start(role)
            self._say(f"{role.name} is started anew")
            then()

        if child is None:  # it has died, and is about to be started again
            then()
            return
        self._then[child] = start
        child.send(signal.SIGTERM)

    def _begin(self, todo: Changes, code: Code) -> None:
        for name in todo.removed:
            if (child := self._deployment.children.get(name)) is not None:
                self._let_go(child)
        for role in todo.added:
            self._deployment.start(role)
            self._code.stages[role.name] = code.stages[role.name]
        begun, self._replacements = self._replacements, []
        for replacement in begun:
            role = replacement.role
            if role in todo.replaced and replacement.code == code.stages[role.name]:
                self._replacements.append(replacement)
            else:
                self._abandon(replacement)
        known = [replacement.role for replacement in self._replacements]
        for role in todo.replaced:
            if role not in known:
                self._replace(role, code)

    def _replace(self, role: Role, code: Code) -> None:
        self._number += 1
        child = self._deployment.start(role, name=f"{role.name}#{self._number}")
        self._replacements.append(_Replacement(role, child, code.stages[role.name]))

    def _is_ready(self, replacement: _Replacement) -> bool:
        """Whether all its new workers are, as far as the broker knows."""
        keys = self._environ.get("MILLSTREAM_KEYS")
        try:
            answer = ask(
                self._deployment.broker,
                "status",
                keys=load_client_keys(keys) if keys else None,
                timeout_s=_ANSWER_S,
            )
        except CommandError:  # it is being replaced, too
            return False
        status = msgspec.json.decode(answer)
        ours = {s["id"] for s in status["supervisors"] if s["pid"] == replacement.child.pid}
        ready = [
            worker
            for worker in status["workers"]
            if worker["supervisor"] in ours and worker["state"] == "ready"
        ]
        return len(ready) >= self._processes(replacement.role)

    def _processes(self, role: Role) -> int:
        with contextlib.suppress(ValueError):
            return int(role.options[role.options.index("--processes") + 1])
        return int(self._environ.get("MILLSTREAM_PROCESSES", "1"))

    def _swap(self, replacement: _Replacement, now: float) -> None:
        """The new workers are ready: the old ones may go."""
        self._replacements.remove(replacement)
        role, child = replacement.role, replacement.child
        children = self._deployment.children
        old = children.get(role.name)
        if old is not None:
            self._let_go(old)
        del children[child.name]
        child.name = role.name
        children[role.name] = child
        self._code.stages[role.name] = replacement.code
        self._say(f"{role.name} runs the new code, {now - self._edited_at:.1f} s after the edit")

    def _let_go(self, child: Child) -> None:
        self._number += 1
        children = self._deployment.children
        del children[child.name]
        child.name = f"{child.name}#{self._number}"
        children[child.name] = child
        self._leaving[child] = time.monotonic() + _LEAVE_S
        child.send(signal.SIGTERM)


def _look(plan: Plan) -> Code:
    stages = {role.name: (role.script, role.attribute) for role in plan.stages}
    return look(plan.file, stages, _text)


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None

"""What can be asked of a running deployment: one table, with the body of each in JSON.

The command and the gateways' admin interface are thin faces of these. An answer is the traffic
document (`document.py`), the figures of two versions (`comparison.py`), or one line that says what
is wrong. `status` is answered by the shell, and `history` with its help.
"""

import difflib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from broker.core import rollout, tending
from broker.core import traffic as t
from broker.core.comparison import compare
from broker.core.document import document
from broker.core.events import Change, Recall
from broker.core.ledger import Ledger
from broker.core.pending import NoSuchVersion, drop_pending, refuse
from broker.core.stage import Pipeline
from broker.core.states import BrokerState
from broker.core.traffic import Traffic, TrafficError
from broker.wire.errors import ErrorCode
from broker.wire.messages import Ask, Refused, Report, TendKind

LONGEST_TEXT = 500
"""Of `by` and `why`, which are kept."""

LONGEST_NAME = 255
"""Of a version, as `messages.Name` has it."""

MOST_STEPS = 100

MOST_CHANGES = 10_000
"""In one answer to `history`."""

Steps = Callable[[Traffic], Traffic]
B = TypeVar("B", bound=Struct)


class Asking(NamedTuple):
    """Who asks for something of which pipeline, and when."""

    ledger: Ledger
    asker: bytes
    pipeline: Pipeline
    now: float


class _Body(Struct, forbid_unknown_fields=True, kw_only=True):
    """What every operation may say."""

    pipeline: str = ""
    by: str = ""
    why: str = ""


class WorkerBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """One worker, as `status` names it."""

    worker: str
    by: str = ""
    why: str = ""


class TrafficBody(_Body):
    """Shares, who sticks to what, copies, names; without any of these it is a question."""

    weights: dict[str, float] | None = None
    sticky: str | None = None
    shadow: str | None = None
    labels: dict[str, str] | None = None
    latest: bool = False


class RollbackBody(_Body):
    """Everything goes back to the version before."""


class PromoteBody(_Body):
    """A version gets more and more; or, with `stop`, keeps what it has."""

    version: str = ""
    steps: tuple[float, ...] = ()
    every_s: float = 0.0
    stop: bool = False


class CompareBody(_Body):
    """Two versions side by side; left out, the stable one and the shadow."""

    a: str = ""
    b: str = ""


class HistoryBody(_Body):
    """What was changed, the latest first."""

    limit: int = 100


def answer(ledger: Ledger, asker: bytes, ask: Ask, now: float) -> None:
    """Do what is asked for, or say why not."""
    operation = OPERATIONS.get(ask.what)
    if operation is None and ask.what in TENDING:
        _tend(ledger, asker, ask, now)
        return
    if operation is None:
        known = ", ".join(("status", *OPERATIONS, *TENDING))
        text = f"this broker does not know `{ask.what[:100]}`; it answers {known}"
        if ask.id:
            refuse(ledger, asker, ErrorCode.NOT_FOUND, text)
        else:  # commands that give no id may know no other no
            ledger.reply(asker, Refused(ledger.epoch, text))
        return
    kind, act = operation
    try:
        if ledger.state is not BrokerState.RUNNING:
            raise _Cannot(ErrorCode.DRAINING, "the broker is draining")
        body = _read(kind, ask.body)
        act(Asking(ledger, asker, _pipeline(ledger, body.pipeline), now), body)
    except _Cannot as error:
        refuse(ledger, asker, error.code, str(error))
    except NoSuchVersion as error:
        refuse(ledger, asker, ErrorCode.UNKNOWN_VERSION, str(error))
    except TrafficError as error:
        refuse(ledger, asker, ErrorCode.BAD_REQUEST, str(error))


def _tend(ledger: Ledger, asker: bytes, ask: Ask, now: float) -> None:
    try:
        body = _read(WorkerBody, ask.body)
        report = tending.tend(
            ledger,
            body.worker,
            TENDING[ask.what],
            by=body.by[:LONGEST_TEXT],
            why=body.why[:LONGEST_TEXT],
            now=now,
        )
        ledger.reply(asker, report)
    except (_Cannot, tending.CannotTend) as error:
        refuse(ledger, asker, error.code, str(error))


def refuse_pending(ledger: Ledger) -> None:
    """The broker drains: changes that wait are not made."""
    for pipeline in ledger.pipelines.values():
        drop_pending(ledger, pipeline, "the broker is draining")


# ------------------------------------------------------------------ the operations


def _traffic(asking: Asking, body: TrafficBody) -> None:
    changes: list[Steps] = []
    said: list[str] = []
    if body.weights is not None and body.latest:
        raise TrafficError("either weights or latest, not both: latest gives all to the newest")
    if body.weights is not None:
        changes.append(partial(t.assign, weights=body.weights))
        said += [f"{version}={share:g}" for version, share in body.weights.items()]
    if body.latest:
        changes.append(t.follow)
        said.append("latest")
    if body.sticky is not None:
        changes.append(partial(t.stick, rule=body.sticky))
        said.append(f"sticky {body.sticky or 'off'}")
    if body.shadow is not None:
        changes.append(partial(t.shadow, version=body.shadow))
        said.append(f"shadow {body.shadow or 'off'}")
    if body.labels is not None:
        changes.append(partial(t.label, changes=body.labels))
        said += [f"label {name}={version}" for name, version in body.labels.items()]
    if not changes:
        _tell(asking)
        return
    _check_names({*(body.weights or ()), *(body.labels or {}).values(), body.shadow or ""})
    _change(asking, partial(_all, changes), body, "traffic " + " ".join(said))


def _all(changes: list[Steps], traffic: Traffic) -> Traffic:
    for change in changes:
        traffic = change(traffic)
    return traffic


def _rollback(asking: Asking, body: RollbackBody) -> None:
    why = body.why or "rolled back" + (f" by {body.by}" if body.by else "")
    _change(asking, partial(t.roll_back, why=why[:LONGEST_TEXT]), body, "rollback")
    asking.pipeline.rollbacks["operator"] += 1


def _promote(asking: Asking, body: PromoteBody) -> None:
    if body.stop:
        if body.version or body.steps or body.every_s:
            raise TrafficError("stop ends a promotion where it stands: nothing else goes with it")
        _change(asking, t.halt, body, "promote: stop")
        return
    if not body.version:
        raise TrafficError("say which version is to be promoted")
    if len(body.steps) > MOST_STEPS:
        raise TrafficError(f"a promotion has {MOST_STEPS} steps at most")
    _check_names({body.version})
    make = partial(t.promote, version=body.version, steps=body.steps, every_s=body.every_s)
    steps = ",".join(f"{step:g}" for step in body.steps)
    _change(asking, make, body, f"promote {body.version}: {steps} every {body.every_s:g} s")


def _compare(asking: Asking, body: CompareBody) -> None:
    ledger, asker, pipeline, now = asking
    rollout.look(ledger, pipeline, now)
    ledger.reply(asker, Report(ledger.epoch, compare(pipeline, body.a, body.b)))


def _change(asking: Asking, make: Steps, body: _Body, what: str) -> None:
    change = Change(body.by[:LONGEST_TEXT], what, body.why[:LONGEST_TEXT])
    ledger, asker, pipeline, now = asking
    rollout.change(ledger, pipeline, make, change, now, asker=asker)


def _tell(asking: Asking) -> None:
    ledger, asker, pipeline, now = asking
    rollout.look(ledger, pipeline, now)
    ledger.reply(asker, Report(ledger.epoch, document(pipeline, now, ledger.wall_offset_s)))


def _history(asking: Asking, body: HistoryBody) -> None:
    if not 0 < body.limit <= MOST_CHANGES:
        raise TrafficError(f"limit is 1 to {MOST_CHANGES}")
    asking.ledger.actions.append(Recall(asking.asker, asking.pipeline.name, body.limit))


OPERATIONS: dict[str, tuple[type[_Body], Callable[[Asking, Any], None]]] = {
    "traffic": (TrafficBody, _traffic),
    "rollback": (RollbackBody, _rollback),
    "promote": (PromoteBody, _promote),
    "compare": (CompareBody, _compare),
    "history": (HistoryBody, _history),
}

TENDING = {"restart": TendKind.RESTART, "drain": TendKind.DRAIN}
"""What can be asked of one worker."""


# ------------------------------------------------------------------ what they are given


class _Cannot(Exception):
    """It is not done; the message is one line."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def _read(kind: type[B], body: bytes) -> B:
    """A body as its operation wants it. Raises _Cannot."""
    try:
        given = msgspec.json.decode(body or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise _Cannot(ErrorCode.BAD_REQUEST, f"the body is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise _Cannot(ErrorCode.BAD_REQUEST, "the body must be a JSON object")
    for key in given:
        if key not in kind.__struct_fields__:
            text = f"there is no {key[:100]!r}" + nearest(key, kind.__struct_fields__)
            raise _Cannot(ErrorCode.BAD_REQUEST, text)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _Cannot(ErrorCode.BAD_REQUEST, str(error)) from None


def _pipeline(ledger: Ledger, name: str) -> Pipeline:
    """The one that is meant. Raises _Cannot."""
    served = ledger.pipelines
    if not name and len(served) == 1:
        return next(iter(served.values()))
    if not name:
        text = f"say which pipeline: {', '.join(served)}"
        raise _Cannot(ErrorCode.BAD_REQUEST, text)
    pipeline = served.get(name)
    if pipeline is None:
        text = f"there is no pipeline {name[:100]!r}; there is {', '.join(served)}"
        raise _Cannot(ErrorCode.UNKNOWN_PIPELINE, text + nearest(name, served))
    return pipeline


def _check_names(versions: set[str]) -> None:
    for version in versions:
        if len(version.encode()) > LONGEST_NAME:
            raise TrafficError(f"a version has {LONGEST_NAME} bytes at most")
        if not version.isprintable():
            raise TrafficError(f"a version is text in one line, not {version!r}")


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a word that is not known: the nearest one that is, or ""."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""

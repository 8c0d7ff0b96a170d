"""Which versions of a model repository a supervisor has loaded, loads, keeps and lets go. Pure.

Loaded is

- what the policy chooses of the complete versions that have not failed: where the newest fails, or
  was rolled back, the next older one is;
- what the broker wants, since requests go there or soon will;
- of the versions that were loaded for these reasons before, the last one, kept warm for a while: to
  return to it takes no time then.

What the broker wants is loaded at once. The others are loaded one after the other, the newest
first: memory is needed for one more at a time, and a trainer that writes faster than can be loaded
starves nobody. None that is loaded is let go before another one can take its place, nor while no
broker says what it wants: one that was started again finds everything there.
"""

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from broker.wire.messages import SILENCE_S, VersionReport, VersionState
from workers.policy import Policy
from workers.repository import Found
from workers.supervision import Wish

GRACE_S = SILENCE_S
"""So soon after it was loaded no version goes: the broker may still be about to want it."""
RETRY_S = 1.0
MAX_RETRY_S = 60.0
"""A version that failed and has changed is tried again, later from failure to failure: a plug-in
may write into its own folder."""
MAX_REPORTED = 256
"""Versions that a broker is told of: those with a state, and the newest."""

_CHANGED = "its files have changed since it was loaded"
_CHANGED_ADVICE = "its workers keep what they have loaded; give what is new a number of its own"
"""As TensorFlow Serving has it: under one number requests, figures and other hosts find one model.
"""

_FOUND, _LOADING, _READY = VersionState.FOUND, VersionState.LOADING, VersionState.READY
_FAILED, _RETIRING = VersionState.FAILED, VersionState.RETIRING

TRANSITIONS: dict[tuple[VersionState, str], VersionState] = {
    (_FOUND, "load"): _LOADING,
    (_FOUND, "fail"): _FAILED,  # it cannot be read
    (_LOADING, "warm"): _READY,
    (_LOADING, "fail"): _FAILED,
    (_READY, "retire"): _RETIRING,
    (_FAILED, "retry"): _FOUND,
    (_FAILED, "fail"): _FAILED,
    (_RETIRING, "load"): _LOADING,  # beside those of its workers that still drain
    (_RETIRING, "end"): _FOUND,
}


class Load(Struct, frozen=True):
    """Start workers for this version."""

    version: str
    path: str


class Retire(Struct, frozen=True):
    """Have the workers of this version drain."""

    version: str


class Tell(Struct, frozen=True):
    """A line for the log, about a version."""

    version: str
    event: str
    detail: str = ""


Action: TypeAlias = Load | Retire | Tell


class _Entry(Struct, eq=False):
    version: str
    found: Found
    state: VersionState = _FOUND
    detail: str = ""
    is_on_disk: bool = True
    loaded: bytes = b""
    """The mark that its files had when it was last loaded."""
    used: float = 0.0
    """When it was last chosen or wanted while it was loaded, or got ready."""
    ready_since: float = 0.0
    failures: int = 0
    not_before: float = 0.0

    def advance(self, event: str) -> None:
        self.state = TRANSITIONS[self.state, event]
        self.detail = ""

    def report(self) -> str:
        is_other = self.state is _READY and self.is_on_disk and self.found.mark != self.loaded
        return self.detail or (_CHANGED if is_other else "")

    @property
    def number(self) -> int:
        return int(self.version)


class Versions:
    """The state of all versions. Call `tick` after whatever else was called, and now and then."""

    def __init__(self, policy: Policy, keep_warm_s: float) -> None:
        self._policy = policy
        self._keep_warm_s = keep_warm_s
        self._entries: dict[str, _Entry] = {}
        self._wish = Wish()
        self._told: list[Action] = []
        self._was_ready = False

    @property
    def is_hopeless(self) -> bool:
        """Whether all that could be loaded has failed, and none was ever ready."""
        states = {entry.state for entry in self._entries.values()}
        has_failed = any(entry.failures for entry in self._entries.values())
        return has_failed and not self._was_ready and _LOADING not in states and not self._waiting()

    def state(self, version: str) -> VersionState | None:
        """None for one that is not known."""
        entry = self._entries.get(version)
        return entry.state if entry is not None else None

    def reports(self) -> list[VersionReport]:
        """What a broker is told, from the oldest to the newest."""
        entries = sorted(self._entries.values(), key=lambda e: (e.state != _FOUND, e.number))
        newest = sorted(entries[-MAX_REPORTED:], key=lambda entry: entry.number)
        return [VersionReport(e.version, e.state, e.report()) for e in newest]

    # -------------------------------------------------------------- what happens

    def found(self, found: Iterable[Found]) -> None:
        """All that is on disk now."""
        on_disk = {each.version: each for each in found}
        for version, each in on_disk.items():
            entry = self._entries.get(version)
            if entry is not None:
                self._look_again(entry, each)
            elif each.is_complete:
                entry = self._entries[version] = _Entry(version, each)
                self._judge(entry)
        for entry in list(self._entries.values()):
            if entry.version not in on_disk:
                self._missing(entry)

    def warm(self, version: str, now: float, detail: str = "") -> None:
        """It is loaded and warmed up. `detail`: what is not quite right with it."""
        entry = self._entries[version]
        entry.advance("warm")
        entry.detail = detail
        entry.failures = 0
        entry.used = entry.ready_since = now
        self._was_ready = True

    def failed(self, version: str, why: str, now: float) -> None:
        """It could not be loaded or warmed up."""
        entry = self._entries[version]
        entry.advance("fail")
        entry.detail = why
        entry.not_before = now + min(RETRY_S * 2.0 ** min(entry.failures, 16), MAX_RETRY_S)
        entry.failures += 1
        if not entry.is_on_disk:
            del self._entries[version]
        elif entry.found.mark != entry.loaded:
            self._look_again(entry, entry.found)

    def ended(self, version: str) -> None:
        """The last worker of a version that retired is gone."""
        entry = self._entries[version]
        if entry.state is _RETIRING:  # else it is being loaded again
            entry.advance("end")
            if not entry.is_on_disk or not entry.found.is_complete:
                del self._entries[version]
            else:
                self._judge(entry)

    # -------------------------------------------------------------- what to do

    def tick(self, wish: Wish | None, now: float) -> list[Action]:
        """`wish` is the broker's; None where there is none that has said so."""
        if wish is not None:
            self._want(wish)
        actions, self._told = self._told, []
        target = self._target()
        for entry in self._entries.values():
            if entry.version in target and entry.state is _READY:
                entry.used = now
        actions += self._load(now)
        if wish is not None:
            actions += self._retire(target, now)
        return actions

    def _want(self, wish: Wish) -> None:
        for version in wish.wanted - self._wish.wanted:
            entry = self._entries.get(version)
            if entry is not None and entry.state is _FAILED and not entry.found.trouble:
                entry.not_before = 0.0
                entry.advance("retry")
        self._wish = wish

    def _target(self) -> set[str]:
        living = [entry for entry in self._entries.values() if entry.state is not _FAILED]
        able = [entry.version for entry in living if entry.is_on_disk]
        rejected = self._wish.rejected
        if all(entry.version in rejected for entry in living):
            rejected = frozenset()  # better than nothing: then the broker sends requests there
        return {*self._policy.choose(able, rejected), *self._wish.wanted}

    def _waiting(self) -> list[_Entry]:
        """Those to load, the first one first."""
        target = self._target()
        waiting = [
            entry
            for entry in self._entries.values()
            if entry.version in target
            and entry.state in (_FOUND, _RETIRING)
            and entry.is_on_disk
            and entry.found.is_complete
        ]
        return sorted(
            waiting, key=lambda e: (e.version in self._wish.wanted, e.number), reverse=True
        )

    def _load(self, now: float) -> list[Action]:
        actions: list[Action] = []
        is_free = all(entry.state is not _LOADING for entry in self._entries.values())
        for entry in self._waiting():
            if now >= entry.not_before and (is_free or entry.version in self._wish.wanted):
                entry.advance("load")
                entry.loaded = entry.found.mark
                actions.append(Load(entry.version, entry.found.path))
                is_free = False
        return actions

    def _retire(self, target: set[str], now: float) -> list[Action]:
        ready = [entry for entry in self._entries.values() if entry.state is _READY]
        spare = [entry for entry in ready if entry.version not in target]
        if len(spare) == len(ready):  # nobody is there to take their place
            return []
        spare.sort(key=lambda entry: (entry.used, entry.number), reverse=True)
        actions: list[Action] = []
        for place, entry in enumerate(spare):
            until = entry.ready_since + GRACE_S
            if place == 0:
                until = max(until, entry.used + self._keep_warm_s)
            if now >= until:
                entry.advance("retire")
                actions.append(Retire(entry.version))
        return actions

    # -------------------------------------------------------------- what is on disk

    def _look_again(self, entry: _Entry, found: Found) -> None:
        """It is still there, or there again."""
        was_changed = entry.found.mark != entry.loaded
        entry.found, entry.is_on_disk = found, True
        if entry.state is _FOUND:
            if found.is_complete:
                self._judge(entry)
            else:
                del self._entries[entry.version]
        elif entry.state is _FAILED:
            if found.is_complete and found.mark != entry.loaded:
                self._retry(entry)
        elif found.mark != entry.loaded and not was_changed:
            self._told.append(Tell(entry.version, _CHANGED, _CHANGED_ADVICE))

    def _retry(self, entry: _Entry) -> None:
        if entry.found.trouble:
            if entry.detail != entry.found.trouble:
                self._judge(entry)
        else:
            entry.advance("retry")

    def _judge(self, entry: _Entry) -> None:
        if entry.found.trouble:
            entry.advance("fail")
            entry.loaded = b""
            entry.detail = entry.found.trouble
            self._told.append(Tell(entry.version, "it cannot be used", entry.detail))

    def _missing(self, entry: _Entry) -> None:
        if entry.state in (_FOUND, _FAILED):
            del self._entries[entry.version]
        elif entry.is_on_disk:
            entry.is_on_disk = False
            self._told.append(Tell(entry.version, "its folder is gone", "its workers go on"))

"""A supervisor's model repository at work: watched, and its versions loaded and let go.

What is to be done is decided in `versions.py`; here it is done, and told.
"""

from msgspec.structs import replace

from broker.wire import log
from broker.wire.messages import VersionReport, VersionState
from workers.crew import Crew
from workers.crews import Crews
from workers.link import Link
from workers.options import WorkerOptions
from workers.policy import parse_policy
from workers.repository import Listing
from workers.supervision import Wish
from workers.verdict import Verdict
from workers.versions import Load, Retire, Versions
from workers.watching import Watch

_MAX_TOLD = 1000
"""Names that are no versions are told once each, and so many."""


class Models:
    """The versions of one repository under one supervisor."""

    def __init__(self, options: WorkerOptions, crews: Crews, link: Link, verdict: Verdict) -> None:
        """`verdict` is the supervisor's own."""
        self._options = options
        self._crews = crews
        self._verdict = verdict
        self._versions = Versions(parse_policy(options.versions), options.keep_warm_s)
        self._loaded: dict[str, Crew] = {}
        self._leaving: list[Crew] = []
        self._told: set[str] = set()
        self._trouble = ""
        self._watch = Watch(options.models)
        link.watch(self._watch.fd)

    @property
    def reports(self) -> list[VersionReport]:
        """What the broker is told."""
        return self._versions.reports()

    @property
    def trouble(self) -> str:
        """Why there is nothing to load; "" while there is."""
        return self._trouble if not self.reports else ""

    def close(self) -> None:
        """Watches no longer."""
        self._watch.close()

    def step(self, wish: Wish | None, now: float) -> bool:
        """Takes in what has happened to files and workers, and does what follows. `wish` is the
        broker's; None where there is none that has said so. Returns whether the broker is to hear
        of it.
        """
        before = self.reports
        listing = self._watch.take()
        if listing is not None:
            self._take_in(listing)
        for version, crew in list(self._loaded.items()):
            self._follow(version, crew, now)
        if self._verdict.exit_code is not None:  # no other version will do any better
            return False
        for crew in [crew for crew in self._leaving if not crew.living]:
            self._leaving.remove(crew)
            self._crews.remove(crew)
            if self._versions.state(crew.version) is not None:
                self._versions.ended(crew.version)
        for action in self._versions.tick(wish, now):
            if isinstance(action, Load):
                self._load(action)
            elif isinstance(action, Retire):
                self._retire(action.version, now)
            else:
                fields = {"detail": action.detail} if action.detail else {}
                log.warning(action.event, version=action.version, **fields)
        if self._versions.is_hopeless:
            failed = [each for each in self.reports if each.state == VersionState.FAILED]
            each = f"version {failed[-1].version}: {failed[-1].detail}"
            self._verdict.give_up(f"no version can be loaded; {each}")
        return self.reports != before

    def _take_in(self, listing: Listing) -> None:
        for name, why in listing.odd:
            if name not in self._told and len(self._told) < _MAX_TOLD:
                self._told.add(name)
                log.warning("this is no version", name=name, reason=why)
        trouble = listing.trouble
        if not trouble:
            self._versions.found(listing.found)
            if not any(each.is_complete for each in listing.found):
                trouble = "it has no complete version yet"
        trouble = trouble and f"{self._options.models}: {trouble}"
        if trouble and trouble != self._trouble:
            log.warning("nothing to load", reason=trouble)
        self._trouble = trouble

    def _load(self, action: Load) -> None:
        log.info("version is loaded", version=action.version, folder=action.path)
        options = replace(self._options, version=action.version, model_dir=action.path)
        verdict = Verdict(self._options.processes)
        self._loaded[action.version] = self._crews.add(options, verdict)

    def _follow(self, version: str, crew: Crew, now: float) -> None:
        """What a version that loads has come to."""
        verdict = crew.verdict
        if self._versions.state(version) is VersionState.LOADING:
            if verdict.exit_code is not None:
                self._fail(version, crew, now)
            elif crew.is_up:
                missing = self._options.processes - crew.warm
                detail = f"{missing} of its workers cannot be loaded" if missing else ""
                self._versions.warm(version, now, detail)
                log.info("version is ready", version=version, workers=crew.warm)
        self._verdict.follow(verdict)

    def _fail(self, version: str, crew: Crew, now: float) -> None:
        verdict = crew.verdict
        # A supervisor that ends for it says so itself.
        trace = "" if verdict.is_for_all and not self._verdict.was_warm else verdict.trace
        log.error("version failed", trace=trace, version=version, reason=verdict.message)
        self._versions.failed(version, verdict.message, now)
        crew.end("its version has failed")
        self._leaving.append(self._loaded.pop(version))

    def _retire(self, version: str, now: float) -> None:
        log.info("version retires", version=version)
        crew = self._loaded.pop(version)
        crew.retire(now)
        self._leaving.append(crew)

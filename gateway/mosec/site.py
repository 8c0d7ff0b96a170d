"""What a gateway shows beside its calls while it serves pipelines of MOSEC's kind: the pages that
MOSEC has, and what it counts. Made when the first such pipeline comes.
"""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry

from broker.wire.exposition import exposition
from broker.wire.measures import Histogram
from gateway import docs
from gateway.catalog import PipelineView
from gateway.mosec import metrics, openapi
from gateway.mosec.metrics import Shown
from gateway.mosec.problems import DRAINING, TEXT_TYPE
from gateway.pages import Page
from gateway.responses import Heads

SERVER = "mosec/0.9.8 (millstream)"
"""Which release of MOSEC these answers are like."""
DURATIONS_S = tuple(0.001 * 2.0**power for power in range(13))
"""As MOSEC has them for its default time-out."""

_ALIVE = b"MOSEC service"
_INDEX = "/"
_DOCUMENT = "/openapi/metadata.json"
_SWAGGER = "/openapi/swagger"


class Site:
    """See the module."""

    def __init__(self, wall_s: float) -> None:
        self.heads = Heads(wall_s, SERVER)
        self._counts: dict[tuple[str, int], int] = {}
        self._durations = Histogram(DURATIONS_S)

    # -------------------------------------------------------------- what calls tell

    def answered(self, endpoint: str, duration_s: float) -> None:
        """A request has its result."""
        key = (endpoint, 200)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._durations.add(duration_s)

    def refused(self, endpoint: str, status: int) -> None:
        """It has none."""
        key = (endpoint, status)
        self._counts[key] = self._counts.get(key, 0) + 1

    # -------------------------------------------------------------- pages

    def page(self, path: str, views: Iterable[PipelineView], *, draining: bool) -> Page | None:
        """What is at a path, but for the metrics; None where that is none of MOSEC's."""
        if path == _INDEX:
            text = DRAINING.encode() if draining else _ALIVE
            return Page(503 if draining else 200, TEXT_TYPE, text)
        if path == _DOCUMENT:
            return Page(200, "application/json", openapi.document(views))
        if path == _SWAGGER:
            return Page(307, TEXT_TYPE, b"", f"Location: {_SWAGGER}/\r\n")
        if path.startswith(f"{_SWAGGER}/"):
            return _swagger(path.removeprefix(f"{_SWAGGER}/"))
        return None

    def metrics(
        self, registry: CollectorRegistry, waiting: dict[str, int], status: bytes | None
    ) -> Page:
        """This gateway's own, and behind them those that MOSEC has, by namespace: `waiting` says
        how many requests each has here. `status` is the broker's, if it has said how it stands.
        """
        content_type, text = exposition(registry)
        for namespace, requests in waiting.items():
            shown = Shown(self._counts, self._durations.take(), requests)
            text += metrics.text(namespace, shown, metrics.stages_of(status)).encode()
        return Page(200, content_type, text)


def _swagger(name: str) -> Page | None:
    file = docs.read(name, "../metadata.json", base="")
    if file is None:
        return None if docs.is_installed() else Page(404, TEXT_TYPE, docs.MISSING.encode())
    return Page(200, *file, docs.HEADERS)

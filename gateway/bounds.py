"""How much of each pipeline this gateway may hold at once: items and bytes, counted as they come.

Pure bookkeeping. The broker keeps the same bounds for everybody together; these are the gateway's
own, so that its memory stays bounded while no broker takes anything from it.

While one does, it has the last word on how many requests there may be, since it alone can make room
for a client that has few by turning away one that has many. To do so it must see what comes: so
this gateway lets a few more through than there may be, and what is too much comes straight back.
Bytes are what memory is made of: their bound is the same at all times. It is one for the whole
pipeline: where its stages hold much, as the broker says with its answers, that much less may come
in, and a large body is refused before it is read.
"""

from collections.abc import Mapping, Sequence

from broker.wire.messages import PipelineInfo

DEFAULT_MAX_ITEMS = 4096
DEFAULT_MAX_BYTES = 1 << 30
MIN_SLACK_ITEMS = 64
"""Refusals come back within milliseconds, in which this many may have come in."""
SLACK = 4
"""One part in so many of the bound is the slack of a larger one."""


class Bounds:
    """Items and bytes held for one pipeline, and how many of each may be."""

    __slots__ = ("_most_items", "grown_bytes", "held_bytes", "items", "max_bytes", "max_items")

    def __init__(
        self, *, max_items: int = DEFAULT_MAX_ITEMS, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        self.items = 0
        self.held_bytes = 0
        self.grown_bytes = 0  # held by the stages, beyond what any gateway does
        self.limit(max_items, max_bytes)

    def limit(self, max_items: int, max_bytes: int) -> None:
        """Take over new limits; what is counted stays counted."""
        self.max_items = max_items
        self.max_bytes = max_bytes
        self._most_items = max_items + max(MIN_SLACK_ITEMS, max_items // SLACK)

    def fits(self, size_bytes: int, *, up: bool) -> bool:
        """Whether one more item of this size may come in; a lone one always may.

        `up`: a broker takes requests, and decides on their number.
        """
        if not self.items and not self.held_bytes:
            return True
        most = self._most_items if up else self.max_items
        most_bytes = self.max_bytes - self.grown_bytes
        return self.items < most and self.held_bytes + size_bytes <= most_bytes

    def reserve(self, size_bytes: int, *, up: bool) -> bool:
        """Count bytes of a body that is still being uploaded; False where they do not fit."""
        if not self.fits(size_bytes, up=up):
            return False
        self.held_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """Give back what `reserve` counted."""
        self.held_bytes -= size_bytes


class BoundsByPipeline:
    """The bounds of every pipeline served, and one set for all names that are not known yet."""

    __slots__ = ("_is_grown", "_listed", "_unlisted")

    def __init__(self) -> None:
        self._listed: dict[str, Bounds] = {}
        self._unlisted = Bounds()
        self._is_grown = False

    def of(self, pipeline: str) -> Bounds:
        """The bounds to count an item of this pipeline in. Names that clients made up share one."""
        return self._listed.get(pipeline, self._unlisted)

    def update(self, pipelines: Sequence[PipelineInfo]) -> None:
        """Take over the limits of a new catalog; what is counted stays counted."""
        listed = {}
        for info in pipelines:
            bounds = self._listed.get(info.name) or Bounds()
            bounds.limit(info.max_items, info.max_bytes)
            listed[info.name] = bounds
        self._listed = listed

    def learn_grown(self, grown: Mapping[str, int]) -> None:
        """Take over what stages hold of pipelines; of those that are not named it is little."""
        if grown or self._is_grown:
            self._is_grown = bool(grown)
            for name, bounds in self._listed.items():
                bounds.grown_bytes = grown.get(name, 0)

    def items(self) -> list[tuple[str, Bounds]]:
        """All by name, "" standing for the unknown names; for metrics."""
        return [("", self._unlisted), *self._listed.items()]

"""How much of each pipeline this gateway may hold at once: items and bytes, counted as they come.

Pure bookkeeping. The broker keeps the same bounds for everybody together; these are the gateway's
own, so that its memory stays bounded while no broker takes anything from it.
"""

from collections.abc import Sequence

from broker.wire.messages import PipelineInfo

DEFAULT_MAX_ITEMS = 4096
DEFAULT_MAX_BYTES = 1 << 30


class Bounds:
    """Items and bytes held for one pipeline, and how many of each may be."""

    __slots__ = ("held_bytes", "items", "max_bytes", "max_items")

    def __init__(
        self, *, max_items: int = DEFAULT_MAX_ITEMS, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        self.max_items = max_items
        self.max_bytes = max_bytes
        self.items = 0
        self.held_bytes = 0

    def fits(self, size_bytes: int) -> bool:
        """Whether one more item of this size may come in; a lone one always may."""
        if not self.items and not self.held_bytes:
            return True
        return self.items < self.max_items and self.held_bytes + size_bytes <= self.max_bytes

    def reserve(self, size_bytes: int) -> bool:
        """Count bytes of a body that is still being uploaded; False where they do not fit."""
        if not self.fits(size_bytes):
            return False
        self.held_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """Give back what `reserve` counted."""
        self.held_bytes -= size_bytes


class BoundsByPipeline:
    """The bounds of every pipeline served, and one set for all names that are not known yet."""

    __slots__ = ("_listed", "_unlisted")

    def __init__(self) -> None:
        self._listed: dict[str, Bounds] = {}
        self._unlisted = Bounds()

    def of(self, pipeline: str) -> Bounds:
        """The bounds to count an item of this pipeline in. Names that clients made up share one."""
        return self._listed.get(pipeline, self._unlisted)

    def update(self, pipelines: Sequence[PipelineInfo]) -> None:
        """Take over the limits of a new catalog; what is counted stays counted."""
        listed = {}
        for info in pipelines:
            bounds = self._listed.get(info.name) or Bounds()
            bounds.max_items, bounds.max_bytes = info.max_items, info.max_bytes
            listed[info.name] = bounds
        self._listed = listed

    def items(self) -> list[tuple[str, Bounds]]:
        """All by name, "" standing for the unknown names; for metrics."""
        return [("", self._unlisted), *self._listed.items()]

"""Which versions of a model repository are complete. Pure: it is given what a look has found.

A version is complete

- at once, when its folder has a file `READY`: whoever puts that in last need not hurry;
- without one, when nothing in it has changed for `QUIET_S`. Times of change in it say little about
  that: `cp -p` and `rsync` bring older ones along, and other hosts' clocks differ. So it has to be
  looked at for so long; but what nobody has touched for `OLD_S` is taken as it is at first sight,
  or each start would wait.

Programs that copy write all the time, and pause between two files for milliseconds; but a network
may stall for longer, and network file systems show changes late. What is taken for complete too
early fails when it is loaded, and is tried again once it has changed; one that can be loaded by
halves needs a marker, or to be made elsewhere and moved into place.
"""

from msgspec import Struct

from workers.folders import Folder, Look

QUIET_S = 2.0
OLD_S = 60.0


class Found(Struct, frozen=True):
    """A version that is on disk, complete or not."""

    version: str
    path: str
    mark: bytes
    """Another one when its files are others."""
    is_complete: bool
    trouble: str = ""
    """Why it cannot be used as it is."""


class Listing(Struct, frozen=True):
    """What a repository has to offer now."""

    found: tuple[Found, ...] = ()
    odd: tuple[tuple[str, str], ...] = ()
    """Names in it that are no versions, and why."""
    trouble: str = ""
    """Why the repository itself cannot be read."""


class Repository:
    """What the looks so far have told."""

    def __init__(self) -> None:
        self.is_settling = False
        """Whether a version may be complete soon without any further change."""
        self._since: dict[str, tuple[bytes, float]] = {}
        """By version, how it was at the last look, and since when."""

    def take_in(self, look: Look, now: float, wall: float) -> Listing:
        """Another look; `wall` is the time of day, in seconds since 1970."""
        if look.trouble:  # a file system that is away for a while: what was there will be again
            self.is_settling = False
            return Listing(trouble=look.trouble)
        self._since = {f.version: self._seen(f, now, wall) for f in look.folders}
        found = [self._judge(folder, now) for folder in look.folders]
        self.is_settling = any(
            not each.is_complete and (folder.entries or folder.trouble)
            for each, folder in zip(found, look.folders, strict=True)
        )
        return Listing(tuple(found), look.odd)

    def _seen(self, folder: Folder, now: float, wall: float) -> tuple[bytes, float]:
        known = self._since.get(folder.version)
        if known is not None and known[0] == folder.mark:
            return known
        is_old = known is None and 0 < folder.touched < wall - OLD_S
        return folder.mark, now - QUIET_S if is_old else now

    def _judge(self, folder: Folder, now: float) -> Found:
        quiet_s = now - self._since[folder.version][1]
        is_something = bool(folder.entries or folder.trouble)
        is_complete = folder.has_marker or (is_something and quiet_s >= QUIET_S)
        trouble = folder.trouble if is_complete else ""
        return Found(folder.version, folder.path, folder.mark, is_complete, trouble)

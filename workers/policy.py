"""Which versions of a model repository are to be loaded: `latest:N`, `all` or `specific:2,5`. Pure.

A version is the number of its folder, written without leading zeros.
"""

import re
from collections.abc import Iterable, Set

from msgspec import Struct

DEFAULT = "latest:1"
FORMS = "latest:N, all, or specific with a list such as specific:2,5"

_NUMBER = re.compile(r"[0-9]{1,18}")
"""As many digits as 64 bits always hold."""
_MOST_LATEST = 1000
"""Nobody has the memory for more, and a slip of the finger is told."""


class PolicyError(Exception):
    """The text is no policy; the message is one line for the person who wrote it."""


class Policy(Struct, frozen=True):
    """What is chosen of the versions that there are."""

    latest: int = 0
    """So many, the newest first; 0: no bound."""
    only: frozenset[str] = frozenset()
    """None but these; empty: any."""

    def choose(self, versions: Iterable[str], rejected: Set[str] = frozenset()) -> list[str]:
        """Those of these to load, the newest first. Only who asks for the latest, and names none,
        does without those that were rolled back.
        """
        ordered = sorted(versions, key=int, reverse=True)
        if self.only:
            return [version for version in ordered if version in self.only]
        if not self.latest:
            return ordered
        return [version for version in ordered if version not in rejected][: self.latest]


def parse_policy(text: str) -> Policy:
    """Raises PolicyError."""
    kind, _, rest = text.partition(":")
    if text == "all":
        return Policy()
    if kind == "latest" and _NUMBER.fullmatch(rest) and 0 < int(rest) <= _MOST_LATEST:
        return Policy(latest=int(rest))
    if kind == "specific":
        versions = [version_of(each.strip()) for each in rest.split(",")]
        if all(versions):
            return Policy(only=frozenset(versions))
    raise PolicyError(f"must be {FORMS}, not {text!r}")


def version_of(name: str) -> str:
    """The version that a folder of this name has: "7" for 7 and for 007; "" where it is none."""
    return str(int(name)) if _NUMBER.fullmatch(name) else ""

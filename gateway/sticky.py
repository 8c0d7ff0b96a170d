"""What of a request decides which version answers it, as a number that the broker splits by.

Pure. The number is the same in every gateway, and after every restart.
"""

from hashlib import blake2b
from http.cookies import CookieError, SimpleCookie
from typing import Protocol

KEY_BYTES = 8


class Headers(Protocol):
    """What is needed of the headers of a request."""

    def get(self, key: str, default: str, /) -> str:
        """The first value."""


class Sticky:
    """A pipeline's rule: header:NAME, cookie:NAME or request-id."""

    __slots__ = ("_kind", "_name", "_seed")

    def __init__(self, pipeline: str, rule: str) -> None:
        self._kind, _, self._name = rule.partition(":")
        # Who is in the smaller part of one pipeline's users need not be in that of another's.
        self._seed = blake2b(pipeline.encode() + b"\0", digest_size=KEY_BYTES)

    def key(self, headers: Headers, request_id: str) -> int:
        """The number of whoever asks; 0 for a request that does not say who."""
        if self._kind == "header":
            value = headers.get(self._name, "").strip()
        elif self._kind == "cookie":
            value = _cookie(headers.get("Cookie", ""), self._name)
        else:
            value = request_id
        if not value:
            return 0
        digest = self._seed.copy()
        digest.update(value.encode("utf-8", "surrogateescape"))
        return int.from_bytes(digest.digest(), "big") or 1


def _cookie(header: str, name: str) -> str:
    """The value of a cookie, "" for none. What others look like does not matter."""
    for pair in header.split(";"):
        if pair.partition("=")[0].strip() == name:
            try:
                return SimpleCookie(pair.strip())[name].value
            except (CookieError, KeyError):
                return pair.partition("=")[2].strip()
    return ""

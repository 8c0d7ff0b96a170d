"""Where requests go and what they are: URL, head and bodies, as bytes that are ready to be sent."""

import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
UNIX = "unix:"


class Target(Struct, frozen=True, kw_only=True):
    """One service. `bodies` are sent in turn. `headers` are lines such as `A: b`.

    A URL is http://…, https://… or unix:/path/of/socket:/path/of/url.
    """

    url: str
    method: str = "POST"
    headers: list[str] = []
    bodies: list[bytes]
    verify: bool = True
    """Whether the certificate of an https URL must be one to trust."""


class Place(Struct, frozen=True):
    """A URL taken apart: where to connect to, and what to ask for. `socket` or `host` is ""."""

    host: str
    port: int
    socket: str
    is_tls: bool
    authority: str
    resource: str


def place_of(url: str) -> Place:
    """Raises ValueError, whose text ends the sentence that names the URL."""
    if url.startswith(UNIX):
        path, _, resource = url.removeprefix(UNIX).partition(":")
        if not path.startswith("/"):
            raise ValueError("is no unix:/path/of/socket:/path/of/url")
        return Place("", 0, path, False, "localhost", resource or "/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no URL such as http://127.0.0.1:8000/pipelines/digits")
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise ValueError("has characters that must be written as %XX")
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    authority = parts.netloc.rpartition("@")[2]
    return Place(parts.hostname, port, "", is_tls, authority, resource)


def encode(target: Target) -> list[bytes]:
    """The requests as they are sent, one for each body."""
    place = place_of(target.url)
    return [
        request(target.method, place.resource, place.authority, target.headers, body)
        for body in target.bodies
    ]


def request(
    method: str, resource: str, authority: str, headers: Sequence[str], body: bytes
) -> bytes:
    """One request as bytes; the length is said wherever it is not for nothing."""
    lines = [f"{method} {resource} HTTP/1.1", f"Host: {authority}", *headers]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def tls_of(target: Target) -> ssl.SSLContext | None:
    """For connections to it; None where they are in the clear."""
    if not place_of(target.url).is_tls:
        return None
    context = ssl.create_default_context()
    if not target.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context

"""Who may change a deployment over HTTP, and what of it: paths, access, questions. Pure.

A change of the traffic is nothing for strangers. With a token whoever knows it may; without one
only callers on this host may, and no web page that is open in a browser there: a page of another
site can have the browser send requests to this host, under a name of its own choice even.
"""

import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl

import msgspec

from broker.wire.errors import ErrorCode
from broker.wire.messages import Failure
from gateway.headers import clean
from gateway.problems import refusal

MAX_BODY_BYTES = 1 << 16

METHODS = {
    "traffic": ("GET", "HEAD", "POST"),
    "rollback": ("POST",),
    "promote": ("POST",),
    "compare": ("GET", "HEAD"),
    "history": ("GET", "HEAD"),
}
"""Of each operation; its name is the last part of the path."""

TENDING = ("drain", "restart")
"""What can be asked of one worker."""

_QUERIES: dict[str, dict[str, type[str] | type[int]]] = {
    "compare": {"a": str, "b": str},
    "history": {"limit": int},
}

_HOST = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.ASCII | re.IGNORECASE)
_PROXY_HEADERS = ("Forwarded", "Via", "X-Real-Ip")
CHALLENGE = 'WWW-Authenticate: Bearer realm="millstream"\r\n'


class AdminRoute(NamedTuple):
    """An operation on a pipeline, or on a worker; `allow` is set where it has no such method."""

    what: str
    pipeline: str
    query: str = ""
    allow: str = ""
    worker: str = ""


class Headers(Protocol):
    """What is asked of a request's headers."""

    def getall(self, name: str, default: Sequence[str], /) -> Sequence[str]: ...

    def __iter__(self) -> Iterator[str]: ...


def find(method: str, segments: Sequence[str], query: str) -> AdminRoute | None:
    """The route of a path below /admin; None where nothing is there."""
    match segments:
        case ("pipelines", name, what) if name and what in METHODS:
            allowed = METHODS[what]
            route = AdminRoute(what, clean(name), query)
            return route if method in allowed else route._replace(allow=", ".join(allowed))
        case ("workers", worker, what) if worker and what in TENDING:
            route = AdminRoute(what, "", query, worker=clean(worker))
            return route if method == "POST" else route._replace(allow="POST")
    return None


# ------------------------------------------------------------------ access


class Guard:
    """Decides who may. Nothing that it says contains a token."""

    def __init__(self, token: str) -> None:
        """Without a token ("") callers on this host may."""
        self._token = token.encode()

    def objection(self, headers: Headers, peer: str | None) -> Failure | None:
        """Why this request may not; None where it may. `peer` is its address, None at a Unix
        socket, whose file says who may.
        """
        if self._token:
            return self._check_token(headers.getall("Authorization", ()))
        if peer is not None and not is_loopback(peer):
            return _forbidden("from other hosts it needs the token of --admin-token")
        if any(_is_proxy_header(name) for name in headers):
            return _forbidden("through a proxy it needs the token of --admin-token")
        hosts = headers.getall("Host", ())
        if peer is not None and not (len(hosts) == 1 and _HOST.fullmatch(hosts[0])):
            return _forbidden(
                "without --admin-token it is called by the name localhost or 127.0.0.1 alone"
            )
        sites = headers.getall("Sec-Fetch-Site", ())
        origins = headers.getall("Origin", ())
        own = {f"{scheme}://{host}".lower() for scheme in ("http", "https") for host in hosts}
        if {*sites} - {"none", "same-origin"} or {origin.lower() for origin in origins} - own:
            return _forbidden("pages of other sites may not")
        return None

    def _check_token(self, given: Sequence[str]) -> Failure | None:
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        sent = token.strip().encode("utf-8", "surrogateescape")
        if scheme.lower() == "bearer" and hmac.compare_digest(sent, self._token):
            return None
        return refusal(ErrorCode.UNAUTHORIZED, "it needs Authorization: Bearer and the right token")


def is_loopback(peer: str) -> bool:
    """Whether this is an address of the host itself."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_proxy_header(name: str) -> bool:
    name = name.title()
    return name in _PROXY_HEADERS or name.startswith("X-Forwarded-")


def _forbidden(why: str) -> Failure:
    return refusal(ErrorCode.FORBIDDEN, why)


# ------------------------------------------------------------------ questions


class BadQuestion(Exception):
    """What was sent is no body of an operation; `code` says how that is answered."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def is_json(content_types: Sequence[str]) -> bool:
    """Whether a body is declared as JSON: what no form can send, and no page without asking."""
    media_type = content_types[0].partition(";")[0] if len(content_types) == 1 else ""
    return media_type.strip().lower() == "application/json"


def from_query(route: AdminRoute) -> bytes:
    """The body of an operation that only looks. Raises BadQuestion."""
    body: dict[str, object] = {"pipeline": route.pipeline}
    known = _QUERIES.get(route.what, {})
    for key, value in parse_qsl(route.query, keep_blank_values=True):
        if key not in known or key in body:
            names = ", ".join(known) or "none"
            why = "twice" if key in known else f"which is not known; parameters: {names}"
            raise BadQuestion(ErrorCode.BAD_REQUEST, f"there is {clean(key)[:100]!r} {why}")
        body[key] = _whole(key, value) if known[key] is int else clean(value)
    return msgspec.json.encode(body)


def _whole(key: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
        raise BadQuestion(ErrorCode.BAD_REQUEST, f"{key} must be a whole number, 0 or more")
    return int(value)


def from_body(route: AdminRoute, sent: bytes, peer: str) -> bytes:
    """The body of a change. Who made it is what the body says and where it came from.

    Raises BadQuestion.
    """
    try:
        body: Mapping[str, object] = msgspec.json.decode(sent or b"{}", type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadQuestion(ErrorCode.BAD_BODY, f"the body must be a JSON object: {error}") from None
    kind, named = ("worker", route.worker) if route.worker else ("pipeline", route.pipeline)
    name, by = body.get(kind, named), body.get("by", "")
    if name != named:
        raise BadQuestion(ErrorCode.BAD_REQUEST, f"the body names another {kind} than the path")
    if not isinstance(by, str):
        raise BadQuestion(ErrorCode.BAD_REQUEST, "by must be a string")
    return msgspec.json.encode({**body, kind: name, "by": f"{by}@{peer}" if by else peer})

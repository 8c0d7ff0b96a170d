"""What goes into the scheduler, and what comes out."""

from typing import TypeAlias

from msgspec import Struct

from broker.wire.messages import FromBroker, ToBroker

# ------------------------------------------------------------------ events


class Received(Struct, frozen=True, gc=False):
    """A valid message of a peer."""

    peer: bytes
    message: ToBroker


class PeerLost(Struct, frozen=True, gc=False):
    """The socket has no route to a peer, or it did not read for too long."""

    peer: bytes
    reason: str


class Unreadable(Struct, frozen=True, gc=False):
    """Bytes of a peer that are no message; `seqs` are ids of a submit that could be read in it."""

    peer: bytes
    seqs: list[int]


class DrainAsked(Struct, frozen=True, gc=False):
    """SIGTERM: take no new requests, finish what is held, stop."""


Event: TypeAlias = Received | PeerLost | Unreadable | DrainAsked

# ------------------------------------------------------------------ actions


class Send(Struct, frozen=True, gc=False):
    """Send this message to this peer."""

    peer: bytes
    message: FromBroker


class Misbehaved(Struct, frozen=True, gc=False):
    """A peer sent what its role may not send; the shell decides how long it is still heard."""

    peer: bytes
    reason: str


class Note(Struct, frozen=True, gc=False):
    """Something that the log should tell. `fields` are its data."""

    what: str
    fields: dict[str, str | int | float]


class Stop(Struct, frozen=True, gc=False):
    """The drain is over: the broker may end."""


Action: TypeAlias = Send | Misbehaved | Note | Stop

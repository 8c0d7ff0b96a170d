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
    """The socket has no route to a peer, or it did not read for too long.

    `unsent` are the leases of batches that never left: no worker can have died of those.
    """

    peer: bytes
    reason: str
    unsent: tuple[int, ...] = ()


class Unreadable(Struct, frozen=True, gc=False):
    """Bytes of a peer that are no message; `seqs` are ids of a submit that could be read in it."""

    peer: bytes
    seqs: list[int]


class DrainAsked(Struct, frozen=True, gc=False):
    """SIGTERM: take no new requests, finish what is held, stop."""


class Swept(Struct, frozen=True, gc=False):
    """The folder of arenas was looked through, as it is about once a second.

    `dead`: arenas whose owner has ended, of those in the folder and of the doubtful ones; `alive`:
    all others in the folder.
    """

    dead: list[int]
    alive: list[int]


Event: TypeAlias = Received | PeerLost | Unreadable | DrainAsked | Swept

# ------------------------------------------------------------------ actions


class Send(Struct, frozen=True, gc=False):
    """Send this message to this peer; with `fetch`, to one that cannot read shared memory here: it
    gets bytes in the place of references.
    """

    peer: bytes
    message: FromBroker
    fetch: bool = False


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

"""What goes into the scheduler, and what comes out."""

from typing import TypeAlias

from msgspec import Struct

from broker.core.traffic import Traffic
from broker.wire.messages import Ask, FromBroker, Refused, Report, ToBroker

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


class Asked(Struct, frozen=True, gc=False):
    """Somebody, who need be no peer, asks for an operation on the running deployment. What `asker`
    is the shell knows alone.
    """

    asker: bytes
    ask: Ask


Event: TypeAlias = Received | PeerLost | Unreadable | DrainAsked | Swept | Asked

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


class Change(Struct, frozen=True, gc=False):
    """What was changed of a pipeline's traffic, by whom, and why: a line of its history."""

    by: str
    what: str
    why: str = ""


class Save(Struct, frozen=True, gc=False):
    """A pipeline's traffic has changed, and is in force: keep it for the next life of the broker,
    and the change for its history. The asker, if somebody asked, gets the report then.
    """

    pipeline: str
    traffic: Traffic
    change: Change
    reply_to: bytes = b""
    report: Report | None = None


class Recall(Struct, frozen=True, gc=False):
    """Tell this asker the latest changes of a pipeline's traffic."""

    asker: bytes
    pipeline: str
    limit: int


class Reply(Struct, frozen=True, gc=False):
    """Send this to an asker, as `Asked` named it."""

    asker: bytes
    message: Report | Refused


class Comparing(Struct, frozen=True, gc=False):
    """There should be a process that compares answers (`ComparerHello`), and there is none: start
    one, in the place of any that does not answer; or, if not `wanted`, end it.
    """

    wanted: bool


class Stop(Struct, frozen=True, gc=False):
    """The drain is over: the broker may end."""


Action: TypeAlias = Send | Misbehaved | Note | Save | Recall | Reply | Comparing | Stop

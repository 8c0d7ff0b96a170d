"""What every peer and every command says and hears: welcomes, beats, ends, questions; arenas."""

from typing import TypeAlias

from msgspec import Struct

from broker.wire.messages.kinds import kind

# ------------------------------------------------------------------ to the broker


class Bye(Struct, array_like=True, tag=kind, gc=False):
    """This peer ends now, in order."""

    epoch: int
    reason: str = ""


class Ask(Struct, array_like=True, tag=kind, gc=False):
    """A command that asks about the running deployment, or changes it; answered with Report."""

    protocol: int
    what: str
    body: bytes = b""  # JSON: what it asks for in particular
    id: int = 0  # comes back in the Report, for those who ask more than one thing at a time


# ------------------------------------------------------------------ from the broker


class Welcome(Struct, array_like=True, tag=kind, gc=False):
    """The answer to a HELLO: messages carry this epoch from now on.

    `arenas` names the folder in the host's shared memory where arenas of this deployment lie. Who
    reads `token` there shares a host with the broker, and may own an arena; "" means that there is
    no such folder.
    """

    epoch: int
    protocol: int
    arenas: str = ""
    token: str = ""


class Who(Struct, array_like=True, tag=kind, gc=False):
    """The broker does not know the sender (or its epoch): say HELLO."""

    epoch: int


class Refused(Struct, array_like=True, tag=kind, gc=False):
    """The HELLO cannot be accepted, and why, for the peer to log."""

    epoch: int
    reason: str


class Beat(Struct, array_like=True, tag=kind, gc=False):
    epoch: int


class Report(Struct, array_like=True, tag=kind, gc=False):
    epoch: int
    body: bytes  # JSON
    code: int = 0  # an ErrorCode where what was asked cannot be; then `message` says why
    message: str = ""  # beside a body: what the asker should know of it
    id: int = 0  # of the Ask


class Free(Struct, array_like=True, tag=kind, gc=False):
    """To the owner of an arena: nobody holds the slots of these generations any longer."""

    epoch: int
    generations: list[int]


class Claims(Struct, array_like=True, tag=kind, gc=False):
    """To the owner of an arena, after its HELLO: of the slots up to `generation` only `held` are
    held by anybody.
    """

    epoch: int
    generation: int
    held: list[int]


ToAnyone: TypeAlias = Welcome | Who | Refused | Beat | Report | Free | Claims

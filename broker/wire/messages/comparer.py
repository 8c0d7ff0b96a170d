"""Between the broker and its comparer: answers of two versions, and whether they agree."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from broker.wire.messages.kinds import kind
from broker.wire.messages.payloads import Payload

# ------------------------------------------------------------------ to the broker


class ComparerHello(Struct, array_like=True, tag=kind, gc=False):
    """The broker's own child, which compares answers; said again as its beat."""

    protocol: int
    pid: int = 0


class Verdict(Struct, array_like=True, gc=False):
    """On the pair of this number. Where the answers differ, `stable` and `shadow` show them, cut to
    what can be kept; `note`: why they could not be compared as was asked, or, where one of them
    is `unread`, at all.
    """

    pair: int
    agree: bool
    stable: Annotated[str, Meta(max_length=4096)] = ""
    shadow: Annotated[str, Meta(max_length=4096)] = ""
    note: Annotated[str, Meta(max_length=1024)] = ""
    unread: bool = False


class Compared(Struct, array_like=True, tag=kind, gc=False):
    epoch: int
    verdicts: list[Verdict]


# ------------------------------------------------------------------ from the broker


class Pair(Struct, array_like=True, gc=False):
    """What two versions have answered the same request, and how it is to be compared.

    `how`, `rtol`, `atol` and `key` are as in the pipeline file; `plugin` is the script of the last
    stage of the shadow, as its worker's HELLO has it.
    """

    number: int
    stable: Payload
    shadow: Payload
    stable_type: str = ""  # content type of an answer that is plain bytes; "" means JSON
    shadow_type: str = ""
    how: str = "close"
    rtol: float = 0.0
    atol: float = 0.0
    key: str = ""
    plugin: str = ""


class Compare(Struct, array_like=True, tag=kind, gc=False):
    epoch: int
    pairs: list[Pair]


FromComparer: TypeAlias = ComparerHello | Compared

"""Objects <-> bytes: what travels between stages, and what comes and goes over HTTP.

Pure functions without sockets. Between stages: `pack` and `unpack`. At the ends of a pipeline:
`decode_body` and `encode_body`. Neither numpy nor torch is imported before an array or tensor of
theirs is at hand.
"""

from broker.payload.bodies import decode_body, encode_body
from broker.payload.errors import (
    BadBody,
    BadPayload,
    CannotTravel,
    PayloadError,
    UnsupportedType,
)
from broker.payload.leaves import Buffer
from broker.payload.limits import MAX_DEPTH, SPILL_BYTES
from broker.payload.objects import pack, unpack

__all__ = [
    "MAX_DEPTH",
    "SPILL_BYTES",
    "BadBody",
    "BadPayload",
    "Buffer",
    "CannotTravel",
    "PayloadError",
    "UnsupportedType",
    "decode_body",
    "encode_body",
    "pack",
    "unpack",
]

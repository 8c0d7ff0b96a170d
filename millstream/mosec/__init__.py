"""MOSEC's interface over Millstream's engine: scripts written for MOSEC run as they are.

`from millstream.mosec import Server, Worker` in place of `from mosec import …`; or unchanged by
`millstream mosec script.py`, or with `PYTHONPATH=$(python -m millstream.mosec)`.
"""

from millstream.mosec import alias
from millstream.mosec.errors import (
    ClientError,
    DecodingError,
    EncodingError,
    ServerError,
    ValidationError,
)
from millstream.mosec.log import get_logger
from millstream.mosec.runtime import Runtime
from millstream.mosec.server import Server
from millstream.mosec.worker import SSEWorker, Worker

__all__ = [
    "ClientError",
    "DecodingError",
    "EncodingError",
    "Runtime",
    "SSEWorker",
    "Server",
    "ServerError",
    "ValidationError",
    "Worker",
    "get_logger",
]

alias.install()

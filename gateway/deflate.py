"""Compressing answers: JSON alone, which shrinks to a quarter or a half; images would not.

At zlib's quickest level, which reads 20 to 150 MB/s here: it pays where the way to the client is
slower than some 100 Mbit/s, and costs time where it is quicker, as between hosts of one site.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.wire.frames import Buffer
from gateway.inflate import zstd_module

INLINE_BYTES = 1 << 14
"""Up to this size it takes less than a millisecond: no thread is asked."""
_QUICKEST = 1
_GZIP_FORMAT = 31


def is_worth_it(content_type: str) -> bool:
    """Whether a body of this type shrinks; "" is JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or kind == "application/json" or kind.endswith("+json")


def deflate(body: Buffer | Sequence[Buffer]) -> bytes:
    """The body in gzip's format."""
    compressor = zlib.compressobj(_QUICKEST, zlib.DEFLATED, _GZIP_FORMAT)
    pieces = [body] if isinstance(body, bytes | bytearray | memoryview) else body
    return b"".join([*map(compressor.compress, pieces), compressor.flush()])


def deflate_zstd(body: Buffer | Sequence[Buffer]) -> bytes:
    """The body as one frame of Zstandard, at a level that takes as long."""
    compressor = zstd_module().ZstdCompressor(_QUICKEST)
    pieces = [body] if isinstance(body, bytes | bytearray | memoryview) else body
    return b"".join([*map(compressor.compress, pieces), compressor.flush()])


class Coding(NamedTuple):
    """How a body is compressed, and the lines of its answer's head that say so."""

    compress: Callable[[Buffer | Sequence[Buffer]], bytes]
    lines: bytes


GZIP = Coding(deflate, b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n")
ZSTD = Coding(deflate_zstd, b"Content-Encoding: zstd\r\nVary: Accept-Encoding\r\n")

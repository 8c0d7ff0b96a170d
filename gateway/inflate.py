"""Compressed request bodies to plain ones, never beyond a bound.

Pure, and slow for large bodies: the caller runs it in a thread.
"""

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_RAW = -zlib.MAX_WBITS

ENCODINGS = frozenset({"gzip", "x-gzip", "deflate", "zstd"})
MAX_MEMBERS = 16
"""Of one body. Each costs a copy of all that follows it: thousands would be an attack."""
MOST_ZSTD_WINDOW_LOG = 23
"""8 MiB, as HTTP has it (RFC 9659): so much memory a body can make us take to inflate it."""


class TooLarge(Exception):
    """The inflated body is beyond the bound."""


class Broken(Exception):
    """The bytes are not what the encoding says."""


def inflate(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """The plain body of one in gzip, deflate or zstd, all members of it.

    Raises TooLarge as soon as more than `limit_bytes` have come out, having held no more than that,
    and Broken for bytes that do not inflate, or end early.
    """
    make, failure = _zstd() if encoding == "zstd" else _zlib(body, encoding)
    plain: list[bytes] = []
    left = limit_bytes
    rest = body
    for _ in range(MAX_MEMBERS):
        inflater = make()
        try:
            piece = inflater.decompress(rest, left + 1)
        except failure as error:
            raise Broken(str(error)) from None
        if len(piece) > left:
            raise TooLarge
        if not inflater.eof:
            raise Broken("the compressed body ends early")
        plain.append(piece)
        left -= len(piece)
        rest = inflater.unused_data
        if not rest:
            return plain[0] if len(plain) == 1 else b"".join(plain)
    raise Broken("too many members in one compressed body")


def _zlib(body: bytes, encoding: str) -> tuple[Callable[[], Any], type[Exception]]:
    # "deflate" should mean zlib, but senders of raw deflate streams exist.
    raw = encoding == "deflate" and body and not _has_header(body)
    return lambda: zlib.decompressobj(_RAW if raw else _GZIP_OR_ZLIB), zlib.error


@cache
def _zstd() -> tuple[Callable[[], Any], type[Exception]]:
    zstd = zstd_module()
    options = {zstd.DecompressionParameter.window_log_max: MOST_ZSTD_WINDOW_LOG}
    return lambda: zstd.ZstdDecompressor(options=options), zstd.ZstdError


def zstd_module() -> Any:
    """The standard library's from Python 3.14 on, which there is a package of for those before."""
    try:
        from compression import zstd  # type: ignore[import-not-found]  # noqa: PLC0415
    except ModuleNotFoundError:
        from backports import zstd  # noqa: PLC0415
    return zstd


def _has_header(body: bytes) -> bool:
    return body[:2] == b"\x1f\x8b" or (
        body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    )

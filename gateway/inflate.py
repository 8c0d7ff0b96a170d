"""Compressed request bodies to plain ones, never beyond a bound.

Pure, and slow for large bodies: the caller runs it in a thread.
"""

import zlib

_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_RAW = -zlib.MAX_WBITS

ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
MAX_MEMBERS = 16
"""Of a gzip body. Each costs a copy of all that follows it: thousands would be an attack."""


class TooLarge(Exception):
    """The inflated body is beyond the bound."""


class Broken(Exception):
    """The bytes are not what the encoding says."""


def inflate(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """The plain body of a gzip or deflate one, all members of it.

    Raises TooLarge as soon as more than `limit_bytes` have come out, having held no more than that,
    and Broken for bytes that do not inflate, or end early.
    """
    # "deflate" should mean zlib, but senders of raw deflate streams exist.
    raw = encoding == "deflate" and body and not _has_header(body)
    plain: list[bytes] = []
    left = limit_bytes
    rest = body
    for _ in range(MAX_MEMBERS):
        inflater = zlib.decompressobj(_RAW if raw else _GZIP_OR_ZLIB)
        try:
            piece = inflater.decompress(rest, left + 1)
        except zlib.error as error:
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


def _has_header(body: bytes) -> bool:
    return body[:2] == b"\x1f\x8b" or (
        body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    )

"""Bytes in a charset that a client names -> str."""

import codecs
import re
from functools import lru_cache

from broker.payload.errors import BadBody, UnsupportedType

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,39}")
# Codecs of Python that are no charsets: escapes, and names of hosts (in quadratic time).
_NO_CHARSETS = frozenset(
    ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7")
)


def decode_text(body: bytes, charset: str) -> str:
    """Raises UnsupportedType for a charset that is none, BadBody for bytes that are not in it."""
    _require_charset(charset)
    try:
        return body.decode(charset)
    except UnicodeError as error:
        raise BadBody(f"the text is not {charset}: {str(error)[:200]}") from error


@lru_cache(maxsize=64)
def _require_charset(charset: str) -> None:
    try:
        if not _NAME.fullmatch(charset) or codecs.lookup(charset).name in _NO_CHARSETS:
            raise LookupError(charset)
        b"a".decode(charset)  # which codecs that make no text of bytes refuse
    except UnicodeError:
        return  # one letter is no text in UTF-16
    except LookupError as error:
        raise UnsupportedType(f"unknown charset {charset[:40]!r}") from error

"""multipart/form-data -> a dict, strictly and in one pass over the bytes.

A part is text, and becomes a str, unless it names a file or its own type is neither text nor JSON:
then it becomes {"filename", "content_type", "body"}. A field that comes twice becomes a list. File
names are data for the plug-in, exactly as the client wrote them; nothing here opens a file.
"""

import re
from typing import TypeAlias
from urllib.parse import unquote

from broker.payload.errors import BadBody, UnsupportedType
from broker.payload.media_types import parse_media_type, parse_parameters
from broker.payload.text import decode_text

MAX_PARTS = 1000
"""Far more fields than forms have, far fewer than would take a noticeable time."""

MAX_HEADER_BYTES = 16 * 1024
"""The headers of one part: a name of 300 characters outside ASCII takes 2.7 KB in percent signs."""

File: TypeAlias = dict[str, object]
Value: TypeAlias = str | File

_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_LINE_END = re.compile(rb"[ \t]*\r\n")
_DISPOSITION = re.compile(r"\s*form-data\s*(?:;|$)", re.IGNORECASE)


def decode_multipart(body: bytes, parameters: dict[str, str]) -> dict[str, object]:
    """The form in `body`; `parameters` are those of its content type. Raises BadBody."""
    boundary = parameters.get("boundary", "")
    if not _BOUNDARY.fullmatch(boundary):
        raise BadBody("multipart: the content type names no legal boundary")
    form: dict[str, object] = {}
    repeated: set[str] = set()
    for headers, content in _split(body, b"--" + boundary.encode("ascii")):
        name, value = _part(headers, content)
        if name not in form:
            form[name] = value
        elif name in repeated:
            form[name].append(value)  # type: ignore[attr-defined]  # made a list below
        else:
            form[name] = [form[name], value]
            repeated.add(name)
    return form


def _split(body: bytes, delimiter: bytes) -> list[tuple[bytes, bytes]]:
    """Headers and content of each part. What stands before and after the form is passed over."""
    parts: list[tuple[bytes, bytes]] = []
    found = _next_delimiter(body, delimiter, 0)
    if found is None:
        raise BadBody("multipart: the boundary does not occur in the body")
    _, start, is_last = found
    while not is_last:
        if len(parts) == MAX_PARTS:
            raise BadBody(f"multipart: more than {MAX_PARTS} parts")
        headers, content = _headers(body, start)
        found = _next_delimiter(body, delimiter, content)
        if found is None:
            raise BadBody("multipart: the last boundary, with two dashes behind it, is missing")
        end, start, is_last = found
        parts.append((headers, body[content:end]))
    return parts


def _next_delimiter(body: bytes, delimiter: bytes, at: int) -> tuple[int, int, bool] | None:
    """Where the content before the next delimiter line ends, where what follows it begins, and
    whether it is the last one.

    A line that only begins like the delimiter, or ends otherwise, is content.
    """
    if at == 0 and body.startswith(delimiter):
        index = 0
    else:
        # The line end before the delimiter belongs to it, and may be the one after the headers.
        index = body.find(b"\r\n" + delimiter, max(at - 2, 0))
    while index >= 0:
        after = index + len(delimiter) + (2 if body.startswith(b"\r\n", index) else 0)
        end = max(index, at)
        if body.startswith(b"--", after):
            return end, after + 2, True
        if line_end := _LINE_END.match(body, after):
            return end, line_end.end(), False
        index = body.find(b"\r\n" + delimiter, after)
    return None


def _headers(body: bytes, start: int) -> tuple[bytes, int]:
    """The header lines of the part that begins at `start`, and where its content begins."""
    if body.startswith(b"\r\n", start):
        return b"", start + 2
    end = body.find(b"\r\n\r\n", start, start + MAX_HEADER_BYTES)
    if end < 0:
        if len(body) - start < MAX_HEADER_BYTES:
            raise BadBody("multipart: a part ends within its headers")
        raise BadBody(f"multipart: the headers of a part exceed {MAX_HEADER_BYTES} bytes")
    return body[start:end], end + 4


def _part(header_lines: bytes, content: bytes) -> tuple[str, Value]:
    headers = _parse_headers(header_lines)
    disposition = headers.get("content-disposition", "")
    match = _DISPOSITION.match(disposition)
    if match is None:
        raise BadBody("multipart: a part without 'Content-Disposition: form-data'")
    parameters = parse_parameters(disposition[match.end() :])
    name = parameters.get("name")
    if name is None:
        raise BadBody("multipart: a part without a name")
    encoding = headers.get("content-transfer-encoding", "binary").lower()
    if encoding not in ("7bit", "8bit", "binary"):
        raise BadBody(f"multipart: Content-Transfer-Encoding {encoding[:40]!r} is not supported")
    filename = _filename(parameters)
    content_type = headers.get("content-type", "")
    if filename is None and (charset := _text_charset(content_type)):
        return name, decode_text(content, charset)
    kind = content_type or "application/octet-stream"
    return name, {"filename": filename, "content_type": kind, "body": content}


def _parse_headers(lines: bytes) -> dict[str, str]:
    try:
        text = lines.decode()
    except UnicodeDecodeError as error:
        raise BadBody("multipart: the headers of a part are not UTF-8") from error
    headers: dict[str, str] = {}
    for line in text.split("\r\n") if text else ():
        name, colon, value = line.partition(":")
        if not colon or "\0" in line:
            raise BadBody(f"multipart: {line[:40]!r} is no header")
        headers.setdefault(name.strip().lower(), value.strip())
    return headers


def _filename(parameters: dict[str, str]) -> str | None:
    extended = parameters.get("filename*")
    if extended is not None and extended[:7].lower() == "utf-8''":
        try:
            return unquote(extended[7:], errors="strict")
        except UnicodeDecodeError as error:
            raise BadBody("multipart: a file name is not UTF-8") from error
    return parameters.get("filename")


def _text_charset(content_type: str) -> str:
    """The charset of a part without a file name, or "" where it is no text."""
    if not content_type:
        return "utf-8"
    try:
        kind, parameters = parse_media_type(content_type)
    except UnsupportedType as error:
        raise BadBody(f"multipart: {error}") from error
    is_text = kind.startswith("text/") or kind == "application/json" or kind.endswith("+json")
    return parameters.get("charset", "utf-8") if is_text else ""

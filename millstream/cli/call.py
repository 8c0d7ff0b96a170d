"""`millstream call`: one request from the command line, its answer to standard output."""

import mimetypes
import sys

from broker.payload.bodies import encode_body
from broker.payload.media_types import BYTES_TYPE, JSON_TYPE
from millstream.cli.errors import CommandError
from millstream.client import Client, ClientError

ARRAY_SUFFIX = ".npy"


def call(
    pipeline: str,
    value: str | None,
    *,
    file: str | None,
    content_type: str,
    url: str,
    timeout_s: float,
    retries: int,
    version: str,
    stream: bool,
) -> int:
    """Exit code 0; CommandError with exit code 1 for an error as the answer, or where none came.

    Bytes are written as they are, every other result as a line of JSON.
    """
    if (value is None) == (file is None):
        raise CommandError("give either JSON or --file FILE, and not both")
    sent, content_type = _read(value, file, content_type)
    try:
        with Client(url, timeout_s=timeout_s, retries=retries) as client:
            if stream:
                for each in client.stream(
                    pipeline, sent, version=version, content_type=content_type
                ):
                    _show(each)
            else:
                _show(client.call(pipeline, sent, version=version, content_type=content_type))
    except ClientError as error:
        raise CommandError(str(error), code=1) from None
    except ValueError as error:  # a URL or a type that is none
        raise CommandError(str(error)) from None
    return 0


def _read(value: str | None, file: str | None, content_type: str) -> tuple[object, str]:
    """What to send, and its content type; "" for an array, which has one of its own."""
    if file is None:
        return (value or "").encode("utf-8", "surrogateescape"), content_type or JSON_TYPE
    if file == "-":
        return sys.stdin.buffer.read(), content_type or JSON_TYPE
    try:
        if file.endswith(ARRAY_SUFFIX) and not content_type:
            return _load_array(file), ""
        with open(file, "rb") as source:
            body = source.read()
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None
    return body, content_type or mimetypes.guess_type(file)[0] or BYTES_TYPE


def _load_array(file: str) -> object:
    import numpy as np  # noqa: PLC0415  # for arrays alone

    try:
        return np.load(file, allow_pickle=False)
    except ValueError as error:
        raise CommandError(f"{file}: is no array: {error}") from None


def _show(result: object) -> None:
    body, content_type = encode_body(result, JSON_TYPE)
    out = sys.stdout.buffer
    out.write(body)
    if content_type == JSON_TYPE:
        out.write(b"\n")
    out.flush()

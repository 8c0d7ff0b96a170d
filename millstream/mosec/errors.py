"""The exceptions of MOSEC's workers, with its statuses and texts.

A client is told `msg`, and what was said when it was raised. What a worker raises beside these is
answered 500 without a word of what it was.
"""

from millstream.mosec.protocol import HTTPStatusCode


class MosecError(Exception):
    """The base of all that are told to clients."""

    code: HTTPStatusCode = HTTPStatusCode.INTERNAL_ERROR
    msg: str = "mosec error"


class ClientError(MosecError):
    """400: the client's request cannot be processed."""

    code = HTTPStatusCode.BAD_REQUEST
    msg = "bad request"


class ServerError(MosecError):
    """500: something went wrong here that the client may be told of."""

    code = HTTPStatusCode.INTERNAL_ERROR
    msg = "internal error"


class EncodingError(ServerError):
    """500: a result cannot be serialized."""

    msg = "encoding error"


class DecodingError(ClientError):
    """400: a body cannot be deserialized."""

    msg = "decoding error"


class ValidationError(MosecError):
    """422: a body was read, and holds what cannot be."""

    code = HTTPStatusCode.VALIDATION_ERROR
    msg = "request validation error"


class MosecTimeoutError(BaseException):
    """408: `forward` has taken too long. Raised within it, so that it can clean up; no Exception,
    so that it is not caught by accident.
    """

    code = HTTPStatusCode.TIMEOUT_ERROR
    msg = "mosec timeout error"

"""Bodies in msgpack, both ways."""

from typing import Any

import msgpack  # type: ignore[import-untyped]  # it ships no types

from millstream.mosec.errors import DecodingError, EncodingError


class MsgpackMixin:
    """Put it before `Worker` among the bases of the first stage, of the last, or of both."""

    resp_mime_type = "application/msgpack"

    def serialize(self, data: Any) -> bytes:
        """A result as msgpack. Raises EncodingError."""
        try:
            packed: bytes = msgpack.packb(data)
        except Exception as error:
            raise EncodingError(" ".join(str(error).split())) from error
        return packed

    def deserialize(self, data: bytes) -> Any:
        """A body of msgpack, its arrays as tuples. Raises DecodingError."""
        try:
            return msgpack.unpackb(data, use_list=False)
        except Exception as error:
            raise DecodingError(" ".join(str(error).split())) from error

"""Bodies in msgpack, checked against what `forward` is annotated to take."""

from typing import Any

import msgspec

from millstream.mosec.errors import DecodingError, ValidationError
from millstream.mosec.log import get_internal_logger
from millstream.mosec.utils import ParseTarget, parse_func_type
from millstream.mosec.worker import Worker


class TypedMsgPackMixin(Worker):
    """In the first stage: bodies that are no such objects are answered 422 before any work. Its
    annotations, and those of the last stage, stand in the OpenAPI document.
    """

    resp_mime_type = "application/msgpack"
    _decoder: Any = None

    def deserialize(self, data: Any) -> Any:
        """A body to an object of the annotated type. Raises ValidationError, and DecodingError for
        what is no msgpack.
        """
        if self._decoder is None:
            typ = parse_func_type(self.forward, ParseTarget.INPUT)
            self._decoder = msgspec.msgpack.Decoder(typ)
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError as error:
            raise ValidationError(str(error)) from error
        except msgspec.DecodeError as error:
            raise DecodingError(str(error)) from error

    def serialize(self, data: Any) -> bytes:
        """A result as msgpack."""
        return msgspec.msgpack.encode(data)

    @classmethod
    def get_forward_json_schema(
        cls, target: ParseTarget, ref_template: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """As annotated; nothing where msgspec has no schema for it."""
        typ = parse_func_type(cls.forward, target)
        try:
            (schema,), components = msgspec.json.schema_components([typ], ref_template=ref_template)
        except TypeError as error:
            get_internal_logger().warning("%s: no JSON schema: %s", cls.__name__, error)
            return {}, {}
        return schema, components

"""What can be wrong with a payload, one class for each side that can be at fault.

    CannotTravel      the plug-in's fault: its result holds something that no stage could receive
    BadPayload        the peer's fault: the bytes between two processes are not what `pack` makes
    BadBody           the client's fault: the body is not what its content type says (HTTP 400)
    Mismatch          the client's fault: it is that, but not what the pipeline declares (HTTP 422)
    UnsupportedType   the client's fault: a content type or charset nobody here reads (HTTP 415)
    PayloadLost       nobody's: what a reference leads to is gone, or cannot be reached from here

This module knows nothing of HTTP answers or of error codes; the callers map these classes.
"""

from collections.abc import Sequence

STAGES = "travel between stages"
ANSWERS = "be written as JSON or msgpack"

_LONGEST_PATH = 160  # characters: a line of a log, not a page of brackets


class PayloadError(ValueError):
    """The root of this package's errors."""


class BadPayload(PayloadError):
    """The bytes are not a payload. The message says why; nothing was built from them."""


class BadBody(PayloadError):
    """The body is not what its content type says. The message is meant for the client."""


class Mismatch(PayloadError):
    """The body does not fit what the pipeline declares. The message is meant for the client."""


class UnsupportedType(PayloadError):
    """No one here reads this content type or charset. The message is meant for the client."""


class PayloadLost(Exception):
    """What a reference leads to is not there (any longer); the message says what is."""


class CannotTravel(PayloadError):
    """An object that cannot leave its stage.

    `type_name` is its type, `path` leads to it from the result, such as `["boxes"][2]`, and
    `reason`, where the type alone does not tell, says what is wrong with this very value.
    """

    def __init__(
        self, type_name: str, path: str = "", reason: str = "", *, means: str = STAGES
    ) -> None:
        self.type_name = type_name
        self.path = path
        self.reason = reason
        because = f" ({reason})" if reason else ""
        super().__init__(f"result{path}: {type_name} cannot {means}{because}")

    def at(self, path: str, *, means: str = STAGES) -> "CannotTravel":
        """The same complaint with the path filled in, and whither it cannot go."""
        return CannotTravel(self.type_name, path, self.reason, means=means)


def format_path(steps: Sequence[object]) -> str:
    """The keys and indexes from the result down to a value, as Python would write them."""
    path = "".join(map(_format_step, steps))
    if len(path) > _LONGEST_PATH:
        half = _LONGEST_PATH // 2
        path = f"{path[:half]}…{path[-half:]}"
    return path


class KeyStep(int):
    """A step of a path to the n-th key of a dict, rather than to a value."""


def _format_step(step: object) -> str:
    if isinstance(step, KeyStep):
        return f".keys()[{int(step)}]"
    text = repr(step)
    if type(step) is str:
        text = '"' + text[1:-1].replace('"', '\\"') + '"'
    if len(text) > 50:  # a key that is itself a document would hide the rest of the path
        text = text[:49] + "…"
    return f"[{text}]"

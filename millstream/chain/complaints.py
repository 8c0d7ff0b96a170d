"""What the runtime writes to the log when an item fails: the traceback that no answer shows."""

import logging
from types import TracebackType
from typing import Self

from msgspec import Struct

from broker.wire.log import logger
from broker.wire.log_lines import Event


class Complaint(Struct, frozen=True):
    """`where`: decode, forward, encode, …; `given`: what the item was, where that may tell why."""

    where: str
    error: str
    trace: str
    given: str = ""


def without_place(error: str) -> str:
    """A sentence about wrong results, whose place is told in front of it."""
    return error.partition("; see ")[0]


class Complaints(logging.Handler):
    """Those that are written while it is entered, by the id that the answers have."""

    def __init__(self, *, is_alone: bool = False) -> None:
        """`is_alone`: nobody else is to see these lines."""
        super().__init__(logging.ERROR)
        self._is_alone = is_alone
        self._propagates = True
        self._by_id: dict[str, Complaint] = {}

    def __enter__(self) -> Self:
        self._propagates = logger.propagate
        if self._is_alone:
            logger.propagate = False
        logger.addHandler(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        logger.removeHandler(self)
        logger.propagate = self._propagates

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        event = record.args[0] if type(record.args) is tuple and record.args else None
        if type(event) is Event and "error_id" in event.fields:
            fields = event.fields
            self._by_id[str(fields["error_id"])] = Complaint(
                str(fields.get("where", "")),
                without_place(str(fields.get("error", ""))),
                event.trace,
                str(fields.get("given", "")),
            )

    def about(self, error_id: str) -> Complaint | None:
        """What was written about the items that failed with this id."""
        return self._by_id.get(error_id)

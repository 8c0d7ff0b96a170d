"""What clients ask for, and what must come back: every answer names its request.

Pure. A job is one request; it may be sent again, to another gateway, when the first one died.
"""

import json
from enum import StrEnum
from random import Random
from typing import Any

from msgspec import Struct

from tests.fault.rig import CHAIN

DEADLINES_S = (1.0, 2.0, 3.0, 5.0, 10.0)
ELEMENTS = (12_500, 37_500)
"""Of an array, 8 bytes each: 100 to 300 KB, which travel in shared memory."""
ELEMENT_BYTES = 8
JSON = "application/json"
BYTES = "application/octet-stream"


class Sort(StrEnum):
    """Sorts of jobs, which are judged apart."""

    SMALL = "small"
    ARRAY = "array"
    UPLOAD = "upload"
    CONSTANT = "constant"
    SLOW = "slow"
    FLOOD = "flood"
    POISON = "poison"


class Job(Struct, frozen=True):
    """One request. `answer` is what a result must be; None: no result can come of it."""

    number: int
    sort: Sort
    deadline_s: float
    body: bytes
    answer: dict[str, int] | None
    content_type: str = JSON
    key: str = ""
    """The client's, for fair shares."""

    @property
    def id(self) -> str:
        """The request id that the answer must bear."""
        return f"job-{self.number}"

    def fault_of(self, status: int, id: str, body: bytes, version: str = "") -> str:
        """Why this is no answer to the job; "" where it is one. `version` is named in its head."""
        if id != self.id:
            return f"it is the answer to {id!r}"
        try:
            said: Any = json.loads(body)
        except ValueError:
            return "it is no JSON"
        if status == 200:
            by = set(said.pop("by", ())) if isinstance(said, dict) else set()
            if by - {version}:
                return f"it was made by versions {sorted(by)}, and says {version!r}"
            return "" if said == self.answer else f"{said} is not {self.answer}"
        named = said.get("error", {}).get("request_id") if isinstance(said, dict) else None
        return "" if named == self.id else f"the error names {named!r}"


def usual(number: int, chance: Random) -> Job:
    """What most clients send: tiny objects, and now and then something large."""
    deadline_s = chance.choice(DEADLINES_S)
    sort = chance.choices((Sort.SMALL, Sort.ARRAY, Sort.UPLOAD), (70, 15, 15))[0]
    if sort is Sort.ARRAY:
        size = chance.randint(*ELEMENTS)
        answer = {"n": number, "sum": (number + 1) * size, "stages": len(CHAIN)}
        return Job(number, sort, deadline_s, _json({"n": number, "size": size}), answer)
    if sort is Sort.UPLOAD:
        return upload(number, chance, sort, deadline_s)
    return Job(number, sort, deadline_s, _json({"n": number}), _passed(number))


def upload(number: int, chance: Random, sort: Sort, deadline_s: float) -> Job:
    """The number, over and over."""
    size = chance.randint(*ELEMENTS)
    body = number.to_bytes(ELEMENT_BYTES) * size
    answer = {"n": number, "sum": number * size, "stages": len(CHAIN)}
    return Job(number, sort, deadline_s, body, answer, content_type=BYTES)


def constant(number: int, chance: Random) -> Job:
    """A body that is always the same: nobody may take it for one that kills."""
    return Job(number, Sort.CONSTANT, chance.choice(DEADLINES_S), _json({"n": 0}), _passed(0))


def one_of_many(number: int, key: str) -> Job:
    """A request of a flood."""
    return Job(number, Sort.FLOOD, 5.0, _json({"n": number}), _passed(number), key=key)


def poison(number: int, how: str, stage: str) -> Job:
    """A request that does harm in a stage."""
    body = _json({"n": number, "at": stage, "do": how})
    return Job(number, Sort.POISON, 10.0, body, None)


def _passed(number: int) -> dict[str, int]:
    return {"n": number, "stages": len(CHAIN)}


def _json(value: object) -> bytes:
    return json.dumps(value).encode()

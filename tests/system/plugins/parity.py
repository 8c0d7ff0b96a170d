"""Three stages in which all may happen that can happen to a request."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from millstream import Reject, RequestInfo, Worker


class Enter(Worker):
    max_batch_size = 8

    def forward(self, batch: list[Any], requests: list[RequestInfo]) -> list[Any]:
        return [self.one(each, info) for each, info in zip(batch, requests, strict=True)]

    def one(self, asked: Any, info: RequestInfo) -> Any:
        match asked:
            case {"do": "about"}:
                return {"type": info.content_type, "headers": info.headers, "id": info.request_id}
            case {"do": "set"}:
                return {"deep": [{1, 2}]}
            case {"do": "array"}:
                return np.arange(asked["count"], dtype=np.float32)
        return asked


class Middle(Worker):
    max_batch_size = 4

    async def forward(self, batch: list[Any]) -> list[Any]:
        results: list[Any] = []
        for each in batch:
            match each:
                case {"do": "raise"}:
                    raise ValueError("as asked")
                case {"do": "reject"}:
                    results.append(Reject("not this one", status=409))
                case {"do": "return"}:
                    results.append(KeyError("in its place"))
                case {"do": "write"}:
                    array: Any = np.frombuffer(each["data"].encode(), np.uint8)
                    array[0] = 1
                case np.ndarray():
                    results.append({"sum": each.sum(), "writes": each.flags.writeable, "all": each})
                case _:
                    results.append(each)
        return results


class Leave(Worker):
    max_batch_size = 16

    def forward(self, batch: list[Any]) -> Any:
        if any(isinstance(each, dict) and each.get("do") == "short" for each in batch):
            return batch[1:]
        return [self.one(each) for each in batch]

    def one(self, each: Any) -> Any:
        match each:
            case {"do": "stream"}:
                return self.stream(each)
            case {"do": "bytes"}:
                return b"\x00\x01"
            case {"do": "object"}:
                return object()
            case {"do": "nan"}:
                return float("nan")
        return each

    def stream(self, asked: dict[str, Any]) -> Iterator[Any]:
        for number in range(asked["count"]):
            if number == asked.get("breaks_at"):
                raise Reject("no further", status=422)
            yield {"n": number, "x": np.zeros(2)}

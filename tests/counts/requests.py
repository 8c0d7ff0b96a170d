"""Mixed requests, and what their clients see of them: nothing of Millstream but its HTTP.

Each request names its kind, path and headers anew, so that whatever would make a series of these
makes one for each request.
"""

import asyncio
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp

KINDS = {
    "ok": 70, "raise": 3, "reject": 4, "bad_body": 3, "bad_header": 2, "unknown": 4,
    "version": 2, "late": 3, "gone": 3, "sleep": 5, "die": 0,
}  # fmt: skip
"""How often each comes, in parts of all; who is to die is said by the caller."""


REFUSED = (429, 503)


@dataclass
class Seen:
    """What clients saw: answers by status and code, and requests that they gave up."""

    answers: Counter[tuple[int, str]] = field(default_factory=Counter)
    gone: int = 0
    """Requests whose client hung up before there was an answer."""
    wrong: list[str] = field(default_factory=list)

    @property
    def sent(self) -> int:
        return self.gone + sum(self.answers.values())


class Crowd:
    """Clients that send so many requests in all, one after another each."""

    def __init__(self, port: int, *, count: int, clients: int, deaths: int, seed: int = 1) -> None:
        self._port = port
        self._url = f"http://127.0.0.1:{port}"
        self._chance = random.Random(seed)
        kinds = self._chance.choices(list(KINDS), list(KINDS.values()), k=count)
        for place in self._chance.sample(range(count), k=deaths):
            kinds[place] = "die"
        self._jobs = enumerate(kinds)
        self._clients = clients
        self.seen = Seen()

    def run(self) -> Seen:
        """Send all; returns when each is answered or given up."""
        asyncio.run(self._run())
        return self.seen

    async def _run(self) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(self._client(session) for _ in range(self._clients)))

    async def _client(self, session: aiohttp.ClientSession) -> None:
        for number, kind in self._jobs:
            while await self._send(session, number, kind) in REFUSED:
                await asyncio.sleep(0.05)
                if kind != "die":  # what is to kill is sent until it is taken in
                    break

    async def _send(self, session: aiohttp.ClientSession, number: int, kind: str) -> int:
        """Returns the status, 0 where the request was given up."""
        path, body, headers = self._request(number, kind)
        if kind == "gone":
            status, code = await self._hang_up(path, body, headers)
        else:
            status, code = await self._exchange(session, path, body, headers)
        if not status:
            self.seen.gone += 1
            return 0
        self.seen.answers[status, code] += 1
        if kind == "ok" and status == 200 and code:
            self.seen.wrong.append(f"{number}: {code}")
        return status

    async def _exchange(
        self, session: aiohttp.ClientSession, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, str]:
        async with session.post(self._url + path, data=body, headers=headers) as response:
            said: Any = json.loads(await response.read())
            return response.status, said["error"]["code"] if response.status >= 400 else ""

    async def _hang_up(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
        """Hang up after a while, unless there is an answer before; then 0. By `100 Continue` it is
        known that the gateway has heard of the request.
        """
        headers |= {"Host": "here", "Content-Length": str(len(body)), "Expect": "100-continue"}
        head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(f"{head}\r\n".encode())
            status, code = await _read(reader)
            if status != 100:
                return status, code
            writer.write(body)
            async with asyncio.timeout(self._chance.uniform(0.0, 0.1)):
                return await _read(reader)
        except TimeoutError:
            return 0, ""
        finally:
            writer.transport.abort()

    def _request(self, number: int, kind: str) -> tuple[str, bytes, dict[str, str]]:
        path = "/pipelines/moody"
        headers = {
            "Content-Type": "application/json",
            "X-Request-Id": f"id-{number}",
            "X-Api-Key": f"key-{number}",
            f"X-Own-{number % 1000}": str(number),
            "traceparent": f"00-{number + 1:032x}-{number + 1:016x}-01",
        }
        said: dict[str, Any] = {"n": number}
        match kind:
            case "raise" | "reject" | "die":
                said["do"] = kind
            case "sleep":
                said |= {"do": "sleep", "s": 0.003}
            case "gone":
                said |= {"do": "sleep", "s": 0.05}
            case "late":
                said |= {"do": "sleep", "s": 0.01}
                headers["X-Timeout-Ms"] = str(self._chance.choice((1, 2, 5, 20, 60)))
            case "bad_header":
                headers["X-Timeout-Ms"] = "soon"
            case "unknown":
                path = f"/pipelines/none-{number}?q={number}"
            case "version":
                path += f"/versions/{number}"
        body = b"{" if kind == "bad_body" else json.dumps(said).encode()
        return path, body, headers


async def _read(reader: asyncio.StreamReader) -> tuple[int, str]:
    """One answer: its status, and the code of an error."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status = int(head.split()[1])
    length = re.search(r"(?i)content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1])) if length is not None else b""
    return status, json.loads(body)["error"]["code"] if status >= 400 else ""

"""A headless Chromium, steered over the DevTools protocol: one page, and what it asked for."""

import asyncio
import base64
import itertools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

import aiohttp

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_S = 30.0
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # which it wants to be without where root starts it
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1280,1000",
    "--remote-debugging-port=0",
)


class Chromium:
    """A browser with one page; an async context manager that ends it and its folder."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        """Every URL that the page asked for."""
        self.complaints: list[str] = []
        """What it wrote to its console: errors, and what its policy forbade."""
        self._folder = tempfile.mkdtemp(prefix="chromium-")
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def __aenter__(self) -> Self:
        assert PROGRAM is not None
        self._process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *OPTIONS,
            f"--user-data-dir={self._folder}",
            "about:blank",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        port = await asyncio.wait_for(self._port(), PATIENCE_S)
        self._drain = asyncio.ensure_future(self._discard())
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as response:
            (page,) = [each for each in await response.json() if each["type"] == "page"]
        self._socket = await self._session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0)
        self._reader = asyncio.ensure_future(self._read())
        for domain in ("Page", "Network", "Log", "Runtime", "DOM"):
            await self.send(f"{domain}.enable")
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.send("Browser.close")
            await asyncio.wait_for(self._process.wait(), PATIENCE_S)
        finally:
            if self._process.returncode is None:
                self._process.kill()
        await self._reader
        await self._drain
        await self._socket.close()
        await self._session.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _port(self) -> str:
        """It says where it listens, once it does."""
        assert self._process.stderr is not None
        while line := (await self._process.stderr.readline()).decode():
            if "DevTools listening on" in line:
                return line.split("127.0.0.1:")[1].split("/")[0]
        raise AssertionError("Chromium ended at once")

    async def _discard(self) -> None:
        """What else it says, so that it never waits to say it."""
        assert self._process.stderr is not None
        while await self._process.stderr.read(1 << 16):
            pass

    async def _read(self) -> None:
        async for message in self._socket:
            event = message.json()
            if "id" in event:
                self._answers.pop(event["id"]).set_result(event)
            elif event["method"] == "Network.requestWillBeSent":
                self.requested.append(event["params"]["request"]["url"])
            elif event["method"] == "Log.entryAdded":
                self.complaints.append(event["params"]["entry"]["text"])
            elif event["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(event["params"]["exceptionDetails"]))

    # ------------------------------------------------------------------ one page

    async def send(self, method: str, **params: Any) -> Any:
        """A command of the protocol, and its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        result = await asyncio.wait_for(answer, PATIENCE_S)
        assert "error" not in result, result
        return result["result"]

    async def run(self, script: str) -> Any:
        """The value of an expression in the page, or of the promise that it is."""
        result = await self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def wait_for(self, condition: str) -> Any:
        """Until this expression is true in the page; looked at after each change of it."""
        return await self.run(
            f"""new Promise((resolve, reject) => {{
                const look = () => {{ const found = {condition}; if (found) {{
                    watcher.disconnect(); clearTimeout(timer); resolve(!!found); }} }};
                const watcher = new MutationObserver(look);
                const timer = setTimeout(() => reject({condition!r}), {PATIENCE_S * 900});
                watcher.observe(document, {{subtree: true, childList: true, attributes: true,
                    characterData: true}});
                look();
            }})"""
        )

    async def open(self, url: str) -> None:
        """Go there."""
        await self.send("Page.navigate", url=url)

    async def click(self, selector: str) -> None:
        """Wait for it, and click it."""
        await self.wait_for(f"document.querySelector({selector!r})")
        await self.run(f"document.querySelector({selector!r}).click()")

    async def upload(self, selector: str, file: Path) -> None:
        """Choose a file in an input."""
        await self.wait_for(f"document.querySelector({selector!r})")
        root = await self.send("DOM.getDocument")
        node = await self.send(
            "DOM.querySelector", nodeId=root["root"]["nodeId"], selector=selector
        )
        await self.send("DOM.setFileInputFiles", files=[str(file)], nodeId=node["nodeId"])

    async def look(self, *, width: int, height: int, scheme: str) -> None:
        """From now on through a window of this size, "dark" or "light"."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", features=features)

    async def whole(self, *, scale: float = 1.0) -> bytes:
        """A PNG of the whole page."""
        size = (await self.send("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": 0, "scale": scale, **{k: size[k] for k in ("width", "height")}}
        shot = await self.send(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )
        return base64.b64decode(shot["data"])

    async def screenshot(self, selector: str, *, most_pixels: int) -> bytes:
        """A PNG of this element, or of its upper end where it is higher."""
        place = await self.run(
            f"(({{x, y, width, height}}) => ({{x, y, width, height}}))"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        top = place["y"] + await self.run("window.scrollY")
        height = min(place["height"], most_pixels)
        clip = {**place, "y": top, "height": height, "scale": 0.75}
        shot = await self.send(
            "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
        )
        return base64.b64decode(shot["data"])

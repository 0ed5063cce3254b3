"""A client of the inspector's page that chooses every byte of a request."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from accord_tools.inspector.inspection import Inspection
from accord_tools.inspector.web.serving import serve_inspection
from support.waiting import LONG


class PageAnswer(NamedTuple):
    """A response: its status, headers in lower case, and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.json["error"]["message"]


class PageClient:
    """Sends requests to one page, each on a connection of its own."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = parts.netloc
        self.port = parts.port
        self.key = parts.fragment.removeprefix("key=")

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    def head(self, method: str, path: str, headers: Any = ()) -> bytes:
        given = {"host": self.host, **dict(headers)}
        lines = [f"{name}: {value}" for name, value in given.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")

    async def send(
        self, method: str, path: str, headers: Any = (), body: bytes = b""
    ) -> PageAnswer:
        sized = {"content-length": len(body)} if body else {}
        return await self.send_raw(self.head(method, path, {**sized, **dict(headers)}) + body)

    async def send_raw(self, data: bytes) -> PageAnswer:
        reader, writer = await self.open()
        try:
            writer.write(data)
            return await read_answer(reader, is_head=data.startswith(b"HEAD"))
        finally:
            writer.close()

    async def call(self, action: str, /, **params: Any) -> PageAnswer:
        """Run an action."""
        headers = {"x-accord-key": self.key, "content-type": "application/json"}
        return await self.send("POST", f"/api/{action}", headers, json.dumps(params).encode())

    @asynccontextmanager
    async def feed(self, since: int = 0):
        """Open a feed; yields a function that returns the next line."""
        reader, writer = await self.open()
        writer.write(self.head("GET", f"/feed?since={since}", {"x-accord-key": self.key}))
        status, headers = await read_head(reader)
        assert status == 200, await read_body(reader, headers)

        async def next_line() -> Any:
            return json.loads(await read_chunk(reader) or b"null")

        try:
            yield next_line
        finally:
            writer.close()


async def read_answer(reader: asyncio.StreamReader, *, is_head: bool = False) -> PageAnswer:
    async with asyncio.timeout(LONG):
        status, headers = await read_head(reader)
        return PageAnswer(status, headers, b"" if is_head else await read_body(reader, headers))


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    async with asyncio.timeout(LONG):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    named = [line.partition(": ") for line in lines]
    return int(first.split()[1]), {name.lower(): value for name, _, value in named}


async def read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    chunks = []
    while chunk := await read_chunk(reader):
        chunks.append(chunk)
    return b"".join(chunks)


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(LONG):
        size = int(await reader.readline(), 16)
        return (await reader.readexactly(size + 2))[:-2]


@asynccontextmanager
async def page_of(inspection: Inspection | None = None):
    """Serve a page on a free port, and yield a client of it."""
    async with serve_inspection(inspection or Inspection()) as url:
        yield PageClient(url)

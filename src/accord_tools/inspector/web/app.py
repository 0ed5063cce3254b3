"""The inspector as an ASGI app: one gate before everything, files of the page, actions, the feed.

Whatever is not known is refused. No answer has a traceback, and none allows another origin.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

import msgspec

from accord.errors import AccordError
from accord_tools.inspector.actions import load_actions, perform
from accord_tools.inspector.definition import ActionRefused, Download
from accord_tools.inspector.inspection import Inspection
from accord_tools.inspector.session import Changes
from accord_tools.inspector.web.answer_masking import answer_masks
from accord_tools.inspector.web.gate import (
    API,
    FEED,
    GateRefusal,
    GateRequest,
    PageAddress,
    examine,
)
from accord_tools.inspector.web.static_files import StaticFiles

log = logging.getLogger("accord_tools.inspector")

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_MOST: Final = 8 * 1024 * 1024
# A recording that a person opens on the page.
_BODIES_MOST: Final[Mapping[str, int]] = {"trace.open": 64 * 1024 * 1024}
ACTIONS_MOST: Final = 100
"""Actions at once."""
WRONG_KEYS_MOST: Final = 20
"""Wrong keys before each further one has to wait."""
_WAIT: Final = 1.0
# Requests that wait because of a wrong key; others are refused at once.
_WAITING_MOST: Final = 50
# Seconds for the body of a request.
_BODY_TIMEOUT: Final = 60.0
_STATE: Final = "app.state"
_JSON: Final = "application/json"
_SAFE_NAME: Final = re.compile(r"[^\w.-]+", re.ASCII)
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(; charset=[\w-]+)?", re.ASCII)
# Beside the content security policy.
FEEDS_MOST: Final = 16
"""Feeds at once; a hidden tab has none."""
_HEARTBEAT: Final = 10.0
# Changes within this time become one line.
_PAUSE: Final = 0.1
HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class _Addressed(msgspec.Struct):
    """What every action has: the number of the session, and whether masked values are wanted."""

    target: int = 0
    reveal: bool = False


class _Problem(Exception):
    """A request gets an error as its answer."""

    def __init__(self, status: int, message: str, field: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.field = field


class InspectorApp:
    """The ASGI app.

    Args:
        inspection: what it shows.
        address: where the page is.
        key: of this launch.
    """

    def __init__(self, inspection: Inspection, address: PageAddress, key: str) -> None:
        self._inspection = inspection
        self._address = address
        self._key = key
        self._files = StaticFiles()
        self._wrong_keys = self._waiting = self._feeds = self._running = 0
        self._ending = asyncio.Event()

    def finish(self) -> None:
        """End the feeds; other responses end by themselves."""
        self._ending.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return
        request = GateRequest(scope["method"], scope["path"], scope["headers"])
        response = Response(send, self._files.policy, is_head=request.method == "HEAD")
        refusal = examine(request, self._address, self._key, self._files.paths)
        if refusal is not None:
            await self._refuse(refusal, response)
            return
        try:
            await self._route(request, scope, receive, response)
        except _Problem as problem:
            await response.send_error(problem.status, str(problem), problem.field)

    async def _refuse(self, refusal: GateRefusal, response: "Response") -> None:
        if refusal.is_wrong_key:
            self._wrong_keys += 1
            if self._wrong_keys > WRONG_KEYS_MOST:
                if self._waiting >= _WAITING_MOST:
                    await response.send_error(429, "too many wrong keys")
                    return
                self._waiting += 1
                try:
                    await asyncio.sleep(_WAIT)
                finally:
                    self._waiting -= 1
        await response.send_error(refusal.status, refusal.why)

    async def _route(
        self, request: GateRequest, scope: Scope, receive: Receive, response: "Response"
    ) -> None:
        if request.path.startswith(API):
            await self._serve_action(request, receive, response)
        elif request.path == FEED:
            await self._serve_feed(scope["query_string"], receive, response)
        else:
            await self._serve_file(request, response)

    # -- files

    async def _serve_file(self, request: GateRequest, response: "Response") -> None:
        file = self._files.find(request.path)
        if file is None:
            raise _Problem(404, f"there is no {request.path[:100]}")
        headers = {"etag": file.tag, "vary": "accept-encoding"}
        if file.tag in request.values("if-none-match"):
            await response.send_all(304, b"", headers)
            return
        headers["content-type"] = file.media_type
        body = file.body
        if any("gzip" in each for each in request.values("accept-encoding")):
            headers["content-encoding"] = "gzip"
            body = file.compressed
        await response.send_all(200, body, headers)

    # -- actions

    async def _serve_action(
        self, request: GateRequest, receive: Receive, response: "Response"
    ) -> None:
        name = request.path.removeprefix(API)
        if self._running >= ACTIONS_MOST:
            raise _Problem(503, f"{ACTIONS_MOST} actions are under way; wait for one of them")
        self._running += 1
        try:
            body = await _read_body(receive, _BODIES_MOST.get(name, BODY_MOST))
            answer = await self._run_action(name, body)
            if isinstance(answer, Download):
                await response.send_download(answer)
            else:
                await response.send_all(200, answer, {"content-type": _JSON})
        finally:
            self._running -= 1

    async def _run_action(self, name: str, body: bytes) -> bytes | Download:
        await self._inspection.wait_until_loaded()
        found = load_actions().get(name)
        if found is None and name != _STATE:
            raise _Problem(404, f"there is no action {name[:100]}")
        masks = answer_masks(self._inspection.lobby)
        try:
            if found is None:
                return _encode(await self._inspection.describe())
            asked = _read_address(body)
            session = self._inspection.find(asked.target)
            masks = answer_masks(session, name, is_revealed=asked.reveal)
            answer = await perform(session, found, body)
            return answer if isinstance(answer, Download) else masks.apply(_encode(answer))
        except ActionRefused as error:
            raise _Problem(422, masks.hide(str(error)), error.field) from None
        except AccordError as error:
            raise _Problem(422, masks.hide(str(error))) from None
        except Exception as error:
            fault = repr(error)
            log.exception("the action %s failed: %s", name, fault)
            raise _Problem(500, f"{name} failed inside accord; the terminal has more") from None

    # -- the feed

    async def _serve_feed(self, query: bytes, receive: Receive, response: "Response") -> None:
        since = _read_since(query)
        if self._feeds >= FEEDS_MOST:
            raise _Problem(503, f"{FEEDS_MOST} tabs show this page already; close one")
        self._feeds += 1
        lines = response.send_chunks(200, read_changes(self._inspection.changes, since))
        work = [
            asyncio.ensure_future(each)
            for each in (lines, _wait_until_gone(receive), self._ending.wait())
        ]
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._feeds -= 1
            for each in work:
                each.cancel()
            await asyncio.wait(work)
        if not work[1].done() or work[1].cancelled():
            await response.end()


class Response:
    """The answer to one request; all answers have the headers that protect the page."""

    def __init__(self, send: Send, policy: str, *, is_head: bool) -> None:
        self._send = send
        self._policy = policy.encode()
        self._is_head = is_head

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        named = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        policy = (b"content-security-policy", self._policy)
        start = {"type": "http.response.start", "status": status}
        await self._send({**start, "headers": [*named, policy, *HEADERS]})

    async def send_all(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a whole response."""
        await self._begin(status, {**headers, "content-length": str(len(body))})
        await self._send({"type": "http.response.body", "body": b"" if self._is_head else body})

    async def send_error(self, status: int, message: str, field: str = "") -> None:
        """Send an error, for the page or for a person."""
        body = _encode({"error": {"message": message, "field": field}})
        await self.send_all(status, body, {"content-type": _JSON})

    async def send_chunks(self, status: int, chunks: Any) -> None:
        """Send pieces as they come; `end` ends the response."""
        await self._begin(status, {"content-type": "application/jsonl"})
        async for chunk in chunks:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        """End a response that was sent in pieces."""
        await self._send({"type": "http.response.body", "body": b""})

    async def send_download(self, file: Download) -> None:
        """Send a file that the browser saves, and never shows as a page."""
        name = _SAFE_NAME.sub("-", file.name).strip(".-") or "download"
        is_plain = _MEDIA_TYPE.fullmatch(file.media_type)
        headers = {
            "content-type": file.media_type if is_plain else "application/octet-stream",
            "content-disposition": f'attachment; filename="{name}"',
        }
        await self._begin(200, headers)
        await self._send_pieces(file.chunks)
        await self.end()

    async def _send_pieces(self, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            # Making a large file must not stop the messages of the session.
            await asyncio.sleep(0)


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _Problem(400, "the connection ended within the body")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > most:
                    raise _Problem(413, f"the body exceeds {most} bytes")
                if not message.get("more_body"):
                    return b"".join(chunks)
    except TimeoutError:
        raise _Problem(408, "the body did not arrive in time") from None


def _read_address(body: bytes) -> _Addressed:
    try:
        return msgspec.json.decode(body, type=_Addressed)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ActionRefused(f"the body is not an object with a target: {error}") from None


def _read_since(query: bytes) -> int:
    given = parse_qs(query.decode("latin-1")[:100]).get("since", ["0"])[0]
    if not (given.isascii() and given.isdigit()):
        raise _Problem(400, "since is not a version")
    return int(given)


def _encode(answer: object) -> bytes:
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:  # half of a surrogate pair, in a text of a server
        return json.dumps(msgspec.to_builtins(answer)).encode()


async def read_changes(changes: Changes, since: int) -> AsyncIterator[bytes]:
    """Yield lines for a page; the first at once, so that the page knows that it is connected.

    Args:
        changes: of all sessions.
        since: the version that the page knows.
    """
    while True:
        version, fresh = changes.since(since)
        if version < since:  # the page knows versions of an earlier launch
            version, fresh = changes.since(0)
        since = version
        yield msgspec.json.encode({"version": version, "changed": list(fresh)}) + b"\n"
        await changes.wait(since, _HEARTBEAT)
        await asyncio.sleep(_PAUSE)

"""One HTTP request apart from the conversation, and its response, read step by step."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.http.rules.headers import media_type
from accord.http.rules.sse import CONTENT_TYPE, Decoder, Event, EventTooLong
from accord.protocol.verdict import Evidence
from accord.protocol.violation import OTHER
from accord.trace import HttpFacts
from accord.types import JsonObject
from accord_tools.check.probing.http import HttpCarrier, lower_headers
from accord_tools.check.probing.messages import is_request, is_same_id, objects_in
from accord_tools.check.probing.raw_connection import RawConnection

if TYPE_CHECKING:
    from accord.http.client.aiohttp_sender import AiohttpResponse

_MOST: Final = 16 * 1024 * 1024
_EVENTS: Final = 100


class RawResponse:
    """The response to one request, as far as it was read.

    Attributes:
        status: its status.
        headers: its headers, names in lower case.
        body: the body, unless it is an event stream.
        messages: the JSON values in it, in order.
        names: of the events, in order.
        events: the first ones of a stream, as they came.
        ids: of the events, in order; also of those without data.
        comments: how many lines of the stream were comments.
        is_primed: whether the stream began with an id before any data.
        has_ended: whether the server ended it.
    """

    def __init__(self, connection: RawConnection, response: "AiohttpResponse") -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = lower_headers(response)
        self.body = b""
        self.messages: list[object] = []
        self.names: list[str] = []
        self.events: list[Event] = []
        self.ids: list[str] = []
        self.comments = 0
        self.is_primed = False
        self.has_ended = False
        self._connection = connection
        self._response = response
        self._decoder = Decoder(_MOST)
        self._facts = HttpFacts(status=self.status, headers=self.headers)

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return media_type(self.headers.get("content-type"))

    @property
    def is_ok(self) -> bool:
        """Whether the status says that it succeeded."""
        return 200 <= self.status < 300

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream."""
        return self.is_ok and self.content_type == CONTENT_TYPE

    @property
    def retry(self) -> int | None:
        """Milliseconds that the server asks to wait before coming back."""
        return self._decoder.retry

    @property
    def code(self) -> object:
        """The code of the first error among the messages; None without an error."""
        errors = [each.get("error") for each in self._flat()]
        return next((each.get("code") for each in errors if isinstance(each, dict)), None)

    def answers_to(self, id: object) -> list[JsonObject]:
        """Return the messages that answer a request."""
        return [
            each for each in self._flat() if "method" not in each and is_same_id(each.get("id"), id)
        ]

    def answers(self) -> list[JsonObject]:
        """Return the messages that answer anything."""
        return [
            each for each in self._flat() if "method" not in each and {"result", "error"} & {*each}
        ]

    def _flat(self) -> list[JsonObject]:
        return [each for message in self.messages for each in objects_in(message)]

    def evidence(self, asked: int) -> list[Evidence]:
        """Return the request, by the number of its record, and its answer."""
        request, *others = self._connection.log.evidence_since(asked)
        answer = list(takewhile(lambda each: each.party != request.party, others))
        if answer:
            return [request, *answer]
        # Without a body there is no record: the status is the evidence.
        return [request, Evidence("HTTP", OTHER[request.party], None, str(self))]

    # -- reading

    async def until(self, is_enough: Callable[["RawResponse"], bool], patience: float) -> bool:
        """Read until a condition holds, the response ends or so many seconds are over."""
        deadline = asyncio.get_running_loop().time() + patience
        while not is_enough(self):
            if self.has_ended or not await self._read(deadline):
                return is_enough(self)
        return True

    async def rest(self, seconds: float) -> None:
        """Read for so long, or to the end."""
        await self.until(lambda heard: heard.has_ended, seconds)

    async def _read(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await self._response.chunk()
        except TimeoutError:
            return False
        if not chunk:
            self.has_ended = True
            if not self.is_stream:
                self._take(self.body)
        elif self.is_stream:
            self._feed(chunk)
        elif len(self.body) < _MOST:
            self.body += chunk
        return True

    def _feed(self, chunk: bytes) -> None:
        # Line by line: of an event without data only the id can be seen.
        for part in chunk.splitlines(keepends=True):
            before = self._decoder.last_id
            self.comments += part.startswith(b":")
            try:
                for event in self._decoder.feed(part):
                    self.names.append(event.name)
                    if len(self.events) < _EVENTS:
                        self.events.append(event)
                    self._take(event.data)
                    if event.id is not None:
                        self.ids.append(event.id)
                        before = event.id
            except EventTooLong:
                self.has_ended = True
                return
            if self._decoder.last_id not in (None, before):
                self.ids.append(str(self._decoder.last_id))
                self.is_primed = self.is_primed or not self.names

    def _take(self, data: bytes) -> None:
        message = self._connection.log.take("server", data, self._facts)
        if message is not None:
            self.messages.append(message)

    def __str__(self) -> str:
        return f"status {self.status}" + (f", {self.content_type}" if self.content_type else "")


@asynccontextmanager
async def exchange(
    connection: RawConnection,
    message: object = None,
    *,
    method: str = "POST",
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    **changed: str | None,
) -> AsyncIterator[RawResponse]:
    """Send a request on behalf of a connection and yield its response, head read.

    Args:
        connection: an unjudged one over HTTP; gives the headers, and records the messages.
        message: bytes, or a value that is encoded as JSON.
        method: the method of HTTP.
        url: in place of the one of the connection.
        headers: in place of those of the connection.
        **changed: headers to set, or with None to leave out, with _ for -.

    Raises:
        ConnectFailed: there is no connection.
        ConnectionEnded: the connection broke.
        MessageTimeout: the head did not arrive in time.
        CallRefused: it calls a tool that may not be called, or not again.
    """
    connection.claim(message)
    carrier: HttpCarrier = connection.carrier
    body = message if isinstance(message, bytes | None) else msgspec.json.encode(message)
    sent = dict(carrier.heads(body or b"") if headers is None else headers)
    if method != "POST":
        sent.pop("content-type", None)
    for name, value in changed.items():
        sent.pop(name.replace("_", "-"), None)
        if value is not None:
            sent[name.replace("_", "-")] = value
    connection.log.take("client", body or b"", HttpFacts(method=method, headers=sent))
    asked = connection.log.count
    connection.proof = partial(connection.log.evidence_since, asked)
    async with carrier.response(method, url=url, headers=sent, body=body) as response:
        heard = RawResponse(connection, response)
        connection.proof = partial(heard.evidence, asked)
        yield heard


async def post_message(connection: RawConnection, message: object, **settings: Any) -> RawResponse:
    """Post a message and return its response, read until each request in it is answered."""
    async with exchange(connection, message, **settings) as heard:
        asked = [each["id"] for each in objects_in(message) if is_request(each)]
        if heard.is_stream:
            await heard.until(
                lambda heard: all(heard.answers_to(id) for id in asked), connection.patience
            )
        else:
            await heard.rest(connection.patience)
        return heard

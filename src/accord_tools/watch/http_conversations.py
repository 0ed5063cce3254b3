"""Which conversation a request over HTTP belongs to, and a tap that copies it."""

import contextlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from accord.http.rules import headers as names
from accord.http.rules.sse import CONTENT_TYPE, EventTooLong
from accord.http.rules.stateless import VERSION_KEY
from accord.http.server.exchange import Scope
from accord.protocol.party import Bounded
from accord.testing.http_records import ExchangeRecorder, StreamNames
from accord.trace import HttpFacts, Party, Transport
from accord_tools.check.trace_check import opening_method
from accord_tools.watch.watcher import Copy, Watcher

if TYPE_CHECKING:
    from aiohttp import ClientResponse

# Larger bodies pass without being judged.
_JUDGED_MOST: Final = 64 * 1024 * 1024
_CONNECTIONS: Final = 1_000


class ConversationIndex:
    """Finds the conversation of a request, by its session or by what it shares with others."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._older: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._plain: Bounded[str, str] = Bounded(_CONNECTIONS)
        self._sessions: Bounded[str, None] = Bounded(_CONNECTIONS)
        self._on_connection: Bounded[str, str] = Bounded(_CONNECTIONS)
        self._streams: Bounded[str, StreamNames] = Bounded(_CONNECTIONS)
        self._latest = ""

    def streams_of(self, session: str) -> StreamNames:
        """Return the streams of a session, which a client may resume."""
        return self._streams.setdefault(session, StreamNames())

    def assign(self, tap: "Tap", query: str, body: bytes, connection: str) -> None:
        """Assign a request to its conversation, as far as the request names it."""
        session = tap.headers.get(names.SESSION)
        tap.begun = lambda: self._note(tap, connection)
        older = self._older.get(query) or self._find_older(tap)
        if older is not None:
            tap.join(older)
        elif session:
            # An id that no server assigned, on the connection of a session: its client made it up.
            known = session if session in self._sessions else self._on_connection.get(connection)
            tap.join(known or session)
        elif opening_method(body) == "initialize":
            # Without a session each initialize starts a conversation; a session id renames it.
            tap.opened = lambda: self._begin_plain(tap, connection)
        elif VERSION_KEY in body:
            tap.fallback = self._latest
        else:
            tap.fallback = self._find_without_session(connection)

    def _find_without_session(self, connection: str) -> str:
        known = self._plain.get(connection) or self._on_connection.get(connection)
        if known is None and not self._latest and len(self._sessions) == 1:
            return next(iter(self._sessions))  # a client that leaves its session id out
        known = self._latest if known is None else known
        if known != self._latest and known not in self._sessions:
            # Two at once without session ids cannot be distinguished.
            self._watcher.drop(known)
            self._watcher.drop(self._latest)
        return known

    def _note(self, tap: "Tap", connection: str) -> None:
        """Remember the session of a connection."""
        if tap.assigned is not None:
            self._sessions[tap.assigned] = None
            self._on_connection[connection] = tap.assigned

    def _begin_plain(self, tap: "Tap", connection: str) -> str:
        self._latest = self._plain[connection] = f"without session {tap.number}"
        return self._latest

    def _find_older(self, tap: "Tap") -> str | None:
        """Return the only stream with this endpoint, for a client that leaves its query out."""
        found = [name for name, path in self._places.items() if path == tap.path]
        return found[0] if len(found) == 1 and tap.method != "GET" else None

    def begin_older(self, tap: "Tap", place: str) -> None:
        """Start the conversation of an SSE stream that names its endpoint."""
        tap.join(f"stream {tap.number}")
        tap.transport = "sse"
        query = place.partition("?")[2].partition("#")[0]
        if query:
            self._older[query] = tap.conversation
        with contextlib.suppress(ValueError):
            self._places[tap.conversation] = urlsplit(urljoin(tap.path, place)).path

    def end(self, tap: "Tap") -> None:
        """Forget the conversation of a stream that ended."""
        if tap.transport == "sse" and tap.method == "GET":
            self._places.pop(tap.conversation, None)
            self._older = {
                query: name for query, name in self._older.items() if name != tap.conversation
            }


class Tap:
    """Copies one request and its response."""

    def __init__(
        self, watcher: Watcher, scope: Scope, headers: Mapping[str, str], number: int
    ) -> None:
        self.method: str = scope["method"]
        self.path = path_of(scope)
        self.headers = headers
        self.number = number
        self.conversation = ""
        self.fallback = ""
        self.opened: Callable[[], str] | None = None
        self.begun: Callable[[], None] | None = None
        self.assigned: str | None = None
        self.transport: Transport = "http"
        self.is_stream = False
        self._scope = scope
        self._watcher = watcher
        self._recorder: ExchangeRecorder
        self._request: bytes | None = None
        self._head: tuple[int, dict[str, str]] | None = None
        self._held: list[bytes] = []
        self._size = 0
        self._unpacked: Any = None
        self._is_readable = True

    def join(self, conversation: str) -> None:
        """Assign this exchange to a conversation."""
        self.conversation = conversation
        if conversation.startswith("stream "):
            self.transport = "sse"

    def _take(self, sender: Party, data: bytes | None, facts: HttpFacts) -> None:
        now = self._watcher.now()
        copy = Copy(sender, data, now, facts, self.conversation, self.transport)
        self._watcher.take(copy)

    def request(self, body: bytes, streams: StreamNames, sent: Mapping[str, str]) -> None:
        """Copy a request; without a session it waits for the response, which may name one.

        Args:
            body: of the request.
            streams: those of its session.
            sent: the headers as the server gets them.
        """
        self._recorder = ExchangeRecorder(
            self._take,
            self.method,
            f"{self.method.lower()}-{self.number}",
            sent,
            path=self.path,
            query=self._scope["query_string"].decode("latin-1"),
            streams=streams,
        )
        self._request = body
        if self.conversation:
            self.begin()

    def begin(self) -> None:
        """Hand over the waiting request, then the head of its response; may be repeated."""
        body, self._request = self._request, None
        if body is not None:
            self._recorder.request(body or None)
        head, self._head = self._head, None
        if head is not None:
            self._recorder.head(*head)

    def response(self, response: "ClientResponse") -> None:
        """Record status and headers of the response."""
        said = join_headers(response.raw_headers)
        if response.status < 400:
            self.assigned = said.get(names.SESSION)
        if not self.conversation:
            self.conversation = said.get(names.SESSION) or (
                self.opened() if self.opened and response.status < 400 else self.fallback
            )
        if self.begun is not None:
            self.begun()
        self._head = (response.status, said)
        self.is_stream = names.media_type(said.get("content-type")) == CONTENT_TYPE
        if self.method != "GET" or not self.is_stream:
            self.begin()
        packing = said.get("content-encoding", "identity").lower()
        if packing in ("gzip", "deflate"):
            self._unpacked = zlib.decompressobj(wbits=47)
        elif packing not in ("", "identity"):
            self._give_up()

    def _give_up(self) -> None:
        """Let the rest pass without being judged, and count it."""
        self._is_readable = False
        self._held.clear()
        self.begin()
        self._watcher.drop(self.conversation)

    def hear(self, chunk: bytes) -> None:
        """Copy a chunk of the body."""
        if not self._is_readable:
            return
        try:
            if self._unpacked is not None:
                chunk = self._unpacked.decompress(chunk, _JUDGED_MOST)
            self._size += len(chunk)
            if self.is_stream:
                self.begin()
                self._recorder.feed(chunk)
            elif self._size > _JUDGED_MOST:
                self._give_up()
            else:
                self._held.append(chunk)
        except (zlib.error, EventTooLong):
            self._give_up()

    def end(self, party: Party = "server") -> None:
        """Copy a whole body that is not a stream, or the end of one that is."""
        self.begin()
        if not self._is_readable or self._recorder.status is None:
            return
        if self.is_stream:
            self._recorder.end(party)
        elif party == "server":
            self._recorder.body(b"".join(self._held), size=self._size)


def path_of(scope: Scope) -> str:
    """Return the path as the client wrote it, escapes included."""
    raw = scope.get("raw_path") or scope["path"].encode()
    return str(raw.decode("latin-1").partition("?")[0])


def join_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name; repeated ones are joined to a list, as HTTP allows."""
    made: dict[str, str] = {}
    for name, text in headers:
        key, said = name.decode("latin-1").lower(), text.decode("latin-1")
        made[key] = f"{made[key]}, {said}" if key in made else said
    return made

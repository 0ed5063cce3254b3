"""The sessions of an app: opened, found, ended; a limited number of them, also for each caller."""

import logging
import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Coroutine, Generator, Hashable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from heapq import nlargest
from math import inf
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

import msgspec

from accord.http.rules import gate
from accord.http.rules.addresses import client_network
from accord.http.server.exchange import SESSION, HttpExchange
from accord.http.server.session import HttpSession, PostResponse, RequestSession
from accord.http.server.state import DRAINING, AppState, ServedSession
from accord.http.server.stream import Stream, parse_event_id
from accord.principal import Principal
from accord.protocol.exchange import Event

log = logging.getLogger("accord.http")

# So many random bytes stand at either end.
_RANDOM: Final = 12
_APP: Final = slice(12, 16)
_PROCESS: Final = slice(16, 20)
_TIME: Final = slice(20, 24)
_LENGTH: Final = 36
# Seconds after which a session ends that its client has never named after `initialize`.
_UNOPENED_MOST: Final = 60.0
# Sessions of other callers that were used within these seconds are not ended to make room.
_RECENT: Final = 10.0
_BUSY: Final = (("retry-after", "5"),)
_UNKNOWN: Final = gate.HttpRefusal(404, "the session is unknown or has ended; initialize anew")
_ELSEWHERE: Final = gate.HttpRefusal(
    404,
    "the session is one of another process of this server: several processes need a store, as in "
    "server.asgi(store=...); initialize anew",
)
# How many sessions of a caller are searched for an idle one; more would take too long.
_SEARCHED: Final = 1_000
# How many of the callers with most sessions are searched for an idle one.
_LARGEST: Final = 8


def caller_key(principal: Principal | None, peer: Sequence[object] | None) -> Hashable:
    """Return the key of the quota that a session counts in.

    Args:
        principal: the caller, if it is known.
        peer: the address and port of the client, as in the ASGI scope.
    """
    if principal is not None:
        return principal
    return ("peer", None if peer is None else client_network(str(peer[0])))


class _Caller:
    """The sessions of one caller: those never used after `initialize`, and the others.

    Both are in the order in which sessions were added. A session that was used since then is moved
    to the end when a search finds it, so that using a session costs nothing. The used ones form a
    ring that begins and ends here: each knows its neighbours, which costs 16 bytes.
    """

    __slots__ = ("_used", "after", "before", "key", "unused")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.unused: dict[HttpSession, None] = {}
        self.before: SessionPlace = self
        self.after: SessionPlace = self
        self._used = 0

    def __len__(self) -> int:
        return len(self.unused) + self._used

    @property
    def rank(self) -> tuple[int, float]:
        """The order in which callers make room: most sessions first, then longest idle."""
        oldest = next(iter(self.unused), None) or self.after
        return len(self), -oldest.used if isinstance(oldest, HttpSession) else 0.0

    def append(self, session: HttpSession) -> None:
        """Add a session that is used, at the end."""
        self._used += 1
        session.placed = session.used
        session.before, session.after = self.before, self
        self.before.after = self.before = session

    def remove(self, session: HttpSession) -> None:
        """Remove a session, used or not."""
        if session.before is None or session.after is None:
            self.unused.pop(session, None)
            return
        self._used -= 1
        session.before.after, session.after.before = session.after, session.before
        session.before = session.after = None

    def find_idle(self) -> HttpSession | None:
        """Return the session to end first; None if all are in use."""
        for session in self.unused:
            if session.is_idle(inf):
                return session
        for _ in range(min(self._used + 1, _SEARCHED)):
            first = self.after
            if not isinstance(first, HttpSession):
                break
            if first.used <= first.placed and first.is_idle(inf):
                return first
            self.remove(first)
            self.append(first)
        return None


SessionPlace: TypeAlias = HttpSession | _Caller
"""A place in the ring of a caller's sessions."""


Result_co = TypeVar("Result_co", covariant=True)


@final
class Later(Generic[Result_co]):
    """What a request has to wait for, before it goes on."""

    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[Any, Any, Result_co]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, Result_co]:
        return self._work.__await__()


Found: TypeAlias = "RequestSession | gate.HttpRefusal | Later[RequestSession | gate.HttpRefusal]"
"""The session that serves a POST, or why it is refused."""
FoundKept: TypeAlias = "HttpSession | gate.HttpRefusal | Later[HttpSession | gate.HttpRefusal]"
"""The session that a request names, or why it is refused."""
FoundStream: TypeAlias = "Stream | gate.HttpRefusal | Later[Stream | gate.HttpRefusal]"
"""The stream that a client asks for, or why it gets none."""
Routed: TypeAlias = "Sequence[Event] | Later[Sequence[Event] | gate.HttpRefusal | None]"
"""What came of a message; None if another process has it."""
Route: TypeAlias = Callable[[PostResponse, bytes], Routed]
Refused: TypeAlias = "gate.HttpRefusal | Later[gate.HttpRefusal | None] | None"
"""Why something cannot be done; None if it is done."""


class SessionSource(Protocol):
    """Where an endpoint has the sessions from that serve POSTs.

    They are sessions of this process, sessions of a store that several workers share, or sessions
    of one request each.
    """

    def choose(self, exchange: HttpExchange, verdict: gate.HeadVerdict, body: bytes) -> Found:
        """Return the session that serves a POST: one that it names, or a new one."""

    @property
    def route(self) -> Route | None:
        """Let a session receive a message, or another process; None if there is no other."""


class _Head(msgspec.Struct):
    method: str | None = None
    id: int | str | None = None


_decode_head: Final = msgspec.json.Decoder(_Head).decode


def _read_head(body: bytes) -> _Head | None:
    """Return the head of a message; None if it cannot be read, as that of a batch."""
    try:
        return _decode_head(body)
    except (ValueError, RecursionError):
        return None


def is_request(body: bytes) -> bool:
    """Whether a body is a request that can be read."""
    head = _read_head(body)
    return head is not None and head.method is not None and head.id is not None


class _ProtocolSessions:
    """The protocol sessions of an app, for the server behind it."""

    __slots__ = ("__weakref__", "_found")

    def __init__(self, found: dict[bytes, HttpSession]) -> None:
        self._found = found

    def __iter__(self) -> Iterator[ServedSession]:
        for each in list(self._found.values()):
            yield each.session


class HttpSessions:
    """The sessions of an app, in all and by caller: the source of those of this process.

    What an endpoint asks of it, a source of sessions in a store may answer later.
    """

    def __init__(self, state: AppState) -> None:
        self._state = state
        self._has_sessions = state.options["sessions"] is not False
        self.route: Route | None = None
        # By the bytes of the header, so that it need not be decoded.
        self._found: dict[bytes, HttpSession] = {}
        self._callers: dict[Hashable, _Caller] = {}
        self._listed = _ProtocolSessions(self._found)
        self._name = str(getattr(state.server, "name", ""))
        self._ids = SessionIds(self._name)
        self._has_warned = False

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._found.values()))

    # -- finding

    def choose(self, exchange: HttpExchange, verdict: gate.HeadVerdict, body: bytes) -> Found:
        """Return the session that a POST names, a new one for `initialize`, or one of its own."""
        state, revision = self._state, verdict.revision
        if state.is_draining and is_request(body):
            return DRAINING
        key = exchange.headers.get(SESSION) if self._has_sessions else None
        if key is not None:
            if type(revision) is gate.HttpRefusal:
                return revision
            return self.find(key, exchange)
        head = _read_head(body)
        opens = head is not None and head.method == "initialize"
        if opens and self._has_sessions:
            # `initialize` negotiates the revision; the header is ignored.
            return self.begin(exchange)
        is_other = head is not None and not opens
        if isinstance(revision, gate.HttpRefusal):
            if is_other:
                return revision
        elif not self._has_sessions and not opens:
            return HttpSession(state, revision=revision.id)
        elif is_other:  # session.id.missing-400
            return gate.HttpRefusal(400, "Mcp-Session-Id is missing; only initialize goes without")
        # `initialize` without sessions, or an unreadable message: a session of one message
        # answers it.
        return HttpSession(state)

    def find(self, key: bytes, exchange: HttpExchange) -> FoundKept:
        """Return the session that a request names, if its caller has opened it."""
        session = self._found.get(key)
        principal = exchange.principal
        if session is None or not (
            session.principal is principal or session.principal == principal
        ):
            # session.end.terminated-404
            return _UNKNOWN if session is not None else self._refuse_unknown(key)
        session.used = self._state.now()
        if session.after is None:
            self.note_first_use(session)
        return session

    def _refuse_unknown(self, key: bytes) -> gate.HttpRefusal:
        if not self._ids.is_of_other_process(key):
            return _UNKNOWN
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%r: a client sent a request of a session to this process that another one has "
                "opened: several processes need a store, as in "
                "server.asgi(store='sqlite:///%s.db'); see docs/scaling.md",
                self._name,
                self._name,
            )
        return _ELSEWHERE

    def note_first_use(self, session: HttpSession) -> None:
        """Count a session among those of its caller that are used."""
        caller = self._callers[session.caller]
        caller.remove(session)
        caller.append(session)

    # -- opening

    def begin(self, exchange: HttpExchange) -> HttpSession | gate.HttpRefusal:
        """Make a session; it counts once it is kept."""
        if self._state.is_stopping:
            return gate.HttpRefusal(503, "the server is stopping", code=-32000, headers=_BUSY)
        principal = exchange.principal
        caller = caller_key(principal, exchange.scope.get("client"))
        why = self.make_room(caller)
        if why is not None:
            return gate.HttpRefusal(503, why, -32000, _BUSY)
        return HttpSession(self._state, self._ids.make(), principal=principal, caller=caller)

    def open(self, session: HttpSession) -> Refused:
        """Let a client come back to the session that it has begun."""
        session.is_kept = True
        self.keep(session)
        return None

    def open_older(self, session: HttpSession) -> FoundStream:
        """Open a session in the older form, and return the stream that it lasts as long as."""
        stream = session.only_stream = Stream(on_overflow=partial(self.end, session))
        self.keep(session)
        return stream

    def keep(self, session: HttpSession) -> None:
        """Count a session, and let requests find it."""
        self.make_room(session.caller)  # others may have been kept since it began
        self._found[session.key] = session
        session.session.list_in(self._listed)
        caller = self._callers.get(session.caller)
        if caller is None:
            caller = self._callers[session.caller] = _Caller(session.caller)
        session.caller = caller.key  # one of the equal keys is enough
        if session.only_stream is None:
            caller.unused[session] = None
        else:
            caller.append(session)

    def make_room(self, caller: Hashable) -> str | None:
        """End an idle session if there are too many; return the reason if none is idle.

        A caller loses its own sessions first, the longest idle before others.
        """
        options = self._state.options
        own = self._callers.get(caller) or _Caller(caller)
        if len(own) >= options["sessions_per_caller"]:
            idle = own.find_idle()
            if idle is None:
                each = options["sessions_per_caller"]
                return f"{each} sessions of one caller are in use (sessions_per_caller)"
            self.end(idle)
        if len(self._found) >= options["sessions"]:
            idle = own.find_idle() or self._find_idle_of_others(len(own))
            if idle is None:
                return f"{options['sessions']} sessions are open (sessions)"
            self.end(idle)
        return None

    def _find_idle_of_others(self, own: int) -> HttpSession | None:
        """Return a session of another caller to end, for a caller whose own are all in use.

        Callers with more sessions lose any idle one; others only one that was not just used.
        """
        before = self._state.now() - _RECENT
        for each in nlargest(_LARGEST, self._callers.values(), key=lambda each: each.rank):
            session = each.find_idle()
            if session is not None and (len(each) > own + 1 or session.used < before):
                return session
        return None

    # -- messages and streams

    def settle(self, post: PostResponse, events: Sequence[Event]) -> Refused:
        """Save what messages have changed that have no answer: here nothing needs it."""
        return None

    def stream(self, session: HttpSession, last: str | None) -> FoundStream:
        """Return a stream for a client that listens, or that comes back.

        Args:
            session: its session.
            last: the last event that it has, if it comes back.
        """
        stream = session.listen() if last is None else _resume(session, last)
        if isinstance(stream, gate.HttpRefusal):
            return stream
        if stream.count == 0 and session.session.endpoint.revision.priming_event:
            stream.prime()
        return stream

    def leave(self, session: HttpSession, stream: Stream) -> None:
        """Note that the response has ended with which a client followed a stream."""
        session.used = self._state.now()

    # -- ending

    def delete(self, session: HttpSession) -> Refused:
        """End a session as its client asks."""
        self.end(session)
        return None

    def end_older(self, session: HttpSession, stream: Stream) -> None:
        """End a session in the older form, whose stream has ended."""
        self.end(session)

    def end(self, session: HttpSession) -> None:
        """End a session, and forget it."""
        was_kept = self._found.pop(session.key, None) is not None
        caller = self._callers.get(session.caller)
        if was_kept and caller is not None:
            caller.remove(session)
            if not caller:
                del self._callers[session.caller]
        session.close()

    def sweep(self, now: float) -> None:
        """End sessions that have been idle for too long."""
        before = now - self._state.options["session_idle"]
        unopened = max(before, now - _UNOPENED_MOST)
        for session in self:
            if session.is_idle(before if session.is_opened else unopened):
                self.end(session)
            else:
                session.release_tables()

    def close(self) -> None:
        for session in self:
            self.end(session)


def _resume(session: HttpSession, last: str) -> Stream | gate.HttpRefusal:
    """Return the stream of an event, to be read from there on."""
    found = parse_event_id(last)
    stream = None if found is None else session.find_stream(found[0])
    if found is None or stream is None or not stream.resume(found[1]):
        return refuse_lost(last)
    if stream.is_ended and not stream.unread:
        return refuse_ended(last)
    return stream


def refuse_lost(last: str) -> gate.HttpRefusal:
    """Return the refusal of a client that has missed events which are gone."""
    why = f"Last-Event-ID {last[:80]!r} is unknown, or later events are no longer kept"
    return gate.HttpRefusal(400, why)


def refuse_ended(last: str) -> gate.HttpRefusal:
    """Return the refusal of a client that has the last event of a stream.

    A cancelled call has no answer. Some clients ask for it over and over while they get a stream;
    so they get none. (gate.get.stream-or-405)
    """
    why = f"no event follows Last-Event-ID {last[:80]!r}: the stream has ended"
    return gate.HttpRefusal(405, why, headers=(("allow", gate.ALLOWED),))


class SessionIds:
    """Makes ids: the server, the process and the time, between random parts.

    An id of this server that was made while this process ran, and not by it, is that of a process
    beside it. One that was made before may be that of a process which it replaces.

    Args:
        name: of the server.
    """

    def __init__(self, name: str) -> None:
        self._app = sha256(name.encode()).digest()[:4]
        self._process = os.urandom(4)
        self._since = int(time.time())

    def make(self) -> bytes:
        """Return an id that cannot be guessed."""
        made = (int(time.time()) & 0xFFFFFFFF).to_bytes(4, "big")
        mark = self._app + self._process + made
        # session.id.secure
        random = secrets.token_bytes(2 * _RANDOM)
        return urlsafe_b64encode(random[:_RANDOM] + mark + random[_RANDOM:])

    def is_of_other_process(self, key: bytes) -> bool:
        """Whether a process that serves beside this one has made an id."""
        try:
            id = urlsafe_b64decode(key[: 2 * _LENGTH])
        except ValueError:
            return False
        return (
            len(id) == _LENGTH
            and id[_APP] == self._app
            and id[_PROCESS] != self._process
            and int.from_bytes(id[_TIME], "big") > self._since
        )

"""Recorded sessions over HTTP that keep every rule, with a label on each record.

`changed` and its neighbours spoil one record of a session, for the table of mutants.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from accord.protocol.monitor import Monitor
from accord.protocol.violation import Violation
from accord.trace import HttpFacts, Record
from support.traces import INFO, META

Session = dict[str, Record]
HANDSHAKE_OVER_HTTP = ("2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"
OLDER = "2024-11-05"

JSON = "application/json"
EVENTS = "text/event-stream"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
TOOL = {
    "name": "add",
    "inputSchema": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
}


class Talk:
    """Writes records of requests and responses, one exchange after the other."""

    def __init__(self, revision: str, *, form: str = "http", session: str | None = "s-1") -> None:
        self.revision = revision
        self.form: Any = form
        self.session = session if form == "http" and revision != STATELESS else None
        self.records: Session = {}
        self.more: dict[str, str] = {}
        self.path = "/mcp"
        self.query = ""
        self._t = 0.0
        self._is_open = False

    def add(self, label: str, sender: Any, message: Any, facts: HttpFacts, raw: Any = None) -> None:
        self._t += 0.01
        self.records[label] = Record(
            sender=sender,
            t=round(self._t, 3),
            transport=self.form,
            message=None if message is None else msgspec.Raw(msgspec.json.encode(message)),
            raw=raw,
            http=facts,
        )

    def ask(self, label: str, method: str, message: Any = None, **headers: str | None) -> None:
        """A request."""
        is_post = method == "POST"
        sent: dict[str, str | None] = {"host": "127.0.0.1", **self.more}
        if is_post:
            sent |= {"content-type": JSON, "accept": f"{JSON}, {EVENTS}"}
        elif method == "GET":
            sent["accept"] = EVENTS
        if self._is_open and self.session is not None:
            sent["mcp-session-id"] = self.session
        if self._is_open and self.revision > "2025-03-26" and self.form == "http":
            sent["mcp-protocol-version"] = self.revision
        if self.revision == STATELESS and isinstance(message, dict) and "method" in message:
            sent |= {"mcp-protocol-version": STATELESS, "mcp-method": message["method"]}
            if message["method"] == "tools/call":
                sent |= {"mcp-name": "add", "mcp-param-region": "eu"}
        sent |= {name.replace("_", "-").lower(): text for name, text in headers.items()}
        facts = HttpFacts(
            method=method,
            headers={name: text for name, text in sent.items() if text is not None},
            recorded="all",
            exchange=label,
            stream=f"{label}-stream",
            path=self.path,
            query=self.query,
            size=None if message is None else len(msgspec.json.encode(message)),
        )
        self.add(label, "client", message, facts)

    def head(
        self,
        label: str,
        exchange: str,
        status: int,
        kind: str | None,
        message: Any = None,
        **more: Any,
    ) -> None:
        """The head of a response, with its message if it is one body."""
        headers = {} if kind is None else {"content-type": kind}
        if kind == EVENTS and self.revision == STATELESS:
            headers["x-accel-buffering"] = "no"
        headers |= more.pop("headers", {})
        asked = self.records[exchange].http
        assert asked is not None
        facts = HttpFacts(
            method=asked.method,
            status=status,
            headers=headers,
            recorded="all",
            exchange=exchange,
            stream=more.pop("stream", f"{exchange}-stream"),
            size=0 if message is None else len(msgspec.json.encode(message)),
            **more,
        )
        self.add(label, "server", message, facts)

    def event(self, label: str, exchange: str, message: Any = None, **facts: Any) -> None:
        """An event of a stream, or its end."""
        asked = self.records[exchange].http
        assert asked is not None
        raw = facts.pop("raw", None)
        facts.setdefault("event", None if "ended" in facts else "message")
        facts.setdefault("stream", f"{exchange}-stream")
        self.add(
            label,
            "server",
            message,
            HttpFacts(method=asked.method, status=200, exchange=exchange, **facts),
            raw,
        )

    def open(self) -> None:
        self._is_open = True


def request(id: Any, method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": id, "method": method}
    return {**body, "params": params} if params else body


def notice(method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "method": f"notifications/{method}"}
    return {**body, "params": params} if params else body


def result(id: Any, **members: Any) -> Any:
    return {"jsonrpc": "2.0", "id": id, "result": members}


def error(id: Any, code: int, **more: Any) -> Any:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", **more}}


def initialize(revision: str) -> Any:
    return request(0, "initialize", protocolVersion=revision, capabilities={}, clientInfo=INFO)


def opened(revision: str) -> Any:
    server = {"tools": {"listChanged": True}, "logging": {}}
    return result(0, protocolVersion=revision, capabilities=server, serverInfo=INFO)


PROGRESS = notice("progress", progressToken="p", progress=1)
CALL = request(2, "tools/call", name="add", arguments={}, _meta={"progressToken": "p"})
CALLED = result(2, content=[{"type": "text", "text": "3"}])


def streamable(
    revision: str,
    *,
    is_streamed: bool = True,
    session: str | None = "s-1",
    token: str | None = None,
    has_ids: bool = True,
) -> Session:
    """A whole session: opening, a GET stream, a list, a call with progress, resumption, the end."""
    talk = Talk(revision, session=session)
    if token is not None:
        talk.more["authorization"] = f"Bearer {token}"
    assigned = {} if session is None else {"mcp-session-id": session}
    talk.ask("init", "POST", initialize(revision))
    talk.head("init-answer", "init", 200, JSON, opened(revision), headers=assigned)
    talk.open()
    talk.ask("ready", "POST", notice("initialized"))
    talk.head("ready-answer", "ready", 202, None)
    talk.ask("get", "GET")
    is_new = revision >= "2025-11-25"
    talk.head("get-answer", "get", 200, EVENTS)
    if is_new and has_ids:
        talk.event("get-prime", "get", id="g-0")
    talk.event("get-change", "get", notice("tools/list_changed"), id="g-1" if has_ids else None)
    talk.ask("list", "POST", request(1, "tools/list"))
    talk.head("list-answer", "list", 200, JSON, result(1, tools=[TOOL]))
    talk.ask("call", "POST", CALL)
    if is_streamed:
        talk.head("call-answer", "call", 200, EVENTS)
        if is_new and has_ids:
            talk.event("call-prime", "call", id="c-0")
        talk.event("call-progress", "call", PROGRESS, id="c-1" if has_ids else None)
        talk.event("call-result", "call", CALLED, id="c-2" if has_ids else None)
        talk.event("call-end", "call", ended="server")
    else:
        talk.head("call-answer", "call", 200, JSON, CALLED)
    talk.ask("ping", "POST", request(3, "ping"))
    talk.head("ping-answer", "ping", 200, JSON, result(3))
    if session is not None:
        talk.ask("delete", "DELETE")
        talk.head("delete-answer", "delete", 204, None)
        talk.ask("late", "POST", request(4, "ping"))
        talk.head("late-answer", "late", 404, None)
    return talk.records


def resumed(revision: str) -> Session:
    """A stream that breaks before the answer, and is resumed by a GET."""
    talk = Talk(revision)
    talk.ask("init", "POST", initialize(revision))
    talk.head("init-answer", "init", 200, JSON, opened(revision), headers={"mcp-session-id": "s-1"})
    talk.open()
    talk.ask("ready", "POST", notice("initialized"))
    talk.head("ready-answer", "ready", 202, None)
    talk.ask("call", "POST", CALL)
    talk.head("call-answer", "call", 200, EVENTS)
    if revision >= "2025-11-25":
        talk.event("call-prime", "call", id="c-0")
    talk.event("call-progress", "call", PROGRESS, id="c-1", retry=100)
    if revision >= "2025-11-25":
        talk.event("call-end", "call", ended="server")  # earlier: the network broke
    talk.ask("other", "POST", request(5, "ping"))
    talk.head("other-answer", "other", 200, JSON, result(5))
    talk._t += 0.2
    talk.ask("get", "GET", Last_Event_ID="c-1")
    talk.head("get-answer", "get", 200, EVENTS, stream="call-stream")
    talk.event("get-result", "get", CALLED, id="c-2", stream="call-stream")
    talk.event("get-end", "get", ended="server", stream="call-stream")
    talk.ask("ping", "POST", request(3, "ping"))
    talk.head("ping-answer", "ping", 200, JSON, result(3))
    return talk.records


def older(revision: str = OLDER) -> Session:
    """HTTP with SSE: the stream comes first and names the place to post to."""
    talk = Talk(revision, form="sse")
    talk.path = "/sse"
    talk.ask("get", "GET")
    talk.head("get-answer", "get", 200, EVENTS)
    talk.event("endpoint", "get", event="endpoint", data="/messages?session_id=masked-1")
    talk.path, talk.query = "/messages", "session_id=masked-1"
    for label, message, answer in (
        ("init", initialize(revision), opened(revision)),
        ("ready", notice("initialized"), None),
        ("list", request(1, "tools/list"), result(1, tools=[TOOL])),
        ("ping", request(3, "ping"), result(3)),
    ):
        talk.ask(label, "POST", message)
        talk.head(f"{label}-answer", label, 202, "text/plain")
        if answer is not None:
            talk.event(f"{label}-result", "get", answer)
    return talk.records


def stamped(id: Any, method: str, **params: Any) -> Any:
    meta = {
        f"{META}protocolVersion": STATELESS,
        f"{META}clientCapabilities": {},
        f"{META}clientInfo": INFO,
    }
    own = params.pop("_meta", {})
    return request(id, method, **params, _meta={**meta, **own})


def finished(id: Any, **members: Any) -> Any:
    return result(id, resultType="complete", _meta={f"{META}serverInfo": INFO}, **members)


CACHED = {"ttlMs": 0, "cacheScope": "private"}


def stateless(*, is_streamed: bool = True, token: str | None = None) -> Session:
    """Requests that stand on their own, one answered by an error."""
    talk = Talk(STATELESS)
    if token is not None:
        talk.more["authorization"] = f"Bearer {token}"
    talk.ask("list", "POST", stamped(1, "tools/list"))
    talk.head("list-answer", "list", 200, JSON, finished(1, tools=[TOOL], **CACHED))
    meta = {"progressToken": "p"}
    call = stamped(2, "tools/call", name="add", arguments={"region": "eu"}, _meta=meta)
    called = finished(2, content=[{"type": "text", "text": "3"}])
    talk.ask("call", "POST", call)
    if is_streamed:
        talk.head("call-answer", "call", 200, EVENTS)
        talk.event("call-progress", "call", PROGRESS)
        talk.event("call-result", "call", called)
        talk.event("call-end", "call", ended="server")
    else:
        talk.head("call-answer", "call", 200, JSON, called)
    talk.ask("odd", "POST", stamped(3, "vendor/none"))
    talk.head("odd-answer", "odd", 404, JSON, error(3, -32601))
    talk.ask("again", "POST", stamped(4, "tools/list"))
    talk.head("again-answer", "again", 200, JSON, finished(4, tools=[TOOL], **CACHED))
    return talk.records


def locked(revision: str) -> Session:
    """A client that is refused, reads the metadata of the resource, and comes back with a token."""
    is_modern = revision == STATELESS
    first: Any = stamped(1, "tools/list") if is_modern else initialize(revision)
    talk = Talk(revision)
    talk.ask("first", "POST", first)
    where = f"http://127.0.0.1{RESOURCE}"
    challenge = f'Bearer resource_metadata="{where}", scope="read"'
    talk.head("first-answer", "first", 401, None, headers={"www-authenticate": challenge})
    talk.path = RESOURCE
    talk.ask("metadata", "GET")
    document = {"resource": "http://127.0.0.1/mcp", "authorization_servers": ["https://as.test"]}
    data = msgspec.json.encode(document).decode()
    talk.head("metadata-answer", "metadata", 200, JSON, data=data)
    talk.path = "/.well-known/oauth-authorization-server"
    talk.ask("discovery", "GET", MCP_Protocol_Version=revision)
    talk.head("discovery-answer", "discovery", 200, JSON)
    talk.path = "/mcp"
    talk.more["authorization"] = "Bearer masked-7"
    if is_modern:
        talk.ask("list", "POST", stamped(2, "tools/list"))
        talk.head("list-answer", "list", 200, JSON, finished(2, tools=[TOOL], **CACHED))
        talk.ask("again", "POST", stamped(3, "tools/list"))
        talk.head("again-answer", "again", 200, JSON, finished(3, tools=[TOOL], **CACHED))
        return talk.records
    talk.ask("init", "POST", {**first, "id": 9})
    talk.head(
        *("init-answer", "init", 200, JSON, {**opened(revision), "id": 9}),
        headers={"mcp-session-id": "s-1"},
    )
    talk.open()
    talk.ask("ready", "POST", notice("initialized"))
    talk.head("ready-answer", "ready", 202, None)
    talk.ask("list", "POST", request(2, "tools/list"))
    talk.head("list-answer", "list", 200, JSON, result(2, tools=[TOOL]))
    talk.ask("again", "POST", request(3, "tools/list"))
    talk.head("again-answer", "again", 200, JSON, result(3, tools=[TOOL]))
    return talk.records


# -- spoiling


def facts(session: Session, label: str) -> HttpFacts:
    found = session[label].http
    assert found is not None
    return found


def put(label: str, **changes: Any) -> Callable[[Session], None]:
    """Change facts of a record; `message`, `raw` and `t` are those of the record itself."""

    def spoil(session: Session) -> None:
        own = {name: changes[name] for name in ("raw", "t", "sender") if name in changes}
        if "message" in changes:
            value = changes["message"]
            own["message"] = None if value is None else msgspec.Raw(msgspec.json.encode(value))
        rest = {k: v for k, v in changes.items() if k not in (*own, "message")}
        http = msgspec.structs.replace(facts(session, label), **rest)
        session[label] = msgspec.structs.replace(session[label], http=http, **own)

    return spoil


def header(label: str, name: str, text: str | None) -> Callable[[Session], None]:
    """Set a header, or take it away."""

    def spoil(session: Session) -> None:
        kept = {**facts(session, label).headers}
        kept.pop(name.lower(), None)
        if text is not None:
            kept[name.lower()] = text
        put(label, headers=kept)(session)

    return spoil


def drop(*labels: str) -> Callable[[Session], None]:
    """Take records away."""

    def spoil(session: Session) -> None:
        for label in labels:
            del session[label]

    return spoil


def add(after: str, like: str, label: str = "added", **changes: Any) -> Callable[[Session], None]:
    """Add a copy of a record after another one, changed."""

    def spoil(session: Session) -> None:
        items = list(session.items())
        place = [name for name, _ in items].index(after) + 1
        items.insert(place, (label, session[like]))
        session.clear()
        session.update(items)
        if changes:
            put(label, **changes)(session)

    return spoil


def all_of(*spoilers: Callable[[Session], None]) -> Callable[[Session], None]:
    def spoil(session: Session) -> None:
        for each in spoilers:
            each(session)

    return spoil


def judge(session: Session, revision: str | None = None) -> tuple[Monitor, list[Violation]]:
    monitor = Monitor(revision=revision)  # type: ignore[arg-type]
    found: list[Violation] = []
    for number, record in enumerate(session.values(), 1):
        found += monitor.observe(msgspec.structs.replace(record, number=number))
    return monitor, found + monitor.close()

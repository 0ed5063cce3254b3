"""Messages with one fault each, to see how a server takes them."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from accord.protocol.catalogue import catalogue
from accord.protocol.exchange import META_VERSION
from accord.protocol.party import META_CLIENT
from accord.protocol.revisions import REVISIONS, Revision
from accord.trace import Transport
from accord.types import JsonObject, RevisionId
from accord.version import __version__
from accord_tools.check.probing.messages import initialize_params, stamp
from accord_tools.inspector.raw.lines import HttpMethod

CLIENT_INFO: Final = {"name": "accord-inspect", "version": __version__}


def name_client(revision: str, params: JsonObject | None = None) -> JsonObject:
    """Return params with the `_meta` of a request that stands on its own."""
    given = {**(params or {})}
    meta = given.get("_meta")
    named = {META_CLIENT: CLIENT_INFO, **(meta if isinstance(meta, dict) else {})}
    made = stamp(revision, {**given, "_meta": named}, {})
    assert isinstance(made, dict)
    return made


UNKNOWN_REVISION: Final = "1999-01-01"
_STRANGER: Final = "https://stranger.example"
_VERSION_HEADER: Final = "mcp-protocol-version"
_SESSION_HEADER: Final = "mcp-session-id"


class RawTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A message to begin with.

    Attributes:
        id: names it.
        title: its fault in a few words.
        explains: what is wrong with it, and what a server should do.
        requirement: the id of the clause that it provokes.
        text: the message, on one line.
        headers: to set, or with None to leave out, over HTTP.
        http_method: the method of HTTP.
    """

    id: str
    title: str
    explains: str
    requirement: str
    text: str
    headers: list[tuple[str, str | None]] = []
    http_method: HttpMethod = "POST"


class _Setting(NamedTuple):
    """What the templates are built for."""

    row: Revision
    transport: Transport

    def params(self, params: JsonObject | None = None) -> JsonObject | None:
        """Return parameters as a good request of this revision has them."""
        return params if self.row.handshake else name_client(self.row.id, params)

    def request(self, id: object, method: str, params: JsonObject | None = None) -> JsonObject:
        """Return a good request."""
        made: JsonObject = {"jsonrpc": "2.0", "id": id, "method": method}
        if (full := self.params(params)) is not None:
            made["params"] = full
        return made

    @property
    def harmless(self) -> str:
        """A request that every server of this revision answers."""
        return "ping" if self.row.handshake else "server/discover"


class _Fault(NamedTuple):
    """A template before it is built.

    Attributes:
        ids: of the clauses that it may provoke; the first one that holds in the revision counts.
        build: returns the text or the JSON value.
        on: the transports that it makes sense on.
        when: tells whether it makes sense in a revision.
    """

    id: str
    title: str
    explains: str
    ids: tuple[str, ...]
    build: Callable[[_Setting], object]
    on: tuple[Transport, ...] = ("stdio", "http", "sse")
    when: Callable[[Revision], bool] = lambda _: True
    headers: tuple[tuple[str, str | None], ...] = ()
    http_method: HttpMethod = "POST"


def _without(message: JsonObject, name: str) -> JsonObject:
    return {key: value for key, value in message.items() if key != name}


def _batch(setting: _Setting) -> object:
    return [setting.request(121, setting.harmless), setting.request(122, setting.harmless)]


def _unknown_version(setting: _Setting) -> object:
    if setting.row.handshake:
        params = initialize_params(UNKNOWN_REVISION, {}) | {"clientInfo": CLIENT_INFO}
        return {"jsonrpc": "2.0", "id": 131, "method": "initialize", "params": params}
    request = setting.request(131, setting.harmless)
    request["params"]["_meta"][META_VERSION] = UNKNOWN_REVISION
    return request


def _on_two_lines(setting: _Setting) -> object:
    return msgspec.json.format(msgspec.json.encode(setting.request(143, setting.harmless))).decode()


def _good(id: int) -> Callable[[_Setting], object]:
    return lambda setting: setting.request(id, setting.harmless)


def _is_handshake(row: Revision) -> bool:
    return row.handshake


def _is_stateless(row: Revision) -> bool:
    return not row.handshake


_MESSAGES: Final = (
    _Fault(
        "unknown-method",
        "Unknown method",
        "No revision has this method. The server answers with the error -32601.",
        ("http.method-not-found.404", "errors.code.method-not-found"),
        lambda setting: setting.request(101, "accord/unknown"),
    ),
    _Fault(
        "missing-jsonrpc",
        "Without jsonrpc",
        'The member "jsonrpc" is missing. The server answers with the error -32600.',
        ("jsonrpc.message.version-2-0", "errors.code.invalid-request"),
        lambda setting: _without(setting.request(102, setting.harmless), "jsonrpc"),
    ),
    _Fault(
        "wrong-jsonrpc",
        "Wrong jsonrpc version",
        'The member "jsonrpc" is "1.0", not "2.0". The server answers with the error -32600.',
        ("jsonrpc.message.version-2-0", "errors.code.invalid-request"),
        lambda setting: setting.request(103, setting.harmless) | {"jsonrpc": "1.0"},
    ),
    _Fault(
        "null-id",
        "Id null",
        "A request has the id null, to which no answer can be assigned.",
        ("jsonrpc.request.id-not-null", "errors.code.invalid-request"),
        lambda setting: setting.request(None, setting.harmless),
    ),
    _Fault(
        "fraction-id",
        "Id with a fraction",
        "A request id is a text or an integer, and 1.5 is neither.",
        ("jsonrpc.request.id-string-or-integer", "errors.code.invalid-request"),
        lambda setting: setting.request(1.5, setting.harmless),
    ),
    _Fault(
        "reused-id",
        "Id used again",
        "The id 1 was the one of the handshake; within a session each id is used once.",
        ("jsonrpc.request.id-unique",),
        lambda setting: setting.request(1, setting.harmless),
    ),
    _Fault(
        "request-without-id",
        "Request without an id",
        "This method asks for an answer, but without an id the message is a notification.",
        ("jsonrpc.request.id-present", "jsonrpc.notification.not-answered"),
        lambda setting: _without(setting.request(0, "tools/list"), "id"),
    ),
    _Fault(
        "method-number",
        "Number as method",
        "The method is a number, not a text. The server answers with the error -32600.",
        ("jsonrpc.request.method-string", "errors.code.invalid-request"),
        lambda setting: setting.request(107, setting.harmless) | {"method": 7},
    ),
    _Fault(
        "params-array",
        "Params as an array",
        "Params are an object in this protocol, also where JSON-RPC allows an array.",
        ("jsonrpc.request.params-object", "errors.code.invalid-request"),
        lambda setting: setting.request(108, setting.harmless) | {"params": [1, 2]},
    ),
    _Fault(
        "not-json",
        "Text that is not JSON",
        "The brace at the end is missing. The server answers with the error -32700 and goes on.",
        ("errors.code.parse-error",),
        lambda _: '{"jsonrpc": "2.0", "id": 109, "method": "ping"',
    ),
    _Fault(
        "not-an-object",
        "JSON that is not an object",
        "A text is JSON but not a message. The server answers with the error -32600.",
        ("errors.code.invalid-request",),
        lambda _: '"hello"',
    ),
    _Fault(
        "batch",
        "Batch",
        "Two requests in an array. One revision has batches; in the others it is one message each.",
        ("jsonrpc.batch.removed", "jsonrpc.batch.receive", "errors.code.invalid-request"),
        _batch,
    ),
    _Fault(
        "two-lines",
        "One message on several lines",
        "Over stdio each line is a message, so this one falls apart.",
        ("stdio.framing.no-embedded-newline", "errors.code.parse-error"),
        _on_two_lines,
        on=("stdio",),
    ),
    _Fault(
        "unknown-tool",
        "Call of an unknown tool",
        "The server says that it has no such tool, and does not fail inside.",
        ("tools.errors.unknown-tool-32602", "errors.code.invalid-params"),
        lambda setting: setting.request(
            115, "tools/call", {"name": "accord-unknown-tool", "arguments": {}}
        ),
    ),
    _Fault(
        "late-cancel",
        "Cancellation of an unknown request",
        "It names a request that was never sent, or has ended. The server ignores it.",
        ("cancellation.invalid-ignored",),
        lambda _: {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 999_999, "reason": "too late"},
        },
    ),
)
_OPENINGS: Final = (
    _Fault(
        "early-call",
        "Call before the handshake",
        "Open the connection without a handshake: before initialize only ping is allowed.",
        ("lifecycle.initialize.first", "lifecycle.initialize.client-waits"),
        lambda setting: setting.request(130, "tools/list"),
        when=_is_handshake,
    ),
    _Fault(
        "unknown-revision",
        "Unknown revision",
        "No such revision exists. The server names those that it speaks.",
        (
            "lifecycle.version.server-offers-other",
            "versioning.unsupported.error-code",
        ),
        _unknown_version,
    ),
    _Fault(
        "missing-meta",
        "Request without _meta",
        "Without a handshake each request names its revision and the capabilities of the client.",
        ("meta.request.missing-field-rejected",),
        lambda setting: _without(setting.request(133, setting.harmless), "params"),
        when=_is_stateless,
    ),
    _Fault(
        "initialize",
        "Handshake without a handshake",
        "This revision has no initialize. A server of it alone names the versions it supports.",
        ("versioning.modern-only.initialize-names-versions",),
        lambda setting: {
            "jsonrpc": "2.0",
            "id": 134,
            "method": "initialize",
            "params": initialize_params(setting.row.id, {}) | {"clientInfo": CLIENT_INFO},
        },
        when=_is_stateless,
    ),
)
_HTTP: Final = (
    _Fault(
        "missing-version-header",
        "Without MCP-Protocol-Version",
        "The header that names the revision is missing.",
        ("http.version-header.missing-rejected", "http.version-header.default-2025-03-26"),
        _good(150),
        on=("http",),
        when=lambda row: row.version_header,
        headers=((_VERSION_HEADER, None),),
    ),
    _Fault(
        "wrong-version-header",
        "Wrong MCP-Protocol-Version",
        "The header names a revision that does not exist. The server answers with status 400.",
        ("http.version-header.mismatch-rejected", "http.version-header.bad-400"),
        _good(151),
        on=("http",),
        when=lambda row: row.version_header,
        headers=((_VERSION_HEADER, UNKNOWN_REVISION),),
    ),
    _Fault(
        "missing-session",
        "Without the session id",
        "A server that works with sessions answers with status 400.",
        ("session.id.missing-400",),
        _good(152),
        on=("http",),
        headers=((_SESSION_HEADER, None),),
    ),
    _Fault(
        "unknown-session",
        "Session id that does not exist",
        "A server that works with sessions answers with status 404.",
        ("session.end.terminated-404",),
        _good(153),
        on=("http",),
        headers=((_SESSION_HEADER, "accord-unknown-session"),),
    ),
    _Fault(
        "wrong-content-type",
        "Wrong Content-Type",
        "The body is called plain text. A server that refuses it answers with an error status.",
        ("http.post.refused-status",),
        lambda _: {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 999_998},
        },
        on=("http",),
        headers=(("content-type", "text/plain"),),
    ),
    _Fault(
        "missing-accept",
        "Without text/event-stream in Accept",
        "A client accepts both a JSON body and an event stream.",
        ("http.client.accept-both",),
        _good(155),
        on=("http",),
        headers=(("accept", "application/json"),),
    ),
    _Fault(
        "foreign-origin",
        "Origin of a stranger",
        "A web page of another site sends this. The server refuses it with status 403.",
        ("http.origin.invalid-403", "http.origin.validated"),
        _good(156),
        on=("http", "sse"),
        headers=(("origin", _STRANGER),),
    ),
    _Fault(
        "listen-without-accept",
        "GET that does not accept events",
        "A GET that listens has text/event-stream in its Accept header.",
        ("http.get.accept-event-stream",),
        lambda _: "",
        on=("http",),
        when=_is_handshake,
        headers=(("accept", "application/json"),),
        http_method="GET",
    ),
    _Fault(
        "old-get",
        "GET, which this revision does not have",
        "A server of this revision alone answers GET and DELETE with status 405.",
        ("http.legacy-traffic.get-delete-405",),
        lambda _: "",
        on=("http",),
        when=_is_stateless,
        http_method="GET",
    ),
    _Fault(
        "missing-method-header",
        "Without Mcp-Method",
        "Headers repeat the method of the body. The server answers with status 400 and -32020.",
        ("http.headers.required-missing-rejected",),
        _good(159),
        on=("http",),
        when=_is_stateless,
        headers=(("mcp-method", None),),
    ),
    _Fault(
        "wrong-method-header",
        "Mcp-Method of another method",
        "The header differs from the body. The server answers with status 400 and -32020.",
        ("http.headers.mismatch-rejected",),
        _good(160),
        on=("http",),
        when=_is_stateless,
        headers=(("mcp-method", "tools/call"),),
    ),
)


def build_templates(revision: RevisionId, transport: Transport) -> list[RawTemplate]:
    """Return the messages with one fault that make sense in a revision and on a transport."""
    return list(_build(_Setting(REVISIONS[revision], transport)))


def _build(setting: _Setting) -> Iterator[RawTemplate]:
    for fault in (*_MESSAGES, *_OPENINGS, *_HTTP):
        if setting.transport not in fault.on or not fault.when(setting.row):
            continue
        requirement = next((id for id in fault.ids if _holds(id, setting)), None)
        if requirement is None:
            continue
        made = fault.build(setting)
        yield RawTemplate(
            id=fault.id,
            title=fault.title,
            explains=fault.explains,
            requirement=requirement,
            text=made if isinstance(made, str) else msgspec.json.encode(made).decode(),
            headers=list(fault.headers),
            http_method=fault.http_method,
        )


def _holds(id: str, setting: _Setting) -> bool:
    if id.startswith("http.") and setting.transport != "http":
        return False
    return catalogue()[id].holds_in(setting.row.id)

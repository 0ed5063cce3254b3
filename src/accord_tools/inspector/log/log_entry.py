"""One row of the log as it is kept: what travelled, what it belongs to, and the verdicts.

Of a message, only a sketch is read until the page asks for its details.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from accord.protocol.violation import Party, Severity
from accord.trace import HttpFacts, Record, Transport
from accord.types import RequestId

EntrySender: TypeAlias = Literal["client", "server", "stderr"]
EntryKind: TypeAlias = Literal[
    "request", "result", "error", "notification", "batch", "http", "refusal", "text", "stderr"
]

# What an entry takes beside its texts, measured with entries of small messages.
ENTRY_BYTES: Final = 700
_HTTP_BYTES: Final = 900
_BREACH_BYTES: Final = 300


class RowBreach(msgspec.Struct, frozen=True, gc=False):
    """A clause that a message breaks; secrets in the texts are masked."""

    requirement: str
    severity: Severity
    party: Party
    why: str
    place: str | None = None


class LogEntry(msgspec.Struct, gc=False):
    """One row of the log.

    Attributes:
        number: counts the rows of all conversations, from 1.
        at: seconds since the epoch; None in a recording that does not say it.
        t: seconds since the session or the recording began; None if a recording does not say it.
        part: counts the connections of the conversation, from 1.
        id: of the message, as short text.
        brief: what the message is about, in a few words.
        body: what travelled, with secrets masked.
        original: what travelled, if a mask changed it and secrets may be shown.
        is_json: whether what travelled is JSON.
        http: what HTTP said, with secrets masked.
        original_http: what HTTP said, if a mask changed it and secrets may be shown.
        root: the row of the request that this one is about; its own number for a request.
        pair: the row of the answer, or of the request that this one answers; 0 without one.
        took: seconds from the request to the answer.
        passed: the requirements of the rules that held.
        rule: the id of the standing answer that it carries; empty without one.
    """

    number: int
    at: float | None
    t: float | None
    sender: EntrySender
    conversation: str
    part: int
    transport: Transport
    kind: EntryKind = "text"
    method: str = ""
    id: str = ""
    size: int = 0
    brief: str = ""
    body: bytes = b""
    original: bytes | None = None
    is_json: bool = False
    http: HttpFacts | None = None
    original_http: HttpFacts | None = None
    call: str | None = None
    root: int = 0
    pair: int = 0
    took: float | None = None
    severity: Severity | None = None
    breaches: tuple[RowBreach, ...] = ()
    passed: tuple[str, ...] = ()
    rule: str = ""

    @property
    def has_body(self) -> bool:
        """Whether something travelled beside what HTTP said."""
        return self.kind not in ("http", "refusal", "stderr")

    @property
    def cost(self) -> int:
        """Bytes that the entry takes in memory, about."""
        size = ENTRY_BYTES + len(self.body) + len(self.original or b"")
        for facts in (self.http, self.original_http):
            if facts is not None:
                size += _HTTP_BYTES + len(facts.data or "")
                size += sum(len(name) + len(text) for name, text in facts.headers.items())
        return size + _BREACH_BYTES * len(self.breaches)

    @property
    def kept_clauses(self) -> tuple[str, ...]:
        """The requirements that it was held to and did not break."""
        if not self.breaches:
            return self.passed
        broken = {each.requirement for each in self.breaches}
        return tuple(each for each in self.passed if each not in broken)

    def to_record(self) -> Record:
        """Return the line of a trace for this row, with secrets masked."""
        assert self.sender != "stderr"
        message = raw = None
        if self.has_body:
            if self.is_json:
                message = msgspec.Raw(self.body)
            else:
                raw = self.body.decode(errors="surrogateescape")
        return Record(
            sender=self.sender,
            t=self.t,
            transport=self.transport,
            message=message,
            raw=raw,
            http=self.http,
            number=self.number,
        )


BRIEF_MOST: Final = 160
_ID_MOST: Final = 40
_METHOD_MOST: Final = 120
# Larger results and params are not read for the list.
_READ_MOST: Final = 64 * 1024
# Messages of a batch that the list looks at.
_BATCH_MOST: Final = 100


class Sketch(msgspec.Struct, gc=False):
    """What the list shows of a message, and what ties it to others.

    Attributes:
        key: the id, if it can be that of a request.
        token: the progress token that it brings or reports on.
        subject: the id of the request that a cancellation names.
        task: the id of a task that it names.
        result: the text of a result, which is described once its request is known.
        parts: the messages of a batch.
    """

    kind: EntryKind
    method: str = ""
    id: str = ""
    key: RequestId | None = None
    brief: str = ""
    token: RequestId | None = None
    subject: RequestId | None = None
    task: str = ""
    result: bytes = b""
    parts: tuple["Sketch", ...] = ()


class _Envelope(msgspec.Struct, gc=False):
    method: Any = UNSET
    id: Any = UNSET
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


class _Params(msgspec.Struct, gc=False):
    meta: Any = msgspec.field(name="_meta", default=None)
    name: Any = None
    uri: Any = None
    progress: Any = None
    total: Any = None
    message: Any = None
    level: Any = None
    data: Raw = Raw()
    reason: Any = None
    request_id: Any = msgspec.field(name="requestId", default=None)
    progress_token: Any = msgspec.field(name="progressToken", default=None)
    task_id: Any = msgspec.field(name="taskId", default=None)
    status: Any = None
    version: Any = msgspec.field(name="protocolVersion", default=None)
    client: Any = msgspec.field(name="clientInfo", default=None)
    cursor: Any = None
    ref: Any = None


_read_envelope: Final = msgspec.json.Decoder(_Envelope).decode
_read_batch: Final = msgspec.json.Decoder(list[Raw]).decode
_read_params: Final = msgspec.json.Decoder(_Params).decode
_read_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_NO_PARAMS: Final = _Params()


def sketch_message(body: bytes) -> Sketch:
    """Describe a message; `body` is JSON."""
    if body.lstrip()[:1] == b"[":
        return _sketch_batch(body)
    try:
        envelope = _read_envelope(body)
    except (ValueError, RecursionError):
        return Sketch("text", brief=shorten(body[: 4 * BRIEF_MOST].decode(errors="replace")))
    has_id = envelope.id is not UNSET
    id = _show(envelope.id)[:_ID_MOST] if has_id else ""
    key = _as_key(envelope.id)
    if envelope.method is not UNSET:
        kind: EntryKind = "request" if has_id else "notification"
        return _sketch_method(kind, _name(envelope.method), id, key, envelope.params)
    if envelope.error:
        return Sketch("error", id=id, key=key, brief=_describe_error(bytes(envelope.error)))
    if envelope.result:
        return Sketch("result", id=id, key=key, result=bytes(envelope.result))
    return Sketch("text", id=id, brief=shorten(body[: 4 * BRIEF_MOST].decode(errors="replace")))


def _sketch_batch(body: bytes) -> Sketch:
    try:
        parts = _read_batch(body)
    except (ValueError, RecursionError):
        return Sketch("batch")
    # A batch in a batch is not a message.
    texts = map(bytes, parts[:_BATCH_MOST])
    each = tuple(sketch_message(text) for text in texts if not text.startswith(b"["))
    named = ", ".join(dict.fromkeys(part.method or part.kind for part in each))
    return Sketch("batch", brief=shorten(f"{_number(len(parts), 'messages')}: {named}"), parts=each)


def _sketch_method(
    kind: EntryKind, method: str, id: str, key: RequestId | None, raw: Raw
) -> Sketch:
    params = _NO_PARAMS
    text = bytes(raw)
    if text and len(text) <= _READ_MOST:
        try:
            params = _read_params(text)
        except (ValueError, RecursionError):
            params = _NO_PARAMS
    meta = params.meta if isinstance(params.meta, dict) else {}
    token, subject = meta.get("progressToken"), None
    if method == "notifications/progress":
        token = params.progress_token
    elif method == "notifications/cancelled":
        subject = params.request_id
    related = meta.get("io.modelcontextprotocol/related-task")
    task = related.get("taskId") if isinstance(related, dict) else params.task_id
    describe = _BRIEFS.get(method)
    return Sketch(
        kind,
        method=method,
        id=id,
        key=key,
        brief="" if describe is None else shorten(describe(params)),
        token=_as_key(token),
        subject=_as_key(subject),
        task=task if isinstance(task, str) else "",
    )


def _name(value: object) -> str:
    return value[:_METHOD_MOST] if isinstance(value, str) else _show(value)[:_METHOD_MOST]


def _as_key(value: object) -> RequestId | None:
    """Return an id or a token; None for what cannot be one."""
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def _show(value: object) -> str:
    """Return a value as text: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value[: 4 * BRIEF_MOST]
    try:
        return msgspec.json.encode(value).decode()[: 4 * BRIEF_MOST]
    except (ValueError, RecursionError, TypeError):
        return ""


def shorten(text: str) -> str:
    """Return the beginning of a text on one line, as long as the list has room for."""
    line = " ".join(text[: 4 * BRIEF_MOST].split())
    return line if len(line) <= BRIEF_MOST else line[: BRIEF_MOST - 1] + "…"


# -- requests and notifications


def _name_of(params: _Params) -> str:
    return "" if params.name is None else _show(params.name)


def _uri_of(params: _Params) -> str:
    return "" if params.uri is None else _show(params.uri)


def _cursor_of(params: _Params) -> str:
    return "" if params.cursor is None else f"from {_show(params.cursor)}"


def _progress_of(params: _Params) -> str:
    done = _show(params.progress)
    done = done if params.total is None else f"{done} of {_show(params.total)}"
    return done if params.message is None else f"{done}: {_show(params.message)}"


def _log_of(params: _Params) -> str:
    text = ""
    with suppress(ValueError, RecursionError):
        text = _show(msgspec.json.decode(params.data))
    return f"{_show(params.level)}: {text}"


def _opening_of(params: _Params) -> str:
    client = params.client if isinstance(params.client, dict) else {}
    named = f"{_show(client.get('name', ''))} {_show(client.get('version', ''))}"
    return f"{_show(params.version)}, client {named}"


def _cancelled_of(params: _Params) -> str:
    reason = "" if params.reason is None else f": {_show(params.reason)}"
    return f"request {_show(params.request_id)}{reason}"


def _completion_of(params: _Params) -> str:
    ref = params.ref if isinstance(params.ref, dict) else {}
    return _show(ref.get("name", ref.get("uri", "")))


def _task_of(params: _Params) -> str:
    status = "" if params.status is None else f" {_show(params.status)}"
    return f"{_show(params.task_id)}{status}"


def _message_of(params: _Params) -> str:
    return "" if params.message is None else _show(params.message)


def _level_of(params: _Params) -> str:
    return _show(params.level)


_BRIEFS: Final[dict[str, Callable[[_Params], str]]] = {
    "completion/complete": _completion_of,
    "elicitation/create": _message_of,
    "initialize": _opening_of,
    "logging/setLevel": _level_of,
    "notifications/cancelled": _cancelled_of,
    "notifications/message": _log_of,
    "notifications/progress": _progress_of,
    "notifications/resources/updated": _uri_of,
    "notifications/tasks": _task_of,
    "notifications/tasks/status": _task_of,
    "prompts/get": _name_of,
    "prompts/list": _cursor_of,
    "resources/list": _cursor_of,
    "resources/read": _uri_of,
    "resources/subscribe": _uri_of,
    "resources/templates/list": _cursor_of,
    "resources/unsubscribe": _uri_of,
    "tasks/cancel": _task_of,
    "tasks/get": _task_of,
    "tasks/result": _task_of,
    "tools/call": _name_of,
    "tools/list": _cursor_of,
}


# -- answers

_LISTS: Final = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "roots/list": "roots",
    "tasks/list": "tasks",
    "tools/list": "tools",
}


class _Error(msgspec.Struct, gc=False):
    code: Any = None
    message: Any = None


def _describe_error(text: bytes) -> str:
    try:
        error = msgspec.json.decode(text, type=_Error)
    except (ValueError, RecursionError):
        return shorten(text[: 4 * BRIEF_MOST].decode(errors="replace"))
    return shorten(f"{_show(error.code)} {_show(error.message)}")


def describe_result(method: str, text: bytes) -> tuple[str, str]:
    """Return a few words about a result, and the id of the task that it names, if any."""
    if len(text) > _READ_MOST:
        return "", ""
    try:
        members = _read_members(text)
    except (ValueError, RecursionError):
        return shorten(text.decode(errors="replace")), ""
    task = ""
    if b'"taskId"' in text:
        task = _task_in(members)
    try:
        return shorten(_words(method, members)), task
    except (ValueError, RecursionError, TypeError, AttributeError, IndexError, KeyError):
        # The result does not have the shape that its method asks for.
        return shorten(", ".join(members)), task


def _task_in(members: dict[str, Raw]) -> str:
    """Return the id of the task in a result: a member, or one of its `task`."""
    try:
        found = _read_members(members["task"]) if "task" in members else members
        task = msgspec.json.decode(found["taskId"])
    except (ValueError, RecursionError, KeyError):
        return ""
    return task if isinstance(task, str) else ""


def _words(method: str, members: dict[str, Raw]) -> str:
    listed = _LISTS.get(method)
    if listed is not None and listed in members:
        more = ", more follow" if "nextCursor" in members else ""
        return f"{_number(len(_read_batch(members[listed])), listed)}{more}"
    if method == "tools/call" and "content" in members:
        return _describe_content(members)
    if method in ("initialize", "server/discover"):
        return _describe_server(members)
    if method == "resources/read" and "contents" in members:
        contents = msgspec.json.decode(members["contents"])
        kinds = ", ".join(_show(each.get("mimeType", "no type")) for each in contents)
        return f"{_number(len(contents), 'contents')}: {kinds}"
    if method == "prompts/get" and "messages" in members:
        return _number(len(_read_batch(members["messages"])), "messages")
    return ", ".join(members)


def _describe_server(members: dict[str, Raw]) -> str:
    versions = msgspec.json.decode(members.get("supportedVersions", b"[]"))
    if "protocolVersion" in members:
        versions = [msgspec.json.decode(members["protocolVersion"])]
    said = ", ".join(map(_show, versions))
    if "serverInfo" not in members:
        return said
    server = msgspec.json.decode(members["serverInfo"])
    named = f"{_show(server.get('name', ''))} {_show(server.get('version', ''))}"
    return f"{said}, server {named}"


def _number(count: int, things: str) -> str:
    return f"{count} {things.removesuffix('s') if count == 1 else things}"


def _describe_content(members: dict[str, Raw]) -> str:
    is_error = bytes(members.get("isError", b"")) == b"true"
    blocks = msgspec.json.decode(members["content"])
    first = blocks[0] if blocks else {}
    text = first["text"] if first.get("type") == "text" else ""
    kinds = ", ".join(_show(each.get("type")) for each in blocks)
    said = _show(text) if len(blocks) == 1 and text else (kinds or "no content")
    return f"error: {said}" if is_error else said


# -- HTTP without a message


def brief_of_http(facts: HttpFacts) -> str:
    """Return a few words about a request or response without a message."""
    parts = [] if facts.method is None or facts.status is not None else [facts.method]
    parts += [] if facts.path is None or facts.status is not None else [facts.path]
    if facts.status is not None:
        parts += [f"status {facts.status}"]
        kind = facts.header("content-type")
        parts += [kind] if kind else []
    if facts.event is not None:
        parts += [f"event {facts.event}"]
    elif facts.retry is not None:
        parts += [f"retry after {facts.retry} ms"]
    if facts.ended is not None:
        parts += [f"the {facts.ended} ends the response"]
    if facts.data:
        parts += [facts.data]
    return shorten(" ".join(parts))

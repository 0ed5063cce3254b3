"""One run of a client under check against a fake server, and the checks on every run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, get_args
from urllib.parse import urlsplit

from accord.http.rules import headers as names
from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.revisions import REVISIONS
from accord.protocol.verdict import Evidence
from accord.secrets.masks import Secrets
from accord.trace import Transport
from accord.types import JsonObject, LoggingLevel, RevisionId
from accord_tools.check.fake_server.server import LISTS, FakeServer, names_own_revision
from accord_tools.check.probing.messages import (
    are_several,
    decode_json,
    is_request,
    objects_in,
    params_of,
)
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.verdicts import VerdictCollector

if TYPE_CHECKING:
    from accord_tools.check.fake_server.transports import ReceivedRequest

_CANCELLED: Final = "notifications/cancelled"


class ClientRun(VerdictCollector):
    """What a client sent to a fake server, how it ended, and the verdicts.

    Attributes:
        server: the fake server.
        transport: the transport between both.
        exit_code: the client's exit code; None if it had to be stopped.
        usual_exit_code: its exit code with a correct server.
        was_connected: whether a connection was still open when the client had to be stopped.
        left_servers_running: over stdio, whether a launched server outlived the client.
        stderr: the last lines that the client wrote.
        has_client_id: whether the command gave the client the id that every authorization server
            of the check knows.
    """

    def __init__(self, server: FakeServer, transport: Transport, revision: RevisionId) -> None:
        super().__init__("client", revision)
        self.server = server
        self.transport = transport
        self.exit_code: int | None = None
        self.usual_exit_code: int | None = None
        self.was_connected = False
        self.left_servers_running = False
        self.stderr: Sequence[str] = ()
        self.has_client_id = False

    @property
    def path(self) -> str:
        """Over HTTP, the path of the server."""
        url: str = self.server.fake_transport.url
        return urlsplit(url).path

    @property
    def requests(self) -> "list[ReceivedRequest]":
        """Over HTTP, every request of the client, in order."""
        found: list[ReceivedRequest] = self.server.fake_transport.requests
        return found

    @property
    def lines(self) -> list[RawConnection]:
        """The connections that the client opened."""
        return self.server.lines

    @property
    def connection(self) -> RawConnection | None:
        """The first connection; None if the client opened none."""
        return self.server.lines[0] if self.server.lines else None

    @property
    def is_initialized(self) -> bool:
        """Whether the client sent notifications/initialized."""
        # Under 2026-07-28 a client may send it by mistake, without a handshake.
        has_opened = bool(self.messages("initialize")) or not self.stateless
        return has_opened and bool(self.messages("notifications/initialized"))

    @property
    def went_on(self) -> bool:
        """Whether the client agreed with the server on a revision, and used it."""
        return self.is_initialized or bool(self.server.fulfilled)

    @property
    def all_messages(self) -> list[JsonObject]:
        """All messages of the client: over HTTP also those that were refused by a status."""
        if self.transport == "stdio":
            return [message for line in self.lines for message in line.received]
        posts = [each.message for each in self.requests if each.method == "POST"]
        return [each for message in posts for each in objects_in(message)]

    def evidence_of(self, *messages: object) -> list[Evidence]:
        """Return messages of the client, and answers to them, as evidence."""
        return [each for line in self.lines for each in line.log.evidence_of(messages)]

    def gave_up(self, params: object) -> bool:
        """Return whether the client cancelled the request with these parameters, or left it."""
        named = [params_of(each).get("requestId") for each in self.messages(_CANCELLED)]
        asked = [each for each in self.all_messages if each.get("params") == params]
        left = [each.message for each in self.requests if each.was_left]
        return any(each.get("id") in named or each in left for each in asked)

    def stumbles_at(self, method: str) -> bool:
        """Return whether the client, which ends well otherwise, ends badly after an answer."""
        asked = [each.get("method") for each in self.all_messages if is_request(each)]
        # A client that went on to something else stumbled over something else, too.
        is_last = method in asked and {*asked[asked.index(method) :]} == {method}
        return is_last and self.usual_exit_code == 0 and self.exit_code not in (0, None)

    @property
    def stateless(self) -> list[JsonObject]:
        """The requests of the client that name their revision themselves."""
        return [each for each in self.all_messages if is_request(each) and names_own_revision(each)]

    @property
    def ended_as_usual(self) -> bool:
        """Whether the client ended with the same exit code as with a correct server."""
        return self.exit_code is not None and self.exit_code == self.usual_exit_code

    def messages(self, method: str) -> list[JsonObject]:
        """Return the client's messages with this method."""
        return [message for line in self.lines for message in line.messages(method)]

    def holds(
        self,
        id: str,
        condition: object,
        why: str,
        *,
        evidence: Sequence[Evidence] | None = None,
        at: str | None = None,
        request: "ReceivedRequest | None" = None,
    ) -> bool:
        """Record whether a requirement was met; an HTTP `request` may be the evidence."""
        if request is not None and not condition:
            evidence = [_evidence_of(request)]
        return super().holds(id, condition, why, evidence=evidence, at=at)

    def last_evidence(self) -> Sequence[Evidence]:
        """Return the last messages of the last connection."""
        return self.lines[-1].log.last() if self.lines else ()

    def whole_message(self, evidence: Evidence) -> str:
        """Return the message of which an evidence may be an excerpt."""
        if not self.lines:
            return super().whole_message(evidence)
        return self.lines[-1].log.whole_message(evidence)

    def not_applicable(self, ids: str | Iterable[str], why: str) -> None:
        """Record why requirements do not apply to this client, even if they were skipped."""
        ids = [ids] if isinstance(ids, str) else list(ids)
        for id in ids:
            if id in self.found and self.found[id].verdict == "not-exercised":
                del self.found[id]
        super().not_applicable(ids, why)


def _evidence_of(request: "ReceivedRequest") -> Evidence:
    # The client may use credentials that its user needs elsewhere too.
    secrets = Secrets()
    heads = "; ".join(
        f"{name}: {secrets.header(name, each)}" for name, each in request.headers.items()
    )
    body = secrets.hide(request.body.decode(errors="replace"))[:400]
    path = secrets.hide(request.path)
    return Evidence(
        "HTTP request", "client", None, f"{request.method} {path} [{heads}] {body}"[:1000]
    )


# -- checks on the traffic of every run, and on several runs of a client together

_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "resources.list.method": ("resources/list",),
    "resources.read.method": ("resources/read", "uri"),
    "resources.templates.method": ("resources/templates/list",),
    "resources.subscribe.method": ("resources/subscribe", "uri"),
    "prompts.list.method": ("prompts/list",),
    "prompts.get.method": ("prompts/get", "name"),
    "tools.list.method": ("tools/list",),
    "tools.call.method": ("tools/call", "name"),
    "logging.set-level.method": ("logging/setLevel", "level"),
    "completion.complete.method": ("completion/complete",),
}
"""Rows that name a method, the method, and the parameter that is a string."""

PASSIVELY_CHECKED: Final = frozenset(
    {
        *_METHODS,
        "http.client.accept-both",
        "http.client.supports-both-forms",
        "http.client.post-messages",
        "http.client.protocol-version-header",
        "http.get.accept-event-stream",
        "http.get.client-may-listen",
        "http.post.body-message-or-batch",
        "http.post.each-message",
        "http.streams.multiple",
        "jsonrpc.request.answered",
        "lifecycle.initialize.first",
        "lifecycle.shutdown.http-close",
        "lifecycle.version.client-disconnects",
        "lifecycle.shutdown.stdio-close-stdin",
        "ping.response.prompt",
        "practice.list.empty-params",
        "session.end.client-delete",
        "session.id.client-echo",
        "session.id.header-name",
        "sse.client.posts-to-endpoint",
        "stdio.client.launches-server",
        "stdio.client.stdin-only-messages",
        "stdio.framing.newline-delimited",
        "stdio.framing.no-embedded-newline",
    }
)
"""The requirements that `run_passive_checks` decides."""


def run_passive_checks(run: ClientRun) -> None:
    """Judge what every run against a correct server shows."""
    _check_methods(run)
    _check_answers(run)
    if run.transport == "stdio":
        _check_lines(run)
    elif run.transport == "sse" or run.server.is_older:
        _check_posts(run)
    else:
        _check_http(run)


# -- messages


def _check_methods(run: ClientRun) -> None:
    for id, (method, *parameters) in _METHODS.items():
        for message in run.messages(method):
            params = params_of(message)
            wrong = [each for each in parameters if not isinstance(params.get(each), str)]
            run.holds(id, not wrong, f"sends {method} without a string as {wrong}")
    for message in run.messages("completion/complete"):
        argument = params_of(message).get("argument")
        given = argument if isinstance(argument, dict) else {}
        whole = isinstance(given.get("name"), str) and isinstance(given.get("value"), str)
        why = "sends completion/complete without the name and value of an argument"
        run.holds("completion.complete.method", whole, why)
    for message in run.messages("logging/setLevel"):
        level = params_of(message).get("level")
        why = f"sends logging/setLevel with {level!r:.60}, which is not a level"
        is_known = not isinstance(level, str) or level in get_args(LoggingLevel)
        run.holds("logging.set-level.method", is_known, why)
    for method in LISTS:
        for message in run.messages(method):
            # practice.list.empty-params: leaving params out means the same.
            params = message.get("params", {})
            why = f"sends {method} with parameters that are not an object"
            run.holds("practice.list.empty-params", isinstance(params, dict), why)


def _check_answers(run: ClientRun) -> None:
    for method in run.server.unanswered_methods:
        id = "ping.response.prompt" if method == "ping" else "jsonrpc.request.answered"
        run.fail(id, f"stays connected and does not answer {method}")


# -- stdio


def _check_lines(run: ClientRun) -> None:
    run.passes("stdio.client.launches-server")
    odd = [each.decode(errors="replace") for each in run.server.odd]
    unfinished = [each for each in odd if _is_whole(each)]
    glued = [each for each in odd if not _is_whole(each) and are_several(each)]
    rest = [each for each in odd if each not in unfinished and each not in glued]
    broken = bool(rest) and (_is_whole("".join(rest)) or are_several("".join(rest)))
    why = "writes messages without a newline after each"
    run.holds("stdio.framing.newline-delimited", not (unfinished or glued), why)
    why = "splits a message into several lines"
    run.holds("stdio.framing.no-embedded-newline", not broken, why)
    why = f"writes text that is not a message: {rest[0][:200] if rest else ''}"
    run.holds("stdio.client.stdin-only-messages", not rest or broken, why)
    _check_end(run)


def _check_end(run: ClientRun) -> None:
    id = "lifecycle.shutdown.stdio-close-stdin"
    if run.exit_code is None:
        run.skip(id, "the client did not end by itself")
        return
    signalled = next((each for each in run.server.events if each.startswith("signal")), None)
    before = run.server.events[: run.server.events.index(signalled)] if signalled else []
    why = f"sends {signalled} to the server before its input has ended"
    run.holds(id, signalled is None or "input ended" in before, why)


def _is_whole(text: str) -> bool:
    return isinstance(decode_json(text), dict | list)


# -- HTTP with SSE


def _check_posts(run: ClientRun) -> None:
    for request in run.requests:
        message = request.message
        if not isinstance(message, dict) or "jsonrpc" not in message:
            continue
        if request.path == run.path and request.name in ("initialize", "server/discover"):
            continue  # the client tries Streamable HTTP first
        is_right = request.method == "POST" and request.path == "/messages"
        why = f"sends a message with {request.method} to {request.path}, not to the endpoint"
        run.holds("sse.client.posts-to-endpoint", is_right, why, request=request)
    if run.exit_code is not None and run.is_initialized:
        run.passes("lifecycle.shutdown.http-close")


# -- Streamable HTTP


def _check_http(run: ClientRun) -> None:
    row = REVISIONS[run.revision]
    session: str | None = None
    opening: ReceivedRequest | None = None
    for request in run.requests:
        if request.path != run.path:
            continue
        _check_head(run, request)
        is_opening = request.name == "initialize"
        # A probe of a client of both eras belongs to no session.
        is_apart = is_opening or names_own_revision(request.message)
        if opening is not None and not is_apart and _is_after(request, opening):
            _check_session(run, request, session)
            if row.version_header:
                id = "http.client.protocol-version-header"
                given = request.headers.get("mcp-protocol-version")
                why = f"sends {request.method} {request.name or ''} with the version header {given}"
                run.holds(id, given == run.revision, why, request=request)
        if is_opening and request.status == 200:
            opening, session = request, _session_of(run, request)
        elif opening is None:
            _check_before_opening(run, request)
    if session is not None and not run.server.ids:
        _check_delete(run, session)
    if run.server.fake_transport.most_streams > 1:
        run.passes("http.streams.multiple")
    if run.exit_code is not None and run.went_on:
        run.passes("lifecycle.shutdown.http-close")


def _check_before_opening(run: ClientRun, request: "ReceivedRequest") -> None:
    """lifecycle.initialize.first: without a session the message reaches no connection."""
    is_early = request.status == 400 and names.SESSION not in request.headers
    early = [
        str(each["method"])
        for each in objects_in(request.message)
        if is_request(each) and not names_own_revision(each)
    ]
    if is_early and early and not {"initialize", "ping", "server/discover"} & {*early}:
        why = f"sends {early[0]} before initialize"
        run.holds("lifecycle.initialize.first", condition=False, why=why, request=request)


def _is_after(request: "ReceivedRequest", opening: "ReceivedRequest") -> bool:
    """Return whether the client had the answer to initialize when it sent a request."""
    return not opening.was_left and opening.ended is not None and request.at >= opening.ended


def _session_of(run: ClientRun, opening: "ReceivedRequest") -> str | None:
    """Return the session that an initialize request opened."""
    for line in run.lines:
        for message in line.received:
            if message == opening.message:
                return str(line.carrier.session)
    return None


def _check_head(run: ClientRun, request: "ReceivedRequest") -> None:
    accept = request.headers.get("accept")
    if request.method == "POST":
        run.passes("http.client.post-messages")
        both = all(accepts_type(accept, each) for each in ("application/json", CONTENT_TYPE))
        why = f"sends a POST with Accept: {accept}"
        run.holds("http.client.accept-both", both, why, request=request)
        is_message = isinstance(request.message, dict | list)
        why = "sends a POST with a body that is not one message"
        is_one = isinstance(request.message, dict)
        run.holds("http.post.each-message", is_one, why, request=request)
        why = "sends a POST with a body that is not a message"
        run.holds("http.post.body-message-or-batch", is_message, why, request=request)
    elif request.method == "GET":
        run.passes("http.get.client-may-listen")
        why = f"sends a GET with Accept: {accept}"
        listens = accepts_type(accept, CONTENT_TYPE)
        run.holds("http.get.accept-event-stream", listens, why, request=request)
    if request.method != "POST" and request.body and isinstance(request.message, dict):
        why = f"sends a message with {request.method}"
        run.holds("http.client.post-messages", condition=False, why=why, request=request)
        run.holds("http.post.each-message", condition=False, why=why, request=request)


def accepts_type(accept: str | None, content_type: str) -> bool:
    """Return whether an Accept header names a type; a range such as `*/*` does not."""
    named = {part.partition(";")[0].strip().lower() for part in (accept or "").split(",")}
    return content_type in named


def _check_session(run: ClientRun, request: "ReceivedRequest", session: str | None) -> None:
    if session is None:
        return
    given = request.headers.get(names.SESSION)
    is_right = given and given in {session, *(line.carrier.session for line in run.lines)}
    why = f"sends {request.method} {request.name or ''} with the session id {given}"
    if run.holds("session.id.client-echo", is_right, why, request=request):
        run.passes("session.id.header-name")


def _check_delete(run: ClientRun, session: str) -> None:
    id = "session.end.client-delete"
    deletes = [each for each in run.requests if each.method == "DELETE"]
    if deletes:
        named = [each.headers.get(names.SESSION) for each in deletes]
        known = {session, *(str(line.carrier.session) for line in run.lines)}
        why = "ends a session without its id"
        run.holds(id, known & {*named}, why, request=deletes[0])
    elif run.exit_code != 0 or not run.is_initialized:
        run.skip(id, "the client did not end in an orderly way")
    else:
        run.fail(id, "ends without deleting its session")


def _check_disconnects(runs: Sequence[ClientRun]) -> None:
    """lifecycle.version.client-disconnects: it left servers with an unknown revision."""
    for run in runs:
        is_correct = not run.server.ids and run.server.is_judged
        if is_correct and run.lines and not run.is_initialized and not run.was_connected:
            run.passes("lifecycle.version.client-disconnects")


def _check_fallback(runs: Sequence[ClientRun]) -> None:
    """http.compat.sse-fallback: a client that falls back does so on every status."""
    tried = [run for run in runs if run.server.is_older]
    fallen = [run for run in tried if any(each.method == "GET" for each in run.requests)]
    for run in tried:
        for id in run.server.ids:
            if not fallen:
                run.not_applicable(id, "the client does not support servers with HTTP and SSE")
                continue
            did = f"fall back to HTTP with SSE on status {run.server.refusal}"
            run.holds(id, run in fallen, f"does not {did}, but on others")


def _check_both_forms(runs: Sequence[ClientRun]) -> None:
    """http.client.supports-both-forms: it continues with JSON and with event streams."""
    id = "http.client.supports-both-forms"
    streamed = [run for run in runs if id in run.server.ids]
    whole = [run for run in runs if not run.server.ids and not run.server.streams]
    for run in streamed:
        same = [each for each in whole if each.server.revision == run.server.revision]
        if any(each.went_on for each in same):
            run.holds(id, run.went_on, "does not continue when answers are event streams")
        elif run.went_on:
            run.fail(id, "does not continue when answers are JSON")


CrossRunCheck: TypeAlias = Callable[[Sequence[ClientRun]], None]
CROSS_RUN_CHECKS: Final[list[CrossRunCheck]] = [
    _check_disconnects,
    _check_fallback,
    _check_both_forms,
]


COMPARED: Final[set[str]] = set()
"""The requirements that further comparisons of runs decide."""


def cross_run_check(*ids: str) -> Callable[[CrossRunCheck], CrossRunCheck]:
    """Register a function that compares the runs of a client, and decides these requirements."""

    def register(check: CrossRunCheck) -> CrossRunCheck:
        CROSS_RUN_CHECKS.append(check)
        COMPARED.update(ids)
        return check

    return register

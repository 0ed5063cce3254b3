"""Checks on the traffic of every run, and on several runs of a client together."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.bindings import headers as names
from accord.check.fake_server.client_run import ClientRun
from accord.protocol.revisions import REVISIONS

if TYPE_CHECKING:
    from accord.check.fake_server.http_transport import ReceivedRequest

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
        "http.client.post-messages",
        "http.client.protocol-version-header",
        "http.get.accept-event-stream",
        "http.get.client-may-listen",
        "http.post.body-message-or-batch",
        "http.streams.multiple",
        "jsonrpc.request.answered",
        "lifecycle.shutdown.http-close",
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
"""The requirements that `observe` decides."""

_LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


def run_passive_checks(show: ClientRun) -> None:
    """Judge what can be seen in any run against a server that keeps the rules."""
    _observe_methods(show)
    _observe_answers(show)
    if show.transport == "stdio":
        _observe_lines(show)
    elif show.transport == "sse" or show.server.is_older:
        _observe_posts(show)
    else:
        _observe_http(show)


# -- messages


def _observe_methods(show: ClientRun) -> None:
    for id, (method, *parameters) in _METHODS.items():
        for message in show.received(method):
            params = _params(message)
            wrong = [each for each in parameters if not isinstance(params.get(each), str)]
            show.holds(id, not wrong, f"sends {method} without a string as {wrong}")
    for message in show.received("completion/complete"):
        argument = _params(message).get("argument")
        given = argument if isinstance(argument, dict) else {}
        whole = isinstance(given.get("name"), str) and isinstance(given.get("value"), str)
        why = "sends completion/complete without the name and value of an argument"
        show.holds("completion.complete.method", whole, why)
    for method in _LISTS:
        for message in show.received(method):
            # practice.list.empty-params: params that are left out say the same.
            params = message.get("params", {})
            why = f"sends {method} with parameters that are no object"
            show.holds("practice.list.empty-params", isinstance(params, dict), why)


def _observe_answers(show: ClientRun) -> None:
    for method in show.server.unanswered_methods:
        id = "ping.response.prompt" if method == "ping" else "jsonrpc.request.answered"
        show.fail(id, f"stays connected, and does not answer {method}")


def _params(message: Mapping[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


# -- stdio


def _observe_lines(show: ClientRun) -> None:
    show.passes("stdio.client.launches-server")
    odd = [each.decode(errors="replace") for each in show.server.odd]
    unfinished = [each for each in odd if _is_whole(each)]
    glued = [each for each in odd if not _is_whole(each) and _are_several(each)]
    rest = [each for each in odd if each not in unfinished and each not in glued]
    broken = bool(rest) and _is_whole("".join(rest))
    show.holds(
        "stdio.framing.newline-delimited",
        not (unfinished or glued),
        "writes messages without a newline after each",
    )
    show.holds(
        "stdio.framing.no-embedded-newline", not broken, "breaks a message into several lines"
    )
    show.holds(
        "stdio.client.stdin-only-messages",
        not rest or broken,
        f"writes what is no message: {rest[0][:200] if rest else ''}",
    )
    _observe_end(show)


def _observe_end(show: ClientRun) -> None:
    id = "lifecycle.shutdown.stdio-close-stdin"
    if show.exit_code is None:
        show.skip(id, "the client did not end by itself")
        return
    signalled = next((each for each in show.server.events if each.startswith("signal")), None)
    before = show.server.events[: show.server.events.index(signalled)] if signalled else []
    show.holds(
        id,
        signalled is None or "input ended" in before,
        f"sends {signalled} to the server before it closes its input",
    )


def _is_whole(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _are_several(text: str) -> bool:
    """Tell whether this is one JSON object after another."""
    from json import JSONDecodeError, JSONDecoder

    place, found = 0, 0
    while place < len(text):
        try:
            value, place = JSONDecoder().raw_decode(text, place)
        except (JSONDecodeError, RecursionError):
            return False
        if not isinstance(value, dict):
            return False
        found += 1
        while place < len(text) and text[place].isspace():
            place += 1
    return found > 1


# -- HTTP with SSE


def _observe_posts(show: ClientRun) -> None:
    for asked in show.requests:
        message = asked.message
        if not isinstance(message, dict) or "jsonrpc" not in message:
            continue
        if asked.path == show.path and asked.name in ("initialize", "server/discover"):
            continue  # whether the server speaks the newer form
        show.holds(
            "sse.client.posts-to-endpoint",
            asked.method == "POST" and asked.path == "/messages",
            f"sends a message with {asked.method} to {asked.path}, not to the endpoint",
            asked=asked,
        )
    if show.exit_code is not None and show.is_initialized:
        show.passes("lifecycle.shutdown.http-close")


# -- Streamable HTTP


def _observe_http(show: ClientRun) -> None:
    row = REVISIONS[show.revision]
    session: str | None = None
    opening: ReceivedRequest | None = None
    for asked in show.requests:
        if asked.path != show.path:
            continue
        _observe_head(show, asked)
        is_opening = asked.name == "initialize"
        if opening is not None and not is_opening and _is_after(asked, opening):
            _observe_session(show, asked, session)
            if row.version_header:
                given = asked.headers.get("mcp-protocol-version")
                show.holds(
                    "http.client.protocol-version-header",
                    given == show.revision,
                    f"sends {asked.method} {asked.name or ''} with the version header {given}",
                    asked=asked,
                )
        if is_opening and asked.status == 200:
            opening, session = asked, _session_of(show, asked)
    if session is not None and not show.server.ids:
        _observe_delete(show, session)
    if show.most_streams > 1:
        show.passes("http.streams.multiple")
    if show.exit_code is not None and show.is_initialized:
        show.passes("lifecycle.shutdown.http-close")


def _is_after(asked: "ReceivedRequest", opening: "ReceivedRequest") -> bool:
    """Tell whether the client had the answer to initialize when it sent a request."""
    return not opening.was_left and opening.ended is not None and asked.at >= opening.ended


def _session_of(show: ClientRun, opening: "ReceivedRequest") -> str | None:
    """Return the session that an initialize request began."""
    for line in show.lines:
        for message in line.received:
            if message == opening.message:
                return str(line.carrier.session) if line.carrier.session else None
    return None


def _observe_head(show: ClientRun, asked: "ReceivedRequest") -> None:
    accept = asked.headers.get("accept")
    if asked.method == "POST":
        show.passes("http.client.post-messages")
        both = accepts_type(accept, "application/json") and accepts_type(
            accept, "text/event-stream"
        )
        show.holds(
            "http.client.accept-both", both, f"sends a POST with Accept: {accept}", asked=asked
        )
        show.holds(
            "http.post.body-message-or-batch",
            isinstance(asked.message, dict | list),
            "sends a POST whose body is no message",
            asked=asked,
        )
    elif asked.method == "GET":
        show.passes("http.get.client-may-listen")
        why = f"sends a GET with Accept: {accept}"
        listens = accepts_type(accept, "text/event-stream")
        show.holds("http.get.accept-event-stream", listens, why, asked=asked)
    elif asked.body and isinstance(asked.message, dict):
        why = f"sends a message with {asked.method}"
        show.holds("http.client.post-messages", condition=False, why=why, asked=asked)


def accepts_type(accept: str | None, content_type: str) -> bool:
    """Tell whether an Accept header names a type; a range such as `*/*` does not name it."""
    named = {part.partition(";")[0].strip().lower() for part in (accept or "").split(",")}
    return content_type in named


def _observe_session(show: ClientRun, asked: "ReceivedRequest", session: str | None) -> None:
    if session is None:
        return
    given = asked.headers.get(names.SESSION)
    kept = show.holds(
        "session.id.client-echo",
        given == session or _was_session(show, given),
        f"sends {asked.method} {asked.name or ''} with the session id {given}",
        asked=asked,
    )
    if kept:
        show.passes("session.id.header-name")


def _observe_delete(show: ClientRun, session: str) -> None:
    id = "session.end.client-delete"
    if any(each.method == "DELETE" for each in show.requests):
        named = [each.headers.get(names.SESSION) for each in show.requests]
        show.holds(id, session in named, "ends a session without its id")
    elif show.exit_code != 0 or not show.is_initialized:
        show.skip(id, "the client did not end in an orderly way")
    else:
        show.fail(id, "ends, and leaves its session to the server")


def _was_session(show: ClientRun, given: str | None) -> bool:
    return any(line.carrier.session == given for line in show.lines if given)


def _keeps_out_of_unspoken(shows: Sequence[ClientRun]) -> None:
    """lifecycle.version.client-disconnects: what it did not agree to, it left."""
    for show in shows:
        is_well = not show.server.ids and show.server.is_judged
        if is_well and show.lines and not show.is_initialized and not show.was_connected:
            show.passes("lifecycle.version.client-disconnects")


def _falls_back_always(shows: Sequence[ClientRun]) -> None:
    """http.compat.sse-fallback: on one status and not on another is half a fallback."""
    tried = [show for show in shows if show.server.is_older]
    fallen = [show for show in tried if any(each.method == "GET" for each in show.requests)]
    for show in tried:
        for id in show.server.ids:
            if not fallen:
                show.not_applicable(id, "the client does not speak to servers of the older form")
                continue
            why = f"does not fall back to HTTP with SSE on {show.server.refusal}, on others it does"
            show.holds(id, show in fallen, why)


def _takes_both_forms(shows: Sequence[ClientRun]) -> None:
    """http.client.supports-both-forms: what goes on with one form goes on with the other."""
    id = "http.client.supports-both-forms"
    streamed = [show for show in shows if id in show.server.ids]
    whole = [show for show in shows if not show.server.ids and not show.server.streams]
    for show in streamed:
        same = [each for each in whole if each.server.revision == show.server.revision]
        if any(each.is_initialized for each in same):
            show.holds(
                id, show.is_initialized, "does not go on where answers come as event streams"
            )
        elif show.is_initialized:
            show.fail(id, "does not go on where answers come as JSON")


CONCLUSIONS: Final[tuple[Callable[[Sequence[ClientRun]], None], ...]] = (
    _keeps_out_of_unspoken,
    _falls_back_always,
    _takes_both_forms,
)

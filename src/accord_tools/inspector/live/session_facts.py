"""What the page shows about a session: its server, its state, its settings.

A session may be a live connection, or only observed: a recording, or watched traffic.
"""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.http.rules.headers import check_headers
from accord.protocol.exchange import META_CAPABILITIES
from accord.protocol.revisions import REVISIONS
from accord.secrets.filter import display_command, display_target
from accord.types import REVISION_IDS, JsonObject, RevisionId
from accord_tools.inspector.actions import READ, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.capture import Captured
from accord_tools.inspector.live.live_connection import LinkSettings, LiveConnection
from accord_tools.inspector.live.page_questions import AskedQuestions
from accord_tools.inspector.live.subscriptions import WatchedResources
from accord_tools.inspector.live.texts import show_text
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.log.trace_session import TraceReading
from accord_tools.inspector.log.watched import WatchedTraffic
from accord_tools.inspector.target_access import given_variables, reload_folders

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


class _Params(msgspec.Struct):
    capabilities: msgspec.Raw = msgspec.Raw(b"")
    meta: dict[str, msgspec.Raw] = msgspec.field(name="_meta", default_factory=dict)


class _Request(msgspec.Struct):
    params: _Params = msgspec.field(default_factory=_Params)


class _Result(msgspec.Struct):
    capabilities: msgspec.Raw = msgspec.Raw(b"{}")


def live_facts(session: "InspectedSession") -> JsonObject:
    """Return the facts about a live session."""
    connection = session.part(LiveConnection)
    target, settings = session.target, connection.settings
    client = connection.current
    server: Any = None
    if client is not None:
        server = msgspec.json.decode(msgspec.json.encode(client.server_info))
    failure, hide = connection.failure, connection.hide
    return {
        "title": target.name,
        "kind": session.kind,
        "transport": _transport(session),
        "state": connection.state,
        "error": None
        if failure is None
        else {
            "message": hide(failure.message),
            "advice": failure.advice,
            "stderr": [hide(each) for each in failure.stderr],
        },
        "note": hide(connection.note),
        "at": connection.began,
        "started_seconds": connection.started_seconds,
        "revision": None if client is None else client.revision,
        "chosen": settings.revision,
        "revisions": list(REVISIONS),
        "server": server,
        "instructions": None if client is None else client.instructions,
        "server_capabilities": _server_capabilities(connection.opening),
        "client_capabilities": _client_capabilities(connection.opening),
        **_launch_facts(session),
        "timeout": settings.timeout,
        "reloads": bool(reload_folders(session)),
        "log_level": session.part(WatchedResources).level,
        "unanswered": len(session.part(AskedQuestions)),
        "counters": msgspec.to_builtins(session.part(InspectedLog).counters),
        "can_send": client is not None,
        "sign_in": failure is not None and failure.is_about_access,
    }


def _transport(session: "InspectedSession") -> str:
    if not session.target.url:
        return "stdio"
    main = session.part(InspectedLog).main
    return "http" if main is None else str(main.transport)


def _launch_facts(session: "InspectedSession") -> JsonObject:
    target, settings = session.target, session.part(LiveConnection).settings
    return {
        "command": display_command(target.command) if target.command else None,
        "env": sorted(given_variables(target)),
        "cwd": target.cwd,
        "url": display_target(target.url) if target.url else "",
        "headers": sorted({*target.headers, *(name for name, _ in settings.headers)}),
    }


def _client_capabilities(opening: Captured) -> str:
    found = opening.last("initialize", "server/discover")
    if found is None:
        return "{}"
    try:
        params = msgspec.json.decode(found.request, type=_Request).params
    except msgspec.MsgspecError:
        return "{}"
    raw = params.meta.get(META_CAPABILITIES, params.capabilities)
    return show_text(bytes(raw)) or "{}"


def _server_capabilities(opening: Captured) -> str:
    found = opening.last("initialize", "server/discover")
    result = None if found is None else found.result
    if result is None:
        return "{}"
    try:
        return show_text(bytes(msgspec.json.decode(result, type=_Result).capabilities))
    except msgspec.MsgspecError:
        return "{}"


# For a file without a single record.
_NO_RECORDING: Final = (
    "name a recording, as accord inspect --record or accord watch --record writes them"
)


def observed_facts(session: "InspectedSession") -> JsonObject:
    """Return the facts about a session in the shape of the action `session.get`."""
    log, target = session.part(InspectedLog), session.target
    main = log.main
    opening = None if main is None else main.opening
    unknown = (target.transport or "http") if target.url else "stdio"
    return {
        "title": target.name,
        "kind": session.kind,
        "transport": unknown if main is None else main.transport,
        **_state(session),
        "at": None if opening is None else opening.began_at,
        "started_seconds": None if opening is None else opening.took,
        "revision": None if main is None else main.revision,
        "chosen": None,
        "revisions": list(REVISION_IDS),
        "server": None if opening is None else opening.server,
        "client": None if opening is None else opening.client,
        "instructions": None if opening is None else opening.instructions or None,
        "server_capabilities": "{}" if opening is None else opening.server_capabilities or "{}",
        "client_capabilities": "{}" if opening is None else opening.client_capabilities or "{}",
        "command": display_command(target.command) if target.command else None,
        "env": sorted(given_variables(target)),
        "cwd": target.cwd,
        "url": display_target(target.url) if target.url else "",
        "headers": sorted(target.headers),
        "timeout": 0.0,
        "reloads": False,
        "log_level": None,
        "unanswered": 0 if main is None else main.unanswered_count,
        "counters": msgspec.to_builtins(log.counters),
        "can_send": False,
        "sign_in": False,
    }


def _state(session: "InspectedSession") -> JsonObject:
    if session.kind == "watch":
        traffic = session.part(WatchedTraffic)
        return {"state": traffic.state, "error": _error(traffic.error), "note": traffic.note}
    reading = session.part(TraceReading)
    advice = "the rows before the mistake are shown" if reading.count else _NO_RECORDING
    note = f"{reading.count} records read so far" if reading.state == "reading" else ""
    return {"state": reading.state, "error": _error(reading.error, advice), "note": note}


def _error(message: str, advice: str = "") -> JsonObject | None:
    return {"message": message, "advice": advice, "stderr": []} if message else None


# -- actions of the page


_TIMEOUT_MOST: Final = 24 * 3600.0
_HEADERS_MOST: Final = 50


@action("session.get", kinds=READ)
async def get_session(session: "InspectedSession") -> object:
    """Return what is known about the session."""
    if session.kind == "live":
        return live_facts(session)
    return observed_facts(session)


@action("session.connect")
async def connect_session(
    session: "InspectedSession",
    *,
    revision: str | msgspec.UnsetType | None = msgspec.UNSET,
    timeout: float | None = None,
    headers: list[tuple[str, str]] | None = None,
) -> None:
    """Connect anew with changed settings."""
    connection = session.part(LiveConnection)
    before = connection.settings
    asked = before.revision if revision is msgspec.UNSET else _read_revision(revision)
    timeout = before.timeout if timeout is None else timeout
    if not 0 < timeout <= _TIMEOUT_MOST:
        raise ActionRefused(
            f"a timeout is above 0 and at most {_TIMEOUT_MOST:g} s", field="timeout"
        )
    kept = before.headers if headers is None else _read_headers(session, headers)
    connection.note = ""
    connection.connect(LinkSettings(revision=asked, timeout=timeout, headers=kept))


def _read_revision(given: str | None) -> RevisionId | None:
    if not given:
        return None
    found = next((each for each in REVISION_IDS if each == given), None)
    if found is None:
        raise ActionRefused(f"the revisions are {', '.join(REVISION_IDS)}", field="revision")
    return found


def _read_headers(
    session: "InspectedSession", given: list[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    if not session.target.url:
        raise ActionRefused("a launched server has no HTTP headers", field="headers")
    if len(given) > _HEADERS_MOST:
        raise ActionRefused(f"there may be {_HEADERS_MOST} headers at most", field="headers")
    try:
        check_headers(dict(given))
    except (TypeError, ValueError) as error:
        raise ActionRefused(str(error), field="headers") from None
    return tuple((name, value) for name, value in given)


@action("session.disconnect")
async def disconnect_session(session: "InspectedSession") -> None:
    """End the connection."""
    session.part(LiveConnection).disconnect()


@action("session.restart")
async def restart_session(session: "InspectedSession") -> None:
    """Connect again; a launched server is started anew."""
    session.part(LiveConnection).restart()

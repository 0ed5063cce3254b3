"""The facts about a session that the inspector only observes: a recording, or watched traffic."""

from typing import TYPE_CHECKING, Final

import msgspec

from accord.types import REVISION_IDS, JsonObject
from accord_tools.check.probing.secret_filter import display_target
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.log.trace_session import TraceReading
from accord_tools.inspector.log.watched import WatchedTraffic
from accord_tools.inspector.target_access import given_variables, mask_command

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession

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
        "title": target.title,
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
        "command": mask_command(target.command) if target.command else None,
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

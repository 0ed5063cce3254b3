"""The actions of the pane for raw messages."""

import msgspec

from accord.types import RevisionId
from accord_tools.inspector.actions import Nothing, action
from accord_tools.inspector.raw.console import RawConsole
from accord_tools.inspector.raw.lines import HttpMethod
from accord_tools.inspector.session import InspectedSession


@action("raw.get")
async def get_raw(session: InspectedSession, params: Nothing) -> object:
    """Return the state of the raw connection, and the templates for it."""
    console = session.part(RawConsole)
    return {
        "state": console.state,
        "reason": console.reason,
        "conversation": console.conversation,
        "transport": console.transport,
        "revision": console.revision,
        "templates": console.templates(),
    }


class OpenRaw(msgspec.Struct):
    """How a raw connection begins."""

    handshake: bool = True
    revision: RevisionId | None = None


@action("raw.open")
async def open_raw(session: InspectedSession, params: OpenRaw) -> object:
    """Begin to open a raw connection."""
    await session.part(RawConsole).open(handshake=params.handshake, revision=params.revision)
    return {}


class SendRaw(msgspec.Struct):
    """A message as a person typed it."""

    text: str
    headers: list[tuple[str, str | None]] = []
    http_method: HttpMethod | None = None


@action("raw.send")
async def send_raw(session: InspectedSession, params: SendRaw) -> object:
    """Send a text as it is."""
    await session.part(RawConsole).send(params.text, params.headers, params.http_method or "POST")
    return {}


@action("raw.close")
async def close_raw(session: InspectedSession, params: Nothing) -> object:
    """Close the raw connection."""
    await session.part(RawConsole).shut()
    return {}

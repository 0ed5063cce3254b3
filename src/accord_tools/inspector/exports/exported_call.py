"""A call to export: one of this session, or one of the history."""

import asyncio

import msgspec

from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.history.call_history import CallHistory, find_entry
from accord_tools.inspector.history.call_record import mask_part
from accord_tools.inspector.session import InspectedSession


class CallReference(msgspec.Struct):
    """Names a call: of this session, or of the history."""

    call: str | None = None
    history: int | None = None


class ExportedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call without secrets.

    Attributes:
        kind: tool, resource, prompt or request.
        name: what was called.
        arguments: JSON text.
        response: JSON text; empty without an answer.
        is_complete: whether nothing of the response was cut off.
        revision: what was spoken.
        title: names the call for people.
        masked: JSON pointers of arguments that were masked.
    """

    kind: str
    name: str
    arguments: str
    response: str
    is_complete: bool
    revision: str
    title: str
    masked: list[str] = []


async def find_call(session: InspectedSession, reference: CallReference) -> ExportedCall:
    """Return the call that is meant.

    Raises:
        ActionRefused: it does not exist.
    """
    if reference.history is not None:
        entry = await find_entry(session, reference.history)
        return ExportedCall(
            kind=entry.kind,
            name=entry.name,
            arguments=entry.arguments,
            response=entry.response,
            is_complete="response" not in entry.cut,
            revision=entry.revision,
            title=f"{entry.name}, history {entry.id}",
            masked=entry.masked,
        )
    if reference.call is None:
        raise ActionRefused("name a call, or an entry of the history")
    from accord_tools.inspector.live.calls import Calls

    found = session.part(Calls).find(reference.call)
    secrets = session.part(CallHistory).secrets
    response = found.response
    given = found.arguments or "{}"
    came = b"" if response is None else response
    # Long texts take a while.
    arguments = await asyncio.to_thread(mask_part, secrets, given, len(given) * 2 + 1000)
    shown = await asyncio.to_thread(secrets.hide, came.decode(errors="replace"))
    return ExportedCall(
        kind=found.kind,
        name=found.name,
        arguments=arguments.text,
        response=shown,
        is_complete=True,
        revision=found.revision,
        title=f"{found.name}, call {found.id}",
        masked=arguments.masked,
    )

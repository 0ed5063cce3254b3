"""Actions of the page that call tools, read resources, fill in prompts and send requests."""

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from accord.errors import AccordError
from accord.types import PromptReference, ResourceTemplateReference
from accord_tools.inspector.actions import Nothing, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.calls import TIMES_MOST, Calls
from accord_tools.inspector.live.connection import LiveConnection

if TYPE_CHECKING:
    from accord_tools.inspector.live.call_state import Call
    from accord_tools.inspector.session import InspectedSession


class ToolParams(msgspec.Struct):
    """A call of a tool."""

    name: str
    arguments: str = "{}"
    meta: str | None = None
    timeout: float | None = None
    as_task: bool = False
    confirmed: bool = False
    times: Annotated[int, msgspec.Meta(ge=1, le=TIMES_MOST)] = 1


@action("calls.tool")
async def call_tool(session: "InspectedSession", params: ToolParams) -> object:
    """Call a tool, or ask first whether it may be called."""
    calls = session.part(Calls)
    reason = calls.confirm(params.name, is_confirmed=params.confirmed)
    if reason:
        return {"confirm": reason}

    def start() -> "Call":
        return calls.tool(
            params.name,
            params.arguments,
            meta=params.meta or "",
            timeout=params.timeout,
            as_task=params.as_task,
        )

    if params.times > 1:
        return {"ids": calls.repeat(params.times, start)}
    return {"id": start().id}


class ReadParams(msgspec.Struct):
    """A resource."""

    uri: str


@action("calls.read")
async def read_resource(session: "InspectedSession", params: ReadParams) -> object:
    """Read a resource."""
    return {"id": session.part(Calls).read(params.uri).id}


class PromptParams(msgspec.Struct):
    """A prompt and its arguments."""

    name: str
    arguments: str = "{}"


@action("calls.prompt")
async def get_prompt(session: "InspectedSession", params: PromptParams) -> object:
    """Fill in a prompt."""
    return {"id": session.part(Calls).prompt(params.name, params.arguments).id}


class RequestParams(msgspec.Struct):
    """A request of any method."""

    method: str
    params: str = ""


@action("calls.request")
async def send_request(session: "InspectedSession", params: RequestParams) -> object:
    """Send a request of any method."""
    return {"id": session.part(Calls).request(params.method, params.params).id}


class CallParams(msgspec.Struct):
    """A call."""

    id: str


class ShownCall(msgspec.Struct):
    """A call, and whether masked values are wanted."""

    id: str
    reveal: bool = False


@action("calls.list")
async def list_calls(session: "InspectedSession", params: Nothing) -> object:
    """Return the newest calls."""
    return {"calls": session.part(Calls).snapshot()}


@action("calls.get")
async def get_call(session: "InspectedSession", params: ShownCall) -> object:
    """Return everything about a call."""
    return session.part(Calls).describe(params.id, is_revealed=params.reveal)


@action("calls.cancel")
async def cancel_call(session: "InspectedSession", params: CallParams) -> object:
    """Cancel a call."""
    session.part(Calls).cancel(params.id)
    return {}


class SpreadParams(msgspec.Struct):
    """Calls that are compared."""

    ids: list[str]


@action("calls.spread")
async def get_spread(session: "InspectedSession", params: SpreadParams) -> object:
    """Return how long some calls took."""
    return session.part(Calls).spread(params.ids)


class CompletionParams(msgspec.Struct):
    """What was typed of an argument."""

    kind: Literal["prompt", "template"]
    name: str
    argument: str
    value: str
    context: dict[str, str] = {}


@action("calls.complete")
async def complete_argument(session: "InspectedSession", params: CompletionParams) -> object:
    """Return suggestions of the server for an argument."""
    client = session.part(LiveConnection).client
    is_prompt = params.kind == "prompt"
    ref = PromptReference(params.name) if is_prompt else ResourceTemplateReference(params.name)
    try:
        found = await client.complete(
            ref, params.argument, params.value, context=params.context or None
        )
    except AccordError as error:
        raise ActionRefused(str(error)) from None
    return {"values": found.values, "total": found.total, "has_more": bool(found.has_more)}

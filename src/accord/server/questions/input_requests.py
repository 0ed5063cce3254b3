"""Questions to the client: how they are built, and what is checked before they leave."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, get_args

from accord.errors import ElicitationRefused, LocalProtocolError, MissingCapability, refuse_unknown
from accord.protocol.party import Peer
from accord.protocol.questions import find_tool_fault
from accord.protocol.revisions import Revision
from accord.protocol.shape import derive, narrow
from accord.server.questions.channels import missing_capability
from accord.types import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    ModelPreferences,
    SamplingCapability,
    SamplingMessage,
    TaskMetadata,
    TextContent,
    Tool,
    ToolChoice,
)

if TYPE_CHECKING:
    from accord.server.core import ServerCore

Message: TypeAlias = str | SamplingMessage | CreateMessageResult
"""A message to a model: text of the user, any message, or an earlier answer of the model."""

OfferedTool: TypeAlias = Tool | str | Callable[..., object]
"""A tool for a model: its description, or the name or function of a registered tool."""

ToolChoiceMode: TypeAlias = Literal["auto", "required", "none"]
IncludedContext: TypeAlias = Literal["none", "thisServer", "allServers"]


class SamplingOptions(TypedDict, total=False):
    """Options of `Context.sample`.

    Attributes:
        temperature: how freely the model may answer.
        stop_sequences: texts at which it stops.
        preferences: what matters in the choice of the model.
        tools: the tools that it may use: each a `Tool`, or the name or function of a registered
            tool. The model only says what to call, in `tool_uses` of the result.
        tool_choice: whether it may ("auto"), must ("required") or must not ("none") use them.
        include_context: the servers whose context the client adds. Deprecated by the protocol.
        task: whether the client may answer later, as a task; where it cannot, it answers at once.
    """

    temperature: float | None
    stop_sequences: list[str] | None
    preferences: ModelPreferences | None
    tools: Iterable[OfferedTool] | None
    tool_choice: ToolChoiceMode | None
    include_context: IncludedContext | None
    task: bool


# -- sampling


def build_sampling(
    messages: Message | Sequence[Message],
    options: SamplingOptions,
    *,
    max_tokens: int,
    server: "ServerCore",
    peer: Peer,
) -> CreateMessageParams:
    """Build a question for the client's model.

    Raises:
        TypeError: an option does not exist, or a message or tool is of another type.
        ValueError: a tool is not registered, a tool use is not answered, a result is out of place.
        MissingCapability: the client did not declare what the question needs.
    """
    refuse_unknown("sample()", options, SamplingOptions.__annotations__)
    is_one = isinstance(messages, str | SamplingMessage | CreateMessageResult)
    several: Iterable[object] = [messages] if is_one else messages  # type: ignore[assignment]
    tools, mode = options.get("tools"), options.get("tool_choice")
    if mode is not None and mode not in get_args(ToolChoiceMode):
        raise ValueError(f'tool_choice is {mode!r}, expected "auto", "required" or "none"')
    params = CreateMessageParams(
        messages=[_read_message(each) for each in several],
        max_tokens=max_tokens,
        include_context=options.get("include_context"),
        temperature=options.get("temperature"),
        stop_sequences=options.get("stop_sequences"),
        model_preferences=options.get("preferences"),
        tools=None if tools is None else [_find_tool(server, each) for each in tools],
        tool_choice=None if mode is None else ToolChoice(mode),
        task=TaskMetadata() if options.get("task") and peer.revision.tasks else None,
    )
    fault = find_tool_fault(params.messages)
    if fault is not None:
        raise ValueError(f"the client would refuse these messages: {fault}")
    check_declared(params, peer)
    return params


def _read_message(given: object) -> SamplingMessage:
    if isinstance(given, SamplingMessage):
        return given
    if isinstance(given, CreateMessageResult):
        return SamplingMessage(given.role, given.content, meta=given.meta)
    if not isinstance(given, str):
        raise TypeError(f"a message is text or a SamplingMessage, not a {type(given).__name__}")
    return SamplingMessage("user", TextContent(given))


def _find_tool(server: "ServerCore", given: object) -> Tool:
    if isinstance(given, Tool):
        return given
    if isinstance(given, str):
        entry = server.tool_entries.get(given)
    elif callable(given):
        entry = next((each for each in server.tool_entries if each.function == given), None)
    else:
        raise TypeError(
            f"a tool for the model is a Tool, or the name or function of a registered tool, not a "
            f"{type(given).__name__}"
        )
    if entry is None:
        raise ValueError(f"{given!r} is not a registered tool; give a Tool that describes it")
    tool: Tool = entry.item
    return tool


def check_declared(params: CreateMessageParams, peer: Peer) -> None:
    """Refuse tools and context that the client did not declare, or cannot know."""
    members = derive(SamplingCapability, peer.revision.id).__struct_fields__
    if params.tools is not None or params.tool_choice is not None:
        # sampling.tools.not-without-capability
        if "tools" not in members:
            raise MissingCapability(f"revision {peer.revision.id} has no tools in sampling")
        if "sampling.tools" not in peer.capabilities:
            raise missing_capability("sampling.tools")
    # sampling.context.needs-capability: before there was the capability, context needed none.
    asks_for_context = params.include_context not in (None, "none")
    if asks_for_context and "context" in members and "sampling.context" not in peer.capabilities:
        raise missing_capability("sampling.context")


# -- elicitation


def refuse_later_mode(
    params: ElicitParams,
    revision: Revision,
    what: str = "form for a choice of several values; ask for one",
) -> None:
    """Refuse a question that a revision cannot carry.

    Raises:
        MissingCapability: it cannot; the message names what it lacks.
    """
    if not revision.rounds and "elicitation/create" not in revision.requests["server"]:
        return  # which is refused as such
    try:
        narrow(params, revision.id)
    except LocalProtocolError:
        raise MissingCapability(f"revision {revision.id} has no {what}") from None


def check_accepted(result: object) -> ElicitResult:
    """Return the answer of a user who agreed.

    Raises:
        ElicitationRefused: the user did not.
    """
    assert isinstance(result, ElicitResult)
    if result.action != "accept":
        raise ElicitationRefused("cancel" if result.action == "cancel" else "decline")
    return result

"""What servers ask of clients: roots, sampling, elicitation, and all three as parts of a result.

In revisions without requests of the server, questions stand in the result of a request, and their
answers in the request that repeats it.
"""

# ruff: noqa: PYI064  # without the literal, type checkers take any text for a keyword

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NewType, TypeAlias

import msgspec

from accord.types._base import (
    EmptyParams,
    Item,
    JsonObject,
    Params,
    QuestionBody,
    Role,
    Struct,
    TaskMetadata,
    must_send,
    only,
    since,
    was,
)
from accord.types.content import SamplingContentBlock, TextContent, ToolUseContent
from accord.types.server_features import Tool

__all__ = [
    "CreateMessageParams",
    "CreateMessageRequest",
    "CreateMessageResult",
    "ElicitParams",
    "ElicitRequest",
    "ElicitResult",
    "ElicitationCompleteParams",
    "ElicitedScalars",
    "ElicitedValue",
    "FormSchema",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "ListRootsRequest",
    "ListRootsResult",
    "ModelHint",
    "ModelPreferences",
    "Root",
    "SamplingContent",
    "SamplingMessage",
    "ToolChoice",
    "UrlElicitationData",
]


class Root(Item):
    """One place, as a file URI."""

    uri: str
    name: str | None = None


class ListRootsResult(QuestionBody):
    """All roots."""

    roots: list[Root]


SamplingContent: TypeAlias = SamplingContentBlock | list[SamplingContentBlock]


class ModelHint(Struct):
    """Part of a model's name."""

    name: str | None = None


class ModelPreferences(Struct):
    """What matters in the choice of a model; priorities from 0 to 1."""

    hints: list[ModelHint] | None = None
    cost_priority: int | float | None = None
    speed_priority: int | float | None = None
    intelligence_priority: int | float | None = None


@since("2025-11-25")
class ToolChoice(Struct):
    """Whether the model may, must or must not use tools."""

    mode: Literal["auto", "required", "none"] | None = None


class SamplingMessage(Struct):
    """One message to or from a model."""

    role: Role
    content: Annotated[SamplingContent, was(SamplingContentBlock, until="2025-06-18")]
    meta: Annotated[JsonObject | None, since("2025-11-25")] = msgspec.field(
        name="_meta", default=None
    )


class CreateMessageParams(QuestionBody):
    """Ask the model."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: int | float | None = None
    stop_sequences: list[str] | None = None
    model_preferences: ModelPreferences | None = None
    metadata: JsonObject | None = None
    tools: Annotated[list[Tool] | None, since("2025-11-25")] = None
    tool_choice: ToolChoice | None = None
    task: TaskMetadata | None = None


class CreateMessageResult(Struct):
    """What the model said. `stop_reason` is always sent."""

    role: Role
    content: Annotated[SamplingContent, was(SamplingContentBlock, until="2025-06-18")]
    model: str
    stop_reason: str = msgspec.field(default_factory=lambda: "endTurn")
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)

    @property
    def text(self) -> str:
        """All text blocks, one per line."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextContent))

    @property
    def tool_uses(self) -> list[ToolUseContent]:
        """The tools that the model wants to have called, in its order."""
        return [block for block in self.blocks if isinstance(block, ToolUseContent)]

    @property
    def blocks(self) -> list[SamplingContentBlock]:
        """The content as a list, also where it is one block."""
        return self.content if isinstance(self.content, list) else [self.content]


ElicitedValue: TypeAlias = str | int | float | bool | list[str]
ElicitedScalars: TypeAlias = dict[str, str | int | float | bool]

FormSchema = NewType("FormSchema", JsonObject)
"""A flat JSON Schema of strings, numbers, booleans and choices of one."""


if TYPE_CHECKING:
    # A form always has one, and only `mode` says which it is.
    RequestedSchema: TypeAlias = JsonObject | Any
else:
    RequestedSchema = JsonObject | None


@since("2025-06-18")
class ElicitParams(QuestionBody):
    """Ask the user: in `form` mode (the default) by a schema, in `url` mode by a page."""

    message: str
    requested_schema: Annotated[
        RequestedSchema, must_send(until="2025-06-18"), was(FormSchema, until="2025-06-18")
    ] = None
    mode: Annotated[Literal["form", "url"] | None, since("2025-11-25")] = None
    url: Annotated[str | None, since("2025-11-25")] = None
    elicitation_id: Annotated[str | None, only("2025-11-25")] = None
    task: TaskMetadata | None = None

    @property
    def defaults(self) -> JsonObject:
        """What the fields of the form are filled with to begin with, by name."""
        fields = (self.requested_schema or {}).get("properties")
        entries = fields.items() if isinstance(fields, dict) else ()
        return {
            name: field["default"]
            for name, field in entries
            if isinstance(field, dict) and "default" in field
        }


@since("2025-06-18")
class ElicitResult(QuestionBody):
    """What the user did, and in form mode what was filled in."""

    action: Literal["accept", "decline", "cancel"]
    # Null is not a value, yet some clients send it for what the user left empty.
    content: Annotated[
        dict[str, ElicitedValue | None] | None, was(ElicitedScalars, until="2025-06-18")
    ] = None


@only("2025-11-25")
class ElicitationCompleteParams(Params):
    """Tell that the user is done with a page."""

    elicitation_id: str


@only("2025-11-25")
class UrlElicitationData(Struct):
    """The data of error -32042: pages to visit before the request can succeed."""

    elicitations: list[ElicitParams]


@since("2026-07-28")
class ElicitRequest(Struct, tag_field="method", tag="elicitation/create"):
    """A question to the user."""

    params: ElicitParams
    if TYPE_CHECKING:
        method: Final[Literal["elicitation/create"]] = "elicitation/create"


@since("2026-07-28")
class CreateMessageRequest(Struct, tag_field="method", tag="sampling/createMessage"):
    """A question to the model."""

    params: CreateMessageParams
    if TYPE_CHECKING:
        method: Final[Literal["sampling/createMessage"]] = "sampling/createMessage"


@since("2026-07-28")
class ListRootsRequest(Struct, tag_field="method", tag="roots/list"):
    """A question for the roots."""

    params: EmptyParams | None = None
    if TYPE_CHECKING:
        method: Final[Literal["roots/list"]] = "roots/list"


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
InputRequests: TypeAlias = dict[str, InputRequest]


@since("2026-07-28")
class InputRequiredResult(Struct, kw_only=True):
    """Ask before the request can be answered; at least one of its two members is set."""

    input_requests: InputRequests | None = None
    request_state: str | None = None
    result_type: str = msgspec.field(default_factory=lambda: "input_required")
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)

"""Sampling: the server asks the client's model."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from accord.types._base import JsonObject, QuestionBody, Role, Struct, since, was
from accord.types.content import SamplingContentBlock, TextContent
from accord.types.messages import TaskMetadata
from accord.types.tools import Tool

__all__ = [
    "CreateMessageParams",
    "CreateMessageResult",
    "ModelHint",
    "ModelPreferences",
    "SamplingContent",
    "SamplingMessage",
    "ToolChoice",
]

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


def _end_turn() -> str:
    return "endTurn"


class CreateMessageResult(Struct):
    """What the model said. `stop_reason` is always sent."""

    role: Role
    content: Annotated[SamplingContent, was(SamplingContentBlock, until="2025-06-18")]
    model: str
    stop_reason: str = msgspec.field(default_factory=_end_turn)
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)

    @property
    def text(self) -> str:
        """All text blocks, one per line."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(block.text for block in blocks if isinstance(block, TextContent))

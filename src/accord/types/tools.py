"""Tools: their descriptions, calls and results."""

from typing import Annotated, Any, Literal, NewType

import msgspec

from accord.types._base import Item, JsonObject, SnakeCaseKeywords, Struct, since, until, was
from accord.types.content import ContentBlock, Icon, TextContent
from accord.types.messages import PageResult, Result, RetryParams, TaskMetadata

__all__ = [
    "CallToolParams",
    "CallToolResult",
    "ListToolsResult",
    "ObjectSchema",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
]


@since("2025-03-26")
class ToolAnnotations(Struct, metaclass=SnakeCaseKeywords):
    """Untrusted hints about what a tool does."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


@since("2025-11-25")
@until("2025-11-25")
class ToolExecution(Struct):
    """Whether a tool may or must be called as a task."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


ObjectSchema = NewType("ObjectSchema", JsonObject)
"""A JSON Schema of type object whose properties are objects too, which is all that was allowed."""


class Tool(Item):
    """A tool as a server lists it."""

    name: str
    input_schema: Annotated[JsonObject, was(ObjectSchema, until="2025-11-25")]
    title: Annotated[str | None, since("2025-06-18")] = None
    description: str | None = None
    output_schema: Annotated[
        JsonObject | None, since("2025-06-18"), was(ObjectSchema, until="2025-11-25")
    ] = None
    annotations: ToolAnnotations | None = None
    execution: ToolExecution | None = None
    icons: Annotated[list[Icon] | None, since("2025-11-25")] = None


class ListToolsResult(PageResult):
    """One page of tools."""

    tools: list[Tool]


class CallToolParams(RetryParams):
    """Call a tool. The arguments stay raw: only the tool knows their type."""

    name: str
    arguments: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    task: TaskMetadata | None = None


class CallToolResult(Result):
    """What a tool gave back. An absent `structuredContent` and a null one differ."""

    content: list[ContentBlock]
    structured_content: Annotated[Any, since("2025-06-18"), was(JsonObject, until="2025-11-25")] = (
        msgspec.UNSET
    )
    is_error: bool = msgspec.field(default_factory=bool)

    @property
    def text(self) -> str:
        """All text blocks, one per line."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))

"""What servers offer: tools, prompts, resources, completion, log messages, subscriptions."""

# ruff: noqa: PYI064  # without the literal, type checkers take any text for a keyword

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NewType, TypeAlias

import msgspec

from accord.types._base import (
    CacheableResult,
    Item,
    JsonObject,
    PageResult,
    Params,
    Result,
    RetryParams,
    Role,
    Struct,
    TaskMetadata,
    only,
    since,
    until,
    was,
)
from accord.types.content import Annotations, ContentBlock, Icon, ResourceContents, TextContent

__all__ = [
    "CallToolParams",
    "CallToolResult",
    "CompleteParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "GetPromptParams",
    "GetPromptResult",
    "ListPromptsResult",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ListToolsResult",
    "ListenParams",
    "ListenResult",
    "LogMessageParams",
    "LoggingLevel",
    "ObjectSchema",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptReference",
    "ReadResourceParams",
    "ReadResourceResult",
    "Resource",
    "ResourceTemplate",
    "ResourceTemplateReference",
    "ResourceUpdatedParams",
    "SetLevelParams",
    "SubscribeParams",
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedParams",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
    "UnsubscribeParams",
]


@since("2025-03-26")
class ToolAnnotations(Struct):
    """Untrusted hints about what a tool does."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


@only("2025-11-25")
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

    @property
    def structured(self) -> Any:
        """The structured content; None without it."""
        return None if self.structured_content is msgspec.UNSET else self.structured_content

    @property
    def data(self) -> Any:
        """The value that the tool returned, as JSON has it; None without it.

        Servers wrap values other than objects as `{"result": value}`, which is undone here. Without
        structured content, a single block of text is the value, as tools that return `str` have it.
        """
        found = self.structured_content
        if found is msgspec.UNSET:
            is_text = len(self.content) == 1 and isinstance(self.content[0], TextContent)
            return self.text if is_text and not self.is_error else None
        is_wrapped = isinstance(found, dict) and found.keys() == {"result"}
        return found["result"] if is_wrapped else found


class PromptArgument(Struct):
    """An argument that a prompt takes."""

    name: str
    title: Annotated[str | None, since("2025-06-18")] = None
    description: str | None = None
    required: bool | None = None


class Prompt(Item):
    """A prompt as a server lists it."""

    name: str
    title: Annotated[str | None, since("2025-06-18")] = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: Annotated[list[Icon] | None, since("2025-11-25")] = None


class PromptMessage(Struct):
    """One message of a prompt."""

    role: Role
    content: ContentBlock


class ListPromptsResult(PageResult):
    """One page of prompts."""

    prompts: list[Prompt]


class GetPromptParams(RetryParams):
    """Fill in a prompt."""

    name: str
    arguments: dict[str, str] | None = None


class GetPromptResult(Result):
    """A prompt, filled in."""

    messages: list[PromptMessage]
    description: str | None = None


class Resource(Item):
    """A resource as a server lists it."""

    uri: str
    name: str
    title: Annotated[str | None, since("2025-06-18")] = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: Annotated[list[Icon] | None, since("2025-11-25")] = None


class ResourceTemplate(Item):
    """A family of resources, named by a URI template."""

    uri_template: str
    name: str
    title: Annotated[str | None, since("2025-06-18")] = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: Annotated[list[Icon] | None, since("2025-11-25")] = None


class ListResourcesResult(PageResult):
    """One page of resources."""

    resources: list[Resource]


class ListResourceTemplatesResult(PageResult):
    """One page of resource templates."""

    resource_templates: list[ResourceTemplate]


class ReadResourceParams(RetryParams):
    """Read a resource."""

    uri: str


class ReadResourceResult(CacheableResult):
    """What the resource holds; a folder may hold several."""

    contents: list[ResourceContents]


class ResourceUpdatedParams(Params):
    """Tell that a resource changed."""

    uri: str


@until("2025-11-25")
class SubscribeParams(Params):
    """Ask to hear of changes of a resource."""

    uri: str


@until("2025-11-25")
class UnsubscribeParams(Params):
    """Ask to hear no more of a resource."""

    uri: str


@since("2026-07-28")
class SubscriptionFilter(Struct):
    """Which changes to hear of. `task_ids` belongs to the tasks extension."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    task_ids: list[str] | None = None


@since("2026-07-28")
class ListenParams(Params):
    """Open a stream of change notices."""

    notifications: SubscriptionFilter


@since("2026-07-28")
class ListenResult(Result):
    """End a stream of change notices; `_meta` names the subscription."""


@since("2026-07-28")
class SubscriptionsAcknowledgedParams(Params):
    """Tell which part of the filter will be served."""

    notifications: SubscriptionFilter


class PromptReference(Struct, tag_field="type", tag="ref/prompt"):
    """Names the prompt whose argument is typed."""

    name: str
    title: Annotated[str | None, since("2025-06-18")] = None
    if TYPE_CHECKING:
        type: Final[Literal["ref/prompt"]] = "ref/prompt"


class ResourceTemplateReference(Struct, tag_field="type", tag="ref/resource"):
    """Names the resource template whose variable is typed."""

    uri: str
    if TYPE_CHECKING:
        type: Final[Literal["ref/resource"]] = "ref/resource"


class CompletionArgument(Struct):
    """The argument and what was typed so far."""

    name: str
    value: str


@since("2025-06-18")
class CompletionContext(Struct):
    """What is known already: arguments filled in before."""

    arguments: dict[str, str] | None = None


class CompleteParams(Params):
    """Ask for suggestions."""

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(Struct):
    """Suggestions, at most 100 of them."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result):
    """Give suggestions."""

    completion: Completion


LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]


@until("2025-11-25")
class SetLevelParams(Params):
    """Choose the least level that is sent from now on."""

    level: LoggingLevel


class LogMessageParams(Params):
    """One log message; `data` is any JSON."""

    level: LoggingLevel
    data: Any
    logger: str | None = None

"""Content blocks: what tools, prompts and models say.

Binary members stay base64 text, as on the wire. The type of a block may be given and read; it is
its tag on the wire, so for type checkers alone it is a field.
"""

# ruff: noqa: PYI064  # without the literal, type checkers take any text for a keyword

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec

from accord.types._base import Item, JsonObject, Role, Struct, since, was

__all__ = [
    "Annotations",
    "AudioContent",
    "ContentBlock",
    "EmbeddedResource",
    "Icon",
    "ImageContent",
    "ResourceContents",
    "ResourceLink",
    "SamplingContentBlock",
    "TextContent",
    "ToolResultContent",
    "ToolUseContent",
]


class Annotations(Struct):
    """Hints about the audience of content and how much it matters."""

    audience: list[Role] | None = None
    priority: int | float | None = None
    last_modified: Annotated[str | None, since("2025-06-18")] = None


@since("2025-11-25")
class Icon(Struct):
    """A picture to show beside a name."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class ResourceContents(Item):
    """What a resource holds: `text`, or `blob` as base64. Exactly one of the two is set."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class TextContent(Item, tag_field="type", tag="text"):
    """Plain text."""

    text: str
    annotations: Annotations | None = None
    if TYPE_CHECKING:
        type: Final[Literal["text"]] = "text"


class ImageContent(Item, tag_field="type", tag="image"):
    """A picture, base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    if TYPE_CHECKING:
        type: Final[Literal["image"]] = "image"


@since("2025-03-26")
class AudioContent(Item, tag_field="type", tag="audio"):
    """A sound, base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    if TYPE_CHECKING:
        type: Final[Literal["audio"]] = "audio"


@since("2025-06-18")
class ResourceLink(Item, tag_field="type", tag="resource_link"):
    """A resource named, not included."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: Annotated[list[Icon] | None, since("2025-11-25")] = None
    if TYPE_CHECKING:
        type: Final[Literal["resource_link"]] = "resource_link"


class EmbeddedResource(Item, tag_field="type", tag="resource"):
    """A resource included."""

    resource: ResourceContents
    annotations: Annotations | None = None
    if TYPE_CHECKING:
        type: Final[Literal["resource"]] = "resource"


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
)


@since("2025-11-25")
class ToolUseContent(Item, tag_field="type", tag="tool_use"):
    """A model's wish to have a tool called."""

    id: str
    name: str
    input: JsonObject
    if TYPE_CHECKING:
        type: Final[Literal["tool_use"]] = "tool_use"


@since("2025-11-25")
class ToolResultContent(Item, tag_field="type", tag="tool_result"):
    """What a tool gave back to a model."""

    tool_use_id: str
    content: list[ContentBlock]
    structured_content: Annotated[Any, was(JsonObject, until="2025-11-25")] = msgspec.UNSET
    is_error: bool | None = None
    if TYPE_CHECKING:
        type: Final[Literal["tool_result"]] = "tool_result"


SamplingContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
)

"""Content blocks say which kind they are."""

from typing import Any

import msgspec

from accord.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from support.tables import cases


@cases(
    ("block", "kind"),
    [
        (TextContent("x"), "text"),
        (ImageContent("", "image/png"), "image"),
        (AudioContent("", "audio/wav"), "audio"),
        (ResourceLink("a://b", "b"), "resource_link"),
        (EmbeddedResource(ResourceContents("a://b", text="x")), "resource"),
        (ToolUseContent("1", "add", {}), "tool_use"),
        (ToolResultContent("1", []), "tool_result"),
    ],
)
def test_a_content_block_has_the_type_that_travels(block: Any, kind: str) -> None:
    assert block.type == kind
    assert msgspec.to_builtins(block)["type"] == kind

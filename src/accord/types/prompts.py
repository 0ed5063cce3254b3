"""Prompts: their descriptions and messages."""

from typing import Annotated

from accord.types._base import Item, Role, Struct, since
from accord.types.content import ContentBlock, Icon
from accord.types.messages import PageResult, Result, RetryParams

__all__ = [
    "GetPromptParams",
    "GetPromptResult",
    "ListPromptsResult",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
]


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

"""Completion: suggestions while a user types an argument."""

from typing import Annotated

from accord.types._base import Struct, since
from accord.types.messages import Params, Result

__all__ = [
    "CompleteParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "PromptReference",
    "ResourceTemplateReference",
]


class PromptReference(Struct, tag_field="type", tag="ref/prompt"):
    """Names the prompt whose argument is typed."""

    name: str
    title: Annotated[str | None, since("2025-06-18")] = None


class ResourceTemplateReference(Struct, tag_field="type", tag="ref/resource"):
    """Names the resource template whose variable is typed."""

    uri: str


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

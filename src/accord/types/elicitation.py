"""Elicitation: the server asks the client's user, by a form or by a page to visit."""

from typing import Annotated, Literal, NewType, TypeAlias

from accord.types._base import JsonObject, QuestionBody, Struct, must_send, since, until, was
from accord.types.messages import Params, TaskMetadata

__all__ = [
    "ElicitParams",
    "ElicitResult",
    "ElicitationCompleteParams",
    "ElicitedScalars",
    "ElicitedValue",
    "FormSchema",
    "UrlElicitationData",
]

ElicitedValue: TypeAlias = str | int | float | bool | list[str]
ElicitedScalars: TypeAlias = dict[str, str | int | float | bool]

FormSchema = NewType("FormSchema", JsonObject)
"""A flat JSON Schema of strings, numbers, booleans and choices of one."""


@since("2025-06-18")
class ElicitParams(QuestionBody):
    """Ask the user: in `form` mode (the default) by a schema, in `url` mode by a page."""

    message: str
    requested_schema: Annotated[
        JsonObject | None, must_send(until="2025-06-18"), was(FormSchema, until="2025-06-18")
    ] = None
    mode: Annotated[Literal["form", "url"] | None, since("2025-11-25")] = None
    url: Annotated[str | None, since("2025-11-25")] = None
    elicitation_id: Annotated[str | None, since("2025-11-25"), until("2025-11-25")] = None
    task: TaskMetadata | None = None


@since("2025-06-18")
class ElicitResult(QuestionBody):
    """What the user did, and in form mode what was filled in."""

    action: Literal["accept", "decline", "cancel"]
    # Null is not a value, yet some clients send it for what the user left empty.
    content: Annotated[
        dict[str, ElicitedValue | None] | None,
        was(ElicitedScalars, until="2025-06-18"),
    ] = None


@since("2025-11-25")
@until("2025-11-25")
class ElicitationCompleteParams(Params):
    """Tell that the user is done with a page."""

    elicitation_id: str


@since("2025-11-25")
@until("2025-11-25")
class UrlElicitationData(Struct):
    """The data of error -32042: pages to visit before the request can succeed."""

    elicitations: list[ElicitParams]

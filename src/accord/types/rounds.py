"""Multi round trips: questions inside a result, answers inside the repeated request."""

from typing import TypeAlias

import msgspec

from accord.types._base import JsonObject, Struct, since
from accord.types.elicitation import ElicitParams
from accord.types.messages import EmptyParams
from accord.types.sampling import CreateMessageParams

__all__ = [
    "CreateMessageRequest",
    "ElicitRequest",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "ListRootsRequest",
]


@since("2026-07-28")
class ElicitRequest(Struct, tag_field="method", tag="elicitation/create"):
    """A question to the user."""

    params: ElicitParams


@since("2026-07-28")
class CreateMessageRequest(Struct, tag_field="method", tag="sampling/createMessage"):
    """A question to the model."""

    params: CreateMessageParams


@since("2026-07-28")
class ListRootsRequest(Struct, tag_field="method", tag="roots/list"):
    """A question for the roots."""

    params: EmptyParams | None = None


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
InputRequests: TypeAlias = dict[str, InputRequest]


def _input_required() -> str:
    return "input_required"


@since("2026-07-28")
class InputRequiredResult(Struct, kw_only=True):
    """Ask before the request can be answered; at least one of its two members is set."""

    input_requests: InputRequests | None = None
    request_state: str | None = None
    result_type: str = msgspec.field(default_factory=_input_required)
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)

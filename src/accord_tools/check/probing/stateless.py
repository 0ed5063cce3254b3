"""Requests that stand on their own, as the checker sends them: their `_meta`, and their rounds."""

from collections.abc import Mapping
from typing import Final

from accord.protocol.exchange import META_CAPABILITIES, META_VERSION, meta_of
from accord.protocol.party import META_CLIENT
from accord.types import JsonObject
from accord_tools.check.probing.messages import (
    CLIENT_INFO,
    Reply,
    answer_to,
    is_request,
    new_request,
    params_of,
)

# A server that asks more often than this never ends.
ROUNDS: Final = 8
# A client without a handshake has no way to announce a change of its roots.
EVERYTHING_STATELESS: Final[Mapping[str, object]] = {
    "roots": {},
    "sampling": {},
    "elicitation": {},
}
INPUT_REQUIRED: Final = "input_required"


def stamp(revision: str, params: object, capabilities: Mapping[str, object]) -> object:
    """Return the parameters of a request with the `_meta` that names its revision and client.

    Members of a `_meta` that is there already stay. Parameters that are not an object stay too.
    """
    if params is not None and not isinstance(params, dict):
        return params
    meta = {
        META_VERSION: revision,
        META_CAPABILITIES: dict(capabilities),
        META_CLIENT: CLIENT_INFO,
    }
    return {**(params or {}), "_meta": meta | meta_of(params)}


def input_requests_of(reply: Mapping[str, object]) -> dict[str, JsonObject]:
    """Return the questions of an input-required result by key; empty for any other message."""
    result = reply.get("result")
    if not isinstance(result, dict) or result.get("resultType") != INPUT_REQUIRED:
        return {}
    asked = result.get("inputRequests")
    named = asked.items() if isinstance(asked, dict) else ()
    return {key: each for key, each in named if isinstance(each, dict)}


def questions_in(message: JsonObject) -> list[JsonObject]:
    """Return what a message asks the client: as a request, or in a result."""
    return [message] if is_request(message) else [*input_requests_of(message).values()]


def is_question(message: JsonObject) -> bool:
    """Return whether a message asks the client something."""
    return bool(questions_in(message))


def answer_round(
    request: JsonObject, reply: Reply, capabilities: Mapping[str, object]
) -> JsonObject | None:
    """Return the request again, with the answers to the questions of its result.

    None if a question needs a capability that was not declared, or if nothing was asked for.
    """
    result = reply.result
    if result.get("resultType") != INPUT_REQUIRED:
        return None
    questions = input_requests_of(reply.message)
    answers = {key: answer_to(each, capabilities) for key, each in questions.items()}
    if any("result" not in each for each in answers.values()):
        return None
    params = {
        name: value
        for name, value in params_of(request).items()
        if name not in ("inputResponses", "requestState")
    }
    if answers:
        params["inputResponses"] = {key: each["result"] for key, each in answers.items()}
    if "requestState" in result:
        params["requestState"] = result["requestState"]
    if not answers and "requestState" not in result:
        return None
    return new_request(str(request["method"]), params)

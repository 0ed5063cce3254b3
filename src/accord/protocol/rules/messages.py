"""Deep rules of JSON-RPC: that messages are well-formed, what params, results and batches may be.

Malformed bytes never become a step: the codec refuses them and names the requirement they break.
Here every well-formed message counts as a proof of those requirements.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT, Kind
from accord.protocol.methods import REQUESTS
from accord.protocol.rules._rule import EITHER, MESSAGES, REPLIES, Outcome, check
from accord.protocol.rules.values import describe
from accord.protocol.violation import CLIENT, SERVER, Party

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_BATCH: Final = "jsonrpc.batch.send-optional"

_WELL_FORMED: Final[dict[str, tuple[Kind, ...]]] = {
    "jsonrpc.message.version-2-0": MESSAGES,
    "jsonrpc.encoding.utf8": MESSAGES,
    "jsonrpc.request.id-string-or-integer": (REQUEST,),
    "jsonrpc.request.id-not-null": (REQUEST,),
    "jsonrpc.request.method-string": (REQUEST,),
    "jsonrpc.notification.no-id": (NOTIFICATION,),
    "jsonrpc.notification.method-string": (NOTIFICATION,),
    "jsonrpc.notification.not-answered": (NOTIFICATION,),
    "jsonrpc.response.result-xor-error": REPLIES,
    "jsonrpc.error.code-and-message": (FAULT,),
    "jsonrpc.error.code-integer": (FAULT,),
}
"""Requirements that every message of these kinds meets by having been decoded."""

_BY_KIND: Final[dict[str, tuple[Party, tuple[Kind, ...]]]] = {
    "jsonrpc.client-only-initiates": (SERVER, (NOTIFICATION, RESULT, FAULT)),
    "jsonrpc.client-no-responses": (CLIENT, (REQUEST, NOTIFICATION)),
    "jsonrpc.response.client-sends": (CLIENT, REPLIES),
}
"""The same for requirements on what one party sends at all."""


def _bind(requirement: str, by: Party | tuple[Party, ...], kinds: tuple[Kind, ...]) -> None:
    @check(requirement, by=by, kind=kinds)
    def is_well_formed(step: Step, conversation: "Conversation") -> Outcome:
        return True


for _requirement, _kinds in _WELL_FORMED.items():
    _bind(_requirement, EITHER, _kinds)
for _requirement, (_party, _kinds) in _BY_KIND.items():
    _bind(_requirement, _party, _kinds)


@check("jsonrpc.request.id-present", kind=REQUEST, on=REQUESTS)
def known_request_has_an_id(step: Step, conversation: "Conversation") -> Outcome:
    return True


@check("jsonrpc.batch.removed", kind=MESSAGES)
def message_travels_alone(step: Step, conversation: "Conversation") -> Outcome:
    # The monitor reports the batch as a whole.
    return None if step.in_batch else True


@check("jsonrpc.request.params-object", kind=REQUEST)
@check("jsonrpc.notification.params-object", kind=NOTIFICATION)
def params_are_an_object(step: Step, conversation: "Conversation") -> Outcome:
    if isinstance(step.body, dict):
        return True
    if step.body is None and not _has_null_params(step):
        return None
    return f"sends {step.name} with params that are {describe(step.body)}, expected an object"


@check("jsonrpc.response.result-member", kind=RESULT)
def result_is_an_object(step: Step, conversation: "Conversation") -> Outcome:
    if isinstance(step.body, dict):
        return True
    return f"sends a result that is {describe(step.body)}, expected an object"


@check(_BATCH, kind=MESSAGES)
def batch_has_either_requests_or_responses(step: Step, conversation: "Conversation") -> Outcome:
    memory = conversation.memory
    # Every message of a batch passes here; the batch is judged with its first.
    if not step.in_batch or memory is None or memory.facts.get(_BATCH) is step.record:
        return None
    memory.facts[_BATCH] = step.record
    parts = list(_messages(step))
    asks = any("method" in part and "id" in part for part in parts)
    answers = any("result" in part or "error" in part for part in parts)
    return "sends requests and responses in one batch" if asks and answers else True


def _has_null_params(step: Step) -> bool:
    return any(
        part.get("method") == step.name and "params" in part and part["params"] is None
        for part in _messages(step)
    )


def _messages(step: Step) -> Iterator[dict[str, Any]]:
    """The record of a step as it travelled."""
    message = step.record.message if step.record else None
    value = None if message is None else msgspec.json.decode(message)
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            yield part

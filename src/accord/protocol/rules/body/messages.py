"""JSON-RPC: well-formed messages, params, results, batches and error codes.

Malformed bytes never become a step: the codec rejects them and names the requirement they break.
Here every well-formed message counts as a proof of those requirements.
"""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import (
    FAULT,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOTIFICATION,
    PARSE_ERROR,
    REQUEST,
    RESULT,
)
from accord.protocol.revisions import REQUESTS
from accord.protocol.rules._rule import (
    REPLIES,
    Outcome,
    check,
    holds,
    messages,
    notifications,
    requests,
    results,
)
from accord.protocol.rules.values import describe, memory_of
from accord.protocol.verdict import plain_messages
from accord.protocol.violation import CLIENT, SERVER

_BATCH: Final = "jsonrpc.batch.send-optional"

# Every message of these kinds meets these requirements by having been decoded.
holds(messages(), "jsonrpc.message.version-2-0", "jsonrpc.encoding.utf8")
holds(
    requests(),
    "jsonrpc.request.id-string-or-integer",
    "jsonrpc.request.id-not-null",
    "jsonrpc.request.method-string",
)
holds(
    notifications(),
    "jsonrpc.notification.no-id",
    "jsonrpc.notification.method-string",
    "jsonrpc.notification.not-answered",
)
holds(messages(REPLIES), "jsonrpc.response.result-xor-error")
holds(messages(FAULT), "jsonrpc.error.code-and-message", "jsonrpc.error.code-integer")
holds(requests(REQUESTS), "jsonrpc.request.id-present")
# And these are about the kinds of messages that one party sends.
holds(messages((NOTIFICATION, RESULT, FAULT), by=SERVER), "jsonrpc.client-only-initiates")
holds(messages((REQUEST, NOTIFICATION), by=CLIENT), "jsonrpc.client-no-responses")
holds(messages(REPLIES, by=CLIENT), "jsonrpc.response.client-sends")


@check("jsonrpc.batch.removed", messages())
def message_is_not_in_a_batch(step: Step, conversation: Conversation) -> Outcome:
    # The monitor reports the batch as a whole.
    return None if step.in_batch else True


@check("jsonrpc.request.params-object", requests(), at="/params")
@check("jsonrpc.notification.params-object", notifications(), at="/params")
def params_are_an_object(step: Step, conversation: Conversation) -> Outcome:
    if isinstance(step.body, dict):
        return True
    if step.body is None and not _has_null_params(step):
        return None
    return f"sends {step.name} with params as {describe(step.body)}, expected an object"


@check("jsonrpc.response.result-member", results(), at="/result")
def result_is_an_object(step: Step, conversation: Conversation) -> Outcome:
    if isinstance(step.body, dict):
        return True
    return f"sends a result as {describe(step.body)}, expected an object"


@check(_BATCH, messages())
def batch_does_not_mix_requests_and_responses(step: Step, conversation: Conversation) -> Outcome:
    # This runs for every message of a batch; the batch is judged with its first one.
    if not step.in_batch or memory_of(conversation).facts.get(_BATCH) is step.record:
        return None
    memory_of(conversation).facts[_BATCH] = step.record
    recorded = list(plain_messages(step.record)) if step.record else []
    asks = any("method" in message and "id" in message for message in recorded)
    answers = any("result" in message or "error" in message for message in recorded)
    return "sends requests and responses in one batch" if asks and answers else True


def _has_null_params(step: Step) -> bool:
    return step.record is not None and any(
        message.get("method") == step.name and "params" in message and message["params"] is None
        for message in plain_messages(step.record)
    )


# -- error codes, where a revision divides their range

_STANDARD: Final = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR}
)
_JSON_RPC: Final = range(-32768, -32099)
_SPECIFICATION: Final = range(-32099, -32019)
_LEGACY: Final = range(-32019, -31999)
_DEFINED: Final = frozenset({-32020, -32021, -32022})
_RETIRED: Final = {-32002: "resource not found", -32042: "URL elicitation required"}


def _error_code(step: Step) -> int:
    return 0 if step.error is None else step.error.code


@check("errors.retired-codes.not-emitted", messages(FAULT), at="/error/code")
def code_is_not_retired(step: Step, conversation: Conversation) -> Outcome:
    code = _error_code(step)
    return code not in _RETIRED or f"sends the retired error code {code} ({_RETIRED[code]})"


@check("errors.legacy-range.not-used", messages(FAULT), at="/error/code")
def code_is_not_of_the_legacy_range(step: Step, conversation: Conversation) -> Outcome:
    code = _error_code(step)
    if code in _RETIRED:
        return None
    return code not in _LEGACY or f"sends error code {code}, from the range of old implementations"


@check("errors.reserved-range.only-defined-codes", messages(FAULT), at="/error/code")
def reserved_code_is_defined(step: Step, conversation: Conversation) -> Outcome:
    code = _error_code(step)
    if code in _RETIRED:
        return None
    if code in _SPECIFICATION and code not in _DEFINED:
        return f"sends error code {code}, which the specification reserves and does not define"
    return True


@check("errors.application-codes.outside-reserved", messages(FAULT), at="/error/code")
def own_code_is_outside_the_reserved_range(step: Step, conversation: Conversation) -> Outcome:
    code = _error_code(step)
    if code in _STANDARD or code in _SPECIFICATION or code in _LEGACY:
        return None
    return code not in _JSON_RPC or f"sends error code {code}, from the range reserved by JSON-RPC"

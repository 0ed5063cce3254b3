"""Deep rules of error codes, where a revision divides their range."""

from typing import TYPE_CHECKING, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import (
    FAULT,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)
from accord.protocol.rules._rule import Outcome, check

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_STANDARD: Final = frozenset(
    {PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR}
)
_JSON_RPC: Final = range(-32768, -32099)
_SPECIFICATION: Final = range(-32099, -32019)
_LEGACY: Final = range(-32019, -31999)
_DEFINED: Final = frozenset({-32020, -32021, -32022})
_RETIRED: Final = {-32002: "resource not found", -32042: "URL elicitation required"}


def _code(step: Step) -> int:
    return 0 if step.error is None else step.error.code


@check("errors.retired-codes.not-emitted", kind=FAULT)
def code_is_not_retired(step: Step, conversation: "Conversation") -> Outcome:
    code = _code(step)
    return code not in _RETIRED or f"sends the retired code {code} ({_RETIRED[code]})"


@check("errors.legacy-range.not-used", kind=FAULT)
def code_is_not_of_the_legacy_range(step: Step, conversation: "Conversation") -> Outcome:
    code = _code(step)
    if code in _RETIRED:
        return None
    return code not in _LEGACY or f"sends code {code}, of the range left to old implementations"


@check("errors.reserved-range.only-defined-codes", kind=FAULT)
def code_is_defined(step: Step, conversation: "Conversation") -> Outcome:
    code = _code(step)
    if code in _RETIRED:
        return None
    if code in _SPECIFICATION and code not in _DEFINED:
        return f"sends code {code}, which the specification reserves and has not defined"
    return True


@check("errors.application-codes.outside-reserved", kind=FAULT)
def own_code_lies_outside_the_reserved_range(step: Step, conversation: "Conversation") -> Outcome:
    code = _code(step)
    if code in _STANDARD or code in _SPECIFICATION or code in _LEGACY:
        return None
    return code not in _JSON_RPC or f"sends code {code}, of the range reserved by JSON-RPC"

"""Ping: no parameters, an empty result, and not too often."""

from collections import deque
from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import FAULT, REQUEST, RESULT
from accord.protocol.revisions import Phase
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.values import describe

_PERIODIC: Final = "ping.periodic"

# A lost connection shows within seconds; more pings than this learn nothing new.
_MOST_PINGS: Final = 10
_SECONDS: Final = 1.0


@check("ping.request.either-party", kind=REQUEST, on="ping")
def ping_has_no_parameters(step: Step, conversation: Conversation) -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    extra = sorted((step.body or {}).keys() - {"_meta"})
    return f"sends ping with the parameter {extra[0][:40]}" if extra else True


@check("ping.response.empty", kind=RESULT, on="ping")
def ping_has_an_empty_result(step: Step, conversation: Conversation) -> Outcome:
    if not isinstance(step.body, dict):
        return f"answers ping with {describe(step.body)}, expected an empty object"
    extra = sorted(step.body.keys() - {"_meta"})
    return f"answers ping with the member {extra[0][:40]}" if extra else True


@check("ping.response.empty", kind=FAULT, on="ping")
def ping_is_not_answered_with_an_error(step: Step, conversation: Conversation) -> Outcome:
    # Errors are in order before the opening, for a second ping under one id, and for a whole batch
    # that is rejected.
    is_early = conversation.phase in (Phase.OPENING, Phase.NEGOTIATING)
    exchange = step.exchange
    if step.error is None or is_early or (exchange and (exchange.duplicates or exchange.cancelled)):
        return None
    return f"answers ping with error {step.error.code}"


@check(_PERIODIC, kind=REQUEST, on="ping")
def pings_are_not_excessive(step: Step, conversation: Conversation) -> Outcome:
    now = step.record.t if step.record else None
    if now is None or conversation.memory is None:
        return None
    times: deque[float] = conversation.memory.facts.setdefault(_PERIODIC, {}).setdefault(
        step.sender, deque(maxlen=_MOST_PINGS + 1)
    )
    times.append(now)
    if len(times) < 2:
        return None
    if len(times) <= _MOST_PINGS or now - times[0] > _SECONDS:
        return True
    times.clear()
    return f"sends more than {_MOST_PINGS} pings within {_SECONDS:g} s"

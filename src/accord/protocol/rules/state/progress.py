"""Progress: only for open requests that asked for it, and only increasing."""

from typing import TYPE_CHECKING, Final

from accord.protocol.exchange import Step, member
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST
from accord.protocol.rules._rule import Outcome, state
from accord.protocol.violation import IGNORE, OTHER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_PROGRESS = "notifications/progress"

TASK_TOKENS: Final = "progress.task.same-token"
"""The name of the fact with the progress tokens of requests that became tasks."""


@state("progress.token.unique", kind=REQUEST, only="reuse")
def token_is_not_in_use(step: Step, conversation: "Conversation") -> Outcome:
    exchange = step.exchange
    if exchange is None or exchange.token is None:
        return None
    if exchange.token in conversation.parties[step.sender].tokens:
        return f"uses the progress token {exchange.token!r} for two open requests"
    return True


@state(
    "progress.notification.active-only",
    kind=NOTIFICATION,
    on=_PROGRESS,
    reaction=IGNORE,
)
def progress_is_for_an_open_request(step: Step, conversation: "Conversation") -> Outcome:
    token = member(step.body, "progressToken")
    if token is None:
        return "sends notifications/progress without progressToken"
    if not isinstance(token, int | str) or isinstance(token, bool):
        return None
    if step.exchange is None and _belongs_to_a_task(token, step, conversation):
        return None
    return step.exchange is not None or f"reports progress on {token!r}, which no open request has"


def _belongs_to_a_task(token: object, step: Step, conversation: "Conversation") -> bool:
    memory = conversation.memory
    return memory is not None and (OTHER[step.sender], token) in memory.facts.get(TASK_TOKENS, ())


@state("progress.value.increases", kind=NOTIFICATION, on=_PROGRESS)
def progress_increases(step: Step, conversation: "Conversation") -> Outcome:
    value = member(step.body, "progress")
    if (
        step.exchange is None
        or step.exchange.progress is None
        or not isinstance(value, int | float)
        or isinstance(value, bool)
    ):
        return None
    if value > step.exchange.progress:
        return True
    return f"reports progress {value} after {step.exchange.progress}"

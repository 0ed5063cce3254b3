"""Deep rules of pagination: what a cursor is, and that a client makes none up."""

from typing import TYPE_CHECKING, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.values import describe

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_LISTS: Final = (
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "tasks/list",
)


@check("pagination.next-cursor.optional", kind=RESULT, on=_LISTS)
def next_cursor_is_text(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict) or "nextCursor" not in step.body:
        return None
    cursor = step.body["nextCursor"]
    return isinstance(cursor, str) or (
        f"answers {step.name} with a nextCursor that is {describe(cursor)}, expected a string"
    )


@check("pagination.cursor.opaque", kind=REQUEST, on=_LISTS)
def cursor_was_given_out(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict) or "cursor" not in step.body or conversation.memory is None:
        return None
    cursor = step.body["cursor"]
    if not isinstance(cursor, str):
        return f"sends {step.name} with a cursor that is {describe(cursor)}, expected a string"
    if cursor in conversation.memory.cursors_of(step.name):
        return True
    return f"sends {step.name} with the cursor {cursor[:40]!r}, which it was never given"

"""What any result may carry: its type, the cursor of the next page, and cache hints."""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.shapes import shapes
from accord.protocol.rules.values import META, Located, describe, quote
from accord.protocol.violation import CLIENT, SERVER

_TASKS: Final = f"extensions.{META}tasks"
_CORE_TYPES: Final = frozenset({"complete", "input_required"})
_PAGED: Final = (
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "tasks/list",
)
_CACHEABLE: Final = {
    "caching.hints.discover": "server/discover",
    "caching.hints.tools-list": "tools/list",
    "caching.hints.prompts-list": "prompts/list",
    "caching.hints.resources-list": "resources/list",
    "caching.hints.resource-templates-list": "resources/templates/list",
    "caching.hints.resources-read": "resources/read",
}


# -- types of results


def _any_result(step: Step, conversation: Conversation) -> list[Located]:
    return [("a result", step.body)] if isinstance(step.body, dict) else []


shapes(
    {"result.type.present": "resultType: string"},
    by=SERVER,
    kind=RESULT,
    within=_any_result,
)


@check("result.type.from-known-set", by=SERVER, kind=RESULT)
def result_is_of_a_known_type(step: Step, conversation: Conversation) -> Outcome:
    type_ = step.body.get("resultType") if isinstance(step.body, dict) else None
    if not isinstance(type_, str):
        return None
    if type_ in _CORE_TYPES or _may_be_of_an_extension(type_, step, conversation):
        return True
    return f"sends a result of type {quote(type_)}, but no extension of both parties defines it"


def _may_be_of_an_extension(type_: str, step: Step, conversation: Conversation) -> bool:
    """Tell whether an extension of both parties may define a type."""
    if step.exchange is None:
        return True
    client = _extensions(conversation.capabilities(CLIENT, step.exchange))
    server = _extensions(conversation.parties[SERVER].capabilities)
    if type_ == "task":
        # Whether the server advertised the extension is judged by tasks-ext.capability.server.
        return client is None or _TASKS in client
    return client is None or (bool(client) if server is None else not client.isdisjoint(server))


def _extensions(declared: frozenset[str] | None) -> frozenset[str] | None:
    if declared is None:
        return None
    return frozenset(path for path in declared if path.startswith("extensions."))


# -- pages

shapes({"pagination.next-cursor.optional": "nextCursor?: string"}, kind=RESULT, on=_PAGED)


@check("pagination.cursor.opaque", kind=REQUEST, on=_PAGED)
def cursor_was_issued_by_the_server(step: Step, conversation: Conversation) -> Outcome:
    if not isinstance(step.body, dict) or "cursor" not in step.body or conversation.memory is None:
        return None
    cursor = step.body["cursor"]
    if not isinstance(cursor, str):
        return f"sends {step.name} with a cursor that is {describe(cursor)}, expected a string"
    if cursor in conversation.memory.cursors_of(step.name):
        return True
    return f"sends {step.name} with the cursor {cursor[:40]!r}, which it never received"


# -- cache hints

for _requirement, _method in _CACHEABLE.items():
    shapes({_requirement: "ttlMs: any, cacheScope: any"}, by=SERVER, kind=RESULT, on=_method)

shapes(
    {
        "caching.ttl.non-negative": "ttlMs?: count",
        "caching.scope.value": "cacheScope?: public|private",
    },
    by=SERVER,
    kind=RESULT,
    on=_CACHEABLE.values(),
)

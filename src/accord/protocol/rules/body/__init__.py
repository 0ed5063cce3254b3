"""Rules that read whole bodies as plain JSON: monitors judge by them, endpoints do not load them.

Importing this package registers them, one module per area of the specification. Rules that look
back find in the memory of the monitor what `learn` noted there.
"""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.party import Memory
from accord.protocol.rules.body import (  # noqa: F401
    http,
    lifecycle,
    messages,
    meta,
    notifications,
    offers,
    practice,
    questions,
    results,
    rounds,
    tasks,
)
from accord.protocol.rules.body.lifecycle import VERSIONS
from accord.protocol.rules.body.notifications import LOG_LEVEL, LOGS_REQUESTED, learn_subscriptions
from accord.protocol.rules.body.rounds import learn_rounds
from accord.protocol.rules.body.tasks import learn_tasks
from accord.protocol.rules.values import as_object, objects_at, request_params
from accord.types._base import JsonObject

# Names of tools on all pages that are remembered.
_PAGE_NAMES_MOST: Final = 200_000


def learn(step: Step, conversation: Conversation, memory: Memory) -> None:
    """Note what later messages are judged by."""
    learn_tasks(step, memory)
    learn_rounds(step, memory)
    learn_subscriptions(step, conversation, memory)
    if step.name == "notifications/tools/list_changed":
        memory.tools.clear()
    if step.kind == REQUEST and LOG_LEVEL in meta_of(step.body):
        memory.facts[LOGS_REQUESTED] = True
    if step.kind == RESULT:
        _learn_from_result(step, as_object(step.body), memory)


def _learn_from_result(step: Step, result: JsonObject, memory: Memory) -> None:
    cursor = result.get("nextCursor")
    if isinstance(cursor, str):
        memory.cursors_of(step.name)[cursor] = None
    params = request_params(step)
    if step.name == "tools/list":
        _learn_tools(result, params.get("cursor"), memory)
    elif step.name == "resources/subscribe" and isinstance(params.get("uri"), str):
        memory.subscribed[params["uri"]] = None
    elif step.name == "resources/unsubscribe":
        memory.subscribed.pop(str(params.get("uri")), None)
        memory.unsubscribed[str(params.get("uri"))] = step.record.t if step.record else None
    elif step.name == "logging/setLevel" and isinstance(params.get("level"), str):
        memory.log_level = params["level"]
    elif step.name == "initialize":
        memory.facts[VERSIONS] = params.get("protocolVersion"), result.get("protocolVersion")


def _learn_tools(page: JsonObject, cursor: object, memory: Memory) -> None:
    names = set()
    for _, tool in objects_at(page, "tools"):
        if isinstance(tool.get("name"), str):
            memory.tools[tool["name"]] = tool
            names.add(tool["name"])
    following = page.get("nextCursor")
    if isinstance(following, str):
        before = memory.tool_pages.get(cursor, frozenset()) if isinstance(cursor, str) else ()
        seen = memory.tool_pages[following] = frozenset(names.union(before))
        # Each page has the names of all pages before it, and a list may have no end.
        while memory.tool_pages and len(memory.tool_pages) * len(seen) > _PAGE_NAMES_MOST:
            memory.tool_pages.popitem(last=False)

"""What a bystander takes note of, for rules that look back."""

from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules.listening import learn_subscriptions
from accord.protocol.rules.questions import learn_rounds
from accord.protocol.rules.task_reports import learn_tasks

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation
    from accord.protocol.monitor_memory import Memory

META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"

VERSIONS: Final = "lifecycle.version.client-sends-supported"
"""Under this name the memory has the version that was asked for, and the one that was answered."""


def learn(step: Step, conversation: "Conversation") -> None:
    """Take note of what later steps are judged by."""
    memory = conversation.memory
    if memory is not None:
        learn_tasks(step, memory)
        learn_rounds(step, memory)
        learn_subscriptions(step, conversation)
        _learn_from_all_kinds(step, memory)
    if memory is None or step.kind != RESULT or not isinstance(step.body, dict):
        return
    cursor = step.body.get("nextCursor")
    if isinstance(cursor, str):
        memory.cursors_of(step.name)[cursor] = None
    params: Any = step.exchange.params if step.exchange else None
    if not isinstance(params, dict):
        params = {}
    if step.name == "tools/list":
        _learn_tools(step.body, params.get("cursor"), memory)
    elif step.name == "resources/subscribe" and isinstance(params.get("uri"), str):
        memory.subscribed[params["uri"]] = None
    elif step.name == "resources/unsubscribe":
        memory.subscribed.pop(str(params.get("uri")), None)
    elif step.name == "logging/setLevel" and isinstance(params.get("level"), str):
        memory.log_level = params["level"]
    elif step.name == "initialize":
        memory.facts[VERSIONS] = params.get("protocolVersion"), step.body.get("protocolVersion")


def _learn_from_all_kinds(step: Step, memory: "Memory") -> None:
    if step.name == "notifications/tools/list_changed":
        memory.tools.clear()
    if step.kind == REQUEST and META_LOG_LEVEL in meta_of(step.body):
        memory.facts["logging.own-stream-only"] = True


def _learn_tools(page: dict[str, Any], cursor: Any, memory: "Memory") -> None:
    tools = page.get("tools")
    names = set()
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            memory.tools[tool["name"]] = tool
            names.add(tool["name"])
    following = page.get("nextCursor")
    if isinstance(following, str):
        before = memory.tool_pages.get(cursor, frozenset()) if isinstance(cursor, str) else ()
        memory.tool_pages[following] = frozenset(names.union(before))

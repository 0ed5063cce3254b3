"""What a bystander takes note of, for rules that look back: cursors, tools, subscriptions, levels, tasks."""

from typing import TYPE_CHECKING, Any

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import RESULT

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation
    from accord.protocol.memory import Memory


def learn(step: Step, conversation: "Conversation") -> None:
    """Take note of what later steps are judged by."""
    memory = conversation.memory
    if memory is None or step.kind != RESULT or not isinstance(step.body, dict):
        return
    cursor = step.body.get("nextCursor")
    if isinstance(cursor, str):
        memory.cursors_of(step.name)[cursor] = None
    params: Any = step.exchange.params if step.exchange else None
    if not isinstance(params, dict):
        params = {}
    if step.name == "tools/list":
        _learn_tools(step.body.get("tools"), memory)
    elif step.name == "resources/subscribe" and isinstance(params.get("uri"), str):
        memory.subscribed[params["uri"]] = None
    elif step.name == "resources/unsubscribe":
        memory.subscribed.pop(str(params.get("uri")), None)
    elif step.name == "logging/setLevel" and isinstance(params.get("level"), str):
        memory.log_level = params["level"]


def _learn_tools(tools: Any, memory: "Memory") -> None:
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("name"), str):
            memory.tools[tool["name"]] = tool

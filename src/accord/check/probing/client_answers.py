"""The plain answers of the checker's client to the requests of a server."""

from collections.abc import Mapping
from typing import Final

from accord.check.probing.samples import sample
from accord.types import JsonObject

_NEEDS: Final = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
}


def answer_to(question: JsonObject, capabilities: Mapping[str, object]) -> JsonObject:
    """Return the answer of a client that declared these capabilities."""
    method, params = question.get("method"), question.get("params")
    answer: JsonObject = {"jsonrpc": "2.0", "id": question.get("id")}
    needed = _NEEDS.get(str(method))
    if method == "ping":
        return answer | {"result": {}}
    if needed is None or needed not in capabilities:
        return answer | {"error": {"code": -32601, "message": f"unknown method {method!s:.80}"}}
    params = params if isinstance(params, dict) else {}
    return answer | {"result": _result(str(method), params)}


def _result(method: str, params: JsonObject) -> JsonObject:
    if method == "roots/list":
        return {"roots": [{"uri": "file:///accord-check", "name": "accord-check"}]}
    if method == "sampling/createMessage":
        return {
            "role": "assistant",
            "content": {"type": "text", "text": "an answer of the checker"},
            "model": "accord-check",
            "stopReason": "endTurn",
        }
    schema = params.get("requestedSchema")
    content = sample(schema) if isinstance(schema, dict) else {}
    return {"action": "accept", "content": content if isinstance(content, dict) else {}}

"""Complete, clean messages that pairs of traces are made of."""

from typing import Any

from accord.protocol.revisions import REVISIONS
from support.traces import C, S, Said, opening

HANDSHAKE = tuple(id for id, revision in REVISIONS.items() if revision.handshake)
STATELESS = tuple(id for id, revision in REVISIONS.items() if not revision.handshake)
CACHE = {"ttlMs": 0, "cacheScope": "private"}

TOOL: dict[str, Any] = {
    "name": "add",
    "title": "Add",
    "description": "Add numbers.",
    "inputSchema": {"type": "object"},
}
RESOURCE: dict[str, Any] = {"uri": "note://a", "name": "a"}
TEMPLATE: dict[str, Any] = {"uriTemplate": "note://{name}", "name": "note"}
PROMPT: dict[str, Any] = {"name": "greet", "description": "Greet someone."}
TEXT = {"type": "text", "text": "hello"}
PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
SOUND = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "note://a", "name": "a"}
EMBEDDED: dict[str, Any] = {
    "type": "resource",
    "resource": {"uri": "note://a", "mimeType": "text/plain", "text": "hello"},
}


def without(item: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != name}


def asked(method: str, params: Any, result: Any, *, id: Any = 1) -> list[Said]:
    """A request of the client and its result."""
    return [C.request(id, method, params), S.result(id, result)]


def discovered(revision: str, capabilities: Any) -> list[Said]:
    result = {"supportedVersions": [revision], "capabilities": capabilities, **CACHE}
    return asked("server/discover", None, result, id="discover")


def declared(revision: str, capabilities: Any) -> list[Said]:
    """The opening in which a server declares its capabilities, in the way of the revision."""
    if REVISIONS[revision].handshake:
        return opening(revision, server=capabilities)
    return discovered(revision, capabilities)


def tools(*items: Any, id: Any = 1, cursor: str | None = None, **more: Any) -> list[Said]:
    params = None if cursor is None else {"cursor": cursor}
    return asked("tools/list", params, {"tools": list(items), **CACHE, **more}, id=id)


def called(
    *content: Any, name: str = "add", arguments: Any = None, id: Any = 2, **more: Any
) -> list[Said]:
    return asked(
        "tools/call",
        {"name": name, "arguments": arguments or {}},
        {"content": list(content), "isError": False, **more},
        id=id,
    )


def asking(method: str, params: Any) -> list[Said]:
    """A tool call that is answered with a question."""
    question = {"method": method, "params": params}
    return asked(
        "tools/call",
        {"name": "add", "arguments": {}},
        {"resultType": "input_required", "inputRequests": {"q": question}},
    )


def resources(*items: Any) -> list[Said]:
    return asked("resources/list", None, {"resources": list(items), **CACHE})


def templates(*items: Any) -> list[Said]:
    return asked("resources/templates/list", None, {"resourceTemplates": list(items), **CACHE})


def read(*contents: Any) -> list[Said]:
    return asked("resources/read", {"uri": "note://a"}, {"contents": list(contents), **CACHE})


def prompts(*items: Any) -> list[Said]:
    return asked("prompts/list", None, {"prompts": list(items), **CACHE})


def got(*messages: Any, **more: Any) -> list[Said]:
    return asked("prompts/get", {"name": "greet"}, {"messages": list(messages), **more})


def completed(result: Any, ref: Any = None, **more: Any) -> list[Said]:
    params = {
        "ref": ref or {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "name", "value": "A"},
        **more,
    }
    return asked("completion/complete", params, result)


def listening(revision: str, notice: Said, wanted: dict[str, Any]) -> list[Said]:
    """A notification in the way of the revision: on a listen stream if it has them."""
    if REVISIONS[revision].handshake:
        return [notice]
    tag = {"_meta": {"io.modelcontextprotocol/subscriptionId": "listen"}}
    params = {**notice.message.get("params", {}), **tag}
    return [
        C.request("listen", "subscriptions/listen", {"notifications": wanted}),
        S.notify("subscriptions/acknowledged", {"notifications": wanted, **tag}),
        S.notify(notice.message["method"].removeprefix("notifications/"), params),
    ]

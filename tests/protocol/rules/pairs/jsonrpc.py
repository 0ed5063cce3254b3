"""Pairs of JSON-RPC itself."""

from typing import Any

from support.traces import C, Pair, S, Said

TOOLS: Any = {"tools": {}}

ASK = C.request(1, "tools/list")
ANSWER = S.result(1, {"tools": [], "ttlMs": 0, "cacheScope": "private"})
REFUSAL = S.error(1)
CANCEL = C.notify("cancelled", {"requestId": 1})


def _pair(requirement: str, legal: list[Said], illegal: list[Said], **more: Any) -> Pair:
    """In revisions without handshake the first request shows the revision."""
    return Pair(requirement=requirement, legal=legal, illegal=illegal, server=TOOLS, **more)


def _message(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **members}


PAIRS = [
    # -- every message
    _pair("jsonrpc.message.version-2-0", [ASK], [ASK, S.json({"id": 1, "result": {}})]),
    _pair(
        "jsonrpc.message.version-2-0",
        [ASK],
        [ASK, C.json({"jsonrpc": "1.0", "id": 2, "method": "tools/list"})],
        variant="1.0",
    ),
    _pair("jsonrpc.message.version-2-0", [ASK], [ASK, S.json("done")], variant="string"),
    _pair(
        "jsonrpc.message.version-2-0",
        [ASK],
        [ASK, S.json(_message(id=1, method="tools/list", result={}))],
        variant="both",
    ),
    _pair(
        "jsonrpc.message.version-2-0",
        [ASK],
        [ASK, S.text('{"jsonrpc":"2.0","id":1,"result":{"n":1e999}}')],
        variant="number",
    ),
    _pair(
        "jsonrpc.encoding.utf8",
        [ASK, ANSWER],
        [ASK, S.text('{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"\udcff"}}')],
    ),
    # -- requests
    _pair(
        "jsonrpc.request.id-present",
        [ASK],
        [ASK, C.json(_message(method="tools/list"))],
    ),
    _pair(
        "jsonrpc.request.id-string-or-integer",
        [C.request("a", "tools/list")],
        [ASK, C.json(_message(id=1.5, method="tools/list"))],
    ),
    _pair(
        "jsonrpc.request.id-string-or-integer",
        [ASK],
        [ASK, C.json(_message(id=True, method="tools/list"))],
        variant="boolean",
    ),
    _pair(
        "jsonrpc.request.id-not-null",
        [ASK],
        [ASK, C.json(_message(id=None, method="tools/list"))],
    ),
    _pair(
        "jsonrpc.request.id-unique",
        [ASK, ANSWER, C.request(2, "tools/list")],
        [ASK, ANSWER, ASK],
    ),
    _pair(
        "jsonrpc.request.id-unique",
        [ASK, C.request("1", "tools/list")],
        [ASK, ASK],
        variant="in-flight",
    ),
    _pair(
        "jsonrpc.id.distinct-among-pending",
        [ASK, ANSWER, ASK],
        [ASK, ASK],
    ),
    _pair("jsonrpc.request.method-string", [ASK], [ASK, C.json(_message(id=2, method=7))]),
    _pair(
        "jsonrpc.request.method-string",
        [ASK],
        [ASK, C.json(_message(id=2, params={}))],
        variant="missing",
    ),
    _pair(
        "jsonrpc.request.params-object",
        [C.request(1, "tools/list", {})],
        [C.json(_message(id=1, method="tools/list", params=[]))],
    ),
    _pair(
        "jsonrpc.request.params-object",
        [C.request(1, "tools/list", {})],
        [C.json(_message(id=1, method="tools/list", params=None))],
        variant="null",
    ),
    _pair(
        "jsonrpc.request.answered",
        [ASK, ANSWER],
        [ASK, ANSWER, ANSWER],
        party="server",
    ),
    _pair(
        "jsonrpc.request.answered",
        [ASK.at(0), ANSWER.at(200), C.request(2, "tools/list").at(400)],
        [ASK.at(0), C.request(2, "tools/list").at(400)],
        party="server",
        variant="never",
    ),
    _pair(
        "jsonrpc.client-only-initiates",
        [ASK, ANSWER],
        [ASK, S.request(1, "vendor/ask").exactly()],
        party="server",
    ),
    # -- notifications
    _pair(
        "jsonrpc.notification.no-id",
        [ASK, CANCEL],
        [ASK, C.request(2, "notifications/cancelled", {"requestId": 1})],
    ),
    _pair("jsonrpc.notification.method-string", [ASK, CANCEL], [ASK, C.json(_message(method=7))]),
    _pair(
        "jsonrpc.notification.method-string",
        [ASK, CANCEL],
        [ASK, C.json(_message(params={}))],
        variant="missing",
    ),
    _pair(
        "jsonrpc.notification.params-object",
        [ASK, CANCEL],
        [ASK, C.notify("cancelled", [1])],
    ),
    _pair(
        "jsonrpc.notification.params-object",
        [ASK, CANCEL],
        [ASK, S.json(_message(method="notifications/vendor", params=None))],
        variant="null",
    ),
    _pair(
        "jsonrpc.notification.not-answered",
        [ASK, CANCEL],
        [ASK, CANCEL, S.error(None, -32601)],
        party="server",
    ),
    # -- responses
    _pair(
        "jsonrpc.response.id-echo",
        [ASK, ANSWER],
        [ASK, S.result("1", {"tools": []})],
        party="server",
    ),
    _pair(
        "jsonrpc.response.id-echo",
        [ASK, ANSWER],
        [ASK, S.error(None, -32600)],
        party="server",
        variant="null",
    ),
    _pair(
        "jsonrpc.response.id-echo",
        [ASK, ANSWER],
        [ASK, S.json(_message(id=None, result={}))],
        party="server",
        variant="null-result",
    ),
    _pair(
        "jsonrpc.error.id-echoed-or-unreadable",
        [ASK, REFUSAL],
        [ASK, S.error(2)],
        party="server",
    ),
    _pair(
        "jsonrpc.error.id-echoed-or-unreadable",
        [ASK, REFUSAL],
        [ASK, S.json(_message(error={"code": -32603, "message": "failed"}))],
        party="server",
        variant="missing",
    ),
    _pair(
        "jsonrpc.response.result-xor-error",
        [ASK, ANSWER],
        [ASK, S.json(_message(id=1, result={}, error={"code": -32603, "message": "failed"}))],
    ),
    _pair(
        "jsonrpc.response.result-xor-error",
        [ASK, REFUSAL],
        [ASK, S.json(_message(id=1))],
        variant="neither",
    ),
    _pair(
        "jsonrpc.response.result-member", [ASK, ANSWER], [ASK, S.json(_message(id=1, result=[]))]
    ),
    _pair(
        "jsonrpc.response.result-member",
        [ASK, ANSWER],
        [ASK, S.json(_message(id=1, result=None))],
        variant="null",
    ),
    _pair(
        "jsonrpc.response.client-sends",
        [S.request(1, "ping"), C.result(1, {})],
        [S.request(1, "ping").at(0), ASK.at(400)],
        party="client",
    ),
    _pair(
        "jsonrpc.client-no-responses",
        [ASK],
        [ASK, C.result(1, {}).exactly()],
        party="client",
    ),
    _pair(
        "jsonrpc.error.code-and-message",
        [ASK, REFUSAL],
        [ASK, S.json(_message(id=1, error={"code": -32603}))],
    ),
    _pair(
        "jsonrpc.error.code-and-message",
        [ASK, REFUSAL],
        [ASK, S.json(_message(id=1, error="failed"))],
        variant="string",
    ),
    _pair("jsonrpc.error.code-integer", [ASK, REFUSAL], [ASK, S.error(1, "E_FAILED")]),
    # -- batches
    _pair(
        "jsonrpc.batch.send-optional",
        [C.batch(ASK, C.request(2, "tools/list"))],
        [ASK, S.batch(ANSWER, S.request(1, "ping"))],
        party="server",
    ),
    _pair(
        "jsonrpc.batch.send-optional",
        [C.batch(ASK)],
        [ASK, C.json([])],
        variant="empty",
    ),
    _pair("jsonrpc.batch.removed", [ASK], [ASK, C.batch(CANCEL)]),
]

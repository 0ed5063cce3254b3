"""Pairs of HTTP: headers that repeat the body, and the stream of each message."""

from typing import Any

from support.traces import META, C, Pair, S, Said

SERVER: Any = {"tools": {"listChanged": True}}
VERSION = "2026-07-28"


def _headers(method: str, name: str | None = None, **more: str | None) -> dict[str, str]:
    """The headers of a post, without those of the value None."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": method,
        "Mcp-Name": name,
    } | {key.replace("_", "-"): value for key, value in more.items()}
    return {key: value for key, value in headers.items() if value is not None}


def _post(id: Any, method: str, params: Any = None, stream: str | None = None) -> Said:
    headers = _headers(method)
    return C.request(id, method, params).over(
        method="POST", headers=headers, stream=stream, recorded="all"
    )


def _with(**headers: str | None) -> list[Said]:
    said = C.request(1, "tools/list")
    return [said.over(method="POST", headers=_headers("tools/list", **headers), recorded="all")]


def _named(method: str, params: Any, name: str | None) -> list[Said]:
    said = C.request(1, method, params)
    return [said.over(method="POST", headers=_headers(method, name), recorded="all")]


def _posted(requirement: str, illegal: list[Said], variant: str = "") -> Pair:
    return Pair(
        requirement=requirement,
        legal=_with(),
        illegal=illegal,
        party="client",
        variant=variant,
    )


def _name(requirement: str, method: str, member: str, value: str, legal: str, **more: Any) -> Pair:
    params = {member: value}
    illegal = more.pop("illegal", None)
    return Pair(
        requirement=requirement,
        legal=_named(method, params, legal),
        illegal=_named(method, params, illegal),
        party="client",
        **more,
    )


TASKS: Any = {"extensions": {f"{META}tasks": {}}}

# -- streams


def _ask(id: int, stream: str) -> Said:
    return _post(id, "tools/list", {"_meta": {"progressToken": f"t{id}"}}, stream)


def _report(token: str, **facts: Any) -> Said:
    return S.notify("progress", {"progressToken": token, "progress": 1}).over(**facts)


def _listen(id: str, stream: str) -> list[Said]:
    wanted = {"toolsListChanged": True}
    tag = {"_meta": {f"{META}subscriptionId": id}}
    return [
        _post(id, "subscriptions/listen", {"notifications": wanted}, stream),
        S.notify("subscriptions/acknowledged", {**tag, "notifications": wanted}).over(
            method="POST", stream=stream
        ),
    ]


def _changed(id: str, stream: str) -> Said:
    params = {"_meta": {f"{META}subscriptionId": id}}
    return S.notify("tools/list_changed", params).over(method="POST", stream=stream)


PAIRS = [
    _posted(
        "http.post.each-message",
        [C.request(1, "tools/list").over(method="PUT", headers=_headers("tools/list"))],
    ),
    _posted(
        "http.post.metadata-headers",
        _with(MCP_Protocol_Version=None, Mcp_Method=None),
    ),
    _posted("http.version-header.present", _with(MCP_Protocol_Version=None)),
    _posted("http.version-header.matches-meta", _with(MCP_Protocol_Version="2025-11-25")),
    _posted("http.headers.mcp-method", _with(Mcp_Method=None)),
    _posted("http.headers.mcp-method", _with(Mcp_Method="tools/call"), "other"),
    _name("http.headers.mcp-name", "tools/call", "name", "add", "add"),
    _name(
        "http.headers.mcp-name", "tools/call", "name", "add", "add", illegal="sub", variant="other"
    ),
    _name(
        "http.headers.mcp-name",
        "prompts/get",
        "name",
        "två",
        "=?base64?dHbDpQ==?=",
        variant="encoded",
    ),
    *(
        _name(
            "http.headers.mcp-name.encoded-when-unsafe",
            *(method, member, value, legal),
            illegal=illegal,
            variant=variant,
        )
        for variant, method, member, value, legal, illegal in (
            ("plain", "prompts/get", "name", "två", "=?base64?dHbDpQ==?=", "två"),
            ("other encoding", "tools/call", "name", "två", "=?base64?dHbDpQ==?=", "tv%C3%A5"),
            ("blank", "resources/read", "uri", " x", "=?base64?IHg=?=", "x"),
            (
                *("sentinel", "tools/call", "name", "=?base64?x?="),
                *("=?base64?PT9iYXNlNjQ/eD89?=", "=?base64?x?="),
            ),
        )
    ),
    _name(
        "http.headers.mcp-name",
        "resources/read",
        "uri",
        "note://a",
        "note://a",
        illegal="=?base64?!?=",
        variant="undecodable",
    ),
    _name("tasks-ext.http.mcp-name", "tasks/get", "taskId", "t-5c", "t-5c", client=TASKS),
    # -- streams
    Pair(
        requirement="http.get.unrelated-messages",
        legal=[_ask(1, "s1"), S.notify("tools/list_changed").over(method="GET", stream="g")],
        illegal=[_ask(1, "s1"), _report("t1", method="GET", stream="g")],
        server=SERVER,
        party="server",
    ),
    Pair(
        requirement="http.post.related-requests-on-stream",
        legal=[_ask(1, "s1"), _ask(2, "s2"), _report("t2", method="POST", stream="s2")],
        illegal=[_ask(1, "s1"), _ask(2, "s2"), _report("t2", method="POST", stream="s1")],
        server=SERVER,
        party="server",
    ),
    Pair(
        requirement="http.sse.notifications-related",
        legal=[_ask(1, "s1"), _ask(2, "s2"), _report("t2", method="POST", stream="s2")],
        illegal=[_ask(1, "s1"), _ask(2, "s2"), _report("t2", method="POST", stream="s1")],
        party="server",
    ),
    Pair(
        requirement="http.sse.notifications-related",
        legal=[_ask(1, "s1"), *_listen("l", "s2"), _changed("l", "s2")],
        illegal=[_ask(1, "s1"), *_listen("l", "s2"), _changed("l", "s1")],
        party="server",
        variant="subscription",
    ),
    Pair(
        requirement="http.sse.listen-excludes-request-scoped",
        legal=[*_listen("l", "s2"), _changed("l", "s2")],
        illegal=[
            _ask(1, "s1"),
            *_listen("l", "s2"),
            _report("t1", method="POST", stream="s2"),
        ],
        party="server",
    ),
    Pair(
        requirement="http.sse.no-requests",
        legal=[_ask(1, "s1"), _report("t1", method="POST", stream="s1")],
        illegal=[
            _ask(1, "s1"),
            S.request(1, "vendor/ask").exactly().over(method="POST", stream="s1"),
        ],
        party="server",
    ),
]

"""Pairs of `_meta`, titles, icons, extensions and trace context."""

from typing import Any

from support.traces import INFO, META, C, Pair, S, Said, opening

TOOLS: Any = {"tools": {"listChanged": True}}
ASK = C.request(1, "tools/list")
TOOL: dict[str, Any] = {
    "name": "add",
    "title": "Add",
    "description": "Add numbers.",
    "inputSchema": {"type": "object"},
}
CACHE = {"ttlMs": 0, "cacheScope": "private"}
VERSION = f"{META}protocolVersion"
CAPABILITIES = f"{META}clientCapabilities"


def _asking(meta: Any) -> list[Said]:
    return [C.request(1, "tools/list", {"_meta": meta})]


def _listing(**members: Any) -> list[Said]:
    return [ASK, S.result(1, {"tools": [TOOL | members], **CACHE})]


def _calling(meta: Any) -> list[Said]:
    content = [{"type": "text", "text": "3", "_meta": meta}]
    return [
        C.request(1, "tools/call", {"name": "add"}),
        S.result(1, {"content": content, "isError": False}),
    ]


def _pair(requirement: str, legal: list[Said], illegal: list[Said], **more: Any) -> Pair:
    return Pair(requirement=requirement, legal=legal, illegal=illegal, server=TOOLS, **more)


def _key(requirement: str, legal: str, illegal: str, variant: str = "", **more: Any) -> Pair:
    return _pair(requirement, _asking({legal: 1}), _asking({illegal: 1}), variant=variant, **more)


def _bare(id: int, meta: Any) -> Said:
    """A request with exactly this `_meta`."""
    params = {} if meta is ... else {"params": {"_meta": meta}}
    return C.json({"jsonrpc": "2.0", "id": id, "method": "tools/list", **params})


def _result(meta: Any) -> Said:
    result = {"resultType": "complete", "tools": [], **CACHE}
    return S.json({"jsonrpc": "2.0", "id": 1, "result": {**result, "_meta": meta}})


ENVELOPE = {VERSION: "2026-07-28", CAPABILITIES: {}, f"{META}clientInfo": INFO}


def _without(key: str) -> dict[str, Any]:
    return {name: value for name, value in ENVELOPE.items() if name != f"{META}{key}"}


def _envelope(requirement: str, meta: Any, variant: str = "", **more: Any) -> Pair:
    return _pair(requirement, [ASK], [ASK, _bare(2, meta)], variant=variant, party="client", **more)


# -- subscriptions

LISTEN = C.request("s", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
HEARD = S.notify(
    "subscriptions/acknowledged",
    {"_meta": {f"{META}subscriptionId": "s"}, "notifications": {"toolsListChanged": True}},
)


def _changed(meta: Any) -> list[Said]:
    params = None if meta is None else {"_meta": meta}
    return [LISTEN, HEARD, S.notify("tools/list_changed", params)]


# -- extensions


def _extending(extensions: Any) -> list[Said]:
    return _asking({CAPABILITIES: {"extensions": extensions}})


def _offering(extensions: Any) -> list[Said]:
    return [
        C.request(1, "server/discover"),
        S.result(
            1,
            {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"extensions": extensions},
                **CACHE,
            },
        ),
    ]


def _titled(revision: str, title: Any) -> list[Said]:
    ask, *rest = opening(revision)
    params = ask.message["params"] | {"clientInfo": INFO | {"title": title}}
    return [C.request("open", "initialize", params), *rest]


TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
PICTURE = "https://example.com/icon.png"

PAIRS = [
    _pair("meta.field.reserved", _asking({}), [ASK, _bare(2, [])], party="client"),
    _pair(
        "meta.field.reserved", _asking({}), [ASK, _result("x")], party="server", variant="result"
    ),
    _pair("meta.field.more-types", _listing(_meta={}), _listing(_meta=7), party="server"),
    _pair(
        "meta.field.more-types",
        _calling({}),
        _calling(7),
        party="server",
        variant="content",
    ),
    # -- keys
    _key("meta.key.two-segments", "com.example/a", "com.example/a/b"),
    _key("meta.key.label-grammar", "com.example-1/a", "com.1example/a"),
    _key("meta.key.label-grammar", "com.example/a", "/a", "empty"),
    _key("meta.key.label-grammar", "com.example/a", "com.example-/a", "hyphen"),
    _key("meta.key.name-grammar", "a_b-c.d", "_a"),
    _key("meta.key.name-grammar", "com.example/", "com.example/a b", "space"),
    _pair(
        "meta.key.name-grammar",
        _listing(_meta={"a": 1}),
        _listing(_meta={"a!": 1}),
        party="server",
        variant="item",
    ),
    _key("meta.prefix.reserved", "com.example/a", "mcp.dev/a"),
    _key("meta.prefix.reserved", "com.example/a", "api.modelcontextprotocol.org/a", "inner"),
    _key("meta.key.reserved-by-second-label", "com.example/a", "com.mcp.tools/a"),
    _pair(
        "meta.key.reserved-by-second-label",
        _asking({"com.example/a": 1}),
        _asking({f"{META}mine": 1}),
        variant="unknown",
    ),
    _key("meta.key.reverse-dns-prefix", "com.example/a", "example.com/a"),
    # -- titles
    *[
        Pair(
            requirement="meta.title.display-name",
            legal=_titled(revision, "Some One"),
            illegal=_titled(revision, ["Some One"]),
            opened=False,
            revisions=(revision,),
            party="client",
            variant="implementation",
        )
        for revision in ("2025-06-18", "2025-11-25")
    ],
    _pair(
        "meta.title.display-name",
        [*_listing(), C.request(2, "tools/call", {"name": "add"})],
        [*_listing(), C.request(2, "tools/call", {"name": "Add"})],
        party="client",
        variant="call",
    ),
    # -- what every message says about its sender
    _envelope("meta.request.protocol-version", _without("protocolVersion")),
    _envelope("meta.request.protocol-version", ..., "params"),
    _envelope("meta.request.client-capabilities", _without("clientCapabilities")),
    _envelope("meta.request.client-capabilities", ENVELOPE | {CAPABILITIES: []}, "array"),
    _envelope("meta.request.client-info", _without("clientInfo")),
    _envelope(
        "meta.request.client-info",
        ENVELOPE | {f"{META}clientInfo": "someone"},
        "string",
        severity="fail",
    ),
    _pair(
        "meta.result.server-info",
        [ASK, _result({f"{META}serverInfo": INFO})],
        [ASK, _result({})],
        party="server",
    ),
    _pair(
        "meta.result.server-info",
        [ASK, _result({f"{META}serverInfo": INFO})],
        [ASK, _result({f"{META}serverInfo": "someone"})],
        party="server",
        severity="fail",
        variant="string",
    ),
    *[
        _pair(
            "meta.listen.subscription-id",
            _changed({f"{META}subscriptionId": "s"}),
            _changed(meta),
            party="server",
            variant=variant,
        )
        for variant, meta in (
            ("", None),
            ("other", {f"{META}subscriptionId": "t"}),
            ("number", {f"{META}subscriptionId": 1}),
        )
    ],
    # -- icons
    _pair(
        "icons.src-required",
        _listing(icons=[{"src": PICTURE, "mimeType": "image/png"}, {"src": "data:,x"}]),
        _listing(icons=[{"mimeType": "image/png"}]),
        party="server",
    ),
    _pair(
        "icons.src-required",
        _listing(icons=[{"src": PICTURE}]),
        _listing(icons=[{"src": "javascript:alert(1)"}]),
        variant="scheme",
    ),
    _pair(
        "icons.src-required",
        _listing(icons=[{"src": PICTURE}]),
        _listing(icons=PICTURE),
        variant="string",
    ),
    # -- extensions
    _pair(
        "extensions.identifier-format",
        _extending({"com.example/thing": {}}),
        _extending({"thing": {}}),
        party="client",
    ),
    _pair(
        "extensions.identifier-format",
        _offering({"com.example/thing": {}}),
        _offering({"com..example/thing": {}}),
        party="server",
        variant="server",
    ),
    _pair(
        "extensions.settings-object",
        _extending({"com.example/thing": {}}),
        _extending({"com.example/thing": True}),
        party="client",
    ),
    _pair(
        "extensions.settings-object",
        _offering({"com.example/thing": {}}),
        _offering(["com.example/thing"]),
        party="server",
        variant="server",
    ),
    # -- trace context
    *[
        _pair(
            "otel.value-formats",
            _asking({name: legal}),
            _asking({name: illegal}),
            variant=variant,
        )
        for variant, name, legal, illegal in (
            ("", "traceparent", TRACEPARENT, TRACEPARENT[:-3]),
            ("zeros", "traceparent", TRACEPARENT, f"00-{'0' * 32}-00f067aa0ba902b7-01"),
            ("number", "traceparent", TRACEPARENT, 7),
            ("more", "traceparent", f"01{TRACEPARENT[2:]}-x", f"{TRACEPARENT}-x"),
            ("state", "tracestate", "vendor=1,a@b=x y", "vendor"),
            ("state-twice", "tracestate", "a=1, b=2", "a=1,a=2"),
            ("baggage", "baggage", "user=7;secret;ttl=5, b = x", "user"),
        )
    ],
]

"""Pairs of the opening, of declared capabilities, and of the end."""

from typing import Any

from accord.protocol.revisions import REVISIONS
from support.traces import INFO, META, C, Pair, S, Said, opening

HANDSHAKE = tuple(id for id, row in REVISIONS.items() if row.handshake)
TOOLS: Any = {"tools": {}}
INITIALIZED = C.notify("initialized")
ASK = C.request(1, "tools/list")
QUESTION: Any = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}],
    "maxTokens": 1,
}


def _initialize(revision: str, **members: Any) -> Said:
    """The opening request, without members of the value None."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO} | members
    return C.request(
        "open", "initialize", {name: value for name, value in params.items() if value is not None}
    )


def _answer(revision: str, **members: Any) -> Said:
    result = {"protocolVersion": revision, "capabilities": {}, "serverInfo": INFO} | members
    return S.result("open", {name: value for name, value in result.items() if value is not None})


def _client(requirement: str, variant: str = "", **members: Any) -> list[Pair]:
    """One pair for each revision: a legal opening, and the given one."""
    return [
        Pair(
            requirement=requirement,
            legal=opening(revision),
            illegal=[_initialize(revision, **members), _answer(revision), INITIALIZED],
            opened=False,
            revisions=(revision,),
            party="client",
            variant=variant,
        )
        for revision in HANDSHAKE
    ]


def _server(requirement: str, variant: str = "", **members: Any) -> list[Pair]:
    return [
        Pair(
            requirement=requirement,
            legal=opening(revision),
            illegal=[_initialize(revision), _answer(revision, **members), INITIALIZED],
            opened=False,
            revisions=(revision,),
            party="server",
            variant=variant,
        )
        for revision in HANDSHAKE
    ]


def _order(requirement: str, revision: str, variant: str, illegal: list[Said]) -> Pair:
    return Pair(
        requirement=requirement,
        legal=opening(revision),
        illegal=illegal,
        opened=False,
        revisions=(revision,),
        party="client",
        variant=variant,
    )


def _orders(revision: str) -> list[Pair]:
    ask, answer = _initialize(revision), _answer(revision, capabilities=TOOLS)
    other = next(id for id in HANDSHAKE if id != revision)
    again = C.request(
        "again",
        "initialize",
        {"protocolVersion": other, "capabilities": {}, "clientInfo": INFO},
    )
    near = C.request("near", "mcp/initialize", ask.message["params"])
    return [
        _order("lifecycle.initialize.first", revision, "", [ASK, *opening(revision)]),
        _order(
            "lifecycle.initialize.method-name",
            revision,
            "",
            [near, S.error("near", -32601), *opening(revision)],
        ),
        Pair(
            requirement="lifecycle.initialize.client-waits",
            legal=[ask, C.request(1, "ping"), S.result(1, {}), answer, INITIALIZED],
            illegal=[ask, ASK, answer, INITIALIZED],
            opened=False,
            revisions=(revision,),
            party="client",
        ),
        _order("lifecycle.initialized.sent", revision, "", [ask, answer, ASK]),
        _order("lifecycle.initialized.sent", revision, "early", [INITIALIZED, ask, answer]),
        _order(
            "lifecycle.initialized.method-name",
            revision,
            "",
            [ask, answer, C.json({"jsonrpc": "2.0", "method": "initialized"})],
        ),
        _order(
            "lifecycle.initialized.method-name",
            revision,
            "spelling",
            [ask, answer, C.notify("initialised")],
        ),
        Pair(
            requirement="lifecycle.initialized.server-waits",
            legal=[ask, answer, S.request(1, "ping"), C.result(1, {}), INITIALIZED],
            illegal=[
                _initialize(revision, capabilities={"roots": {}}),
                answer,
                S.request(1, "roots/list"),
                INITIALIZED,
            ],
            opened=False,
            revisions=(revision,),
            party="server",
        ),
        _order(
            "lifecycle.version.client-sends-supported",
            revision,
            "",
            [ask, answer, again],
        ),
    ]


_NAMELESS = {"version": "1"}

PAIRS = [
    *_client("lifecycle.initialize.protocol-version", protocolVersion=None),
    *_client("lifecycle.initialize.protocol-version", "number", protocolVersion=20241105),
    *[
        Pair(
            requirement="lifecycle.initialize.protocol-version",
            legal=opening(revision),
            illegal=[C.request("open", "initialize"), _answer(revision), INITIALIZED],
            opened=False,
            revisions=(revision,),
            variant="params",
        )
        for revision in HANDSHAKE
    ],
    *_client("lifecycle.initialize.client-capabilities", capabilities=None),
    *_client("lifecycle.initialize.client-capabilities", "array", capabilities=[]),
    *_client("lifecycle.initialize.client-info", clientInfo=None),
    *_client("lifecycle.initialize.client-info", "string", clientInfo="someone"),
    *_client("lifecycle.implementation.name-and-version", "client", clientInfo=_NAMELESS),
    *_client("lifecycle.version.identifier", "client", protocolVersion="v1"),
    *_client("lifecycle.capabilities.declared", "client", capabilities={"roots": True}),
    *_client(
        "lifecycle.capabilities.declared", "experimental", capabilities={"experimental": {"a": 1}}
    ),
    *_server("lifecycle.initialize-result.protocol-version", protocolVersion=None),
    *_server("lifecycle.initialize-result.protocol-version", "number", protocolVersion=20241105),
    *_server("lifecycle.initialize-result.server-capabilities", capabilities=None),
    *_server("lifecycle.initialize-result.server-capabilities", "array", capabilities=[]),
    *_server("lifecycle.initialize-result.server-info", serverInfo=None),
    *_server("lifecycle.initialize-result.server-info", "string", serverInfo="someone"),
    *_server("lifecycle.implementation.name-and-version", "server", serverInfo=_NAMELESS),
    *_server("lifecycle.version.identifier", "server", protocolVersion="latest"),
    *_server("lifecycle.capabilities.declared", "server", capabilities={"tools": None}),
    *[pair for revision in HANDSHAKE for pair in _orders(revision)],
    Pair(
        requirement="lifecycle.implementation.name-and-version",
        legal=[ASK],
        illegal=[C.request(1, "tools/list", {"_meta": {f"{META}clientInfo": {"name": "someone"}}})],
        revisions=("2026-07-28",),
        party="client",
        variant="meta",
    ),
    Pair(
        requirement="lifecycle.initialize.not-in-batch",
        legal=opening("2025-03-26"),
        illegal=[
            C.batch(_initialize("2025-03-26")),
            S.batch(_answer("2025-03-26")),
            INITIALIZED,
        ],
        opened=False,
        party="client",
    ),
    Pair(
        requirement="lifecycle.capabilities.respected",
        legal=[ASK],
        illegal=[C.request(1, "prompts/list"), S.error(1, -32601)],
        server=TOOLS,
        party="client",
    ),
    Pair(
        requirement="lifecycle.capabilities.respected",
        legal=[S.request(1, "roots/list")],
        illegal=[S.request(1, "sampling/createMessage", QUESTION)],
        client={"roots": {}},
        party="server",
        variant="server",
    ),
    Pair(
        requirement="lifecycle.capabilities.only-declared",
        legal=[ASK],
        illegal=[C.request(1, "roots/list"), S.error(1, -32601)],
        server=TOOLS,
        party="client",
    ),
    Pair(
        requirement="lifecycle.capabilities.only-declared",
        legal=[INITIALIZED],
        illegal=[S.notify("roots/list_changed")],
        party="server",
        variant="notification",
    ),
    Pair(
        requirement="lifecycle.shutdown.no-message",
        legal=[ASK],
        illegal=[ASK, C.request(2, "shutdown")],
        server=TOOLS,
        party="client",
    ),
    Pair(
        requirement="lifecycle.shutdown.no-message",
        legal=[ASK],
        illegal=[ASK, S.notify("exit")],
        server=TOOLS,
        party="server",
        variant="notification",
    ),
]

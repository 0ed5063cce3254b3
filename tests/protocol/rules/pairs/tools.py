from typing import Any

from accord.protocol.revisions import REVISIONS
from protocol.rules.pairs._samples import (
    CACHE,
    EMBEDDED,
    HANDSHAKE,
    LINK,
    PICTURE,
    SOUND,
    STATELESS,
    TEXT,
    TOOL,
    asked,
    asking,
    called,
    declared,
    listening,
    tools,
    without,
)
from support.traces import C, Pair, S

SERVER = {"tools": {}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WITH_OUTPUT = {**TOOL, "outputSchema": SCHEMA}
BAD_SCHEMA = {"type": "object", "properties": {}, "required": "n"}
FORM = {
    "mode": "form",
    "message": "How many?",
    "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}
SAMPLING = {
    "maxTokens": 10,
    "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}],
}
JSON_TEXT = {"type": "text", "text": '{"n": 1}'}


def listed(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement, server=SERVER, legal=tools(legal), illegal=tools(illegal), **more
    )


def answered(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    return Pair(requirement=requirement, server=SERVER, legal=legal, illegal=illegal, **more)


def headers(requirement: str, legal: Any, illegal: Any, **more: Any) -> Pair:
    def tool(schema: Any) -> Any:
        return {**TOOL, "inputSchema": {"type": "object", "properties": schema}}

    return listed(requirement, tool(legal), tool(illegal), **more)


def capabilities() -> list[Pair]:
    pairs = []
    for revision in REVISIONS:
        notice = listening(revision, S.notify("tools/list_changed"), {"toolsListChanged": True})
        pairs += [
            Pair(
                requirement="tools.capability.list-changed",
                opened=False,
                revisions=(revision,),
                legal=declared(revision, {"tools": {"listChanged": True}}),
                illegal=declared(revision, {"tools": {"listChanged": "yes"}}),
            ),
            Pair(
                requirement="tools.list-changed.capability-required",
                opened=False,
                revisions=(revision,),
                legal=[*declared(revision, {"tools": {"listChanged": True}}), *notice],
                illegal=[*declared(revision, {"tools": {}}), *notice],
            ),
            Pair(
                requirement="tools.capability.declared",
                opened=False,
                revisions=(revision,),
                legal=[*declared(revision, SERVER), *tools(TOOL)],
                illegal=[*declared(revision, {}), *tools(TOOL)],
                party="server",
                also=frozenset({"lifecycle.capabilities.respected"}),
            ),
        ]
    return pairs


def embedding() -> list[Pair]:
    return [
        Pair(
            requirement="tools.embedded-resource.capability",
            opened=False,
            revisions=(revision,),
            legal=[*declared(revision, {"tools": {}, "resources": {}}), *called(EMBEDDED)],
            illegal=[*declared(revision, {"tools": {}}), *called(EMBEDDED)],
        )
        for revision in REVISIONS
    ]


def questions() -> list[Pair]:
    """Schemas in questions to the client, in both ways of asking."""
    pairs = []
    for method, valid, invalid in (
        ("elicitation/create", FORM, {**FORM, "requestedSchema": BAD_SCHEMA}),
        (
            "sampling/createMessage",
            {**SAMPLING, "tools": [TOOL]},
            {**SAMPLING, "tools": [{**TOOL, "inputSchema": BAD_SCHEMA}]},
        ),
    ):
        shared: dict[str, Any] = {
            "requirement": "schema.wire-schemas-valid",
            "variant": method.replace("/", "-"),
            "client": {"elicitation": {"form": {}}, "sampling": {"tools": {}}},
            "server": SERVER,
            "also": frozenset({"elicitation.form.flat-primitives"}),
        }
        pairs += [
            Pair(
                revisions=HANDSHAKE,
                legal=[S.request(1, method, valid)],
                illegal=[S.request(1, method, invalid)],
                **shared,
            ),
            Pair(
                revisions=STATELESS,
                legal=asking(method, valid),
                illegal=asking(method, invalid),
                **shared,
            ),
        ]
    return pairs


PAIRS = [
    *capabilities(),
    *embedding(),
    Pair(
        requirement="tools.list.array",
        server=SERVER,
        legal=tools(),
        illegal=asked("tools/list", None, {"tools": {}, **CACHE}),
    ),
    Pair(
        requirement="tools.list.array",
        variant="absent",
        server=SERVER,
        legal=tools(TOOL),
        illegal=asked("tools/list", None, CACHE),
    ),
    Pair(
        requirement="tools.list.array",
        variant="stranger",
        server=SERVER,
        legal=tools(TOOL),
        illegal=tools(TOOL, "add"),
    ),
    Pair(
        requirement="tools.list.array",
        variant="no-object",
        server=SERVER,
        revisions=HANDSHAKE[:3],
        legal=tools(TOOL),
        illegal=[C.request(1, "tools/list"), S.result(1, [TOOL])],
    ),
    # -- one tool
    listed("tools.item.name", TOOL, without(TOOL, "name")),
    listed("tools.item.name", TOOL, {**TOOL, "name": 5}, variant="type"),
    listed("tools.item.description", TOOL, without(TOOL, "description")),
    listed(
        "tools.item.description", TOOL, {**TOOL, "description": 5}, severity="fail", variant="type"
    ),
    listed("tools.item.title", TOOL, {**TOOL, "title": 5}, severity="fail"),
    listed(
        "tools.item.annotations",
        {**TOOL, "annotations": {"title": "Add", "readOnlyHint": True}},
        {**TOOL, "annotations": {"readOnlyHint": "yes"}},
    ),
    listed(
        "tools.item.annotations",
        {**TOOL, "annotations": {}},
        {**TOOL, "annotations": []},
        variant="type",
    ),
    listed("tools.item.input-schema", TOOL, without(TOOL, "inputSchema")),
    listed(
        "tools.item.input-schema",
        TOOL,
        {**TOOL, "inputSchema": {}},
        variant="type",
        revisions=HANDSHAKE[:3],
    ),
    listed(
        "tools.item.input-schema",
        TOOL,
        {**TOOL, "inputSchema": None},
        variant="null",
        revisions=HANDSHAKE[:3],
    ),
    listed(
        "tools.item.input-schema",
        {
            **TOOL,
            "inputSchema": {
                "type": "object",
                "properties": {
                    "a": {"description": "Draft-07.", "type": "array", "items": [{"type": "null"}]}
                },
            },
        },
        {**TOOL, "inputSchema": {"type": "object", "required": "a"}},
        variant="invalid",
        revisions=HANDSHAKE[:3],
    ),
    listed("tools.input-schema.not-null", TOOL, {**TOOL, "inputSchema": None}),
    listed("tools.input-schema.type-object", TOOL, {**TOOL, "inputSchema": {"type": "array"}}),
    listed("tools.item.output-schema", WITH_OUTPUT, {**TOOL, "outputSchema": "object"}),
    listed(
        "tools.item.output-schema",
        WITH_OUTPUT,
        {**TOOL, "outputSchema": {"type": "object", "required": "n"}},
        variant="invalid",
        revisions=HANDSHAKE[2:3],
    ),
    listed("tools.output-schema.object", WITH_OUTPUT, {**TOOL, "outputSchema": {"type": "array"}}),
    listed(
        "tools.task-support.values",
        {**TOOL, "execution": {"taskSupport": "optional"}},
        {**TOOL, "execution": {"taskSupport": "maybe"}},
    ),
    listed(
        "tools.task-support.values",
        {**TOOL, "execution": {"taskSupport": "forbidden"}},
        {**TOOL, "execution": "optional"},
        variant="type",
    ),
    listed("tools.name.length", {**TOOL, "name": "a" * 128}, {**TOOL, "name": "a" * 129}),
    listed("tools.name.length", TOOL, {**TOOL, "name": ""}, variant="empty"),
    listed("tools.name.charset", {**TOOL, "name": "a-B_9.c"}, {**TOOL, "name": "a b"}),
    Pair(
        requirement="tools.name.unique",
        server=SERVER,
        legal=tools(TOOL, {**TOOL, "name": "Add"}),
        illegal=tools(TOOL, TOOL),
    ),
    Pair(
        requirement="tools.name.unique",
        variant="pages",
        server=SERVER,
        legal=[
            *tools(TOOL, nextCursor="2"),
            *tools({**TOOL, "name": "subtract"}, id=2, cursor="2"),
            *tools(TOOL, nextCursor="2", id=3),
        ],
        illegal=[*tools(TOOL, nextCursor="2"), *tools(TOOL, id=2, cursor="2")],
    ),
    # -- schemas
    listed(
        "schema.wire-schemas-valid",
        WITH_OUTPUT,
        {**TOOL, "inputSchema": {"type": "object", "required": "a"}},
    ),
    listed(
        "schema.wire-schemas-valid",
        WITH_OUTPUT,
        {**TOOL, "outputSchema": {"type": "object", "required": "a"}},
        variant="output",
    ),
    listed(
        "schema.wire-schemas-valid",
        {**TOOL, "outputSchema": {"type": "array"}},
        {**TOOL, "outputSchema": "array"},
        variant="any-output",
        revisions=STATELESS,
    ),
    listed(
        "schema.wire-schemas-valid",
        {
            **WITH_OUTPUT,
            "inputSchema": {"type": "object", "$schema": "https://example.com/dialect"},
        },
        {**TOOL, "inputSchema": {"type": "object", "$ref": "#/$defs/nowhere"}},
        variant="reference",
    ),
    *questions(),
    # -- results
    answered(
        "tools.call.content-array",
        called(),
        asked("tools/call", {"name": "add"}, {"content": "3", "isError": False}),
    ),
    answered(
        "tools.call.content-array",
        called(TEXT),
        asked("tools/call", {"name": "add"}, {"isError": False}),
        variant="absent",
    ),
    answered(
        "tools.call.content-array",
        called(TEXT),
        [C.request(1, "tools/call", {"name": "add"}), S.result(1, [TEXT])],
        variant="no-object",
        revisions=HANDSHAKE[:3],
    ),
    answered(
        "tools.call.is-error-flag",
        called(TEXT),
        asked("tools/call", {"name": "add"}, {"content": [TEXT]}),
    ),
    answered(
        "tools.call.is-error-flag",
        called(TEXT, isError=True),
        called(TEXT, isError="no"),
        severity="fail",
        variant="type",
    ),
    answered(
        "tools.call.content-type",
        called(TEXT, PICTURE),
        called(TEXT, {"type": "video", "data": "aGk=", "mimeType": "video/mp4"}),
    ),
    answered("tools.call.content-type", called(TEXT), called({"text": "3"}), variant="untyped"),
    answered("tools.call.content-type", called(TEXT), called("3"), variant="no-object"),
    answered("tools.call.content-type", called(TEXT), called({"type": "text"}), variant="text"),
    answered(
        "tools.call.content-type",
        called(PICTURE),
        called({**PICTURE, "data": "hi!"}),
        variant="image",
    ),
    answered(
        "tools.call.content-type",
        called(TEXT),
        called({"type": "resource"}),
        variant="resource",
        revisions=HANDSHAKE[:2],
    ),
    answered(
        "tools.call.content-type",
        called(TEXT),
        called(SOUND),
        variant="audio-too-early",
        revisions=HANDSHAKE[:1],
    ),
    answered(
        "tools.call.content-type",
        called(SOUND),
        called(LINK),
        variant="link-too-early",
        revisions=HANDSHAKE[1:2],
    ),
    answered(
        "tools.call.content-type",
        called(SOUND, LINK),
        called(without(LINK, "name")),
        variant="link",
        revisions=(*HANDSHAKE[2:], *STATELESS),
    ),
    # -- structured content
    answered(
        "tools.call.structured-content",
        called(JSON_TEXT, structuredContent={"n": 1}),
        called(TEXT),
        observed=True,
    ),
    answered(
        "tools.structured-content.object",
        called(JSON_TEXT, structuredContent={"n": 1}),
        called({"type": "text", "text": "[1]"}, structuredContent=[1]),
        severity="fail",
    ),
    answered(
        "tools.structured-content.also-text",
        called(TEXT, JSON_TEXT, structuredContent={"n": 1}),
        called(TEXT, structuredContent={"n": 1}),
    ),
    answered(
        "tools.structured-content.also-text",
        called({"type": "text", "text": "3"}, structuredContent={"result": 3}),
        called({"type": "text", "text": "4"}, structuredContent={"result": 3}),
        variant="a value on its own",
    ),
    answered(
        "tools.structured-content.also-text",
        called({"type": "text", "text": "done"}, structuredContent={"result": "done"}),
        called({"type": "text", "text": "done"}, structuredContent={"result": "done", "n": 1}),
        variant="a text on its own",
    ),
    answered(
        "tools.structured-content.also-text",
        called({"type": "text", "text": "null"}, structuredContent=None),
        called(structuredContent=None),
        variant="null",
        revisions=STATELESS,
    ),
    answered(
        "tools.call.structured-conforms",
        [*tools(WITH_OUTPUT), *called(JSON_TEXT, structuredContent={"n": 1})],
        [
            *tools(WITH_OUTPUT),
            *called({"type": "text", "text": '{"n": "1"}'}, structuredContent={"n": "1"}),
        ],
    ),
    answered(
        "tools.call.structured-conforms",
        [
            *tools(WITH_OUTPUT),
            *called(TEXT, isError=True),
            *called(JSON_TEXT, structuredContent={"n": 1}, id=3),
        ],
        [*tools(WITH_OUTPUT), *called(TEXT)],
        variant="absent",
    ),
    answered(
        "tools.call.structured-conforms",
        [
            *tools({**TOOL, "outputSchema": {"type": "null"}}),
            *called({"type": "text", "text": "null"}, structuredContent=None),
        ],
        [
            *tools({**TOOL, "outputSchema": {"type": "array"}}),
            *called({"type": "text", "text": "null"}, structuredContent=None),
        ],
        variant="any-json",
        revisions=STATELESS,
    ),
    # -- mirrored headers
    headers(
        "tools.x-mcp-header.not-empty",
        {"r": {"type": "string", "x-mcp-header": "Region"}},
        {"r": {"type": "string", "x-mcp-header": ""}},
    ),
    headers(
        "tools.x-mcp-header.token-syntax",
        {"r": {"type": "string", "x-mcp-header": "x-region.1"}},
        {"r": {"type": "string", "x-mcp-header": "my region"}},
    ),
    headers(
        "tools.x-mcp-header.token-syntax",
        {"r": {"type": "string", "x-mcp-header": "Method"}},
        {"r": {"type": "string", "x-mcp-header": True}},
        variant="type",
    ),
    headers(
        "tools.x-mcp-header.unique",
        {
            "r": {"type": "string", "x-mcp-header": "Region"},
            "s": {"type": "string", "x-mcp-header": "Site"},
        },
        {
            "r": {"type": "string", "x-mcp-header": "Region"},
            "s": {"type": "string", "x-mcp-header": "REGION"},
        },
    ),
    headers(
        "tools.x-mcp-header.primitive-only",
        {"r": {"type": ["integer", "null"], "x-mcp-header": "Region"}},
        {"r": {"type": "number", "x-mcp-header": "Region"}},
    ),
    headers(
        "tools.x-mcp-header.statically-reachable",
        {"r": {"type": "object", "properties": {"s": {"type": "string", "x-mcp-header": "S"}}}},
        {"r": {"type": "array", "items": {"type": "string", "x-mcp-header": "S"}}},
    ),
    headers(
        "tools.x-mcp-header.statically-reachable",
        {
            "x-mcp-header": {"type": "string", "default": {"x-mcp-header": "a"}},
            "s": {"type": "boolean", "x-mcp-header": "S"},
        },
        {"r": {"anyOf": [{"type": "string", "x-mcp-header": "S"}]}},
        variant="composed",
    ),
    headers(
        "tools.x-mcp-header.safe-integers",
        {"r": {"type": "integer", "default": 2**53 - 1, "x-mcp-header": "R"}},
        {"r": {"type": "integer", "enum": [2**53], "x-mcp-header": "R"}},
        party="server",
        variant="schema",
    ),
    answered(
        "tools.x-mcp-header.safe-integers",
        [
            *tools(
                mirrored := {
                    **TOOL,
                    "inputSchema": {
                        "type": "object",
                        "properties": {"r": {"type": "integer", "x-mcp-header": "R"}},
                    },
                }
            ),
            *called(TEXT, arguments={"r": 1 - 2**53}),
        ],
        [*tools(mirrored), *called(TEXT, arguments={"r": -(2**53)})],
        party="client",
    ),
]

from typing import Any

from protocol.rules.pairs._samples import (
    HANDSHAKE,
    PICTURE,
    RESOURCE,
    TEXT,
    TOOL,
    asked,
    called,
    resources,
    tools,
    without,
)
from support.traces import Pair, opening

SERVER = {"tools": {}, "resources": {}}


def with_parameter(schema: Any, **more: Any) -> Any:
    return {**TOOL, "inputSchema": {"type": "object", "properties": {"a": schema}, **more}}


def listed(requirement: str, followed: Any, otherwise: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement,
        server=SERVER,
        legal=tools(followed),
        illegal=tools(otherwise),
        **more,
    )


def answered(requirement: str, followed: Any, otherwise: Any, **more: Any) -> Pair:
    return Pair(
        requirement=requirement,
        server=SERVER,
        legal=followed,
        illegal=otherwise,
        observed=True,
        **more,
    )


def declared(requirement: str, followed: Any, otherwise: Any) -> list[Pair]:
    return [
        Pair(
            requirement=requirement,
            opened=False,
            observed=True,
            revisions=(revision,),
            legal=opening(revision, server=followed),
            illegal=opening(revision, server=otherwise),
        )
        for revision in HANDSHAKE
    ]


NUMBER = {"type": "number", "description": "A number."}

PAIRS = [
    answered(
        "practice.tools.success-omits-is-error",
        asked("tools/call", {"name": "add"}, {"content": [TEXT]}),
        called(TEXT),
        also=frozenset({"tools.call.is-error-flag"}),
    ),
    answered(
        "practice.tools.json-as-text",
        called({"type": "text", "text": '{"sum": 3}'}),
        called({"type": "text", "text": "{sum: 3}"}),
    ),
    answered(
        "practice.tools.json-as-text",
        called({"type": "text", "text": "[3]"}),
        called(TEXT),
        variant="plain",
    ),
    answered("practice.content.text-item", called(TEXT, TEXT), called(TEXT, PICTURE)),
    listed(
        "practice.tools.descriptive-schemas",
        with_parameter(NUMBER),
        with_parameter({"type": "number"}),
    ),
    Pair(
        requirement="practice.tools.descriptive-schemas",
        variant="beside-a-tool-without-description",
        server=SERVER,
        legal=tools(TOOL),
        illegal=tools(without(TOOL, "description"), with_parameter({"type": "number"})),
        also=frozenset({"tools.item.description", "tools.name.unique"}),
    ),
    listed(
        "practice.schema.structure",
        with_parameter(NUMBER, required=["a"]),
        with_parameter(NUMBER),
        observed=True,
    ),
    listed(
        "practice.schema.types",
        with_parameter(NUMBER),
        with_parameter({"description": "Anything."}),
        observed=True,
    ),
    listed(
        "practice.schema.constraints",
        with_parameter({**NUMBER, "minimum": 0}),
        with_parameter(NUMBER),
        observed=True,
    ),
    *declared(
        "practice.capabilities.empty-object", {"tools": {}}, {"tools": {"listChanged": True}}
    ),
    *declared("practice.capabilities.tools-common", {"tools": {}}, {"prompts": {}}),
    *declared("practice.capabilities.resources-rare", {"tools": {}}, {"resources": {}}),
    answered(
        "practice.resources.custom-scheme",
        resources(RESOURCE),
        resources({**RESOURCE, "uri": "file:///a"}),
    ),
]

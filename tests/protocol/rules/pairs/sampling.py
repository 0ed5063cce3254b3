"""Pairs of traces for sampling."""

from support.questions import (
    CAPABILITIES,
    answered,
    asked,
    asked_of,
    declared,
    declared_per_request,
)
from support.traces import META, C, Pair, S

_CREATE = "sampling/createMessage"
_TEXT = {"type": "text", "text": "hello"}
_ASKED = {"role": "user", "content": _TEXT}
_PARAMS = {"messages": [_ASKED], "maxTokens": 9}
_FULL = {
    **_PARAMS,
    "systemPrompt": "be brief",
    "includeContext": "none",
    "temperature": 0.5,
    "stopSequences": ["."],
    "metadata": {},
    "modelPreferences": {"hints": [{"name": "big"}], "speedPriority": 1, "costPriority": 0.5},
}
_ANSWER = {"role": "assistant", "content": _TEXT, "model": "m", "stopReason": "endTurn"}
_MISSION = ("2024-11-05", "2025-03-26", "2025-06-18")
_LATER = ("2025-11-25", "2026-07-28")
# Later sampling.message.role-and-content has this part.
_BEFORE_ROUNDS = (*_MISSION, "2025-11-25")

_USE = {"type": "tool_use", "id": "u1", "name": "weather", "input": {}}
_TOOL = {"name": "weather", "inputSchema": {"type": "object"}}
_GIVEN = {"type": "tool_result", "toolUseId": "u1", "content": []}


def _talk(*messages):
    return {"messages": [_ASKED, *messages], "maxTokens": 9}


def _without(name):
    return {key: value for key, value in _ANSWER.items() if key != name}


def _field(variant, revisions=(*_MISSION, *_LATER), **members):
    return asked(
        "sampling.create.request-fields",
        _CREATE,
        legal=_FULL,
        illegal={**_FULL, **members},
        revisions=revisions,
        variant=variant,
    )


_BALANCED = _talk(
    {"role": "assistant", "content": [_USE]},
    {"role": "user", "content": [_GIVEN]},
)

_TIME = "2025-11-25T10:00:00Z"
_TASK = {"taskId": "t1", "status": "working", "createdAt": _TIME, "lastUpdatedAt": _TIME, "ttl": 1}
_AS_TASK = [
    S.request("q", _CREATE, {**_PARAMS, "task": {}}),
    C.result("q", {"task": _TASK}),
    S.request("r", "tasks/result", {"taskId": "t1"}),
]
_OF_TASK = {f"{META}related-task": {"taskId": "t1"}}

PAIRS = [
    Pair(
        requirement="sampling.result.model",
        legal=[*_AS_TASK, C.result("r", {**_ANSWER, "_meta": _OF_TASK})],
        illegal=[*_AS_TASK, C.result("r", {**_without("model"), "_meta": _OF_TASK})],
        client={**CAPABILITIES, "tasks": {"requests": {"sampling": {"createMessage": {}}}}},
        revisions=("2025-11-25",),
        party="client",
        variant="task",
    ),
    *declared(
        "sampling.capability.declared",
        {"sampling": {}},
        [S.request("q", _CREATE, _PARAMS), C.result("q", _ANSWER)],
        also=frozenset({"lifecycle.capabilities.respected"}),
    ),
    *_field("max-tokens", maxTokens="9"),
    *_field("messages", messages=_ASKED),
    *_field("message", _BEFORE_ROUNDS, messages=["hello"]),
    *_field("role", _BEFORE_ROUNDS, messages=[{"role": "system", "content": _TEXT}]),
    *_field("content", _BEFORE_ROUNDS, messages=[{"role": "user", "content": "hello"}]),
    *_field("system-prompt", systemPrompt=["be brief"]),
    *_field("preferences", modelPreferences="big"),
    *_field("hints", modelPreferences={"hints": [{"name": 1}]}),
    *_field("priority", modelPreferences={"speedPriority": 7}),
    *_field("temperature", temperature="hot"),
    *_field("context", includeContext="everything"),
    *_field("stop-sequences", stopSequences=[1]),
    *asked(
        "sampling.create.request-fields",
        _CREATE,
        legal=_PARAMS,
        illegal={"messages": [_ASKED]},
        variant="no-max-tokens",
    ),
    *answered("sampling.result.role", _CREATE, _PARAMS, legal=_ANSWER, illegal=_without("role")),
    *answered(
        "sampling.result.role",
        _CREATE,
        _PARAMS,
        legal=_ANSWER,
        illegal="hello",
        revisions=_MISSION,
        variant="text",
    ),
    *answered(
        "sampling.result.role",
        _CREATE,
        _PARAMS,
        legal=_ANSWER,
        illegal={**_ANSWER, "role": "model"},
        variant="value",
    ),
    *answered(
        "sampling.result.content", _CREATE, _PARAMS, legal=_ANSWER, illegal=_without("content")
    ),
    *answered(
        "sampling.result.content",
        _CREATE,
        _PARAMS,
        legal=_ANSWER,
        illegal={**_ANSWER, "content": "hello"},
        variant="text",
    ),
    *answered(
        "sampling.result.content",
        _CREATE,
        _PARAMS,
        legal=_ANSWER,
        illegal={**_ANSWER, "content": [_TEXT]},
        revisions=_MISSION,
        variant="array",
    ),
    *answered(
        "sampling.result.content",
        _CREATE,
        _PARAMS,
        legal={**_ANSWER, "content": [_TEXT, _USE]},
        illegal={**_ANSWER, "content": [_TEXT, {"type": "smell"}]},
        revisions=_LATER,
        variant="unknown-type",
    ),
    *answered(
        "sampling.result.content",
        _CREATE,
        _PARAMS,
        legal={**_ANSWER, "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
        illegal={**_ANSWER, "content": {"type": "image", "mimeType": "image/png"}},
        variant="members",
    ),
    *answered(
        "sampling.result.content-type",
        _CREATE,
        _PARAMS,
        legal=_ANSWER,
        illegal={
            **_ANSWER,
            "content": {"type": "resource", "resource": {"uri": "x://a", "text": "a"}},
        },
        revisions=_MISSION,
    ),
    *answered(
        "sampling.result.content-type",
        _CREATE,
        _PARAMS,
        legal=_ANSWER,
        illegal={**_ANSWER, "content": {"type": "audio", "data": "", "mimeType": "audio/wav"}},
        revisions=("2024-11-05",),
        variant="audio",
    ),
    *answered("sampling.result.model", _CREATE, _PARAMS, legal=_ANSWER, illegal=_without("model")),
    *answered(
        "sampling.result.stop-reason",
        _CREATE,
        _PARAMS,
        legal=_ANSWER,
        illegal=_without("stopReason"),
    ),
    *answered(
        "sampling.result.stop-reason",
        _CREATE,
        _PARAMS,
        legal=_ANSWER,
        illegal={**_ANSWER, "stopReason": 1},
        severity="fail",
        variant="type",
    ),
    declared_per_request("sampling.capability-per-request", _CREATE, _PARAMS, _ANSWER, "sampling"),
    *asked(
        "sampling.message.role-and-content",
        _CREATE,
        legal=_PARAMS,
        illegal={**_PARAMS, "messages": [{"role": "user"}]},
    ),
    *asked(
        "sampling.context.avoid",
        _CREATE,
        legal={**_PARAMS, "includeContext": "none"},
        illegal={**_PARAMS, "includeContext": "thisServer"},
        revisions=("2025-11-25",),
    ),
    *asked(
        "sampling.context.needs-capability",
        _CREATE,
        legal={**_PARAMS, "includeContext": "none"},
        illegal={**_PARAMS, "includeContext": "allServers"},
        client={**CAPABILITIES, "sampling": {}},
        also=frozenset({"deprecated.include-context.not-used"}),
    ),
    *asked(
        "sampling.tool-results.alone",
        _CREATE,
        legal=_BALANCED,
        illegal=_talk(
            {"role": "assistant", "content": _USE},
            {"role": "user", "content": [_GIVEN, _TEXT]},
        ),
    ),
    *asked(
        "sampling.tool-use.balanced",
        _CREATE,
        legal=_BALANCED,
        illegal=_talk(
            {"role": "assistant", "content": _USE},
        ),
    ),
    *asked(
        "sampling.tool-use.balanced",
        _CREATE,
        legal=_BALANCED,
        illegal=_talk(
            {"role": "assistant", "content": [_USE, {**_USE, "id": "u2"}]},
            {"role": "user", "content": [_GIVEN]},
        ),
        variant="one-missing",
    ),
    *asked(
        "sampling.tool-result.id-matches",
        _CREATE,
        legal=_BALANCED,
        illegal=_talk(
            {"role": "assistant", "content": [_USE]},
            {"role": "user", "content": [_GIVEN, {**_GIVEN, "toolUseId": "u2"}]},
        ),
    ),
    *asked(
        "sampling.tool-choice.values",
        _CREATE,
        legal={**_PARAMS, "toolChoice": {"mode": "required"}},
        illegal={**_PARAMS, "toolChoice": {"mode": "any"}},
    ),
    *asked(
        "sampling.tool-choice.values",
        _CREATE,
        legal={**_PARAMS, "toolChoice": {}},
        illegal={**_PARAMS, "toolChoice": "auto"},
        variant="text",
    ),
    *(
        pair
        for variant, members in (
            ("tools", {"tools": [_TOOL]}),
            ("no-tools", {"tools": []}),
            ("choice", {"toolChoice": {"mode": "none"}}),
        )
        for pair in asked_of(
            "sampling.tools.not-without-capability",
            _CREATE,
            {**_PARAMS, **members},
            declared={"sampling": {"tools": {}}},
            undeclared={"sampling": {}},
            revisions=_LATER,
            party="server",
            variant=variant,
        )
    ),
    *asked_of(
        "sampling.tools.capability",
        _CREATE,
        {**_PARAMS, "tools": [_TOOL]},
        declared={"sampling": {"tools": {}}},
        undeclared={"sampling": {}},
        answer=_ANSWER,
        revisions=_LATER,
        party="client",
        also=frozenset({"sampling.tools.not-without-capability"}),
    ),
]

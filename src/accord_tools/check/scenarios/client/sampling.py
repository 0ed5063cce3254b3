"""Questions to a client's model: with tools, with a limit, and with results of tools amiss."""

from collections.abc import Sequence
from typing import Final

from accord.protocol.verdict import Evidence
from accord.types import JsonObject
from accord_tools.check.fake_server.client_run import ClientRun

_REQUIRED: Final = "sampling.tool-choice.required"
_NONE: Final = "sampling.tool-choice.none"
_LIMIT: Final = "sampling.max-tokens-respected"
TOOL_CHOICE_IDS: Final = (_REQUIRED, _NONE, _LIMIT)
_MAX_TOKENS: Final = 100
# No tokenizer joins so many words into one token.
_WORDS_PER_TOKEN: Final = 4
_WEATHER: Final = {
    "name": "weather",
    "description": "Tell the weather of a city.",
    "inputSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def _message(role: str, *content: JsonObject) -> JsonObject:
    return {"role": role, "content": [*content]}


_TEXT: Final = {"type": "text", "text": "What is the weather in Oslo?"}
_USE: Final = {"type": "tool_use", "id": "use-1", "name": "weather", "input": {"city": "Oslo"}}
_RESULT: Final = {
    "type": "tool_result",
    "toolUseId": "use-1",
    "content": [{"type": "text", "text": "4 degrees"}],
}
MISSING_RESULT: Final[JsonObject] = {
    "messages": [
        _message("user", _TEXT),
        _message("assistant", _USE),
        _message("user", {"type": "text", "text": "And?"}),
    ],
    "maxTokens": _MAX_TOKENS,
    "tools": [_WEATHER],
}
"""A tool is used, and its result never comes."""

MIXED_RESULTS: Final[JsonObject] = {
    "messages": [
        _message("user", _TEXT),
        _message("assistant", _USE),
        _message("user", _RESULT, {"type": "text", "text": "And tomorrow?"}),
    ],
    "maxTokens": _MAX_TOKENS,
    "tools": [_WEATHER],
}
"""The result of a tool comes beside other content."""


def sampling_questions(declared: object) -> list[JsonObject]:
    """Return the parameters of valid sampling requests, with tools where they are declared."""
    asked: JsonObject = {
        "messages": [{"role": "user", "content": _TEXT}],
        "maxTokens": _MAX_TOKENS,
    }
    if not isinstance(declared, dict) or "tools" not in declared:
        return [asked]
    tools = {**asked, "tools": [_WEATHER]}
    choices = ("none", "required")
    return [asked, *({**tools, "toolChoice": {"mode": mode}} for mode in choices)]


def judge_sampled(
    run: ClientRun, params: JsonObject, result: JsonObject, proof: Sequence[Evidence] | None
) -> None:
    """Judge what a model said by what it was asked."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else [content]
    said = [each for each in blocks if isinstance(each, dict)]
    if not said:
        return  # a monitor judges malformed content
    used = any(each.get("type") == "tool_use" for each in said)
    choice = params.get("toolChoice")
    mode = choice.get("mode") if isinstance(choice, dict) else None
    if mode == "required":
        run.holds(_REQUIRED, used, "uses no tool, although one is required", evidence=proof)
    elif mode == "none":
        run.holds(_NONE, not used, "uses a tool, although none may be used", evidence=proof)
    words = sum(len(str(each.get("text", "")).split()) for each in said)
    limit = params.get("maxTokens")
    if isinstance(limit, int):
        why = f"answers with {words} words, although maxTokens is {limit}"
        run.holds(_LIMIT, words <= limit * _WORDS_PER_TOKEN, why, evidence=proof)

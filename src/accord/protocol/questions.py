"""Questions of servers to clients: what each side checks before they leave, and when they arrive.

In the messages of a sampling request, every tool use is answered, and results come alone. Forms
have no fields for secrets, which the client would see: pages are for those.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from accord.types import (
    CreateMessageParams,
    CreateMessageResult,
    SamplingContentBlock,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
)
from accord.types._base import JsonObject

Block = TypeVar("Block", ToolUseContent, ToolResultContent)


def find_tool_fault(messages: Sequence[SamplingMessage]) -> str | None:
    """Return what is wrong with tool uses and their results; None if nothing is.

    A server checks its messages by it before they leave, a client answers -32602.

    >>> use = ToolUseContent("u1", "weather", {"city": "Oslo"})
    >>> find_tool_fault([SamplingMessage("assistant", [use])])
    'messages[0] uses tool "u1", and the next message has no result for it'
    """
    used: set[str] = set()
    for number, message in enumerate(messages):
        blocks = _blocks(message)
        results = _of_type(blocks, ToolResultContent)
        # sampling.tool-results.alone
        if message.role == "user" and results and len(results) < len(blocks):
            return f"messages[{number}] has tool results and other content; split it"
        for result in results:  # sampling.tool-result.id-matches
            if result.tool_use_id not in used:
                return (
                    f'messages[{number}] has a result of tool use "{result.tool_use_id}", which '
                    "no message before it has"
                )
        uses = _of_type(blocks, ToolUseContent)
        if message.role == "assistant" and uses:  # sampling.tool-use.balanced
            following = messages[number + 1 : number + 2]
            answered = {
                result.tool_use_id
                for after in following
                if after.role == "user"
                for result in _of_type(_blocks(after), ToolResultContent)
            }
            for use in uses:
                if use.id not in answered:
                    return (
                        f'messages[{number}] uses tool "{use.id}", and the next message has no '
                        "result for it"
                    )
        used.update(use.id for use in uses)
    return None


def find_choice_fault(params: CreateMessageParams, result: CreateMessageResult) -> str | None:
    """Return how an answer breaks `toolChoice`; None if it does not."""
    mode = None if params.tool_choice is None else params.tool_choice.mode
    if mode == "none" and result.tool_uses:  # sampling.tool-choice.none
        return f'the mode is "none", and it uses the tool "{result.tool_uses[0].name}"'
    # sampling.tool-choice.required; a tool may have been used earlier in the loop.
    if mode == "required" and not result.tool_uses:
        earlier = [_of_type(_blocks(each), ToolUseContent) for each in params.messages]
        if not any(earlier):
            return 'the mode is "required", and no tool is used'
    return None


def _blocks(message: SamplingMessage) -> list[SamplingContentBlock]:
    return message.content if isinstance(message.content, list) else [message.content]


def _of_type(blocks: Iterable[SamplingContentBlock], type_: type[Block]) -> list[Block]:
    return [block for block in blocks if isinstance(block, type_)]


# -- forms

_WORD_BREAKS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_SECRETS: Final = re.compile(
    r"(?:^|_)(?:password|passwd|passphrase|passcode|pin|pin_code|otp|secret|(?:api|secret|private|"
    r"access|ssh)_?key|apikey|token|credentials?|card_?number|credit_?card|cvv|cvc)$"
)
_CHOICES: Final = ("enum", "enumNames", "oneOf", "anyOf")


def asks_for_secret(name: str, schema: JsonObject) -> bool:
    """Tell whether the name or title of a field is that of a secret (elicitation.form.no-secrets).

    >>> asks_for_secret("apiKey", {"type": "string"})
    True
    """
    is_free = schema.get("type") in ("string", "integer", "number")
    if not is_free or any(keyword in schema for keyword in _CHOICES):
        return False
    title = schema.get("title")
    names = [name, title if isinstance(title, str) else ""]
    return any(_SECRETS.search(_to_snake_case(text)) for text in names)


def _to_snake_case(text: str) -> str:
    return "_".join(filter(None, _WORD_BREAKS.split(text))).lower()

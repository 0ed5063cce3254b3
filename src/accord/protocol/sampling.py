"""Tools in the messages of a sampling request: every use is answered, results come alone."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from accord.types import (
    CreateMessageParams,
    CreateMessageResult,
    SamplingContentBlock,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
)

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

"""What clients and servers check of questions: tool uses in sampling requests, secrets in forms."""

import pytest

from accord.protocol.questions import asks_for_secret, find_choice_fault, find_tool_fault
from accord.types import (
    CreateMessageParams,
    CreateMessageResult,
    SamplingMessage,
    TextContent,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from support.tables import cases

TEXT = TextContent("hello")
USE = ToolUseContent("u1", "weather", {"city": "Oslo"})
OTHER_USE = ToolUseContent("u2", "weather", {"city": "Rome"})
RESULT = ToolResultContent("u1", [TextContent("4 C")])
OTHER_RESULT = ToolResultContent("u2", [TextContent("9 C")])


def user(*blocks):
    return SamplingMessage("user", list(blocks))


def assistant(*blocks):
    return SamplingMessage("assistant", list(blocks))


@cases(
    "messages",
    [
        [],
        [SamplingMessage("user", TEXT)],
        [user(TEXT), assistant(USE), user(RESULT)],
        [user(TEXT), assistant(TEXT, USE, OTHER_USE), user(OTHER_RESULT, RESULT), user(TEXT)],
        [user(TEXT), SamplingMessage("assistant", USE), SamplingMessage("user", RESULT)],
    ],
)
def test_answered_tool_uses_have_no_fault(messages):
    assert find_tool_fault(messages) is None


@pytest.mark.requirement("sampling.tool-results.alone", "sampling.error.mixed-tool-results")
def test_tool_results_beside_other_content_are_a_fault():
    fault = find_tool_fault([user(TEXT), assistant(USE), user(RESULT, TEXT)])
    assert fault == "messages[2] has tool results and other content; split it"


@pytest.mark.requirement("sampling.tool-use.balanced", "sampling.error.missing-tool-result")
@cases(
    "after",
    [[], [user(TEXT)], [user(RESULT)], [user(TEXT), user(RESULT, OTHER_RESULT)], [assistant(TEXT)]],
)
def test_a_tool_use_without_result_in_the_next_user_message_is_a_fault(after):
    fault = find_tool_fault([user(TEXT), assistant(USE, OTHER_USE), *after])
    assert fault is not None
    assert fault.startswith("messages[1] uses tool")
    assert fault.endswith("and the next message has no result for it")


@pytest.mark.requirement("sampling.tool-result.id-matches")
def test_a_result_of_a_tool_use_that_does_not_exist_is_a_fault():
    fault = find_tool_fault([user(TEXT), user(RESULT)])
    assert fault == 'messages[1] has a result of tool use "u1", which no message before it has'


@pytest.mark.requirement("sampling.tool-choice.none", "sampling.tool-choice.required")
@cases(
    ("mode", "messages", "content", "fault"),
    [
        (None, [], TEXT, None),
        ("auto", [], TEXT, None),
        ("auto", [], [USE], None),
        ("none", [], TEXT, None),
        ("none", [], [TEXT, USE], 'the mode is "none", and it uses the tool "weather"'),
        ("required", [], [USE], None),
        ("required", [user(TEXT)], TEXT, 'the mode is "required", and no tool is used'),
        ("required", [assistant(USE), user(RESULT)], TEXT, None),
    ],
)
def test_an_answer_is_held_to_the_choice_of_tools(mode, messages, content, fault):
    params = CreateMessageParams(
        messages, 5, tool_choice=None if mode is None else ToolChoice(mode)
    )
    assert find_choice_fault(params, CreateMessageResult("assistant", content, "m")) == fault


@pytest.mark.requirement("elicitation.form.no-secrets")
@cases(
    ("name", "schema", "is_secret"),
    [
        ("password", {"type": "string"}, True),
        ("github_api_key", {"type": "string"}, True),
        ("cardNumber", {"type": "integer"}, True),
        ("value", {"type": "string", "title": "Your PIN"}, True),
        ("value", {"type": "string", "title": 3}, False),
        ("token_count", {"type": "integer"}, False),
        ("secret", {"type": "boolean"}, False),
        ("token", {"type": "string", "enum": ["a"]}, False),
        ("token", {"type": "string", "oneOf": []}, False),
    ],
)
def test_secrets_are_known_by_the_name_or_title_of_a_field(name, schema, is_secret):
    assert asks_for_secret(name, schema) is is_secret

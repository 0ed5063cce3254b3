"""Narrowing, deriving and decoding, as examples."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from accord import types as t
from accord.errors import LocalProtocolError
from accord.protocol.shape import decode, derive, exists_in, narrow
from accord.types import REVISION_IDS, RevisionId
from schema import from_types
from support.tables import cases

OLDEST, NEWEST = REVISION_IDS[0], REVISION_IDS[-1]
LEGACY = REVISION_IDS[:-1]

AUDIO = t.AudioContent("AAECAw==", "audio/wav")
LINK = t.ResourceLink("file:///a.txt", "a", icons=[t.Icon("https://example.com/i.png")])
USE = t.ToolUseContent("u1", "weather", {"city": "Oslo"})
RESULT = t.ToolResultContent("u1", [t.TextContent("4 C"), t.ImageContent("AAAA", "image/png")])


def wire(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def tool(**members: Any) -> t.Tool:
    return t.Tool("add", {"type": "object"}, **members)


# Members outside their lifetime


@cases(
    ("value", "last_without", "member"),
    [
        (tool(title="Add"), "2025-03-26", "title"),
        (tool(output_schema={"type": "object"}), "2025-03-26", "outputSchema"),
        (tool(annotations=t.ToolAnnotations(title="x")), "2024-11-05", "annotations"),
        (tool(icons=[t.Icon("https://example.com/i")]), "2025-06-18", "icons"),
        (tool(meta={"k": 1}), "2025-03-26", "_meta"),
        (tool(execution=t.ToolExecution("optional")), "2025-06-18", "execution"),
        (t.CallToolResult([], structured_content={}), "2025-03-26", "structuredContent"),
        (t.ProgressParams("p", 1, message="half"), "2024-11-05", "message"),
        (t.ServerCapabilities(completions={}), "2024-11-05", "completions"),
        (
            t.ClientCapabilities(elicitation=t.ElicitationCapability()),
            "2025-03-26",
            "elicitation",
        ),
        (t.Annotations(last_modified="2025-01-01"), "2025-03-26", "lastModified"),
        (
            t.CompleteParams(
                t.PromptReference("p"),
                t.CompletionArgument("a", ""),
                t.CompletionContext({"b": "c"}),
            ),
            "2025-03-26",
            "context",
        ),
        (t.SamplingMessage("user", t.TextContent(""), meta={}), "2025-06-18", "_meta"),
        (t.EmptyResult(result_type="complete"), "2025-11-25", "resultType"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_member_leaves_only_from_its_revision_on(
    value: Any, last_without: RevisionId, member: str
) -> None:
    following = REVISION_IDS[REVISION_IDS.index(last_without) + 1]
    assert member not in wire(narrow(value, last_without))
    assert member in wire(narrow(value, following))


@cases(
    ("value", "member"),
    [
        (tool(execution=t.ToolExecution("optional")), "execution"),
        (t.RootsCapability(list_changed=True), "listChanged"),
        (t.ElicitParams("?", {"type": "object"}, elicitation_id="e"), "elicitationId"),
        (t.CreateMessageParams([], 1, meta={"k": 1}), "_meta"),
        (t.ListRootsResult([], meta={"k": 1}), "_meta"),
        (
            t.CallToolParams("add", task=t.TaskMetadata(ttl=1)),
            "task",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_member_leaves_no_more_after_its_last_revision(value: Any, member: str) -> None:
    assert member in wire(narrow(value, "2025-11-25"))
    assert member not in wire(narrow(value, NEWEST))


def test_members_are_dropped_deep_inside() -> None:
    page = t.ListToolsResult([tool(title="Add", annotations=t.ToolAnnotations(title="Add"))])
    assert wire(narrow(page, OLDEST)) == {
        "tools": [{"name": "add", "inputSchema": {"type": "object"}}]
    }


def test_values_of_a_map_are_narrowed() -> None:
    question = t.ElicitRequest(t.ElicitParams("?", {"type": "object"}, task=t.TaskMetadata()))
    asked = t.InputRequiredResult(input_requests={"a": question, "b": t.ListRootsRequest()})
    narrowed = narrow(asked, NEWEST)
    assert narrowed.input_requests is not None
    assert "task" not in wire(narrowed)["inputRequests"]["a"]["params"]
    assert narrowed.input_requests["b"] is asked.input_requests["b"]  # type: ignore[index]


# What stays the same


@cases("revision", LEGACY)
def test_the_same_object_returns_when_nothing_differs(revision: RevisionId) -> None:
    result = t.CallToolResult([t.TextContent("3"), t.ImageContent("AAAA", "image/png")])
    assert narrow(result, revision) is result


def test_the_same_object_returns_when_what_is_demanded_is_there() -> None:
    result = t.CallToolResult([t.TextContent("3")], result_type="complete")
    assert narrow(result, NEWEST) is result


def test_the_same_map_returns_when_nothing_differs() -> None:
    asked = t.InputRequiredResult(input_requests={"a": t.ListRootsRequest()})
    assert narrow(asked, NEWEST) is asked


@cases("value", [{"title": 1}, [1], "text", None], ids=repr)
def test_plain_json_is_returned_as_it_is(value: Any) -> None:
    assert narrow(value, OLDEST) is value


@cases("revision", REVISION_IDS)
def test_the_callers_object_is_not_touched(revision: RevisionId) -> None:
    block = t.TextContent("x", meta={"k": 1})
    result = t.CallToolResult([block, AUDIO, LINK], structured_content=[1])
    before = msgspec.json.encode(result)
    narrow(result, revision)
    assert msgspec.json.encode(result) == before
    assert result.content[0] is block


def test_a_tuple_of_blocks_is_narrowed_like_a_list() -> None:
    result = t.CallToolResult((AUDIO,))  # type: ignore[arg-type]
    assert wire(narrow(result, OLDEST))["content"][0]["type"] == "text"


def test_structs_of_other_libraries_pass_untouched() -> None:
    class Foreign(msgspec.Struct):
        title: str

    foreign = Foreign("x")
    assert narrow(foreign, OLDEST) is foreign


# What a revision demands


def test_results_are_stamped_complete() -> None:
    assert wire(narrow(t.CallToolResult([]), NEWEST))["resultType"] == "complete"


def test_a_chosen_value_is_not_stamped_over() -> None:
    page = t.ListToolsResult([], ttl_ms=60_000, cache_scope="public")
    assert wire(narrow(page, NEWEST)) == {
        "tools": [],
        "resultType": "complete",
        "ttlMs": 60_000,
        "cacheScope": "public",
    }


def test_lists_are_stamped_with_careful_cache_hints() -> None:
    stamped = wire(narrow(t.ListToolsResult([]), NEWEST))
    assert stamped == {
        "tools": [],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }


@cases("revision", LEGACY)
def test_older_results_are_not_stamped(revision: RevisionId) -> None:
    assert wire(narrow(t.ListToolsResult([]), revision)) == {"tools": []}


def test_the_lifetime_of_a_task_travels_even_when_unlimited() -> None:
    known = ("t", "working", "2025-11-25T10:00:00Z", "2025-11-25T10:00:00Z")
    assert wire(narrow(t.GetTaskResult(*known), "2025-11-25"))["ttl"] is None
    assert wire(narrow(t.GetTaskResult(*known), NEWEST))["ttlMs"] is None
    both = t.GetTaskResult(*known, ttl=5, ttl_ms=5, poll_interval=1, poll_interval_ms=1)
    assert wire(narrow(both, "2025-11-25")).keys() >= {"ttl", "pollInterval"}
    assert not wire(narrow(both, "2025-11-25")).keys() & {"ttlMs", "pollIntervalMs"}
    assert not wire(narrow(both, NEWEST)).keys() & {"ttl", "pollInterval"}


def test_always_sent_members_are_sent() -> None:
    assert wire(t.CallToolResult([]))["isError"] is False
    assert wire(t.CreateMessageResult("user", t.TextContent(""), "m"))["stopReason"] == "endTurn"
    assert wire(t.InputRequiredResult())["resultType"] == "input_required"
    assert wire(t.TaskHandle("t", "working", "", ""))["resultType"] == "task"


@cases("revision", [*LEGACY[:-1], NEWEST])
def test_a_cancellation_names_its_request(revision: RevisionId) -> None:
    with pytest.raises(LocalProtocolError, match="request_id is required in 20"):
        narrow(t.CancelledParams(), revision)


def test_a_cancellation_may_lack_its_request_in_one_revision() -> None:
    assert wire(narrow(t.CancelledParams(reason="late"), "2025-11-25")) == {"reason": "late"}


def test_a_page_to_visit_cannot_be_asked_for_before_url_mode() -> None:
    question = t.ElicitParams("Sign in", mode="url", url="https://example.com")
    with pytest.raises(LocalProtocolError, match="requested_schema is required in 2025-06-18"):
        narrow(question, "2025-06-18")


@pytest.mark.parametrize(
    ("value", "revision"),
    [
        (t.DiscoverParams(), "2025-11-25"),
        (t.ElicitParams("?", {}), "2025-03-26"),
        (t.SetLevelParams("info"), NEWEST),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_messages_that_a_revision_does_not_have_are_refused(
    value: Any, revision: RevisionId
) -> None:
    with pytest.raises(LocalProtocolError, match=f"{type(value).__name__} does not exist in"):
        narrow(value, revision)


# Content blocks that a peer cannot read


@pytest.mark.parametrize(
    ("block", "revision", "text"),
    [
        (AUDIO, "2024-11-05", "[audio: audio/wav, 4 bytes]"),
        (LINK, "2025-03-26", "[resource link: a file:///a.txt]"),
    ],
    ids=["audio", "resource_link"],
)
def test_an_unreadable_block_becomes_text(block: Any, revision: RevisionId, text: str) -> None:
    kept = t.TextContent("before")
    narrowed = narrow(t.CallToolResult([kept, block]), revision)
    assert narrowed.content == [kept, t.TextContent(text)]
    assert narrowed.content[0] is kept


def test_the_text_in_place_of_a_block_keeps_its_annotations() -> None:
    notes = t.Annotations(priority=1, last_modified="2025-01-01")
    block = t.AudioContent("", "audio/wav", annotations=notes, meta={"k": 1})
    narrowed = narrow(block, OLDEST)
    assert wire(narrowed) == {
        "type": "text",
        "text": "[audio: audio/wav, 0 bytes]",
        "annotations": {"priority": 1},
    }


def test_a_readable_block_only_loses_what_is_new_in_it() -> None:
    narrowed = narrow(t.PromptMessage("user", LINK), "2025-06-18")
    assert narrowed.content == t.ResourceLink("file:///a.txt", "a")


# Values that widened


@cases(
    ("content", "narrowed"),
    [
        ([t.ImageContent("AAAA", "image/png")], t.ImageContent("AAAA", "image/png")),
        (t.TextContent("x"), t.TextContent("x")),
        ([], t.TextContent("")),
        ([t.TextContent("a"), t.TextContent("b")], t.TextContent("a\nb")),
        (
            [t.TextContent("see"), t.ImageContent("AAAA", "image/png")],
            t.TextContent("see\n[image: image/png, 3 bytes]"),
        ),
        ([USE], t.TextContent('[tool call u1: weather {"city":"Oslo"}]')),
        ([RESULT], t.TextContent("[tool result u1: 4 C\n[image: image/png, 3 bytes]]")),
        (
            t.ToolResultContent(
                "u2",
                [
                    t.EmbeddedResource(t.ResourceContents("file:///a", text="text of a")),
                    t.EmbeddedResource(t.ResourceContents("file:///b", blob="AAAA")),
                ],
                is_error=True,
            ),
            t.TextContent("[tool error u2: text of a\n[resource: file:///b]]"),
        ),
    ],
    ids=["single", "plain", "none", "texts", "mixed", "tool_use", "tool_result", "tool_error"],
)
def test_sampling_content_becomes_one_block(content: Any, narrowed: Any) -> None:
    message = t.SamplingMessage("user", content)
    assert narrow(message, "2025-06-18").content == narrowed
    assert narrow(message, "2025-11-25") is message


@cases("value", [None, 1, "x", [1]], ids=repr)
def test_structured_content_that_is_not_an_object_leaves_only_where_any_json_may(
    value: Any,
) -> None:
    result = t.CallToolResult([], structured_content=value)
    assert "structuredContent" not in wire(narrow(result, "2025-11-25"))
    assert wire(narrow(result, NEWEST))["structuredContent"] == value


@pytest.mark.parametrize(
    "value", [{"a": 1}, msgspec.Raw(b' {"a": 1}'), t.ModelHint("a")], ids=["dict", "raw", "struct"]
)
def test_structured_content_that_is_an_object_stays(value: Any) -> None:
    result = t.CallToolResult([], structured_content=value)
    assert narrow(result, "2025-06-18") is result


def test_a_null_structured_content_is_not_an_absent_one() -> None:
    assert wire(t.CallToolResult([], structured_content=None)) == {
        "content": [],
        "structuredContent": None,
        "isError": False,
    }
    assert "structuredContent" not in wire(t.CallToolResult([]))


def test_several_choices_become_one_text() -> None:
    answer = t.ElicitResult("accept", {"extras": ["wifi", "meal"], "nights": 2})
    assert narrow(answer, "2025-06-18").content == {"extras": "wifi, meal", "nights": 2}
    assert narrow(answer, "2025-11-25") is answer


def test_answers_of_one_value_each_stay() -> None:
    answer = t.ElicitResult("accept", {"city": "Oslo", "late": True})
    assert narrow(answer, "2025-06-18") is answer


def test_an_output_schema_that_is_not_an_object_is_dropped() -> None:
    listed = tool(output_schema={"type": "array"})
    assert narrow(listed, "2025-11-25").output_schema is None
    assert narrow(listed, NEWEST) is listed


def test_boolean_schemas_of_properties_are_written_out() -> None:
    schema = {"type": "object", "properties": {"a": True, "b": False, "c": {"type": "string"}}}
    listed = t.Tool("x", schema)
    assert narrow(listed, "2025-06-18").input_schema["properties"] == {
        "a": {},
        "b": {"not": {}},
        "c": {"type": "string"},
    }
    assert schema["properties"]["a"] is True  # type: ignore[index]


def test_an_input_schema_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="input_schema cannot be expressed in 2025-06-18"):
        narrow(t.Tool("x", {"type": "array"}), "2025-06-18")


def test_a_form_is_written_in_the_older_words() -> None:
    form = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1, "default": "Oslo"},
            "nights": {"type": "integer", "minimum": 1, "default": 2},
            "late": {"type": "boolean", "default": False},
            "class": {
                "type": "string",
                "oneOf": [{"const": "e", "title": "Economy"}, {"const": "b"}],
            },
        },
        "required": ["city"],
    }
    assert narrow(t.ElicitParams("?", form), "2025-06-18").requested_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1},
            "nights": {"type": "integer", "minimum": 1},
            "late": {"type": "boolean", "default": False},
            "class": {"type": "string", "enum": ["e", "b"], "enumNames": ["Economy", "b"]},
        },
        "required": ["city"],
    }


@cases(
    "field",
    [
        {"type": "string"},
        {"type": "string", "title": "A", "description": "b", "enum": ["x"], "enumNames": ["X"]},
        {"type": "string", "format": "date", "minLength": 1, "maxLength": 9},
        {"type": "number", "minimum": 1, "maximum": 2},
        {"type": "integer", "minimum": 1, "maximum": 2},
        {"type": "boolean", "default": True},
    ],
    ids=["plain", "choice", "text", "number", "integer", "boolean"],
)
def test_a_form_in_the_older_words_stays(field: dict[str, Any]) -> None:
    form = {"type": "object", "properties": {"a": field}, "required": ["a"]}
    question = t.ElicitParams("?", form)
    assert narrow(question, "2025-06-18") is question


def test_a_choice_of_many_cannot_be_asked_for_in_the_older_words() -> None:
    many = {"type": "array", "items": {"type": "string", "enum": ["a"]}}
    question = t.ElicitParams("?", {"type": "object", "properties": {"x": many}})
    with pytest.raises(LocalProtocolError, match="requested_schema cannot be expressed"):
        narrow(question, "2025-06-18")


@pytest.mark.parametrize(
    ("capability", "declared"),
    [
        (t.ElicitationCapability(url={}), {}),
        (t.ElicitationCapability(form={}, url={}), {"elicitation": {}}),
        (t.ElicitationCapability(), {"elicitation": {}}),
    ],
    ids=["pages only", "both", "unsaid"],
)
def test_a_client_that_shows_pages_only_is_not_asked_with_forms(
    capability: t.ElicitationCapability, declared: Any
) -> None:
    assert wire(narrow(t.ClientCapabilities(elicitation=capability), "2025-06-18")) == declared


# Derived types


def test_a_type_without_differences_is_its_own_derivation() -> None:
    assert derive(t.TextContent, "2025-06-18") is t.TextContent
    assert derive(list[t.TextContent], NEWEST) == list[t.TextContent]
    assert derive(t.ContentBlock, NEWEST) == t.ContentBlock
    assert derive(int, OLDEST) is int


def test_a_derived_type_is_made_once() -> None:
    assert derive(t.Tool, OLDEST) is derive(t.Tool, OLDEST)
    assert derive(t.Tool, OLDEST) is not t.Tool
    assert derive(t.Tool, OLDEST).__name__ == "Tool"


def test_a_derived_union_lacks_the_blocks_that_came_later() -> None:
    with pytest.raises(msgspec.ValidationError, match="audio"):
        msgspec.json.decode(msgspec.json.encode([AUDIO]), type=derive(list[t.ContentBlock], OLDEST))


def test_a_derived_type_sends_what_is_always_sent() -> None:
    assert wire(derive(t.CallToolResult, OLDEST)(content=[])) == {"content": [], "isError": False}


def test_a_derived_type_demands_what_the_revision_demands() -> None:
    with pytest.raises(msgspec.ValidationError, match="resultType"):
        msgspec.json.decode(b"{}", type=derive(t.EmptyResult, NEWEST))


TASK = b'{"taskId":"1","status":"working","createdAt":"","lastUpdatedAt":""%b}'


@cases(
    ("type_", "revision", "text", "fits"),
    [
        (t.SamplingMessage, "2025-06-18", b'{"role":"user","content":[]}', False),
        (t.SamplingMessage, "2025-11-25", b'{"role":"user","content":[]}', True),
        (t.CancelledParams, "2025-06-18", b"{}", False),
        (t.CancelledParams, "2025-06-18", b'{"requestId":null}', False),
        (t.CancelledParams, "2025-06-18", b'{"requestId":1}', True),
        (t.CancelledParams, "2025-11-25", b"{}", True),
        (t.Task, "2025-11-25", TASK % b"", False),
        (t.Task, "2025-11-25", TASK % b',"ttl":null', True),
        (t.Task, "2025-11-25", TASK % b',"ttl":1', True),
        (t.EmptyResult, NEWEST, b'{"resultType":null}', False),
    ],
)
def test_a_derived_type_reads_what_the_revision_allows(
    type_: Any, revision: RevisionId, text: bytes, fits: bool
) -> None:
    derived = derive(type_, revision)
    if fits:
        msgspec.json.decode(text, type=derived)
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=derived)


def test_a_derived_block_keeps_its_kind() -> None:
    assert wire(derive(t.TextContent, OLDEST)(text="x")) == {"type": "text", "text": "x"}


def test_text_in_place_of_a_block_keeps_its_meta() -> None:
    use = t.ToolUseContent("u1", "weather", {}, meta={"k": 1})
    narrowed = narrow(t.SamplingMessage("assistant", use), "2025-06-18")
    assert wire(narrowed)["content"]["_meta"] == {"k": 1}


@pytest.mark.parametrize("type_", [t.DiscoverParams, list[t.DiscoverParams]], ids=str)
def test_a_type_that_a_revision_does_not_have_cannot_be_derived(type_: Any) -> None:
    with pytest.raises(LocalProtocolError, match="does not exist in 2025-11-25"):
        derive(type_, "2025-11-25")


# Decoding


@cases(
    ("type_", "revision", "raw", "expected"),
    [
        (t.EmptyResult, "2025-06-18", b'{"resultType":5}', t.EmptyResult()),
        (
            t.ListToolsResult,
            "2024-11-05",
            b'{"tools":[{"name":"a","inputSchema":{"type":"object","x":1},"title":7}],"ttlMs":"x"}',
            t.ListToolsResult([t.Tool("a", {"type": "object", "x": 1})]),
        ),
        (t.CallToolParams, NEWEST, b'{"name":"a","task":7}', t.CallToolParams("a")),
        (
            t.InitializeParams,
            "2025-03-26",
            msgspec.json.encode(
                {
                    "protocolVersion": "v",
                    "capabilities": {"elicitation": True, "tasks": []},
                    "clientInfo": {"name": "n", "version": "1", "icons": "none"},
                }
            ),
            t.InitializeParams("v", t.ClientCapabilities(), t.Implementation("n", "1")),
        ),
    ],
    ids=["result", "nested", "retired", "capability"],
)
def test_a_key_outside_its_lifetime_cannot_fail_a_message(
    type_: Any, revision: RevisionId, raw: bytes, expected: Any
) -> None:
    assert decode(raw, type_, revision) == expected


@pytest.mark.parametrize("number", [b"100.0", b"1e2"], ids=bytes.decode)
def test_a_whole_number_is_an_integer_however_it_is_written(number: bytes) -> None:
    raw = b'{"messages":[],"temperature":0.5,"metadata":{"k":2.0},"maxTokens":' + number + b"}"
    read = decode(raw, t.CreateMessageParams, "2025-06-18")
    assert read == t.CreateMessageParams([], 100, temperature=0.5, metadata={"k": 2})


@pytest.mark.parametrize("number", [b"100.5", b"1e999", b"1e300"], ids=bytes.decode)
def test_a_number_that_is_not_an_integer_is_not_made_one(number: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"messages":[],"maxTokens":' + number + b"}", t.CreateMessageParams, NEWEST)


def test_a_well_formed_key_outside_its_lifetime_is_read() -> None:
    read = decode(b'{"name":"a","inputSchema":{},"title":"A"}', t.Tool, OLDEST)
    assert read.title == "A"


@pytest.mark.parametrize(
    ("type_", "revision", "raw", "message"),
    [
        (t.Tool, "2024-11-05", b'{"name":1,"inputSchema":{},"title":7}', r"\$.name"),
        (t.TextContent, "2025-06-18", b'{"type":"text"}', "text"),
        (t.DiscoverParams, "2025-06-18", b'{"_meta":1}', "_meta"),
    ],
    ids=["also wrong in the revision", "same type", "not in the revision"],
)
def test_an_invalid_message_fails_with_its_first_error(
    type_: Any, revision: RevisionId, raw: bytes, message: str
) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        decode(raw, type_, revision)


def test_bytes_that_are_not_json_are_a_decode_error() -> None:
    with pytest.raises(msgspec.DecodeError, match="malformed"):
        decode(b"{]", t.Tool, NEWEST)


def test_a_raw_body_is_decoded_in_place() -> None:
    assert decode(msgspec.Raw(b'{"cursor":"c"}'), t.PageParams, NEWEST) == t.PageParams("c")


ROUND_TRIP = (t.CallToolResult, t.ListToolsResult, t.CreateMessageParams, t.GetPromptResult)


@pytest.mark.parametrize("revision", REVISION_IDS)
@pytest.mark.parametrize("type_", ROUND_TRIP, ids=lambda type_: type_.__name__)
def test_a_narrowed_message_survives_encoding_and_decoding(
    type_: Any, revision: RevisionId
) -> None:
    @settings(max_examples=20, deadline=None, derandomize=True, database=None)
    @given(from_types.instances(type_, revision))
    def check(value: Any) -> None:
        narrowed = narrow(value, revision)
        assert decode(msgspec.json.encode(narrowed), type_, revision) == narrowed

    check()


def test_a_type_exists_in_the_revisions_of_its_lifetime() -> None:
    having = [each for each in REVISION_IDS if exists_in(t.ToolAnnotations, each)]
    assert having == list(REVISION_IDS[1:])

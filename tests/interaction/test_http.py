"""Headers and statuses around the messages of our own client and server."""

import asyncio
import json
from typing import Any

import pytest

from accord.errors import InvalidParams
from accord.trace import Record
from accord.types import CreateMessageResult, TextContent
from interaction.servers import content, working
from support.links import EVERY_HTTP, HANDSHAKE, HTTP, over, within
from support.waiting import until

pytestmark = over(*(each for each in within(EVERY_HTTP, HANDSHAKE) if each.startswith("http")))
# In both forms: answers as JSON where nothing else is said, and as streams.
STATELESS = over("http:2026-07-28", "http-stream:2026-07-28")
OLDER = over(*(each for each in HTTP if each.startswith("sse")))


async def model(params: Any) -> CreateMessageResult:
    return CreateMessageResult("assistant", TextContent("yes"), "tiny")


async def talked(link: Any) -> list[Record]:
    """Send everything that a client can send, and return the records."""
    async with link.connect(working.make, on_sample=model, roots=["/a"]) as client:
        await client.ping()
        await client.call_tool("steps", {"values": [1, 2]}, on_progress=lambda _: None)
        await client.call_tool("think", {"question": "rain"})
        await client.roots_changed(["/b"])
        records: list[Record] = link.connections[-1].recording.records
        await until(lambda: any(of(each, "method") == "roots/list" for each in records))
    return records


def of(record: Record, member: str) -> Any:
    """A member of the message in a record."""
    return None if record.message is None else json.loads(bytes(record.message)).get(member)


def sent(records: list[Record], method: str | None = None) -> list[Record]:
    found = [each for each in records if each.sender == "client"]
    return [each for each in found if method in (None, http(each).method)]


def http(record: Record) -> Any:
    assert record.http is not None
    return record.http


def responses(records: list[Record], request: Record) -> list[Record]:
    """The records of the response to a request."""
    stream = http(request).stream
    return [each for each in records if each.sender == "server" and http(each).stream == stream]


@pytest.mark.requirement(
    "http.client.post-messages",
    "http.post.body-message-or-batch",
    "http.client.accept-both",
    "http.client.protocol-version-header",
    "http.get.accept-event-stream",
    "session.id.client-echo",
    "session.id.header-name",
    "session.end.client-delete",
)
async def test_every_request_carries_the_headers_of_its_revision(accord_link: Any) -> None:
    records = await talked(accord_link)
    opening, *others = sent(records)
    assert of(opening, "method") == "initialize"
    session = http(responses(records, opening)[0]).header("mcp-session-id")
    assert session
    assert http(opening).header("mcp-session-id") is None
    assert {http(each).header("mcp-session-id") for each in others} == {session}
    has_header = accord_link.revision != "2025-03-26"
    version = accord_link.revision if has_header else None
    assert {http(each).header("mcp-protocol-version") for each in others} == {version}
    assert [each for each in sent(records, "POST") if of(each, "jsonrpc") != "2.0"] == []
    assert {http(each).header("accept") for each in sent(records, "POST")} == {
        "application/json, text/event-stream"
    }
    assert {http(each).header("content-type") for each in sent(records, "POST")} == {
        "application/json"
    }
    assert {http(each).header("accept") for each in sent(records, "GET")} == {"text/event-stream"}
    assert [each.message for each in records if http(each).method == "DELETE"] == [None, None]
    assert http(others[-1]).method == "DELETE"


@pytest.mark.requirement(
    "http.post.accepted-202",
    "http.post.response-content-type",
    "http.post.stream-one-response-per-request",
    "http.get.stream-or-405",
    "http.server.sse-optional",
    "session.id.assigned-at-initialize",
    "session.id.visible-ascii",
)
async def test_every_response_has_the_status_and_the_form_that_its_request_calls_for(
    accord_link: Any,
) -> None:
    records = await talked(accord_link)
    kinds = {"application/json", "text/event-stream"}
    if accord_link.transport == "http-stream":
        kinds.remove("application/json")
    for request in sent(records, "POST"):
        came = responses(records, request)
        if of(request, "id") is not None and of(request, "method") is not None:
            assert {http(each).status for each in came} == {200}
            heads = [http(each) for each in came if http(each).headers]
            assert {each.header("content-type") for each in heads} <= kinds
            said = [each for each in came if each.message is not None]
            assert [of(each, "id") for each in said if of(each, "method") is None][-1:] == [
                of(request, "id")
            ]
        else:
            (only,) = came
            assert (http(only).status, only.message) == (202, None)
            assert http(only).header("content-length") == "0"
    (listening,) = sent(records, "GET")
    head = http(responses(records, listening)[0])
    assert (head.status, head.header("content-type")) == (200, "text/event-stream")
    given = [http(each).header("mcp-session-id") for each in records if each.sender == "server"]
    (session,) = set(given) - {None}
    assert given[0] == session
    assert all("\x21" <= each <= "\x7e" for each in session)


@pytest.mark.requirement("http.post.related-requests-on-stream", "http.streams.multiple")
async def test_messages_of_a_request_arrive_on_its_stream_only(
    accord_link: Any,
) -> None:
    asked: list[Any] = []

    async def slow_model(params: Any) -> CreateMessageResult:
        asked.append(params)
        await until(lambda: len(asked) == 3)
        return await model(params)

    async with accord_link.connect(working.make, on_sample=slow_model) as client:
        await asyncio.gather(
            *(client.call_tool("think", {"question": each}) for each in ("a", "b", "c")),
            client.call_tool("steps", {"values": [1, 2]}, on_progress=lambda _: None),
            client.call_tool("steps", {"values": [3, 4]}, on_progress=lambda _: None),
        )
    records = accord_link.connections[0].recording.records
    calls = [each for each in sent(records) if of(each, "method") == "tools/call"]
    for call in calls:
        came = [each for each in responses(records, call) if each.message is not None]
        assert {http(each).method for each in came} == {"POST"}
        *others, answer = came
        assert of(answer, "id") == of(call, "id")
        params = of(call, "params")
        if params["name"] == "steps":
            token = params["_meta"]["progressToken"]
            assert [of(each, "params")["progressToken"] for each in others] == [token] * 2
        else:
            (question,) = others
            texts = [each["content"]["text"] for each in of(question, "params")["messages"]]
            assert texts[0] == params["arguments"]["question"]
    # All three streams were open at once, beside the one that listens.
    answers = [place for place, each in enumerate(records) if of(each, "result") is not None]
    questions = [
        place
        for place, each in enumerate(records)
        if of(each, "method") == "sampling/createMessage"
    ]
    replies = [each for each in answers if records[each].sender == "client"]
    assert len(questions) == len(replies) == 3
    assert max(questions) < min(replies)


@pytest.mark.requirement(
    "http.get.unrelated-messages",
    "http.get.server-messages",
    "http.get.no-responses",
    "http.get.client-may-listen",
    "http.streams.no-broadcast",
)
async def test_messages_outside_of_requests_arrive_once_on_the_listening_stream(
    accord_link: Any,
) -> None:
    heard: list[str] = []
    async with accord_link.connect(
        content.make, on_resource_updated=heard.append, on_tools_changed=lambda: heard.append("")
    ) as client:
        records = accord_link.connections[0].recording.records
        await until(lambda: [each for each in records if http(each).method == "GET"][1:])
        await client.subscribe("note://today")
        await client.call_tool("change_in_thread", {"uri": "note://today"})
        await client.call_tool("burst")
        await until(lambda: {"", "note://today"} <= set(heard))
    listened = [each for each in records if each.message and http(each).method == "GET"]
    names = [of(each, "method") for each in listened]
    assert names.count("notifications/resources/updated") == 1
    assert None not in names
    told = [each for each in records if str(of(each, "method")).endswith(("updated", "_changed"))]
    assert told == listened


@pytest.mark.requirement("lifecycle.shutdown.http-close")
async def test_when_the_client_closes_the_session_and_every_stream_end(accord_link: Any) -> None:
    async with accord_link.connect(working.make) as client:
        records = accord_link.connections[0].recording.records
        waiting = asyncio.ensure_future(client.call_tool("wait", {"name": "close"}))
        await until(lambda: "waiting close" in working.seen)
    await asyncio.wait([waiting])
    assert waiting.exception() is not None
    assert [http(each).status for each in records if http(each).method == "DELETE"] == [None, 204]
    assert working.seen[-2:] == ["left close", "lifespan ended"]


# -- requests that stand on their own


async def talked_alone(link: Any) -> list[Record]:
    """Send everything that a client of the newest revision sends, and return the records."""
    async with link.connect(
        content.make, on_tools_changed=lambda: None, on_elicit=lambda params: {"sure": True}
    ) as client:
        await client.ping()
        await client.list_tools()
        await client.read_resource("note://today")
        await client.get_prompt("greet", {"name": "Ann"})
        await client.call_tool("change", {"uri": "note://today"})
        with pytest.raises(InvalidParams):
            await client.call_tool("nowhere")
    records: list[Record] = link.connections[-1].recording.records
    return records


@STATELESS
@pytest.mark.requirement(
    "http.post.each-message",
    "http.post.metadata-headers",
    "http.client.accept-both",
    "http.version-header.present",
    "http.version-header.matches-meta",
    "http.headers.mcp-method",
    "http.headers.mcp-name",
    "jsonrpc.client-no-responses",
)
async def test_every_request_is_a_post_that_repeats_itself_in_headers(accord_link: Any) -> None:
    records = await talked_alone(accord_link)
    assert {http(each).method for each in sent(records)} == {"POST"}
    for request in sent(records):
        head, params = http(request), of(request, "params")
        assert of(request, "id") is not None
        assert head.header("mcp-protocol-version") == accord_link.revision
        assert head.header("Mcp-Method") == of(request, "method")
        named = params.get("name") or params.get("uri")
        assert head.header("mcp-name") == named
        assert head.header("mcp-session-id") is None
        assert head.header("last-event-id") is None
        assert head.header("accept") == "application/json, text/event-stream"
        assert head.header("content-type") == "application/json"


@STATELESS
@pytest.mark.requirement("http.sse.no-requests", "jsonrpc.client-only-initiates")
async def test_every_response_ends_with_the_answer_to_its_request(accord_link: Any) -> None:
    records = await talked_alone(accord_link)
    kinds = {"text/event-stream"}
    if accord_link.transport == "http":
        kinds.add("application/json")
    for request in sent(records):
        came = responses(records, request)
        said = [each for each in came if each.message is not None]
        assert {http(each).header("content-type") for each in came if http(each).headers} <= kinds
        assert {http(each).header("mcp-session-id") for each in came} == {None}
        # No request of the server is among them: a message with a method has no id.
        assert [each for each in said if of(each, "method") and of(each, "id") is not None] == []
        if of(request, "method") == "subscriptions/listen":
            continue
        assert [of(each, "id") for each in said if of(each, "method") is None] == [
            of(request, "id")
        ]
        assert of(said[-1], "id") == of(request, "id")


@STATELESS
@pytest.mark.requirement("http.sse.notifications-related", "http.streams.multiple")
async def test_progress_arrives_on_the_stream_of_its_request_only(accord_link: Any) -> None:
    async with accord_link.connect(working.make) as client:
        await asyncio.gather(
            client.call_tool("steps", {"values": [1, 2]}, on_progress=lambda _: None),
            client.call_tool("steps", {"values": [3, 4]}, on_progress=lambda _: None),
        )
    records = accord_link.connections[0].recording.records
    calls = [each for each in sent(records) if of(each, "method") == "tools/call"]
    for call in calls:
        *others, answer = [each for each in responses(records, call) if each.message is not None]
        token = of(call, "params")["_meta"]["progressToken"]
        assert [of(each, "params")["progressToken"] for each in others] == [token] * 2
        assert of(answer, "id") == of(call, "id")


@STATELESS
@pytest.mark.requirement("http.cancel.disconnect-is-cancel", "http.cancel.stop-work")
async def test_when_the_client_closes_its_requests_are_cancelled(accord_link: Any) -> None:
    async with accord_link.connect(working.make) as client:
        records = accord_link.connections[0].recording.records
        waiting = asyncio.ensure_future(client.call_tool("wait", {"name": "close"}))
        await until(lambda: "waiting close" in working.seen)
    await asyncio.wait([waiting])
    assert waiting.exception() is not None
    await until(lambda: working.seen[-2:] == ["left close", "lifespan ended"])
    assert {http(each).method for each in sent(records)} == {"POST"}
    assert "notifications/cancelled" not in [of(each, "method") for each in sent(records)]


@OLDER
@pytest.mark.requirement(
    "sse.endpoint.stream",
    "sse.endpoint.post",
    "sse.server.message-event",
    "sse.client.posts-to-endpoint",
    "lifecycle.shutdown.http-close",
)
async def test_in_the_older_form_all_answers_arrive_on_the_one_stream(accord_link: Any) -> None:
    records = await talked(accord_link)
    (opening, *_) = sent(records)
    assert http(opening).method == "GET"
    assert len(sent(records, "GET")) == 1
    for request in sent(records, "POST"):
        (only,) = responses(records, request)
        assert (http(only).status, only.message) == (202, None)
    said = [each for each in records if each.sender == "server" and each.message is not None]
    assert {http(each).stream for each in said} == {http(opening).stream}
    assert not [each for each in records if http(each).method == "DELETE"]

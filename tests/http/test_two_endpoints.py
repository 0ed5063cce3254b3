"""The older form: one stream for messages of the server, one URL for those of the client."""

import asyncio
import json
from urllib.parse import urljoin

import pytest

from support.http_offer import offer
from support.http_server import bounded, served
from support.http_talk import call, initialize, notification, request, text_of
from support.waiting import in_loop, run

REVISION = "2024-11-05"


async def connect(client, path="/sse"):
    """Connect, and read the URL for messages."""
    client.transport = "sse"
    stream = await client.send("GET", path=path)
    assert (stream.status, stream.kind) == (200, "text/event-stream")
    stream.talk, stream.facts = client, client._facts("GET", "sse", 200)
    place = await stream.event()
    assert stream.names == ["endpoint"]
    client.path = urljoin(path, place)
    return stream


async def opened(client, path="/sse", **capabilities):
    stream = await connect(client, path)
    assert (await client.post(initialize(REVISION, **capabilities))).status == 202
    assert (await stream.event())["result"]["protocolVersion"] == REVISION
    await client.post(notification("notifications/initialized"))
    return stream


@pytest.mark.requirement(
    "sse.endpoint.stream",
    "sse.endpoint.post",
    "sse.connect.endpoint-event",
    "sse.server.message-event",
    "sse.server.event-data-json",
)
@in_loop
async def test_all_messages_of_the_server_arrive_on_the_stream(port, talk):
    async with talk(port, revision=REVISION) as client:
        stream = await opened(client)
        accepted = await client.post(call(1, "count", token="t", to=2))
        assert (accepted.status, await accepted.body()) == (202, b"")
        found = [await stream.event() for _ in range(3)]
        assert [each["params"]["progress"] for each in found[:2]] == [1, 2]
        assert text_of(found[2]) == "2"
        await client.post(request(2, "resources/subscribe", uri="note://a"))
        await stream.event()
        await client.post(call(3, "touch", uri="note://a"))
        both = [await stream.event(), await stream.event()]
        assert {each.get("method") for each in both} == {
            "notifications/resources/updated",
            None,
        }
        assert set(stream.names[1:]) == {"message"}
        assert stream.ids == [None] * len(stream.ids)


@pytest.mark.parametrize("path", ["/sse", "/sse/"])
@in_loop
async def test_the_messages_url_is_a_path_from_the_root(port, talk, path):
    async with talk(port, revision=REVISION) as client:
        stream = await client.send("GET", path=path)
        assert (await stream.event()).startswith("/messages?session_id=")


def test_the_messages_url_follows_the_public_url(talk):
    async def scenario(port):
        async with talk(port, revision=REVISION) as client:
            stream = await client.send("GET", path="/sse", Host="example.com")
            assert (await stream.event()).startswith("/desk/messages?session_id=")

    url = "https://example.com/desk/mcp"
    with bounded(offer().asgi(sse=True, public_url=url)) as port:
        run(scenario(port))


@pytest.mark.requirement("lifecycle.shutdown.http-close")
@in_loop
async def test_the_session_ends_with_its_stream(port, talk):
    async with talk(port, revision=REVISION) as client, talk(port) as other:
        stream = await opened(client)
        await other.open()
        await client.post(call(1, "hold", token="t", name="older"))
        await stream.event()
        stream.abort()
        while (response := await client.post(request(2, "ping"))).status == 202:
            await asyncio.sleep(0.01)
        assert response.status == 404
        history = text_of(await other.answer(call(1, "history")))
        assert "older is cancelled" in history


@in_loop
async def test_questions_are_answered_by_post(port, talk):
    async with talk(port, revision=REVISION) as client:
        stream = await opened(client, roots={})
        await client.post(call(1, "ask"))
        answer = await stream.event()
        assert "elicitation/create does not exist" in text_of(answer)


@pytest.mark.requirement("http.post.refused-status")
@pytest.mark.parametrize("body", [b"{", b'{"jsonrpc":"2.0","id":7,"result":{}}', b"5"])
@in_loop
async def test_a_malformed_message_is_refused_in_the_response_to_it(port, talk, body):
    async with talk(port, revision=REVISION) as client:
        stream = await opened(client)
        response = await client.post(body)
        assert response.status == 400
        assert json.loads(await response.body())["error"]
        await client.post(request(3, "ping"))
        assert (await stream.event())["id"] == 3


@in_loop
async def test_a_request_that_cannot_be_read_is_answered_on_the_stream(port, talk):
    async with talk(port, revision=REVISION) as client:
        stream = await opened(client)
        response = await client.post(request(5, "tools/call", name=7))
        assert response.status == 202
        answer = await stream.event()
        assert (answer["id"], answer["error"]["code"]) == (5, -32602)


@in_loop
async def test_a_batch_under_a_revision_without_batches_is_answered_on_the_stream(port, talk):
    async with talk(port, revision="2025-06-18") as client:
        stream = await opened(client)
        response = await client.post([request(5, "ping"), request(6, "ping")])
        assert response.status == 202
        assert [(await stream.event())["id"] for _ in range(2)] == [5, 6]
        await client.post(request(7, "ping"))
        assert (await stream.event())["id"] == 7


@pytest.mark.parametrize(("size", "status"), [(3_000, 202), (4_100, 404)])
def test_a_query_is_read_up_to_its_limit(port, talk, size, status):
    async def scenario():
        async with talk(port, revision=REVISION) as client:
            await opened(client)
            path = client.path.replace("?", f"?way={'x' * size}&")
            assert (
                await client.send("POST", json.dumps(ping).encode(), path=path)
            ).status == status

    ping = request(7, "ping")
    run(scenario())


@in_loop
async def test_requests_to_the_wrong_endpoint_are_refused(port, talk):
    async with talk(port, revision=REVISION) as client, talk(port) as newer:
        await opened(client)
        await newer.open()
        place = client.path
        refused = [
            (await client.send("POST", b"{}", path="/sse"), 405),
            (await client.send("GET", path=place), 405),
            (await client.send("POST", b"{}", path="/messages"), 404),
            (await client.send("POST", b"{}", path="/messages?session_id=x"), 404),
            (await client.send("POST", b"{}", path=place, Content_Type="text/plain"), 415),
            (await client.send("GET", path="/sse", Accept="application/json"), 406),
            (
                await client.send("POST", b"{}", path=f"/messages?session_id={newer.session}"),
                404,
            ),
        ]
        for response, status in refused:
            assert response.status == status
            assert await response.error()


@served()
async def test_the_older_form_is_off_by_default(port, talk):
    async with talk(port) as client:
        assert (await client.send("GET", path="/sse")).status == 404


@served(sse=True, sessions=2)
async def test_sessions_of_both_forms_share_the_limit(port, talk):
    async with talk(port, revision=REVISION) as client, talk(port) as newer:
        await connect(client)
        await newer.open()
        await newer.get()
        response = await newer.send("GET", path="/sse")
        assert response.status == 503
        assert "2 sessions are open (sessions)" in await response.error()

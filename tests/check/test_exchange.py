"""Raw requests beside a conversation: streams, and refusals."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from accord_tools.check.probing.http_exchange import exchange, post_message
from accord_tools.check.probing.raw_connection import AuthorizationRequired, MessageTimeout
from accord_tools.check.server_check import spoken_revisions
from check.mutants.between_http import serving
from support.check_targets import check_target

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOTICE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def answering(status, kind, *pieces, stays=False):
    """Make an app that answers everything in the same way."""

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        headers = [(b"content-type", kind.encode())] if kind else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if stays:
            while (await receive())["type"] != "http.disconnect":
                pass
        await send({"type": "http.response.body", "body": b""})

    return app


@asynccontextmanager
async def line_to(app):
    async with serving(app) as port, asyncio.timeout(60):
        subject = check_target(name="app", url=f"http://127.0.0.1:{port}/mcp", patience=2)
        async with subject.connection(is_judged=False) as line:
            yield line


def heard_of(app, message=PING):
    async def run():
        async with line_to(app) as line:
            return await post_message(line, message)

    return asyncio.run(run())


def test_a_stream_has_its_event_ids_and_whether_it_was_primed():
    pieces = [b"retry: 5\nid: a\ndata: \n\nid: b\nda", b"ta: " + ANSWER + b"\n\n"]
    heard = heard_of(answering(200, "text/event-stream", *pieces))
    assert (heard.ids, heard.is_primed, heard.retry) == (["a", "b"], True, 5)
    assert heard.answers_to(1) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert heard.answers_to("1") == []


def test_an_id_that_comes_with_data_primes_nothing():
    heard = heard_of(answering(200, "text/event-stream", b"id: a\ndata: " + ANSWER + b"\n\n"))
    assert (heard.ids, heard.is_primed) == (["a"], False)


def test_a_stream_that_stays_open_is_left_once_it_has_answered():
    async def run():
        app = answering(200, "text/event-stream", b"data: " + ANSWER + b"\n\n", stays=True)
        async with line_to(app) as line, exchange(line, PING) as heard:
            await heard.until(lambda heard: bool(heard.answers()), 2)
            await heard.rest(0.05)
            return heard

    assert not asyncio.run(run()).has_ended


def test_the_answers_of_a_batch_are_all_found():
    heard = heard_of(answering(200, "application/json", b"[" + ANSWER + b"," + ANSWER + b"]"))
    assert len(heard.answers_to(1)) == 2


@pytest.mark.parametrize("body", [b"", b"no", b'{"id":null,"error":{"code":-32600}}'], ids=str)
def test_a_refusal_answers_a_request_although_it_names_no_id(body):
    async def run():
        async with line_to(answering(400, "application/json", body)) as line:
            return await line.ask("ping")

    reply = asyncio.run(run())
    assert reply.is_error
    assert reply.code == (-32600 if b"code" in body else None)


def test_a_refused_notification_gives_no_message():
    async def run():
        async with line_to(answering(400, "application/json", b'{"id":null,"error":{}}')) as line:
            await line.send(NOTICE)
            await line.collect(0.05)
            return line.received

    assert asyncio.run(run()) == []


def test_a_server_that_refuses_access_is_locked_and_not_silent():
    async def run():
        async with line_to(answering(401, "", b"")) as line:
            with pytest.raises(AuthorizationRequired):
                await line.ask("ping")
            return await spoken_revisions(check_target(name="app", url=line.carrier.url))

    assert len(asyncio.run(run())) == 1


CANCEL = {
    "jsonrpc": "2.0",
    "method": "notifications/cancelled",
    "params": {"requestId": 11, "reason": "its caller is gone"},
}


@pytest.mark.requirement("cancellation.request-id.previously-issued")
@pytest.mark.parametrize("is_abandoned", [True, False])
def test_a_request_may_have_been_sent_on_a_response_that_was_abandoned(is_abandoned):
    """Its cancellation arrives on the stream that belongs to no request."""
    is_told = asyncio.Event()

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        if scope["method"] == "GET":
            kind = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": kind})
            await is_told.wait()
            data = b"data: " + json.dumps(CANCEL).encode() + b"\n\n"
            await send({"type": "http.response.body", "body": data})
            return
        message = json.loads((await receive())["body"])
        if message["method"] == "tools/call":
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "app", "version": "1"}
        answer = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()
        status = 200 if "id" in message else 202
        kind = [(b"content-type", b"application/json")] if "id" in message else []
        await send({"type": "http.response.start", "status": status, "headers": kind})
        await send({"type": "http.response.body", "body": answer if "id" in message else b""})

    async def run():
        async with serving(app) as port, asyncio.timeout(60):
            url = f"http://127.0.0.1:{port}/mcp"
            subject = check_target(name="app", url=url, form="http", patience=0.3)
            async with subject.connection() as line:
                await line.initialize("2025-06-18")
                if is_abandoned:
                    with pytest.raises(MessageTimeout):
                        await line.ask("tools/call", {"name": "slow"})
                is_told.set()
                await line.until(lambda each: each == CANCEL, "the cancellation", patience=30)
                return line.log.tally("cancellation.request-id.previously-issued")

    tally = asyncio.run(run())
    assert tally.breaches == (0 if is_abandoned else 1)

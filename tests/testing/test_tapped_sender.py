"""Recordings over HTTP, and what the monitor finds in them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from accord import trace
from accord.testing import ProtocolBroken, Recording, connected
from support import testing_servers as servers
from support.raw_http import OlderServer, RawServer, Reply, Request
from support.waiting import run


def facts(recording: Recording, sender: str) -> list[tuple[str | None, int | None]]:
    return [
        (each.http.method, each.http.status)
        for each in recording.records
        if each.http is not None and each.sender == sender
    ]


def test_every_request_and_every_response_is_recorded_with_method_and_status() -> None:
    recording = Recording()

    async def main() -> None:
        options = {"recording": recording, "revision": "2025-11-25"}
        async with RawServer() as server, connected(server.url, **options) as client:
            await client.ping()

    run(main())
    assert sorted(facts(recording, "client")) == sorted(
        [(method, None) for method in ("POST", "POST", "GET", "POST", "DELETE")]
    )
    assert sorted(facts(recording, "server")) == sorted(
        [("POST", 200), ("POST", 202), ("GET", 405), ("POST", 200), ("DELETE", 204)]
    )


def test_a_word_of_the_older_form_beside_202_is_not_a_message() -> None:
    class Polite(OlderServer):
        """Says "Accepted", without a content type, as servers of the official library do."""

        def take(self, request: Request, reply: Reply) -> None:
            reply.empty = lambda status: reply.raw(  # type: ignore[method-assign]
                b"HTTP/1.1 %d Accepted\r\nContent-Length: 8\r\n\r\nAccepted" % status
            )
            super().take(request, reply)

    recording = Recording()

    async def main() -> None:
        async with Polite() as server, connected(server.url, recording=recording) as client:
            await client.ping()

    run(main())
    assert recording.violations == []
    assert (202, 8) in [
        (each.http.status, each.http.size) for each in recording.records if each.http
    ]


def test_secrets_are_masked_only_when_saved(tmp_path: Path) -> None:
    recording, file = Recording(), tmp_path / "session.jsonl"
    secrets = {"Authorization": "Bearer hush", "X-Key": "psst", "X-Again": "psst"}

    async def main() -> None:
        async with RawServer() as server:
            async with connected(server.url, recording=recording, headers=secrets) as client:
                await client.ping()
            assert server.requests[0].headers["authorization"] == "Bearer hush"

    run(main())
    recording.save(file)
    text = file.read_text()
    assert "hush" not in text
    assert "psst" not in text
    assert "session-1" not in text
    first = next(trace.read(file)).http
    assert first is not None
    assert first.header("authorization") != first.header("x-key")
    assert first.header("x-key") == first.header("x-again")
    assert first.header("content-type") == "application/json"
    kept = recording.records[0].http
    assert kept is not None
    assert kept.header("x-key") == "psst"


def progress(request: Request) -> dict[str, Any]:
    params = {"progressToken": request.message["params"]["_meta"]["progressToken"], "progress": 1}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def test_a_message_on_the_wrong_stream_is_a_breach() -> None:
    listening: list[Reply] = []

    async def listen(request: Request, reply: Reply) -> None:
        reply.stream()
        listening.append(reply)
        await asyncio.sleep(60)

    async def call(request: Request, reply: Reply) -> None:
        while not listening:
            await asyncio.sleep(0.001)
        listening[0].event(progress(request))
        await reported.wait()
        server.usual(request, reply)

    server = RawServer(GET=listen, tools__call=call)
    reported: asyncio.Event

    async def main() -> None:
        nonlocal reported
        reported = asyncio.Event()
        async with server, connected(server.url, revision="2025-06-18") as client:
            await client.call_tool("echo", on_progress=lambda _: reported.set())

    with pytest.raises(ProtocolBroken) as caught:
        run(main())
    assert [each.requirement for each in caught.value.violations] == ["http.get.unrelated-messages"]


def test_a_resumed_stream_is_the_same_stream() -> None:
    recording = Recording()
    asked: list[Request] = []

    def call(request: Request, reply: Reply) -> None:
        asked.append(request)
        reply.stream(chunked=False)
        reply.event(progress(request), id="e-1", retry=1)
        reply.close()

    def resume(request: Request, reply: Reply) -> None:
        if "last-event-id" not in request.headers:
            return reply.empty(405)
        reply.stream()
        result = {"content": [], "isError": False}
        reply.event({"jsonrpc": "2.0", "id": asked[0].message["id"], "result": result}, id="e-2")
        reply.end()
        return None

    server = RawServer(tools__call=call, GET=resume)

    async def main() -> None:
        # The server begins its stream with a message, and no event before it.
        allow = ("http.sse.priming-event",)
        async with server, connected(server.url, recording=recording, allow=allow) as client:
            await client.call_tool("echo")

    run(main())
    reported, answered = [
        each.http for each in recording.records if each.message and each.sender == "server"
    ][-2:]
    assert reported is not None
    assert answered is not None
    assert (reported.method, answered.method) == ("POST", "GET")
    assert reported.stream == answered.stream


def test_a_new_session_is_another_conversation() -> None:
    recording = Recording()

    async def main() -> None:
        async with RawServer() as server, connected(server.url, recording=recording) as client:
            await client.ping()
            server.sessions.clear()
            await client.call_tool("echo")

    run(main())
    assert len(recording.messages("client", "initialize")) == 2
    assert recording.violations == []
    verdicts = {each.id: each.verdict for each in recording.verdicts()}
    assert verdicts["ping.response.empty"] == "pass"  # met in the first of them alone
    assert verdicts["tools.call.is-error-flag"] == "pass"


def test_a_message_that_is_sent_again_is_recorded_once() -> None:
    recording = Recording()
    refused: list[Request] = []

    def call(request: Request, reply: Reply) -> None:
        if not refused:
            refused.append(request)
            return reply.body(503, b"later", "text/plain", Retry_After="0")
        return server.usual(request, reply)

    server = RawServer(tools__call=call)

    async def main() -> None:
        async with server, connected(server.url, recording=recording) as client:
            await client.call_tool("echo")

    run(main())
    assert len(recording.messages("client", "tools/call")) == 1
    assert facts(recording, "server").count(("POST", 503)) == 1


@pytest.mark.parametrize(
    ("body", "kind"), [(b'{"detail": "no"}', "application/json"), (b"<html>", "text/html")]
)
def test_a_refusal_in_another_format_is_not_a_message(body: bytes, kind: str) -> None:
    recording = Recording()

    def refuse(request: Request, reply: Reply) -> None:
        reply.body(500, body, kind)

    server = RawServer(tools__call=refuse)

    async def main() -> None:
        async with server, connected(server.url, recording=recording) as client:
            with pytest.raises(Exception, match="500"):
                await client.call_tool("echo")

    run(main())
    assert recording.violations == []


def test_an_invalid_message_is_a_breach() -> None:
    def garble(request: Request, reply: Reply) -> None:
        reply.body(200, b'{"jsonrpc": "2.0", ')

    async def main() -> None:
        async with RawServer(tools__call=garble) as server, connected(server.url) as client:
            with pytest.raises(Exception, match="tools/call"):
                await client.call_tool("echo")

    with pytest.raises(ProtocolBroken, match="a malformed message"):
        run(main())


def test_falling_back_to_the_older_form_is_recorded() -> None:
    recording = Recording()
    options: Any = {"recording": recording, "revision": "2024-11-05"}

    async def main() -> None:
        async with OlderServer() as server, connected(server.url, **options) as client:
            await client.call_tool("echo")

    run(main())
    assert len(recording.messages("client", "initialize")) == 1
    assert recording.records[-1].transport == "sse"
    assert recording.violations == []


def test_a_saved_recording_is_judged_like_the_live_traffic(tmp_path: Path) -> None:
    from accord.protocol.monitor import Monitor

    recording, file = Recording(), tmp_path / "session.jsonl"

    async def main() -> None:
        async with connected(
            servers.make_bad, transport="http-stream", recording=recording, allow={"*"}
        ) as client:
            await client.call_tool("lie")

    run(main())
    recording.save(file)
    monitor = Monitor()
    found = [each for record in trace.read(file) for each in monitor.observe(record)]
    assert [each.requirement for each in found] == [
        each.requirement for each in recording.violations
    ]
    assert found != []

"""Raw messages go out as typed, on a connection of their own, and are judged in the log."""

import asyncio
import json
import os
import sys

import pytest

from accord.http.client.auth import Bearer
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.raw.console import RawConsole
from inspector.reached_servers import (
    Guarded,
    ask,
    make_server,
    script_target,
    session_of,
    small_target,
    until,
    url_target,
)
from support.http_server import serving
from support.running import on_a_loop

# Repeats each line in hexadecimal, then ends at the word "end".
PARROT = """
import sys, os
print("a line for stderr", file=sys.stderr, flush=True)
for line in sys.stdin.buffer:
    print(line.rstrip(b"\\n").hex(), flush=True)
    if line == b"end\\n":
        os._exit(3)
"""


async def opened(session, **how):
    await ask(session, "raw.open", **how)
    console = session.part(RawConsole)
    await until(lambda: console.state != "opening")
    return console


async def rows(session, **filter):
    chosen = {"with_http": True, "with_stderr": True, **filter}
    return (await ask(session, "log.rows", start=0, count=200, filter=chosen))["rows"]


async def until_rows(session, count, **filter):
    async with asyncio.timeout(10):
        while len(found := await rows(session, **filter)) < count:
            await asyncio.sleep(0.005)
    return found


async def until_status(session, status):
    """Wait for a response with a status."""
    async with asyncio.timeout(10):
        while status not in {row["status"] for row in await rows(session, sender="server")}:
            await asyncio.sleep(0.005)


async def text_of(session, row):
    return (await ask(session, "log.detail", n=row["n"]))["text"]


@on_a_loop
async def test_bytes_go_out_as_they_were_typed(tmp_path):
    typed = '{"a": 1.000,  "ü" :1e400'
    async with session_of(script_target(tmp_path, PARROT)) as session:
        console = await opened(session, handshake=False)
        await ask(session, "raw.send", text=typed)
        found = await until_rows(session, 2, conversation="raw-1", with_stderr=False)
        assert await text_of(session, found[0]) == typed
        assert bytes.fromhex(await text_of(session, found[1])).decode() == typed
        assert {row["conversation"] for row in found} == {"raw-1"}
        assert (console.state, console.transport) == ("open", "stdio")


@on_a_loop
async def test_a_server_that_ends_is_said_and_can_be_opened_again(tmp_path):
    async with session_of(script_target(tmp_path, PARROT)) as session:
        console = await opened(session, handshake=False)
        await ask(session, "raw.send", text="end")
        await until(lambda: console.state == "ended")
        assert console.reason == "the server ended with exit code 3"
        with pytest.raises(ActionRefused, match="open one first"):
            await ask(session, "raw.send", text="more")
        await opened(session, handshake=False)
        assert (console.state, console.conversation) == ("open", "raw-2")
        assert any(row["kind"] == "stderr" for row in await rows(session))


@pytest.mark.skipif(sys.platform == "win32", reason="looks at processes by signal 0")
@on_a_loop
async def test_closing_leaves_no_process(tmp_path):
    async with session_of(script_target(tmp_path, PARROT)) as session:
        console = await opened(session, handshake=False)
        pid = console._line._child.pid
        await ask(session, "raw.close")
        assert console.state == "closed"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="looks at processes by signal 0")
@on_a_loop
async def test_a_connection_that_is_being_opened_can_be_closed(tmp_path):
    async with session_of(script_target(tmp_path, PARROT)) as session:
        await ask(session, "raw.open", handshake=True)
        console = session.part(RawConsole)
        await until(lambda: console._answer is not None)
        pid = console._line._child.pid
        assert console.state == "opening"
        await ask(session, "raw.close")
        assert console.state == "closed"
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@on_a_loop
async def test_a_command_that_does_not_exist_is_explained(tmp_path):
    target = small_target(command=("/no/such/program",))
    async with session_of(target) as session:
        console = await opened(session, handshake=True)
        assert console.state == "ended"
        assert "was not found" in console.reason


@on_a_loop
async def test_each_template_of_a_message_breaks_the_clause_that_it_names():
    """Those that a client breaks by the message itself are marked at its row."""
    async with session_of(small_target()) as session:
        await opened(session, handshake=True, revision="2025-06-18")
        shown = await ask(session, "raw.get")
        assert shown["revision"] == "2025-06-18"
        wanted = {}
        for each in shown["templates"]:
            before = len(await rows(session))
            await ask(session, "raw.send", text=each["text"])
            wanted[before + 1] = each
        await ask(session, "raw.send", text='{"jsonrpc": "2.0", "id": "last", "method": "ping"}')
        await until_rows(session, 1, text='"last"', sender="server")
        await ask(session, "raw.close")
        marked = {
            row["n"]: {each["requirement"] for each in detail["breaches"]}
            for row in await rows(session, sender="client", severity=True)
            for detail in [await ask(session, "log.detail", n=row["n"])]
        }
        broken = {wanted[n]["id"] for n in wanted if wanted[n]["requirement"] in marked.get(n, ())}
        assert {
            *("missing-jsonrpc", "wrong-jsonrpc", "null-id", "fraction-id", "reused-id"),
            *("method-number", "params-array", "batch"),
        } <= broken


# -- HTTP


def said(**more):
    return json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping"} | more)


@on_a_loop
async def test_headers_are_added_replaced_and_left_out():
    with serving(make_server().asgi()) as port:
        target = url_target(port, headers={"x-given": "one"})
        async with session_of(target) as session:
            console = await opened(session, handshake=True, revision="2025-06-18")
            assert (console.state, console.reason) == ("open", "")
            changes = [["mcp-session-id", None], ["X-Given", "two"], ["x-more", "three"]]
            await ask(session, "raw.send", text=said(), headers=changes)
            (sent,) = await until_rows(session, 1, method="ping", sender="client")
            detail = await ask(session, "log.detail", n=sent["n"], reveal=True)
            lines = dict(detail["http"]["lines"])
            assert lines["x-given"] == "two"
            assert lines["x-more"] == "three"
            assert lines["mcp-protocol-version"] == "2025-06-18"
            assert "mcp-session-id" not in lines
            await until_status(session, 400)


@on_a_loop
async def test_other_methods_of_http_are_sent():
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port)) as session:
            await opened(session, handshake=True, revision="2025-06-18")
            await ask(session, "raw.send", text="", http_method="DELETE")
            (sent,) = await until_rows(session, 1, method="DELETE", sender="client")
            await until_rows(session, 1, method="DELETE", sender="server")
            assert sent["kind"] == "http"
            await ask(session, "raw.send", text=said())
            await until_status(session, 404)


@pytest.mark.parametrize("header", [["bad name", "x"], ["x", "a\r\nb"], ["content-length", "3"]])
@on_a_loop
async def test_a_header_that_cannot_be_sent_is_refused(header):
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port, transport="http")) as session:
            await opened(session, handshake=False)
            with pytest.raises(ActionRefused):
                await ask(session, "raw.send", text=said(), headers=[header])


@on_a_loop
async def test_the_older_form_and_the_newest_revision_are_spoken():
    app = make_server().asgi(sse=True)
    with serving(app) as port:
        async with session_of(url_target(port, "/sse", transport="sse")) as session:
            console = await opened(session, handshake=True, revision="2024-11-05")
            assert (console.state, console.transport, console.reason) == ("open", "sse", "")
            await ask(session, "raw.send", text=said(id="old"))
            await until_rows(session, 1, sender="server", text='"old"')
        async with session_of(url_target(port)) as session:
            console = await opened(session, handshake=True, revision="2026-07-28")
            assert (console.state, console.reason) == ("open", "")
            template = next(
                each
                for each in (await ask(session, "raw.get"))["templates"]
                if each["id"] == "wrong-method-header"
            )
            await ask(session, "raw.send", text=template["text"], headers=template["headers"])
            found = await until_rows(session, 1, sender="server", text="-32020")
            assert found[0]["status"] == 400


@on_a_loop
async def test_the_token_of_the_user_is_sent_and_never_shown():
    app = Guarded(make_server().asgi(), "token-of-the-user-1")
    with serving(app) as port:
        target = url_target(port, auth=Bearer("token-of-the-user-1"))
        async with session_of(target) as session:
            console = await opened(session, handshake=True, revision="2025-06-18")
            assert (console.state, console.reason, app.refused) == ("open", "", 0)
            shown = [await ask(session, "log.detail", n=row["n"]) for row in await rows(session)]
            assert "token-of-the-user-1" not in str(shown)
        async with session_of(url_target(port, transport="http")) as session:
            console = await opened(session, handshake=True)
            assert console.reason == "the server refused with status 401"


@on_a_loop
async def test_a_server_that_is_not_there_is_explained():
    async with session_of(url_target(9, transport="http")) as session:
        console = await opened(session, handshake=True)
        assert console.reason
        assert console.state in ("open", "ended")

"""Files to take away: the log, what a server offers, entries for hosts, broken clauses."""

import io
import json
import os
from typing import Annotated

import pytest

from accord import Server, trace
from accord.client.server_spec import ServerSpec
from accord.http.client.auth import Bearer
from accord_tools.hosts.table import load_hosts
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.exports.host_entries import host_entry
from accord_tools.inspector.log.message_log import InspectedLog
from inspector.reached_servers import (
    ask,
    call_of,
    download,
    make_server,
    session_of,
    small_target,
    url_target,
)
from support.http_server import serving
from support.running import on_a_loop

TOKEN = "token-of-the-user-1"
KEY = "key-of-the-user-22"
PASSWORD = "hunter2-and-more"
SECRETS = (TOKEN, KEY, PASSWORD)


def guarded_target(port):
    return url_target(port, headers={"x-api-key": KEY}, auth=Bearer(TOKEN))


@on_a_loop
async def test_the_log_is_exported_in_each_format_without_secrets():
    with serving(make_server().asgi()) as port:
        async with session_of(guarded_target(port), is_connected=True) as session:
            await call_of(session, "calls.tool", name="add", arguments='{"a": 1, "b": 2}')
            arguments = json.dumps({"text": "x", "password": PASSWORD})
            await call_of(session, "calls.tool", name="echo", arguments=arguments)
            files = {
                form: await download(session, "export.session", format=form)
                for form in ("trace", "json", "har", "text")
            }
            log = session.part(InspectedLog)
            rows = log.next_number - log.first_kept
    for form, data in files.items():
        assert not any(secret.encode() in data for secret in SECRETS), form
    assert len(list(trace.read(io.BytesIO(files["trace"])))) == rows
    whole = json.loads(files["json"])
    assert len(whole["rows"]) == rows
    assert any("tools/call" in row["text"] for row in whole["rows"])
    assert b"tools/call" in files["text"]


@on_a_loop
async def test_an_archive_has_requests_with_their_responses():
    with serving(make_server().asgi()) as port:
        async with session_of(guarded_target(port), is_connected=True) as session:
            await call_of(session, "calls.tool", name="add", arguments='{"a": 1, "b": 2}')
            har = json.loads(await download(session, "export.session", format="har"))
    assert har["log"]["version"] == "1.2"
    calls = [
        each
        for each in har["log"]["entries"]
        if "tools/call" in each["request"].get("postData", {}).get("text", "")
    ]
    (entry,) = calls
    assert entry["request"]["url"] == f"http://127.0.0.1:{port}/mcp"
    assert entry["response"]["status"] == 200
    assert '"value"' in entry["response"]["content"]["text"].replace("\\", "")
    assert entry["time"] >= entry["timings"]["wait"] >= 0
    assert {"cache", "startedDateTime", "timings"} <= {*entry}


@on_a_loop
async def test_the_catalog_is_exported():
    with serving(make_server().asgi()) as port:
        async with session_of(url_target(port), is_connected=True) as session:
            lock = json.loads(await download(session, "export.catalog", format="lock"))
            text = (await download(session, "export.catalog", format="markdown")).decode()
            with pytest.raises(ActionRefused, match="format"):
                await download(session, "export.catalog", format="../../etc/passwd")
    assert [each["name"] for each in lock["tools"]] == ["add", "echo", "fail"]
    assert lock["revision"]
    assert "### ` add `" in text
    assert "Repeat a text \\| with \\*signs\\*." in text
    assert "- ` a ` (number, required)" in text
    assert "### ` note://today `" in text


@on_a_loop
async def test_broken_clauses_are_described_with_evidence_and_a_command(tmp_path):
    with serving(make_server().asgi()) as port:
        async with session_of(guarded_target(port)) as session:
            conversation = session.part(InspectedLog).conversation("main", "stdio")
            conversation.observe("client", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
            wrong = f'{{"jsonrpc":"1.0","id":1,"result":{{"tools":[],"password":"{PASSWORD}"}}}}'
            conversation.observe("server", wrong.encode())
            conversation.close()
            typed = session.part(InspectedLog).conversation("raw-1", "stdio")
            typed.observe("client", b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}')
            typed.close()
            text = (await ask(session, "export.breaches"))["text"]
    assert "## jsonrpc.message.version-2-0 (fail)" in text
    assert "to mend it:" in text
    # A person sent that one on purpose.
    assert "id-not-null" not in text
    assert f"accord check server http://127.0.0.1:{port}/mcp" in text
    assert "--only jsonrpc.message.version-2-0" in text
    assert not any(secret in text for secret in SECRETS)


@on_a_loop
async def test_a_log_without_breaches_says_so():
    async with session_of(url_target(1)) as session:
        assert "No message broke a clause" in (await ask(session, "export.breaches"))["text"]
        with pytest.raises(ActionRefused, match="empty"):
            await download(session, "export.session", format="trace")


@on_a_loop
async def test_a_recording_is_exported_too():
    async with session_of(ServerSpec(name="session.jsonl"), kind="trace") as session:
        conversation = session.part(InspectedLog).conversation("main", "http")
        facts = trace.HttpFacts(method="POST", path="/mcp", exchange="post-1")
        conversation.observe("client", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', http=facts)
        came = trace.HttpFacts(method="POST", status=200, exchange="post-1")
        conversation.observe("server", b'{"jsonrpc":"2.0","id":1,"result":{}}', http=came)
        lines = await download(session, "export.session", format="trace")
        har = json.loads(await download(session, "export.session", format="har"))
        assert "check again" not in (await ask(session, "export.breaches"))["text"]
        with pytest.raises(ActionRefused, match="needs a connection"):
            await ask(session, "export.hosts")
    assert len(lines.splitlines()) == 2
    assert har["log"]["entries"][0]["response"]["content"]["text"].endswith("}")


# -- hosts


COMMAND = small_target(
    command=("npx", "-y", "some-server", "--api-key", KEY),
    env={**os.environ, "MY_TOKEN": TOKEN},
    cwd=os.getcwd(),
)


def test_an_entry_is_named_and_launched_as_by_accord_add():
    run = ("python", "-P", "-m", "accord.cli.main", "run", "--stdio", "/desk/tools.py")
    named = {
        "tools": ServerSpec(name="tools.py", shown="tools.py", command=run),
        "memory": ServerSpec(
            name="npx @x/server-memory", shown="-- npx ...", command=("npx", "@x/server-memory")
        ),
        "example": ServerSpec(
            name="mcp.example.com/mcp",
            shown="https://mcp.example.com/mcp",
            url="https://mcp.example.com/mcp",
        ),
        "kept": ServerSpec(name="kept", shown="-- npx ...", command=("npx", "desk")),
    }
    for name, target in named.items():
        servers = json.loads(host_entry(target, "cursor")["text"])["mcpServers"]
        assert list(servers) == [name]
        if name == "tools":
            assert servers[name]["args"] == ["-P", "-m", "accord", "run", "/desk/tools.py"]


@pytest.mark.parametrize("target", [guarded_target(80), COMMAND], ids=["url", "command"])
def test_an_entry_for_each_host_has_no_secret(target):
    for id in load_hosts():
        entry = host_entry(target, id)
        assert not any(secret in str(entry) for secret in SECRETS)
        assert entry["text"].strip()
        assert entry["place"]
        assert any("MY_TOKEN" in each or "X_API_KEY" in each for each in entry["remarks"])


@on_a_loop
async def test_hosts_are_listed_and_an_unknown_one_refused():
    async with session_of(small_target()) as session:
        hosts = (await ask(session, "export.hosts"))["hosts"]
        assert {"id": "cursor", "title": "Cursor"} in hosts
        entry = await ask(session, "export.host", host="cursor")
        assert "small_server" in entry["text"]
        with pytest.raises(ActionRefused, match="no host"):
            await ask(session, "export.host", host="no-such-host")


@on_a_loop
async def test_an_archive_has_events_and_leaves_out_what_has_no_exchange():
    async with session_of(ServerSpec(name="session.jsonl"), kind="trace") as session:
        conversation = session.part(InspectedLog).conversation("main", "http")
        alone = trace.HttpFacts(method="POST", path="/mcp")
        conversation.observe("client", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', http=alone)
        stray = trace.HttpFacts(method="POST", status=200, exchange="post-9")
        conversation.observe("server", b'{"jsonrpc":"2.0","id":1,"result":{}}', http=stray)
        asked = trace.HttpFacts(method="GET", path="/mcp", exchange="get-1")
        conversation.observe("client", None, http=asked)
        event = trace.HttpFacts(method="GET", status=200, exchange="get-1", event="message", id="7")
        conversation.observe("server", b'{"jsonrpc":"2.0","method":"x"}', http=event)
        har = json.loads(await download(session, "export.session", format="har"))
    (entry,) = har["log"]["entries"]
    assert entry["request"]["method"] == "GET"
    assert "postData" not in entry["request"]
    text = entry["response"]["content"]["text"]
    assert text == 'event: message\nid: 7\ndata: {"jsonrpc":"2.0","method":"x"}\n\n'


@on_a_loop
async def test_arguments_are_exported_with_what_is_said_about_them():
    server = Server("said")

    @server.prompt
    def greet(name: Annotated[str, "The one to *greet*"], tone: str = "kind") -> str:
        """Greet."""
        return f"{name} {tone}"

    with serving(server.asgi()) as port:
        async with session_of(url_target(port), is_connected=True) as session:
            text = (await download(session, "export.catalog", format="markdown")).decode()
    assert "- ` name ` (required): The one to \\*greet\\*\n- ` tone `\n" in text

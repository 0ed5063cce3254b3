import asyncio
import json
import urllib.request
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from accord import Server
from accord.auth import AuthorizationServer, MemoryStore, OAuth
from accord_tools.inspector.definition import ActionRefused, InspectOptions
from accord_tools.inspector.live.session_parts import SourceWatch
from inspector.live_page import launch, live_page, scripted
from inspector.small_server import make_server
from support.http_server import bounded, serving
from support.running import on_a_loop
from support.waiting import until

TOOLS = ("echo", "remove", "unmarked", "add_one", "wrong")
DESK = '''
import asyncio
import os

from accord import Server

server = Server("desk")


@server.tool
def process() -> int:
    """Return the id of the process."""
    return os.getpid()


@server.tool
async def wait() -> str:
    """Wait."""
    await asyncio.sleep(600)
    return ""
'''


def text_of(call):
    return json.loads(call["response"])["content"][0]["text"]


# -- both eras


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@on_a_loop
async def test_everything_is_listed_called_and_asked(revision):
    async with live_page(revision=revision) as page:
        facts = await page.ask("session.get")
        assert (facts["revision"], facts["server"]["title"]) == (revision, "Travel desk")
        assert json.loads(facts["server_capabilities"])["resources"]["subscribe"] is True
        assert "elicitation" in json.loads(facts["client_capabilities"])
        totals = [(await page.until_listed(kind))["total"] for kind in ("tools", "templates")]
        assert totals == [11, 2]
        await page.until_listed("prompts")
        await page.until_listed("resources")
        offered = await page.ask("catalog.counts")
        assert offered["counts"] == {"tools": 11, "resources": 23, "prompts": 2}
        assert offered["lacks"] == ["tasks"]
        entry = await page.ask("catalog.entry", kind="tools", name="weather")
        assert (entry["confirm"], entry["hints"]) == ("", ["read-only", "closed world"])
        assert json.loads(entry["output_schema"])["type"] == "object"
        entry = await page.ask("catalog.entry", kind="prompts", name="plan")
        assert entry["completes"] == ["country", "city", "days"]

        call = await page.call("fly", '{"city": "Lima"}')
        assert [each["value"] for each in call["progress_seen"]] == [1, 2, 3]
        rows = [(await page.ask("log.detail", n=n))["row"] for n in call["rows"]]
        assert {each["call"] for each in rows} == {call["id"]}
        assert (rows[0]["method"], rows[-1]["kind"]) == ("tools/call", "result")

        params = {"arguments": '{"city": "Lima"}', "confirmed": True, "timeout": 1}
        id = (await page.ask("calls.tool", name="book", **params))["id"]
        question = await page.question()
        # clock: longer than the time limit, which does not run while a person is asked
        await asyncio.sleep(1.2)
        assert (question["kind"], question["call"]) == ("elicitation", id)
        assert (await page.ask("session.get"))["unanswered"] == 1
        answer = {"id": question["id"], "action": "accept"}
        with pytest.raises(ActionRefused, match="/row: expected at most 40"):
            await page.ask("questions.answer", **answer, content='{"row": 99}')
        await page.ask("questions.answer", **answer, content='{"row": 7, "side": "aisle"}')
        assert text_of(await page.until_ended(id)) == "Booked Lima, row 7, aisle."

        await page.ask("roots.set", roots=[{"uri": "file:///tmp/a", "name": "bag"}])
        assert text_of(await page.call("luggage")) == '["bag"]'
        with pytest.raises(ActionRefused, match="file://"):
            await page.ask("roots.set", roots=[{"uri": "https://example.org"}])

        await page.ask("calls.read", uri="desk://rules")
        await page.ask("calls.prompt", name="plan", arguments='{"country": "Peru", "city": "Lima"}')
        await page.until(
            "calls.list", lambda got: [each["state"] for each in got["calls"][:2]] == ["done"] * 2
        )
        typed = {"argument": "city", "value": "L", "context": {"country": "Peru"}}
        found = await page.ask("calls.complete", kind="prompt", name="plan", **typed)
        assert found["values"] == ["Lima"]

        await page.call("open_lounge", '{"is_open": true}')
        listed = await page.until("catalog.list", lambda got: got["changes"], kind="tools")
        assert (listed["changes"], listed["total"]) == (["added lounge"], 12)
        assert "tool greet" in {
            each["where"] for each in (await page.ask("catalog.lint"))["findings"]
        }


@on_a_loop
async def test_settings_and_subscriptions_are_restored_after_reconnecting():
    async with live_page(revision="2025-06-18") as page:
        await page.ask("subscriptions.level", level="warning")
        await page.ask("subscriptions.set", uri="desk://departures", on=True)
        await page.ask("roots.set", roots=[{"uri": "file:///tmp/a", "name": "bag"}])
        await page.until("subscriptions.get", lambda got: got["subscribed"][0]["updates"] > 0)
        await page.ask("session.connect", revision="2025-11-25", timeout=30)
        facts = await page.until_state("ready")
        assert (facts["revision"], facts["chosen"], facts["timeout"]) == (
            "2025-11-25",
            "2025-11-25",
            30,
        )
        seen = (await page.ask("subscriptions.get"))["subscribed"][0]["updates"]
        got = await page.until(
            "subscriptions.get", lambda got: got["subscribed"][0]["updates"] > seen
        )
        assert got["log_level"] == "warning"
        assert text_of(await page.call("luggage")) == '["bag"]'
        await page.ask("session.disconnect")
        await page.until_state("closed")
        with pytest.raises(ActionRefused, match="no connection"):
            await page.ask("calls.tool", name="greet", confirmed=True)
        with pytest.raises(ActionRefused, match="revisions are"):
            await page.ask("session.connect", revision="2020-01-01")
        with pytest.raises(ActionRefused, match="no HTTP headers"):
            await page.ask("session.connect", headers=[["a", "b"]])


# -- servers that fail


@on_a_loop
async def test_a_server_that_does_not_start_says_why_and_a_retry_works(tmp_path):
    file = tmp_path / "server.py"
    file.write_text("import no_such_module\n")
    async with live_page(is_ready=False, command=launch(file)) as page:
        facts = await page.until_state("failed")
        assert "no_such_module" in " ".join(facts["error"]["stderr"])
        assert facts["error"]["advice"]
        assert not facts["can_send"]
        file.write_text(DESK)
        await page.ask("session.restart")
        assert (await page.until_state("ready", "failed"))["error"] is None


@on_a_loop
async def test_credentials_of_the_command_line_are_not_shown():
    given = scripted("late-start", "--api-key=a1b2c3d4e5f6")
    async with live_page(is_ready=False, **given) as page:
        facts = await page.until_state("failed")
        assert facts["error"]["advice"].startswith("set the variable that it misses")
        assert facts["error"]["stderr"] == ["KeyError: 'API_TOKEN' --api-key=masked-1"]
        assert "a1b2c3d4e5f6" not in json.dumps(facts)


@on_a_loop
async def test_missing_features_are_known_only_while_the_server_is_connected(tmp_path):
    file = tmp_path / "server.py"
    file.write_text(DESK)
    async with live_page(command=launch(file)) as page:
        assert (await page.until_listed("prompts"))["state"] == "absent"
        assert (await page.ask("catalog.counts"))["lacks"][-2:] == ["prompts", "tasks"]
        await page.ask("session.disconnect")
        await page.until_state("closed")
        assert (await page.ask("catalog.list", kind="prompts"))["state"] == "unconnected"
        assert await page.ask("catalog.counts") == {"counts": {}, "lacks": []}


@on_a_loop
async def test_a_program_that_does_not_exist_is_named():
    async with live_page(is_ready=False, command=["no-such-program-here"]) as page:
        error = (await page.until_state("failed"))["error"]
        assert "'no-such-program-here' was not found" in error["message"]
        assert error["advice"] == "install it, or write its full path"


@on_a_loop
async def test_a_server_that_ends_during_a_call_is_closed_and_the_call_is_lost():
    async with live_page(**scripted()) as page:
        await page.until_listed()
        call = await page.call("stop")
        assert call["state"] == "lost"
        facts = await page.until_state("closed")
        assert "exit code 3" in facts["error"]["message"]
        assert facts["error"]["stderr"] == ["stopping"]
        listed = await page.ask("catalog.list", kind="tools")
        assert (listed["total"], listed["stale"]) == (len(TOOLS), True)
        await page.ask("session.restart")
        await page.until_state("ready")
        assert (await page.call("echo"))["state"] == "done"
        assert len((await page.ask("calls.list"))["calls"]) == 2


@pytest.mark.parametrize(
    ("way", "total", "error"),
    [
        ("malformed", 7, "5"),
        ("loop", 2, "a second time"),
        ("twice", 2, None),
        ("no-prompts", 5, None),
    ],
)
@on_a_loop
async def test_a_wrong_list_is_shown_as_far_as_it_can_be_read(way, total, error):
    async with live_page(**scripted(way)) as page:
        listed = await page.until_listed()
        assert (listed["state"], listed["total"]) == ("ready", total)
        assert (error or "") in (listed["error"] or "")
        if way == "malformed":
            entry = await page.ask("catalog.entry", kind="tools", name=" (2)")
            assert entry["raw"] == "[]"
        if way == "twice":
            assert [each["name"] for each in listed["entries"]] == ["echo", "echo (2)"]
        prompts = await page.until_listed("prompts")
        assert prompts["state"] == ("failed" if way == "no-prompts" else "ready")


@on_a_loop
async def test_an_entry_is_shown_as_it_came():
    async with live_page(**scripted()) as page:
        await page.until_listed()
        entry = await page.ask("catalog.entry", kind="tools", name="unmarked")
        assert '"x-more": 1.5' in entry["raw"]
        found = await page.ask("catalog.list", kind="tools", text="UNM", start=0, count=10)
        assert (found["matching"], found["total"]) == (1, len(TOOLS))


# -- reload


@on_a_loop
async def test_a_change_of_the_code_restarts_the_server_unless_the_syntax_is_broken(tmp_path):
    file = tmp_path / "server.py"
    file.write_text(DESK)
    async with live_page(command=launch(file), options=InspectOptions(reloads=True)) as page:
        first = int(text_of(await page.call("process")))
        assert (await page.ask("session.get"))["reloads"]
        id = (await page.ask("calls.tool", name="wait", confirmed=True))["id"]
        await page.until("calls.get", lambda got: got["request"], id=id)
        await until(lambda: page.session.part(SourceWatch).is_watching)
        file.write_text(DESK + "def broken(:\n")
        facts = await page.until("session.get", lambda got: "def broken(:" in got["note"])
        assert f"server.py:{DESK.count(chr(10)) + 1}: " in facts["note"]
        assert facts["state"] == "ready"
        assert (await page.ask("calls.get", id=id))["state"] == "running"
        file.write_text(DESK.replace("def wait", "def wait_long"))
        assert (await page.until_ended(id))["state"] == "lost"
        await page.until(
            "session.get", lambda got: "restarted" in got["note"] and got["state"] == "ready"
        )
        assert int(text_of(await page.call("process"))) != first
        listed = await page.until("catalog.list", lambda got: got["changes"], kind="tools")
        assert listed["changes"] == ["added wait_long", "removed wait"]


# -- over HTTP


def served():
    server = Server("desk")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server


@pytest.mark.parametrize("transport", ["http", "sse"])
@on_a_loop
async def test_servers_are_reached_over_http(transport):
    with bounded(served().asgi(sse=transport == "sse", grace=0)) as port:
        path = "sse" if transport == "sse" else "mcp"
        url = f"http://127.0.0.1:{port}/{path}?key=not-for-others"
        async with live_page(url=url, transport="sse" if path == "sse" else None) as page:
            facts = await page.ask("session.get")
            assert facts["transport"] == transport
            assert "not-for-others" not in json.dumps(facts)
            call = await page.call("add", '{"a": 1, "b": 2}')
            assert text_of(call) == "3"
            await page.ask("session.connect", headers=[["X-Trace", "value-of-it"]])
            facts = await page.until_state("ready")
            assert facts["headers"] == ["X-Trace"]
            assert "value-of-it" not in json.dumps(facts)


@on_a_loop
async def test_an_address_without_a_server_is_explained():
    with bounded(served().asgi(grace=0)) as port:
        pass
    async with live_page(is_ready=False, url=f"http://127.0.0.1:{port}/mcp") as page:
        error = (await page.until_state("failed"))["error"]
        assert "refused" in error["message"]
        assert error["advice"].startswith("start the server")


@on_a_loop
async def test_a_sign_in_is_a_question_with_the_address():
    server = Server("desk", auth=AuthorizationServer(auto_approve="ada", scopes=["read"]))
    with bounded(server.asgi(grace=0)) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        auth = OAuth(store=MemoryStore())
        async with live_page(is_ready=False, url=url, auth=auth) as page:
            question = await page.question()
            assert (question["kind"], question["host"]) == ("sign-in", "127.0.0.1")
            with pytest.raises(ActionRefused, match="paste"):
                await page.ask("questions.answer", id=question["id"], action="accept")
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            await asyncio.to_thread(lambda: opener.open(question["url"], timeout=60).read())
            await page.until_state("ready")
            assert (await page.ask("questions.list"))["questions"] == []


@on_a_loop
async def test_the_redirect_of_a_sign_in_on_another_machine_is_pasted():
    server = Server("desk", auth=AuthorizationServer(auto_approve="ada", scopes=["read"]))
    with bounded(server.asgi(grace=0)) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        auth = OAuth(store=MemoryStore())
        async with live_page(is_ready=False, url=url, auth=auth) as page:
            question = await page.question()
            # The address leads to a port that the browser of another machine does not reach.
            location = await asyncio.to_thread(redirect_of, question["url"])
            answer = {"id": question["id"], "action": "accept", "redirected": location}
            await page.ask("questions.answer", **answer)
            await page.until_state("ready")


def redirect_of(url):
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.netloc, timeout=60)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}")
        return connection.getresponse().headers["location"]


@on_a_loop
async def test_a_sign_in_that_a_person_refuses_fails_the_connection():
    server = Server("desk", auth=AuthorizationServer(auto_approve="ada", scopes=["read"]))
    with bounded(server.asgi(grace=0)) as port:
        auth = OAuth(store=MemoryStore())
        url = f"http://127.0.0.1:{port}/mcp"
        async with live_page(is_ready=False, url=url, auth=auth) as page:
            question = await page.question()
            await page.ask("questions.answer", id=question["id"], action="decline")
            facts = await page.until_state("failed")
            assert "did not sign in" in facts["error"]["message"]
            assert facts["sign_in"]


# -- tasks


FILMS = '''
import asyncio

from accord import Context, Server
from accord.server.tasks import TaskSettings

server = Server("films", tasks=TaskSettings(ttl=600, poll_interval=0.05, grace=0))


@server.tool(task="optional")
async def render(ctx: Context, frames: int = 1) -> str:
    """Render a film."""
    for frame in range(frames):
        await ctx.task.update(f"frame {frame}")
        await asyncio.sleep(0.05)
    return f"{frames} frames"
'''


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@on_a_loop
async def test_tools_run_as_tasks_that_are_followed_and_cancelled(revision, tmp_path):
    file = tmp_path / "films.py"
    file.write_text(FILMS)
    async with live_page(command=launch(file), revision=revision) as page:
        await page.until_listed()
        call = await page.call("render", as_task=True)
        assert text_of(call) == "1 frames"
        task = (await page.ask("tasks.list"))["tasks"][0]
        assert call["tasks"] == [task["id"]]
        await page.until("tasks.list", lambda got: got["tasks"][0]["status"] == "completed")
        again = await page.ask("tasks.result", id=task["id"])
        assert text_of(await page.until_ended(again["id"])) == "1 frames"
        with pytest.raises(ActionRefused, match="over already: completed"):
            await page.ask("tasks.cancel", id=task["id"])

        params = {"arguments": '{"frames": 100000}', "as_task": True, "confirmed": True}
        id = (await page.ask("calls.tool", name="render", **params))["id"]
        got = await page.until("tasks.list", lambda got: got["tasks"][0]["message"])
        assert (got["is_supported"], got["tasks"][0]["call"]) == (True, id)
        await page.ask("tasks.cancel", id=got["tasks"][0]["id"])
        assert (await page.until_ended(id))["state"] == "cancelled"
        await page.ask("tasks.refresh")
        statuses = [each["status"] for each in (await page.ask("tasks.list"))["tasks"]]
        assert statuses == ["cancelled", "completed"]


@on_a_loop
async def test_settings_of_a_connection_that_cannot_be_are_refused():
    with serving(make_server().asgi()) as port:
        async with live_page(url=f"http://127.0.0.1:{port}/mcp", revision="2025-06-18") as page:
            for wrong, says in (
                ({"timeout": 0}, "above 0"),
                ({"headers": [[f"x-{n}", "1"] for n in range(1_000)]}, "at most"),
                ({"headers": [["x y", "1"]]}, "x y"),
            ):
                with pytest.raises(ActionRefused, match=says) as refused:
                    await page.ask("session.connect", **wrong)
                assert refused.value.field in wrong
            await page.ask("session.connect", revision="", headers=[["x-own", "1"]])
            facts = await page.until("session.get", lambda got: got["revision"] == "2026-07-28")
            assert facts["chosen"] is None


@on_a_loop
async def test_roots_are_kept_without_a_connection_and_bounded():
    async with live_page(**scripted()) as page:
        await page.ask("session.disconnect")
        await page.ask("roots.set", roots=[{"uri": "file:///tmp/a", "name": "bag"}])
        many = [{"uri": f"file:///tmp/{n}"} for n in range(1_001)]
        with pytest.raises(ActionRefused, match="at most"):
            await page.ask("roots.set", roots=many)
        (root,) = (await page.ask("roots.get"))["roots"]
        assert root["uri"] == "file:///tmp/a"


@on_a_loop
async def test_a_tool_that_changed_is_named_with_its_changed_members():
    async with live_page(**scripted()) as page:
        await page.until_listed()
        await page.call("change")
        listed = await page.until("catalog.list", lambda got: got["changes"], kind="tools")
        assert listed["changes"] == ["changed unmarked (description)"]


@on_a_loop
async def test_a_log_level_that_the_server_refuses_is_not_kept():
    async with live_page(**scripted()) as page:
        with pytest.raises(ActionRefused, match="no logging/setLevel") as refused:
            await page.ask("subscriptions.level", level="warning")
        assert refused.value.field == "level"
        assert (await page.ask("subscriptions.get"))["log_level"] is None

import asyncio
import json
import os
import runpy
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from accord import ToolError
from accord.auth import MemoryStore, OAuth
from accord.errors import LocalProtocolError, ResourceNotFound
from accord.testing import connected
from accord.types import (
    CreateMessageResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)
from support.oauth import person_at

EXAMPLES = Path(__file__).parents[2] / "examples"
MISSION = ("2024-11-05", "2025-03-26", "2025-06-18")
# Ten lines are too few to describe parameters.
TERSE = ("practice.tools.descriptive-schemas",)
SCRIPTS = {
    "tour.py": "0 broken",
    "typed_client.py": "Booked Lima, row 7, aisle.",
    "over_http.py": "a new session has begun\ncounted to 5",
    "without_io.py": "5 messages, 0 requirements broken",
    "rounds.py": "in Rome for Ada, 3 nights",
    "long_task.py": "result: sea: 3 frames",
    "agent.py": "answer:    19 + 23 is 42; Lima:",
    "listening.py": 'changed: {"home":1,"away":0}\ntools: [\'finish\']',
}
SERVERS = (
    "ten_lines.py",
    "tickets.py",
    "everything.py",
    "orchestrator.py",
    "api_server.py",
    "plugins/server.py",
)
PROTECTED = "protected.py"


def run(awaitable):
    async def bounded():
        return await asyncio.wait_for(awaitable, 120)

    return asyncio.run(bounded())


def text_of(result):
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def test_every_example_has_a_test():
    found = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    tested_elsewhere = {"deploy/server.py"}  # by test_deploy.py
    assert found - {"plugins/tools/dice.py", "plugins/tools/words.py"} - tested_elsewhere == {
        *SCRIPTS,
        *SERVERS,
        PROTECTED,
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_and_prints_the_expected_text(name, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        capture_output=True,
        text=True,
        cwd=tmp_path,  # where it leaves its files
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert SCRIPTS[name] in done.stdout


def test_the_tour_shows_every_feature():
    done = subprocess.run(
        [sys.executable, EXAMPLES / "tour.py"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    shown = {line[2:15].strip() for line in done.stdout.splitlines() if line.startswith("  ")}
    assert shown >= {
        *("connected", "tools", "structured", "content", "tool error", "validation"),
        *("progress", "logging", "sampling", "elicitation", "roots", "resources", "read"),
        *("not found", "subscription", "prompt", "completion", "cancellation", "list change"),
    }
    assert "accord check trace examples/traces/2025-06-18-faulty.jsonl" in done.stdout


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_runs_and_does_not_break_the_protocol(name, tmp_path):
    async def talk():
        async with connected(
            EXAMPLES / name, transport="stdio", allow=TERSE, cwd=tmp_path
        ) as client:
            return [tool.name async for tool in client.tools()]

    assert run(talk())


def test_the_examples_pass_the_type_checker():
    for files in ([*EXAMPLES.glob("*.py")], [*EXAMPLES.glob("plugins/**/*.py")]):
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", *files],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout


# -- the agent


def test_the_agent_asks_a_model_behind_an_api_with_the_servers_of_a_file(tmp_path):
    asked = []

    class Api(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            function = {"name": "sums__add", "arguments": '{"a": 1, "b": 2}'}
            call = {"id": "1", "type": "function", "function": function}
            wanted = {"role": "assistant", "content": None, "tool_calls": [call]}
            message = {"role": "assistant", "content": "It is 3."} if len(asked) > 1 else wanted
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"choices": [{"message": message}]}).encode())

        def log_message(self, *_):
            pass

    run_it = ["-P", "-m", "accord", "run", str(EXAMPLES / "ten_lines.py")]
    servers = {
        "sums": {"command": sys.executable, "args": run_it},
        "gone": {"command": "accord-no-such-program"},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as api:
        threading.Thread(target=api.serve_forever, args=(0.05,), daemon=True).start()
        done = subprocess.run(
            [sys.executable, EXAMPLES / "agent.py", "--config", "mcp.json", "What is 1 + 2?"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            check=False,
            env={**os.environ, "LLM_URL": f"http://127.0.0.1:{api.server_port}/"},
        )
        api.shutdown()
    assert done.returncode == 0, done.stderr
    assert "servers:   sums\nfailed:    gone: accord-no-such-program" in done.stdout
    assert "answer:    It is 3." in done.stdout
    first, second = asked
    assert [tool["function"]["name"] for tool in first["tools"]] == ["sums__add"]
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "1", "content": "3"}


# -- ten lines


def test_ten_lines_add():
    async def talk():
        async with connected(EXAMPLES / "ten_lines.py", transport="stdio", allow=TERSE) as client:
            return await client.call_tool("add", {"a": 1, "b": 2}, result_type=int)

    assert run(talk()) == 3


# -- tickets


def test_tickets_are_opened_found_and_closed_by_their_user(tmp_path):
    async def talk():
        updated = asyncio.Event()
        solutions = iter([False, {"solution": "bought some"}])
        async with connected(
            EXAMPLES / "tickets.py",
            transport="stdio",
            cwd=tmp_path,
            on_elicit=lambda question: next(solutions),
            on_resource_updated=lambda uri: updated.set(),
        ) as client:
            opened = await client.call_tool("open_ticket", {"title": "No paper"}, result_type=dict)
            await client.subscribe("ticket://1")
            said = [await client.call_tool("close_ticket", {"number": 1}) for _ in range(3)]
            await updated.wait()
            with pytest.raises(ToolError, match="ticket 2 does not exist"):
                await client.call_tool("close_ticket", {"number": 2}, result_type=str)
            asked = {"words": "PAPER", "state": "closed"}
            found = await client.call_tool("find", asked, result_type=list)
            number = ResourceTemplateReference("ticket://{number}")
            still_open = await client.complete(number, "number", "")
            return opened, [text_of(each) for each in said], found, still_open.values

    opened, said, found, still_open = run(talk())
    assert (opened["state"], opened["priority"]) == ("open", "normal")
    assert [each.split()[2:] for each in said] == [
        ["stays", "open."],
        ["is", "closed."],
        ["is", "closed", "already."],
    ]
    assert [each["solution"] for each in found] == ["bought some"]
    assert still_open == []


# -- everything


def everything(**options):
    return connected(EXAMPLES / "everything.py", transport="stdio", **options)


@pytest.mark.parametrize("revision", MISSION)
def test_everything_speaks_every_revision(revision):
    async def talk():
        seen = {}
        async with everything(
            revision=revision,
            on_sample=lambda asked: CreateMessageResult("assistant", TextContent("Go."), model="m"),
            roots=[EXAMPLES],
        ) as client:
            seen["pass"] = await client.call_tool("boarding_pass", {"name": "Ada"})
            seen["advice"] = text_of(await client.call_tool("advise", {"city": "Lima"}))
            seen["luggage"] = text_of(await client.call_tool("luggage"))
            seen["weather"] = await client.call_tool("weather", {"city": "Lima"}, result_type=dict)
            seen["postcard"] = await client.get_prompt("postcard", {"city": "Lima"})
            seen["resources"] = [each.uri async for each in client.resources()]
            seen["templates"] = [each.uri_template async for each in client.resource_templates()]
            try:
                seen["book"] = text_of(await client.call_tool("book", {"city": "Lima"}))
            except LocalProtocolError as error:
                seen["book"] = str(error)
        return seen

    seen = run(talk())
    assert len(seen["pass"].content) == 5
    assert seen["advice"] == "Go."
    assert seen["luggage"] == '["examples"]'
    assert seen["weather"]["celsius"] == 18
    assert len(seen["postcard"].messages) == 6
    assert "desk://departures" in seen["resources"]
    assert seen["templates"] == ["city://{country}/{city}", "source://{+path}"]
    assert "elicitation" in seen["book"]


def test_everything_is_declined():
    async def talk(answer):
        async with everything(on_elicit=lambda question: answer) as client:
            return await client.call_tool("book", {"city": "Lima"}, result_type=str)

    assert run(talk(False)) == "No seat, no booking (decline)."
    assert run(talk(None)) == "No seat, no booking (cancel)."
    assert run(talk({"row": 3})) == "Booked Lima, row 3, window."


def test_everything_knows_its_caller_and_reads_and_completes():
    async def talk():
        async with everything() as client:
            who = await client.call_tool("whoami", result_type=dict)
            with pytest.raises(ResourceNotFound):
                await client.read_resource("source://../pyproject.toml")
            source = await client.read_resource("source://everything.py")
            city = ResourceTemplateReference("city://{country}/{city}")
            typed = await client.complete(city, "city", "C", context={"country": "Peru"})
            country = await client.complete(PromptReference("plan"), "country", "ma")
            return who, source.contents[0].text, typed.values, country.values

    who, source, cities, countries = run(talk())
    assert who["client"] == "accord"
    assert who["capabilities"] == ["extensions", "extensions.io.modelcontextprotocol/tasks"]
    assert source == (EXAMPLES / "everything.py").read_text()
    assert (cities, countries) == (["Cusco"], ["Mali"])


def test_everything_stays_short_enough_to_read():
    assert len((EXAMPLES / "everything.py").read_text().splitlines()) < 300


# -- protected


def test_the_protected_server_admits_a_user_who_logs_in_and_agrees(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where it keeps its state
    server = runpy.run_path(str(EXAMPLES / PROTECTED))["server"]

    async def talk(name, password):
        async def person(url):
            return await person_at(url, name=name, password=password)

        auth = OAuth(store=MemoryStore(), open_browser=person)
        async with connected(server, transport="http", auth=auth) as client:
            count = await client.call_tool("add_note", {"text": name}, result_type=int)
            return count, await client.call_tool("notes", result_type=list)

    assert run(talk("ada", "lovelace")) == (1, ["ada"])
    assert run(talk("grace", "hopper")) == (1, ["grace"])
    assert run(talk("ada", "lovelace")) == (2, ["ada", "ada"])
    server.auth.close()


# -- plugins


def test_plugins_are_added_and_removed_while_the_server_runs(tmp_path):
    plugin = (
        "def register(server):\n"
        "    @server.tool\n"
        "    def {0}() -> str:\n"
        "        'Say it.'\n"
        "        return '{0}'\n"
    )
    (tmp_path / "one.py").write_text(plugin.format("hello"))
    (tmp_path / "broken.py").write_text("\n1 / 0\n")

    async def talk():
        changed = asyncio.Event()
        lists = []
        async with connected(
            EXAMPLES / "plugins/server.py",
            transport="stdio",
            allow=TERSE,
            env={"PLUGINS": str(tmp_path)},
            on_tools_changed=changed.set,
        ) as client:
            lists.append([tool.name async for tool in client.tools()])
            (tmp_path / "one.py").unlink()
            (tmp_path / "two.py").write_text(plugin.format("bye"))
            failures = await client.call_tool("reload", result_type=dict)
            await changed.wait()
            lists.append([tool.name async for tool in client.tools()])
            return failures, lists, await client.call_tool("bye", result_type=str)

    failures, lists, said = run(talk())
    assert list(failures) == ["broken.py"]
    assert "broken.py:2: ZeroDivisionError" in failures["broken.py"]
    assert [sorted(names) for names in lists] == [
        ["hello", "plugin_health", "reload"],
        ["bye", "plugin_health", "reload"],
    ]
    assert said == "bye"


def test_the_plugins_of_the_example_work():
    async def talk():
        async with connected(
            EXAMPLES / "plugins/server.py", transport="stdio", allow=TERSE
        ) as client:
            return (
                await client.call_tool("shout", {"text": "hello"}, result_type=str),
                await client.call_tool("count_words", {"text": "a b c"}, result_type=int),
                await client.call_tool("roll", {"times": 3, "sides": 2}, result_type=list),
                await client.call_tool("roll", {"times": 1000, "sides": 1}),
                await client.call_tool("plugin_health", result_type=dict),
            )

    said, count, rolled, refused, health = run(talk())
    assert (said, count) == ("HELLO!", 3)
    assert len(rolled) == 3
    assert set(rolled) <= {1, 2}
    assert refused.is_error
    assert all(f'argument "{name}"' in text_of(refused) for name in ("times", "sides"))
    assert (health["version"], health["failed_plugins"]) == ("1.0.0", {})


# -- orchestrator


def test_the_orchestrator_joins_three_servers_of_three_revisions():
    async def talk():
        steps = []
        async with connected(
            EXAMPLES / "orchestrator.py", transport="stdio", allow=TERSE
        ) as client:
            found = await client.call_tool(
                "journey", {"cities": ["Lima", "Kyoto"]}, result_type=dict
            )
            with pytest.raises(ToolError, match="no flights to Atlantis"):
                await client.call_tool("journey", {"cities": ["Atlantis"]}, result_type=dict)
            landed = await client.call_tool(
                "desk_fly", {"city": "Lima"}, result_type=str, on_progress=steps.append
            )
            spoken = await client.call_tool("revisions", result_type=dict)
            health = await client.call_tool("health", result_type=dict)
            assert (health["version"], health["servers"]) == ("2.0.0", spoken)
        return found, landed, [step.progress for step in steps], spoken

    found, landed, steps, spoken = run(talk())
    assert found == {"cities": ["Lima", "Kyoto"], "total_celsius": 37}
    assert (landed, steps) == ("Landed in Lima.", [1, 2, 3])
    assert spoken == {"desk": "2025-06-18", "sales": "2025-03-26", "adder": "2024-11-05"}


def test_the_orchestrator_works_without_a_server_that_does_not_start(tmp_path):
    (tmp_path / "ten_lines.py").write_text("raise SystemExit('no adder today')\n")
    for name in ("orchestrator.py", "everything.py", "tickets.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text())

    async def talk():
        async with connected(
            tmp_path / "orchestrator.py", transport="stdio", allow=TERSE
        ) as client:
            names = {tool.name async for tool in client.tools()}
            failed = await client.call_tool("journey", {"cities": ["Lima"]})
            return names, failed

    names, failed = run(talk())
    assert "desk_weather" in names
    assert not {name for name in names if name.startswith("adder")}
    assert failed.is_error
    assert failed.text.startswith("adder_add is not available\n")
    assert failed.structured_content == {"tool": "adder_add", "reason": "not available"}


def test_the_linter_has_no_advice_for_the_tools_of_the_two_servers(tmp_path):
    fleet = []
    for name in ("orchestrator.py", "plugins/server.py"):
        stem = name.partition("/")[0].removesuffix(".py")
        lock = [sys.executable, "-m", "accord.cli.main", "lock", "--output", f"{stem}.json"]
        subprocess.run([*lock, EXAMPLES / name], cwd=tmp_path, timeout=300, check=True)
        launch = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(name)}]"
        fleet.append(f'[mcpServers.{stem}]\n{launch}\n[server.{stem}]\nlock = "{stem}.json"\n')
    (tmp_path / "fleet.toml").write_text("\n".join(fleet))
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli.main", "fleet", "lint", "--format=json", "fleet.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    mounted = ("tool desk_", "tool sales_", "tool adder_")
    findings = json.loads(done.stdout)["findings"]
    assert [each for each in findings if not each["subject"].startswith(mounted)] == []


# -- traces


def test_the_clean_recordings_are_clean_and_the_faulty_ones_are_not():
    for path in sorted((EXAMPLES / "traces").glob("*.jsonl")):
        done = subprocess.run(
            [sys.executable, "-m", "accord.cli.main", "check", "trace", path, "--format", "json"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == (1 if "faulty" in path.name else 0)
        assert json.loads(done.stdout)["target"] == str(path)


# -- an API


def test_the_server_of_an_api_lends_books_until_there_are_no_more():
    async def talk():
        async with connected(EXAMPLES / "api_server.py", transport="stdio") as client:
            books = await client.call_tool("list_books", {"word": "tale"}, result_type=list)
            loan = {"isbn": books[0]["isbn"], "reader": "Ada"}
            with pytest.raises(ToolError, match=r"HTTP 409 Conflict.*all copies are lent"):
                await client.call_tool("lend_book", loan, result_type=dict)
            with pytest.raises(ToolError, match="HTTP 404"):
                await client.call_tool("find_book", {"isbn": "1"}, result_type=dict)
            isbn = "9780141439518"
            lent = await client.call_tool(
                "lend_book", {"isbn": isbn, "reader": "Ada"}, result_type=dict
            )
            return lent, await client.call_tool("find_book", {"isbn": isbn}, result_type=dict)

    lent, found = run(talk())
    assert (lent["reader"], lent["copies"], found["copies"]) == ("Ada", 1, 1)

"""`accord proxy`, and `accord run` with a configuration: other servers, served as one."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from accord import connect
from cli.conftest import ACCORD, PLAIN
from support.http_server import free_port, serving
from support.waiting import LONG, run

FACTS = """\
import os
from accord import Context, Server

server = Server("facts", version="1.2.0", instructions="Be kind.")

@server.tool
async def facts(ctx: Context) -> dict[str, str]:
    "Return what is known here."
    mood = os.environ.get("MOOD", "")
    return {"revision": ctx.revision, "mood": mood, "process": str(os.getpid())}

if __name__ == "__main__":
    server.run()
"""
OPENING = [
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "facts"}}
# The input ends before the answers are there.
PATIENT = ("--grace", str(LONG))


@pytest.fixture
def facts(tmp_path):
    path = tmp_path / "facts.py"
    path.write_text(FACTS)
    return path


@pytest.fixture
def results_of(accord):
    """Run a command, send it messages; return the results by id, and what it printed to stderr."""

    def converse(*args, messages=(*OPENING, LIST), **env):
        data = "".join(json.dumps(each) + "\n" for each in messages)
        done = accord(*args, *PATIENT, data=data, **env)
        assert done.returncode == 0, done.stderr
        answers = map(json.loads, done.stdout.splitlines())
        return {each["id"]: each["result"] for each in answers if "id" in each}, done.stderr

    return converse


def names_of(results):
    return {each["name"] for each in results[1]["tools"]}


@contextmanager
def running(*args):
    """Launch a command that serves over HTTP; yields the line that says where."""
    process = subprocess.Popen(
        [*ACCORD, *map(str, args)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=PLAIN
    )
    try:
        yield process.stderr.readline().decode()
    finally:
        process.terminate()
        process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=LONG) == 0


def url_in(line):
    return line.split(" is served at ")[1].split(";")[0]


# -- over stdio


def test_a_file_is_served_under_its_own_names_with_the_options(results_of, facts):
    results, _ = results_of(
        *("proxy", facts, "--revision", "2025-06-18", "--env", "MOOD=calm"),
        messages=[*OPENING, LIST, CALL],
    )
    assert results[0]["protocolVersion"] == "2025-11-25"
    assert results[0]["serverInfo"] == {"name": "facts", "version": "1.2.0"}
    assert results[0]["instructions"] == "Be kind."
    assert names_of(results) == {"facts"}
    known = results[2]["structuredContent"]
    assert (known["revision"], known["mood"]) == ("2025-06-18", "calm")


def test_a_command_after_two_dashes_is_launched_and_its_stderr_is_shown(accord, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(FACTS.replace("import os", "import os, sys\nprint('hello', file=sys.stderr)"))
    data = "".join(json.dumps(each) + "\n" for each in (*OPENING, LIST))
    done = accord("proxy", *PATIENT, "--", sys.executable, file, data=data)
    assert done.returncode == 0
    assert '"name":"facts"' in done.stdout
    assert done.stderr == "hello\n"


def test_a_url_is_served_over_stdio(results_of, desk):
    results, shown = results_of("proxy", desk)
    assert results[0]["serverInfo"]["name"] == "desk"
    assert "add" in names_of(results)
    assert shown == ""


def test_headers_and_tokens_reach_the_other_server(accord):
    seen = []

    async def refuse(scope, receive, send):
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]))
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    with serving(refuse, lifespan="off") as port:
        url = f"http://127.0.0.1:{port}/mcp"
        done = accord("proxy", url, "--bearer", "-", "--header", "X-Team: crm", ACCORD_BEARER="t0k")
        assert (seen[0][b"authorization"], seen[0][b"x-team"]) == (b"Bearer t0k", b"crm")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "HTTP 401" in done.stderr
        done = accord("proxy", url)
        assert done.returncode == 2
        assert "; add --oauth to obtain a token, or --bearer TOKEN\n" in done.stderr


# -- over HTTP


def test_a_command_is_served_over_http_for_several_clients_by_one_process(facts):
    async def ask_twice(url):
        async with connect(url) as first, connect(url) as second:
            known = [await each.call_tool("facts", result_type=dict) for each in (first, second)]
            return {each["process"] for each in known}

    with running("proxy", "--http", "--port", "0", "--shared", "--", sys.executable, facts) as line:
        assert line.startswith("facts is served at http://127.0.0.1:")
        assert len(run(ask_twice(url_in(line)))) == 1


# -- targets that fail


@pytest.mark.parametrize("options", [(), ("--http", "--port", "0")])
def test_a_target_that_is_not_there_is_one_line_with_the_cause(accord, options):
    done = accord("proxy", *options, "--", "a-missing-program", "x")
    said = "accord: a-missing-program x: could not be started: 'a-missing-program' was not found\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    url = f"http://127.0.0.1:{free_port()}/mcp"
    done = accord("proxy", url, *options)
    said = f"accord: {url}: no connection: connection refused\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_file_with_a_mistake_is_named_with_its_line(accord, tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("from accord import Server\nserver = Server(\n")
    done = accord("proxy", file, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "accord: broken.py:2: '(' was never closed: server = Server(\n"


def test_a_target_that_does_not_answer_is_given_up_after_the_timeout(accord):
    options = ("--timeout", "0.2", "--revision", "2025-06-18")
    done = accord("proxy", *options, "--", "sleep", "100")
    said = "accord: sleep 100: no answer to initialize within 0.2 s\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "proxy needs a TARGET: a URL, a Python file, a module, or -- and a command"),
        ("http://x/mcp --port 9", "--port is for HTTP; add --http"),
        ("http://x/mcp --bearer t --oauth", "either --bearer or --oauth, not both"),
        ("http://x/mcp --revision 2020-01-01", "unknown revision '2020-01-01'; known: 2024-"),
        ("http://x/mcp -- some-server", "either http://x/mcp or the command after --, not both"),
        ("facts.py --cwd nowhere", "--cwd: there is no folder nowhere"),
        ("mcp.json", "{folder}/mcp.json names no servers"),
    ],
)
def test_a_mistake_in_the_command_is_one_line(accord, facts, words, said):
    facts.with_name("mcp.json").write_text("{}")
    done = accord("proxy", *words.split(), cwd=facts.parent)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    said = said.replace("{folder}", str(facts.parent))
    assert done.stderr.startswith(f"accord: {said}")


# -- the servers of a configuration


@pytest.fixture
def configure(tmp_path):
    def write(**servers):
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        return path

    return write


def test_the_servers_of_a_configuration_are_served_as_one_with_prefixes(
    results_of, configure, facts, desk
):
    file = configure(
        north={"command": sys.executable, "args": ["facts.py"]},
        south={"url": desk},
        gone={"command": "a-missing-program"},
        keyed={"url": desk, "headers": {"X-Key": "${A_KEY_THAT_IS_NOT_SET}"}},
    )
    results, shown = results_of("run", file)
    assert results[0]["serverInfo"]["name"] == "mcp"
    assert {"north_facts", "south_add"} <= names_of(results)
    assert {each.partition("_")[0] for each in names_of(results)} == {"north", "south"}
    assert "server 'keyed': headers.X-Key needs the variable A_KEY_THAT_IS_NOT_SET" in shown
    assert "proxy('gone')" in shown
    assert "'a-missing-program' was not found" in shown
    assert shown.count("\n") == 2


def test_one_server_alone_has_no_prefix_also_over_http(configure, desk):
    async def names(url):
        async with connect(url) as client:
            return [tool.name async for tool in client.tools()]

    with running("run", configure(desk={"url": desk}), "--http", "--port", "0") as line:
        assert line.startswith("mcp is served at ")
        assert "add" in run(names(url_in(line)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": ', "is not JSON: "),
        ("{}", "names no servers: expected a member mcpServers or servers, "),
        ('{"mcpServers": {"a": {"args": []}}}', "server 'a' has neither command nor url"),
        ('{"mcpServers": {"a": {"command": "x", "disabled": true}}}', "no server that is enabled"),
    ],
)
def test_a_configuration_without_servers_is_one_line(accord, tmp_path, text, said):
    file = tmp_path / "mcp.json"
    file.write_text(text)
    done = accord("run", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"accord: {file}")
    assert said in done.stderr


def test_the_entry_of_a_configuration_launches_it(accord, configure):
    file = configure(a={"command": "x"})
    entry = json.loads(accord("run", file, "--print-config").stdout)["mcpServers"]["mcp"]
    assert entry["args"][-2:] == ["run", str(file)]


def test_a_configuration_is_not_reloaded_and_has_to_exist(accord, configure):
    done = accord("run", configure(a={"command": "x"}), "--http", "--reload")
    said = "accord: --reload is for Python files, not for a configuration\n"
    assert (done.returncode, done.stderr) == (2, said)
    done = accord("run", "nowhere.json")
    assert (done.returncode, done.stderr) == (2, "accord: there is no file nowhere.json\n")


def test_a_header_can_be_taken_from_a_variable(accord):
    words = ("proxy", "http://127.0.0.1:9/mcp", "--header-from", "x-key: DESK_KEY")
    done = accord(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--header-from reads the variable DESK_KEY, which is not set" in done.stderr
    assert "refused" in accord(*words, DESK_KEY="hidden").stderr

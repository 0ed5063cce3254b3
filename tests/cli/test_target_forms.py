"""Every command that takes a TARGET takes it in every form, or says why not."""

import importlib.util
import json
import os
import socket
import sys
import zipfile
from pathlib import Path

import pytest

from accord_tools.contract.lock_file import format_lock
from support.http_server import bounded
from support.tables import cases

ROOT = Path(__file__).parents[2]
# Answers what clients need; it starts much sooner than one with accord.
PLAIN_SERVER = """
import json, sys

TOOL = {"name": "greet", "description": "Greet.", "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "desk", "version": "1"}},
        "ping": {},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "hello"}]},
    }
    found = answers.get(asked.get("method"))
    said = {"error": {"code": -32601, "message": "unknown"}} if found is None else {"result": found}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""
SERVER = '''
from accord import Server

server = Server("desk")


@server.tool(annotations={"readOnlyHint": True})
def greet() -> str:
    """Greet."""
    return "hello"
'''
CLIENT = "".join(
    json.dumps({"jsonrpc": "2.0", **each}) + "\n"
    for each in (
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    )
)


def load_table():
    spec = importlib.util.spec_from_file_location("table", ROOT / "tools" / "target_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = load_table()


def test_the_page_is_the_table():
    assert TABLE.PAGE.read_text() == TABLE.render(), "run tools/target_table.py"


@pytest.fixture(scope="module")
def url():
    """The URL of a server that runs."""
    found = {}
    exec(SERVER, found)  # the same server as in a file
    with bounded(found["server"].asgi()) as port:
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.fixture(scope="module")
def busy():
    """A port that is taken, on which nothing can be served."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.fixture
def folder(tmp_path, url):
    """A folder with the server `desk`, which is launched, and `web`, in every form."""
    plain = tmp_path / "plain.py"
    plain.write_text(PLAIN_SERVER)
    launch = {"command": sys.executable, "args": [str(plain)]}
    servers = {"mcpServers": {"desk": launch, "web": {"url": url}}}
    manifest = {
        "manifest_version": "0.3",
        "name": "desk",
        "version": "1.0.0",
        "description": "A desk.",
        "author": {"name": "x"},
        "server": {
            "type": "python",
            "entry_point": "plain.py",
            "mcp_config": {"command": sys.executable, "args": ["${__dirname}/plain.py"]},
        },
    }
    published = {
        "name": "io.example/desk",
        "description": "A desk.",
        "version": "1.0.0",
        "packages": [{"registryType": "pypi", "identifier": "desk", "version": "1.0.0"}],
        "remotes": [{"type": "streamable-http", "url": url}],
    }
    runner = f"#!/bin/sh\nexec {sys.executable} {plain}\n"
    files = {
        "counter.py": SERVER,
        "mcp.json": json.dumps(servers),
        "home/.cursor/mcp.json": json.dumps(servers),
        "plug/plugin.json": json.dumps({"name": "plug"}),
        "plug/mcp.json": json.dumps(servers),
        "server.json": json.dumps(published),
        "accord-fleet.toml": f"""
[mcpServers.desk]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(plain))}]

[mcpServers.web]
url = {json.dumps(url)}
""",
        "bin/npx": runner,
        "bin/uvx": runner,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        path.chmod(0o755)
    with zipfile.ZipFile(tmp_path / "desk.mcpb", "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("plain.py", PLAIN_SERVER)
    return tmp_path


def words_of(form, command, url):
    """Return the words that name the server in a form, without and with what follows `--`."""
    name = "web" if command == "auth forget" else "desk"
    published = {"desk": "desk", "web": "desk-remote"}[name]
    return {
        "url": ([url], []),
        "file": (["counter.py"], []),
        "module": (["counter:server"], []),
        "command": ([], ["--", sys.executable, "plain.py"]),
        "host": (["--host", "cursor", name], []),
        "config": (["--config", "mcp.json", name], []),
        "member": ([f"mcp.json#{name}"], []),
        "server.json": ([f"server.json#{published}"], []),
        "bundle": (["desk.mcpb"], []),
        "plugin": ([f"plug#{name}"], []),
        "fleet": ([f"accord-fleet.toml#{name}"], []),
        "npm": (["npm:@example/desk"], []),
        "pypi": (["pypi:desk"], []),
    }[form]


# What stands before and after the words of the target, and what success looks like.
USES = {
    "list": (["list", "--yes"], [], "greet"),
    "call": (["call", "--yes"], ["greet"], "hello"),
    "test": (["test", "--yes", "--examples", "1"], [], "greet"),
    "lock": (["lock", "--yes", "--output", "-"], [], '"name": "greet"'),
    "verify": (["verify", "--yes", "--lock", "desk.lock"], [], "since desk.lock"),
    "check server": (
        ["check", "server", "--yes", "--only", "tools.list", "--revision", "2025-06-18"],
        [],
        "result: passed",
    ),
    "doctor": (["doctor", "--yes"], [], "initialize"),
    "watch": (["watch", "--yes"], [], '"greet"'),
    "inspect": (["inspect", "--yes", "--no-open", "--port", "{busy}"], [], "{busy}"),
    "proxy": (["proxy", "--yes"], [], '"greet"'),
    "run": (["run"], [], '"greet"'),
    "add": (["add", "--yes", "--no-check", "--print=cursor"], [], "mcpServers"),
    "fleet add": (["fleet", "add", "--yes", "--file", "made.toml"], [], "added to"),
    "auth forget": (["auth", "forget", "--yes"], [], "nothing is stored for http://127.0.0.1"),
}


@pytest.mark.parametrize("command", TABLE.COMMANDS)
@cases("form", TABLE.FORMS)
def test_a_command_takes_a_form_or_says_why_not(accord, folder, url, busy, command, form):
    (folder / "desk.lock").write_text(format_lock({"server": "desk"}, "2025-06-18"))
    (folder / "made.toml").unlink(missing_ok=True)
    before, after, said = USES[command]
    target, launched = words_of(form, command, url)
    if command == "fleet add":
        target = [*target[:-1], "made", *target[-1:]]
    if command == "watch" and form == "url":
        before, said = [*before, "--listen", "{busy}"], "{busy}"
    done = accord(
        *(each.format(busy=busy) for each in before),
        *target,
        *after,
        *launched,
        cwd=folder,
        data=CLIENT,
        HOME=str(folder / "home"),
        XDG_DATA_HOME=str(folder / "home" / "data"),
        PATH=f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
    )
    refused = TABLE.REFUSED.get((command, form))
    if refused is not None:
        assert (done.returncode, done.stdout) == (2, "")
        assert refused[0] in done.stderr
        assert done.stderr.count("\n") == 1
    else:
        printed = done.stdout + done.stderr
        assert said.format(busy=busy) in printed
        assert "internal error" not in printed

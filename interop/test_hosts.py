"""`accord add` and hosts that others wrote: they read what it writes, launch it and connect."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from real_hosts import (
    PATIENCE,
    TOKEN,
    Home,
    Model,
    RealHost,
    ask_app_server,
    ask_model,
    list_as_json,
    list_servers,
    run_model,
)

from accord import Server
from accord.auth import Protected, StaticTokens

# Launched by the hosts: it writes down where it runs, and which token it has.
NEAR = """
import json
import os
from pathlib import Path

from accord import Server

server = Server("near")
seen = {"folder": os.getcwd(), "token": os.environ.get("API_TOKEN")}
Path(__file__).with_suffix(".json").write_text(json.dumps(seen))


@server.tool
def tell_near() -> str:
    return "near"
"""
JSON = """\
{
    "theme" : "dark",
    "mcpServers": {}
}
"""
COMMENTS = JSON.replace("{\n", "{\n    // mine\n", 1).replace("{}", "{ /* soon */ }")
AMP = COMMENTS.replace("mcpServers", "amp.mcpServers")
OPENCODE = """\
{
  // mine
  "mcp": {
    "notes": {"type": "local", "command": ["notes-server"], "enabled": false}, // not now
  },
}
"""
TOML = """\
# mine
model   = "small"  # the cheap one

[tui]
animations = false
"""
YAML = """\
# mine
name: Mine
version: 0.0.1
schema: v1
models:
    - name: small   # the cheap one
      provider: openai
      model: small
      apiKey: none
      apiBase: MODEL_URL
"""
KIMI = """\
default_model = "small"

[providers.mine]
type = "openai_legacy"
base_url = "MODEL_URL"
api_key = "none"

[models.small]
provider = "mine"
model = "small"
protocol = "openai"
max_context_size = 100000
"""
MCP_LIST = list_servers("mcp", "list")
MCPORTER = RealHost(
    "mcporter", "mcporter", list_as_json, ".mcporter/mcporter.json", COMMENTS, in_gate=True
)
HOSTS = (
    RealHost("gemini-cli", "gemini", MCP_LIST, ".gemini/settings.json", COMMENTS, in_gate=True),
    RealHost(
        "continue", "cn", ask_model("-p", "hello"), ".continue/config.yaml", YAML, in_gate=True
    ),
)
# Each has between 40 and 400 MB.
MORE_HOSTS = (
    RealHost("amp", "amp", MCP_LIST, ".config/amp/settings.json", AMP, connects=False),
    RealHost("auggie", "auggie", MCP_LIST, ".augment/settings.json", COMMENTS, connects=False),
    RealHost("claude-code", "claude", MCP_LIST, ".claude.json", JSON, settles=True),
    RealHost("codex", "codex", ask_app_server, ".codex/config.toml", TOML),
    RealHost(
        "copilot-cli", "copilot", ask_model("-p", "hello"), ".copilot/mcp-config.json", COMMENTS
    ),
    RealHost("factory-droid", "droid", MCP_LIST, ".factory/mcp.json", COMMENTS),
    RealHost("kilo-code", "kilo", MCP_LIST, ".config/kilo/kilo.jsonc", OPENCODE, settles=True),
    RealHost(
        "kimi-code",
        "kimi",
        ask_model("-p", "hello"),
        ".kimi-code/mcp.json",
        JSON,
        others={".kimi-code/config.toml": KIMI},
    ),
    MCPORTER,
    RealHost(
        "opencode", "opencode", MCP_LIST, ".config/opencode/opencode.json", OPENCODE, settles=True
    ),
    RealHost("qwen-code", "qwen", MCP_LIST, ".qwen/settings.json", COMMENTS, settles=True),
)
# The others ask first, leave out what an untrusted folder names, or write into the file themselves.
IN_PROJECTS = ("amp", "auggie", "factory-droid", "gemini-cli", "mcporter")
PROJECT_HOSTS = [host for host in (*HOSTS, *MORE_HOSTS) if host.name in IN_PROJECTS]
# MCPorter reads the files of these, too.
READ_BY_MCPORTER = ("cursor", "claude-code", "codex", "windsurf", "opencode", "vscode", "mcporter")


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with run_model() as model:
        yield model


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """Serve over HTTP what only the token of the user opens; yields the URL."""
    server = Server("far", auth=Protected(StaticTokens({TOKEN: ()})))

    @server.tool
    def tell_far() -> str:
        """Tell that it was reached."""
        return "far"

    bound = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(server.asgi(), log_level="critical", ws="none"))
    thread = threading.Thread(target=running.run, args=([bound],))
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
    running.should_exit = True
    thread.join(PATIENCE)


@pytest.fixture
def near(tmp_path: Path) -> Path:
    path = tmp_path / "a server" / "near.py"
    path.parent.mkdir()
    path.write_text(NEAR)
    return path


@pytest.mark.parametrize(
    "host",
    [
        *HOSTS,
        *(pytest.param(host, marks=pytest.mark.thorough) for host in MORE_HOSTS),
    ],
    ids=str,
)
def test_a_host_has_what_accord_adds_until_accord_removes_it(
    host: RealHost, tmp_path: Path, model: Model, guarded: str, near: Path
) -> None:
    program = host.find()
    home = Home(tmp_path, model)
    path = host.set_up(home)
    if host.settles:
        host.show(home, program)
    before = path.read_bytes()
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    to = ("--host", host.name, "--yes", "--no-check")
    home.accord("add", str(near), *to, "--env", "API_TOKEN", "--cwd", str(folder))
    token = ("--header", "Authorization: Bearer ${API_TOKEN}") if host.connects else ()
    home.accord("add", f"far={guarded}", *to, *token)
    assert TOKEN.encode() not in path.read_bytes()

    state = "connected" if host.connects else "listed"
    host.expect(home, program, {"near": state, "far": state})
    if host.connects:
        seen = json.loads(near.with_suffix(".json").read_text())
        assert seen == {"folder": str(folder), "token": TOKEN}

    home.accord("remove", "far", "near", "--host", host.name, "--yes")
    host.expect(home, program, {})
    assert path.read_bytes() == before


def test_a_reader_of_the_files_of_several_hosts_reaches_each_server(
    tmp_path: Path, near: Path
) -> None:
    program = MCPORTER.find()
    home = Home(tmp_path)
    names = {host: f"of-{host}" for host in READ_BY_MCPORTER}
    for host, name in names.items():
        home.accord("add", f"{name}={near}", "--host", host, "--yes", "--no-check")
    MCPORTER.expect(home, program, dict.fromkeys(names.values(), "connected"))
    home.accord("remove", *names.values(), "--yes")
    MCPORTER.expect(home, program, {})


@pytest.mark.thorough
@pytest.mark.parametrize("host", PROJECT_HOSTS, ids=str)
def test_a_host_has_what_accord_adds_to_a_project(
    host: RealHost, tmp_path: Path, model: Model, near: Path
) -> None:
    program = host.find()
    home = Home(tmp_path, model)
    host.set_up(home)
    (home.project / ".git").mkdir()
    home.accord("add", str(near), "--host", host.name, "--scope", "project", "--yes", "--no-check")
    host.expect(home, program, {"near": "connected" if host.connects else "listed"})
    home.accord("remove", "near", "--host", host.name, "--scope", "project", "--yes")
    host.expect(home, program, {})
    assert not [path for path in home.project.rglob("*") if path.is_file()]

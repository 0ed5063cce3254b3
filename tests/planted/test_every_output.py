"""One set of planted secrets, sent through every tool: no output has one, in any encoding."""

import asyncio
import contextlib
import html
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from accord import Server, connect
from accord.client.server_spec import ServerSpec
from accord.middleware import log_requests
from accord.testing import Recording, connected
from accord_tools.inspector.definition import InspectOptions
from accord_tools.inspector.inspection import Inspection
from planted.planted_server import answer
from support.command_line import command_line
from support.encodings import encodings
from support.http_server import bounded
from support.page_client import page_of
from support.waiting import LONG, run

PLANTED = Path(__file__).with_name("planted_server.py")
# What the user gives: the server gets it, and repeats it in every encoding.
ENV = 'env/7k"Qz9+x2mLw8'
HEADER = "head-4Rt6Yu8Io0Pa/s+d"
BEARER = "bear-9Zx7Cv5Bn3Mq1We"
QUERY = "quer-2Sd4Fg6Hj8Kl0Qa"
PASSWORD = "user-5Tg7Yh9Uj1Ik3Ol"
ARGUMENT = "args-8Pl6Ok4Ij2Uh0Yg"
GIVEN = {"env": ENV, "header": HEADER, "bearer": BEARER, "query": QUERY, "password": PASSWORD}
# What is a secret by its form, or by the name of its member.
FOUND = {
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkIn0.c2lnbmF0dXJlLW9mLXBsYW50ZWQ",
    "github": "ghp_9aB8cD7eF6gH5iJ4kL3mN2oP1qR0sT",
    "key": "sk-live-0123456789abcdefghijklmn",
    "login": "hunter2/andM0re",
}
PLACES = (*GIVEN, *FOUND, "argument")


def find_leaks(data: bytes) -> list[str]:
    """Return which planted secrets are in an output, and how."""
    planted = {**GIVEN, **FOUND, "argument": ARGUMENT}
    written = data.decode(errors="replace")
    return [
        f"{name} as {kind}: ...{shown[max(at - 90, 0) : at + 60]!r}"
        for name, secret in planted.items()
        for kind, text in encodings(secret).items()
        for shown in (written, html.unescape(written))
        if (at := shown.find(text)) >= 0
    ]


def said_of(*names: str) -> list[str]:
    return [text for name in names for text in encodings(GIVEN[name]).values()]


FOUND_SAID = [
    *(FOUND[name] for name in ("jwt", "github", "key")),
    f"password={FOUND['login']}",
    json.dumps({"password": FOUND["login"]}),
    json.dumps(json.dumps({"password": FOUND["login"]})),
    f"https://me:{FOUND['login'].replace('/', '')}@example.com/",
]
ON_STDIO = {"given": said_of("env"), "found": FOUND_SAID}
OVER_HTTP = {"given": said_of("header", "bearer", "query", "password"), "found": FOUND_SAID}


class Handler(BaseHTTPRequestHandler):
    """The planted server over HTTP, without sessions."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not isinstance(message, dict) or "id" not in message or "method" not in message:
            self.reply(202, b"")
            return
        said = {"jsonrpc": "2.0", "id": message["id"]}
        result = answer(message, OVER_HTTP["given"], OVER_HTTP["found"])
        if result is None:
            repeated = " ; ".join([self.path, *OVER_HTTP["given"], *FOUND_SAID])
            said["error"] = {"code": -32601, "message": repeated}
        else:
            said["result"] = result
        self.reply(200, json.dumps(said).encode())

    def do_GET(self) -> None:
        self.reply(405, json.dumps({"error": OVER_HTTP, "path": self.path}).encode())

    do_DELETE = do_GET  # noqa: N815

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class World:
    """A folder, a server over HTTP, and the command line."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.url = f"http://me:{PASSWORD}@127.0.0.1:{port}/mcp?key={QUERY}"
        self.bare_url = f"http://127.0.0.1:{port}/mcp"
        self.credentials = ["--bearer", BEARER, "--header", f"X-Team-Key: {HEADER}"]
        # A URL with a password has no room for another Authorization.
        self.in_headers = ["--header", f"X-Team-Key: {HEADER}", "--header", f"X-Token: {BEARER}"]
        self.stdio = self.command(ON_STDIO)

    def command(self, said: object) -> list[str]:
        kept = self.folder.parent / f"said-{len(json.dumps(said))}.json"
        kept.write_text(json.dumps(said))
        return [sys.executable, "-I", "-S", str(PLANTED), str(kept), f"--api-key={ARGUMENT}"]

    def run(self, *args: object, data: str | None = None, **env: str) -> bytes:
        """Run a command; return what it printed and wrote."""
        before = {path: path.read_bytes() for path in self.files()}
        done = command_line().run(args, data=data, cwd=self.folder, env={**self.home, **env})
        written = [
            content for path in self.files() if (content := path.read_bytes()) != before.get(path)
        ]
        assert written or done.stdout or done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return b"\0".join([done.stdout.encode(), done.stderr.encode(), *written])

    def files(self) -> list[Path]:
        return [each for each in self.folder.rglob("*") if each.is_file()]

    @property
    def home(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "ACCORD_FLEET_TRUST": str(self.folder / "trust.json"),
        }

    def outputs(self, *forms: str) -> list[str]:
        return [word for form in forms for word in ("--output", f"out.{form}")]


@pytest.fixture(scope="module")
def http_port() -> Iterator[int]:
    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield served.server_port
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.fixture
def world(tmp_path: Path, http_port: int) -> World:
    folder = tmp_path / "work"
    folder.mkdir()
    return World(folder, http_port)


# -- tools, each with what it prints and writes

FORMS = ("json", "xml", "html", "md", "sarif", "txt")
ONLY = ("--only", "ping", "--revision", "2025-06-18", "--timeout", "3")


def check_over_stdio(world: World) -> bytes:
    given = ["--env", f"API_KEY={ENV}", *world.outputs(*FORMS), "--verbose"]
    return world.run("check", "server", *ONLY, *given, "--", *world.stdio)


def check_over_http(world: World) -> bytes:
    words = [*world.credentials, *world.outputs(*FORMS), f"{world.bare_url}?key={QUERY}"]
    by_token = world.run("check", "server", *ONLY, *words)
    words = [*world.in_headers, *world.outputs("json", "txt"), world.url]
    return by_token + world.run("check", "server", *ONLY, *words)


def contract_tests(world: World) -> bytes:
    words = ["--env", f"API_KEY={ENV}", "--examples", "2", *world.outputs("json", "xml", "txt")]
    return world.run("test", *words, "--", *world.stdio)


def lock(world: World) -> bytes:
    words = ["--env", f"API_KEY={ENV}", "--", *world.stdio]
    made = world.run("lock", "--output", "desk.lock", *words)
    compared = world.run("verify", "--lock", "desk.lock", *words)
    assert b"desk.lock" in made
    kept = json.loads((world.folder / "desk.lock").read_text())
    kept["tools"][0]["description"] = "another one"
    (world.folder / "desk.lock").write_text(json.dumps(kept))
    return made + compared + world.run("verify", "--lock", "desk.lock", *words)


OPENING = (
    {
        "method": "initialize",
        "id": 1,
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"method": "ping", "id": 2},
    {"method": "tools/list", "id": 3},
    {
        "method": "tools/call",
        "id": 4,
        "params": {"name": "get_echo", "arguments": {"password": FOUND["login"]}},
    },
    {"method": "unknown", "id": 5},
)


def watch_over_stdio(world: World) -> bytes:
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in OPENING)
    words = ["--env", f"API_KEY={ENV}", "--record", "t.jsonl", "--log", "w.log"]
    words += [*world.outputs(*FORMS), "--", *world.stdio]
    world.run("watch", *words, data=lines)
    # The host gets what the server says as it is: what counts is what the watch says and keeps.
    return b"\0".join(each.read_bytes() for each in world.files())


def judge_trace(world: World) -> bytes:
    watch_over_stdio(world)
    return world.run("check", "trace", "t.jsonl", "--verbose", *world.outputs("html", "json"))


def recording(world: World) -> bytes:
    kept = Recording()

    async def main() -> None:
        server = Server("planted")

        @server.tool
        def log_in(password: str) -> str:
            return f"{' ; '.join(FOUND_SAID)} for password={password}"

        async with connected(server, recording=kept, allow={"*"}) as client:
            await client.call_tool("log_in", {"password": FOUND["login"]})

    run(main())
    kept.save(world.folder / "r.jsonl")
    return (world.folder / "r.jsonl").read_bytes()


FLEET = """
[fleet]
name = "planted"
[defaults]
revisions = ["2025-06-18"]
only = ["ping"]
patience = 2
time = 60
[mcpServers.local]
command = {command}
args = {args}
env = {{ API_KEY = "${{env:PLANTED_KEY}}" }}
[server.local]
lock = "local.lock"
[mcpServers.remote]
url = "{url}?key=${{env:PLANTED_QUERY}}"
auth = "${{env:PLANTED_TOKEN}}"
headers = {{ X-Team-Key = "${{env:PLANTED_HEAD}}" }}
"""


def fleet(world: World) -> bytes:
    command, *args = world.command(ON_STDIO)[:-1]
    said = FLEET.format(command=json.dumps(command), args=json.dumps(args), url=world.bare_url)
    (world.folder / "accord-fleet.toml").write_text(said)
    env = {"PLANTED_KEY": ENV, "PLANTED_TOKEN": BEARER, "PLANTED_HEAD": HEADER}
    env |= {"PLANTED_QUERY": QUERY, "DB_PASSWORD": PASSWORD}
    words = ["--yes", "--verbose", *world.outputs(*FORMS, "svg"), "--output", "site/"]
    first = world.run("fleet", "run", *words, "--update-locks", **env)
    assert (world.folder / "accord-fleet.sqlite").exists()
    shown = [world.run("fleet", "history", *words, **env) for words in ([], ["local"])]
    return b"".join([first, *shown, world.run("fleet", "lint", "--allow-literals", "--yes", **env)])


def hosts(world: World) -> bytes:
    file = world.folder / "host.json"
    entry = {
        "command": sys.executable,
        "args": [*world.command({**ON_STDIO, "ends": True})[1:-1], "--api-key", ARGUMENT],
        "env": {"API_KEY": ENV},
    }
    remote = {"url": world.url, "headers": {"Authorization": f"Bearer {BEARER}", "X-Key": HEADER}}
    file.write_text(json.dumps({"mcpServers": {"local": entry, "remote": remote}}, indent=2))
    kept = file.read_bytes()
    at = ["--host", "cursor", "--file", str(file)]
    shown = [
        world.run("hosts", "list", *at),
        world.run("hosts", "list", "--format", "json", *at),
        world.run("hosts", "check", "--yes", *at),
        world.run("hosts", "check", "--format", "json", "--yes", *at),
    ]
    literal = ["--env", f"API_KEY={PASSWORD}", "--yes", "--no-check", "--literal-secrets", *at]
    words = ["add", *literal, "--name", "more", "--", *world.stdio]
    shown.append(world.run(*words[:1], "--dry-run", *words[1:]))
    assert file.read_bytes() == kept
    return b"".join(shown)


def written_hosts(world: World) -> bytes:
    """A change of a file and its journal, without the file itself, which has the secrets."""
    file = world.folder / "host.json"
    env = {"API_KEY": ENV}
    at = ["--host", "cursor", "--file", str(file), "--yes"]
    file.write_text(json.dumps({"mcpServers": {"old": {"command": "x", "env": env}}}, indent=2))
    words = ["--name", "old", "--env", f"API_KEY={PASSWORD}", "--no-check", "--", *world.stdio]
    shown = []
    for command in (["add", "--literal-secrets", *at, *words], ["hosts", "undo", "--yes"]):
        done = command_line().run(command, cwd=world.folder, env=world.home)
        shown += [done.stdout.encode(), done.stderr.encode()]
    return b"".join(shown)


def doctor(world: World) -> bytes:
    local = ["--env", f"API_KEY={ENV}", "--", *world.stdio]
    ended = ["--env", f"API_KEY={ENV}", "--", *world.command({**ON_STDIO, "ends": True})]
    return b"".join(
        world.run("doctor", *form, *words)
        for form in ([], ["--json"])
        for words in (
            local,
            ended,
            [*world.credentials, f"{world.bare_url}?key={QUERY}"],
            [world.url],
        )
    )


def errors(world: World) -> bytes:
    """Errors of commands; the results are for their caller, as they are."""
    ended = ["--env", f"API_KEY={ENV}", "--", *world.command({**ON_STDIO, "ends": True})]
    local = ["--env", f"API_KEY={ENV}", "--", *world.stdio]
    shown = [world.run("list", *ended), world.run("call", "get_echo", *ended)]
    shown += [world.run("call", "--prompt", "none", *each) for each in (local,)]
    return b"".join([*shown, world.run("call", *world.credentials, world.bare_url, "note://x")])


def configured_servers(world: World) -> bytes:
    """Errors of servers of a configuration."""
    from accord.client import connect_all

    ended = world.command({"given": said_of("env"), "found": [], "ends": True})
    remote = {"url": world.bare_url, "headers": {"X-Team-Key": HEADER}, "auth": BEARER}
    servers = {
        "ended": {"command": ended[0], "args": ended[1:-1], "env": {"API_KEY": ENV}},
        "remote": remote,
    }

    async def main() -> str:
        async with connect_all({"mcpServers": servers}) as clients:
            said = [repr(clients.failures)]
            try:
                await clients.read_resource("note://x")
            except Exception as error:
                said.append(repr(error))
            return "\n".join(said)

    return run(main()).encode()


def logs(world: World) -> bytes:
    """The log of requests, with arguments, and the access log."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    names = ("accord.access", "accord.requests", "accord")
    server = Server("planted")
    server.add_middleware(log_requests(arguments=True, level="warning"))
    server.add_middleware(log_requests(arguments=True, level="warning", json=True))

    @server.tool
    def log_in(password: str, said: list[str]) -> str:
        raise RuntimeError(f"{password} {said}")

    async def main(port: int) -> None:
        url = f"http://127.0.0.1:{port}/mcp?key={QUERY}"
        async with connect(url, headers={"X-Team-Key": HEADER}, auth=BEARER) as client:
            await client.call_tool("log_in", {"password": FOUND["login"], "said": FOUND_SAID})

    for name in names[:2]:
        logging.getLogger(name).addHandler(handler)
    try:
        with bounded(server.asgi(access_log=True)) as port, contextlib.suppress(Exception):
            run(main(port))
    finally:
        for name in names[:2]:
            logging.getLogger(name).removeHandler(handler)
    assert len(lines) > 4
    return "\n".join(lines).encode()


class Page:
    """Asks as the page of the inspector does, and keeps the answers."""

    def __init__(self, client) -> None:
        self.client = client
        self.bodies: list[bytes] = []

    async def ask(self, action, /, **params):
        headers = {"x-accord-key": self.client.key, "content-type": "application/json"}
        body = json.dumps({"target": 0, **params}).encode()
        answer = await self.client.send("POST", f"/api/{action}", headers, body)
        assert answer.status in (200, 422), (action, params, answer)
        self.bodies.append(answer.body)
        return answer.json if answer.headers["content-type"] == "application/json" else answer.body

    async def until(self, action, is_wanted, /, **params):
        async with asyncio.timeout(LONG):
            while not is_wanted(got := await self.ask(action, **params)):
                await asyncio.sleep(0.02)
        return got


def inspect_with(world: World, **target: object) -> bytes:
    folder = world.folder
    files = {"record": folder / "i.jsonl", "history": folder / "i.sqlite"}

    async def main() -> list[bytes]:
        inspection = Inspection(InspectOptions(**files))
        async with page_of(inspection) as client:
            inspection.add(ServerSpec(name="planted", timeout=LONG, **target))
            page = Page(client)
            await page.until("session.get", lambda got: got["state"] not in ("connecting", "idle"))
            await page.until("catalog.list", lambda got: got["state"] != "loading", kind="tools")
            given = json.dumps({"password": FOUND["login"]})
            call = await page.ask("calls.tool", name="get_echo", arguments=given, confirmed=True)
            await page.until("calls.get", lambda got: got["state"] != "running", id=call["id"])
            await page.ask("calls.read", uri="note://x")
            for action in ("calls.list", "history.list", "log.summary", "export.breaches"):
                await page.ask(action)
            for form in ("trace", "html", "markdown"):
                await page.ask("export.session", format=form)
            for form in ("lock", "markdown"):
                await page.ask("export.catalog", format=form)
            await page.ask("export.call", call=call["id"])
            rows = await page.ask("log.rows", start=0, count=100, filter={"with_stderr": True})
            for row in rows["rows"]:
                await page.ask("log.detail", n=row["n"])
        return [without_arguments(each) for each in page.bodies]

    bodies = run(main())
    until_sync_files = [each.read_bytes() for each in world.files()]
    return b"\0".join([*bodies, *until_sync_files])


def without_arguments(body: bytes) -> bytes:
    """Return an answer without what the page sends back as it was typed."""

    def clean(value):
        if isinstance(value, dict):
            return {name: clean(each) for name, each in value.items() if name != "arguments"}
        return [clean(each) for each in value] if isinstance(value, list) else value

    try:
        return json.dumps(clean(json.loads(body)), ensure_ascii=False).encode()
    except ValueError:
        return body


def inspect_over_stdio(world: World) -> bytes:
    env = {**os.environ, "API_KEY": ENV}
    return inspect_with(world, command=world.stdio, env=env)


def inspect_over_http(world: World) -> bytes:
    return inspect_with(world, url=world.url, headers={"X-Team-Key": HEADER}, auth=BEARER)


OUTPUTS = (
    *(check_over_stdio, check_over_http, contract_tests, lock, watch_over_stdio, judge_trace),
    *(recording, fleet, hosts, written_hosts, doctor, errors, configured_servers, logs),
    *(inspect_over_stdio, inspect_over_http),
)


@pytest.mark.parametrize("make", OUTPUTS, ids=lambda each: each.__name__)
def test_no_output_has_a_planted_secret_in_any_encoding(make, world):
    shown = make(world)
    assert b"masked-" in shown
    assert find_leaks(shown) == []

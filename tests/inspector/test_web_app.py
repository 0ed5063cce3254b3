"""The app on a real socket: files, actions, the feed, and the limits of each."""

import asyncio
import gzip
import hashlib
import json
import re
import socket
from base64 import b64decode

import msgspec
import pytest

from accord.client.server_spec import ServerSpec
from accord.errors import ConnectionClosed
from accord.http.settings import HttpLimits
from accord_tools.inspector import actions
from accord_tools.inspector.actions import READ, action
from accord_tools.inspector.definition import ActionRefused, Download, InspectOptions
from accord_tools.inspector.inspection import SESSIONS_MOST, Inspection
from accord_tools.inspector.web import app as app_module
from accord_tools.inspector.web import serving
from accord_tools.inspector.web.app import (
    ACTIONS_MOST,
    BODY_MOST,
    FEEDS_MOST,
    WRONG_KEYS_MOST,
    InspectorApp,
)
from accord_tools.inspector.web.gate import loopback_address
from accord_tools.inspector.web.static_files import StaticFiles
from support.page_client import page_of, read_answer, read_head
from support.running import in_virtual_time
from support.tables import cases
from support.waiting import in_loop, until

PROTECTING = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@pytest.fixture
def define(monkeypatch):
    """Define an action for one test."""
    monkeypatch.setattr(actions, "_actions", dict(actions._actions))

    def add(name, run, kinds=READ):
        action(name, kinds=kinds)(run)

    return add


def with_recording(**options):
    """An inspection with one session that needs no server."""
    inspection = Inspection(InspectOptions(**options))
    inspection.add(ServerSpec(name="recording"), "trace")
    return inspection


def assert_protected(answer):
    assert {name: answer.headers.get(name) for name in PROTECTING} == PROTECTING
    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert "set-cookie" not in answer.headers
    assert "server" not in answer.headers


# -- headers


@in_loop
async def test_every_answer_protects_the_page(define):
    async def fail(session):
        raise RuntimeError("secret detail")

    async def refuse(session):
        raise ActionRefused("not now")

    define("test.fail", fail)
    define("test.refuse", refuse)
    async with page_of(with_recording()) as page:
        answers = [
            (200, await page.send("GET", "/")),
            (200, await page.send("HEAD", "/")),
            (200, await page.call("app.state")),
            (304, await page.send("GET", "/", {"if-none-match": StaticFiles().find("/").tag})),
            (401, await page.send("GET", "/feed")),
            (403, await page.send("GET", "/", {"host": "evil.example"})),
            (404, await page.call("no.such.action")),
            (404, await page.send("GET", "/nothing", {"x-accord-key": page.key})),
            (405, await page.send("OPTIONS", "/api/app.state")),
            (415, await page.send("POST", "/api/app.state", {"x-accord-key": page.key}, b"{}")),
            (422, await page.call("test.refuse")),
            (500, await page.call("test.fail")),
        ]
        for status, answer in answers:
            assert answer.status == status
            assert_protected(answer)
            assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")
        assert_protected(await page.send_raw(b"this is not HTTP\r\n\r\n"))


@in_loop
async def test_the_policy_names_the_import_map_of_the_page():
    async with page_of() as page:
        answer = await page.send("GET", "/")
    (inline,) = re.findall(rb'<script type="importmap">(.*?)</script>', answer.body, re.DOTALL)
    policy = answer.headers["content-security-policy"]
    (digest,) = re.findall(r"'sha256-([^']+)'", policy)
    assert b64decode(digest) == hashlib.sha256(inline).digest()
    assert "unsafe" not in policy
    for part in (
        "frame-ancestors 'none'",
        "form-action 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
        "connect-src 'self'",
    ):
        assert part in policy.split("; ")


# -- files


@in_loop
async def test_files_are_sent_compressed_and_are_known_again():
    async with page_of() as page:
        plain = await page.send("GET", "/vendor/preact.js")
        packed = await page.send("GET", "/vendor/preact.js", {"accept-encoding": "br, gzip"})
        again = await page.send(
            "GET", "/vendor/preact.js", {"if-none-match": plain.headers["etag"]}
        )
        head = await page.send("HEAD", "/vendor/preact.js")
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body)
    assert (again.status, again.body) == (304, b"")
    assert head.headers["content-length"] == str(len(plain.body))


@in_loop
async def test_the_page_holds_no_secret():
    async with page_of() as page:
        for path in StaticFiles().paths:
            answer = await page.send("GET", path)
            assert answer.status == 200
            assert page.key.encode() not in answer.body


@cases(
    "path",
    [
        "/../session.py",
        "/..%2fsession.py",
        "/%2e%2e/session.py",
        "/static/../../session.py",
        "/vendor/",
        "/vendor",
        "//etc/passwd",
        "/etc/passwd",
        "/index.html%00.js",
        "/index.html/",
        "/INDEX.HTML",
        "/.git/config",
    ],
)
def test_other_files_are_not_found(path):
    @in_loop
    async def run():
        async with page_of() as page:
            assert (await page.send("GET", path)).status == 401
            assert (await page.send("GET", path, {"x-accord-key": page.key})).status == 404

    run()


def test_a_file_that_changes_is_read_again(tmp_path):
    (tmp_path / "index.html").write_text("<p>one</p>")
    files = StaticFiles(tmp_path)
    before = files.find("/")
    policy = files.policy
    (tmp_path / "index.html").write_text("<script>two</script>")
    assert files.find("/").body == b"<script>two</script>"
    assert files.find("/").tag != before.tag
    assert files.policy != policy


# -- actions


@in_loop
async def test_an_action_gets_its_session_and_params(define):
    class Params(msgspec.Struct):
        text: str

    async def echo(session, params: Params):
        return {"title": session.target.name, "text": params.text}

    define("test.echo", echo)
    inspection = with_recording()
    inspection.add(ServerSpec(name="second"), "trace")
    async with page_of(inspection) as page:
        assert (await page.call("test.echo", target=1, text="hi")).json == {
            "title": "second",
            "text": "hi",
        }
        for params, said in [
            ({"target": 2, "text": ""}, "there is no session 2"),
            ({"target": -2, "text": ""}, "there is no session -2"),
            ({"target": "0", "text": ""}, "the body is not an object with a target"),
            ({"text": 1}, "test.echo: Expected `str`, got `int`"),
            ({}, "test.echo: Object missing required field `text`"),
        ]:
            answer = await page.call("test.echo", **params)
            assert answer.status == 422
            assert said in answer.error
        headers = {"x-accord-key": page.key, "content-type": "application/json"}
        for body in (b"", b"[]", b"{", b"[" * 100_000, b"\xff", b"null"):
            answer = await page.send("POST", "/api/test.echo", headers, body)
            assert answer.status == 422


@in_loop
async def test_an_action_that_fails_shows_no_traceback(define, caplog):
    async def fail(session):
        raise RuntimeError("secret detail")

    async def lose(session):
        raise ConnectionClosed("the server has gone")

    async def invent(session):
        return {"x": object()}

    define("test.fail", fail)
    define("test.lose", lose)
    define("test.invent", invent)
    async with page_of(with_recording()) as page:
        answer = await page.call("test.fail")
        assert answer.status == 500
        assert b"secret" not in answer.body
        assert b"Traceback" not in answer.body
        assert (await page.call("test.invent")).status == 500
        lost = await page.call("test.lose")
        assert (lost.status, lost.error) == (422, "the server has gone")
    assert "the action test.fail failed: RuntimeError('secret detail')" in caplog.text


@in_loop
async def test_half_a_character_of_a_server_reaches_the_page(define):
    async def quote(session):
        return {"text": "\ud800 and \u202e"}

    define("test.quote", quote)
    async with page_of(with_recording()) as page:
        assert (await page.call("test.quote")).json == {"text": "\ud800 and \u202e"}


@in_loop
async def test_a_download_is_saved_and_never_shown(define):
    async def save(session):
        name = '../"evil"\r\nset-cookie: a=b.html'
        return Download(name, "text/html\r\nx: y", (b"<p>", b"hi", b"</p>"))

    define("test.save", save)
    async with page_of(with_recording()) as page:
        answer = await page.call("test.save")
    assert_protected(answer)
    assert answer.body == b"<p>hi</p>"
    assert answer.headers["content-type"] == "application/octet-stream"
    disposition = answer.headers["content-disposition"]
    assert disposition == 'attachment; filename="evil-set-cookie-a-b.html"'


@in_loop
async def test_an_action_of_a_connection_is_refused_for_a_recording(define):
    async def send(session):
        raise AssertionError

    define("test.send", send, kinds=("live",))
    async with page_of(with_recording()) as page:
        answer = await page.call("test.send")
    assert answer.status == 422
    assert "needs a connection of its own" in answer.error


@in_loop
async def test_large_bodies_are_refused_before_they_are_read(define):
    sizes = []

    class Params(msgspec.Struct):
        text: str

    async def measure(session, params: Params):
        sizes.append(len(params.text))
        return {}

    define("test.measure", measure)
    define("trace.open", measure)
    large = "x" * BODY_MOST
    async with page_of(with_recording()) as page:
        assert (await page.call("test.measure", text=large)).status == 413
        assert (await page.call("trace.open", text=large)).status == 200
        assert sizes == [BODY_MOST]
        headers = {
            "x-accord-key": page.key,
            "content-type": "application/json",
            "content-length": str(10**12),
        }
        reader, writer = await page.open()
        writer.write(page.head("POST", "/api/test.measure", headers) + b"x" * (BODY_MOST + 1))
        assert (await read_answer(reader)).status == 413
        writer.close()


@in_loop
async def test_only_so_many_actions_run_at_once(define):
    release = asyncio.Event()
    running = 0

    async def wait(session):
        nonlocal running
        running += 1
        await release.wait()
        return {}

    define("test.wait", wait)
    async with page_of(with_recording()) as page:
        work = [asyncio.ensure_future(page.call("test.wait")) for _ in range(ACTIONS_MOST)]
        await until(lambda: running == ACTIONS_MOST)
        answer = await page.call("app.state")
        assert answer.status == 503
        release.set()
        assert {each.status for each in await asyncio.gather(*work)} == {200}
        assert (await page.call("test.wait")).status == 200


@in_loop
async def test_actions_under_way_do_not_keep_the_page_from_ending(define):
    begun = asyncio.Event()

    async def hang(session):
        begun.set()
        await asyncio.Event().wait()

    define("test.hang", hang)
    async with page_of(with_recording()) as page:
        call = asyncio.ensure_future(page.call("test.hang"))
        await begun.wait()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await call


# -- the state of the whole page


@in_loop
async def test_a_page_without_servers_says_so():
    async with page_of() as page:
        state = (await page.call("app.state")).json
    assert state["targets"] == []
    assert state["shows_secrets"] is True
    assert state["keeps_history"] is False


@in_loop
async def test_actions_on_the_whole_page_need_no_server(define):
    async def name(session):
        return {"index": session.index, "kind": session.kind}

    define("test.name", name)
    async with page_of() as page:
        assert (await page.call("test.name", target=-1)).json == {"index": -1, "kind": "trace"}


@in_loop
async def test_a_session_may_add_others_up_to_a_limit(define):
    async def add(session):
        return {"target": session.add_session(ServerSpec(name="more"), "trace").index}

    define("test.add", add)
    async with page_of(with_recording()) as page:
        for index in range(1, SESSIONS_MOST):
            assert (await page.call("test.add")).json == {"target": index}
        answer = await page.call("test.add")
        assert answer.status == 422
        assert "already" in answer.error


# -- the feed


@in_loop
async def test_the_feed_says_what_changed_since_a_version():
    inspection = with_recording()
    async with page_of(inspection) as page, page.feed() as next_line:
        assert await next_line() == {"version": 1, "changed": [[-1, "app"]]}
        inspection.sessions[0].mark("log")
        assert await next_line() == {"version": 2, "changed": [[0, "log"]]}
        async with page.feed(since=1) as other:
            assert await other() == {"version": 2, "changed": [[0, "log"]]}
        # Of an earlier launch: everything is new.
        async with page.feed(since=10**20) as other:
            assert await other() == {"version": 2, "changed": [[-1, "app"], [0, "log"]]}


@in_loop
async def test_many_changes_become_few_lines():
    inspection = with_recording()
    async with page_of(inspection) as page, page.feed() as next_line:
        await next_line()
        for _ in range(10_000):
            inspection.sessions[0].mark("log")
        lines = 0
        version = 1
        while version < 10_001:
            line = await next_line()
            lines, version = lines + 1, line["version"]
            assert line["changed"] == [[0, "log"]]
    assert lines <= 2


@in_virtual_time
async def test_the_feed_says_regularly_that_the_server_is_there():
    app = InspectorApp(with_recording(), loopback_address(80), "key")
    headers = [(b"host", b"localhost"), (b"x-accord-key", b"key")]
    sent, times = [], []

    async def receive():
        while len(sent) < 4:
            await asyncio.sleep(1)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        times.append(asyncio.get_running_loop().time())

    scope = {"type": "http", "method": "GET", "path": "/feed", "query_string": b"since=1"}
    await app({**scope, "headers": headers}, receive, send)
    lines = [json.loads(each["body"]) for each in sent[1:]]
    assert lines[1:] == [{"version": 1, "changed": []}] * (len(lines) - 1)
    assert 9 < times[3] - times[2] < 12


@in_loop
async def test_only_so_many_feeds_are_open_and_a_closed_one_makes_room():
    async with page_of() as page:
        feeds = [page.feed() for _ in range(FEEDS_MOST)]
        for each in feeds:
            await each.__aenter__()
        answer = await page.send("GET", "/feed", {"x-accord-key": page.key})
        assert answer.status == 503
        await feeds[0].__aexit__(None, None, None)

        async def is_let_in():
            reader, writer = await page.open()
            writer.write(page.head("GET", "/feed", {"x-accord-key": page.key}))
            status, _ = await read_head(reader)
            writer.close()
            return status == 200

        while not await is_let_in():
            await asyncio.sleep(0.01)
        for each in feeds[1:]:
            await each.__aexit__(None, None, None)


@in_loop
async def test_a_feed_ends_in_order_when_the_inspector_ends():
    async with page_of() as page:
        feed = page.feed()
        next_line = await feed.__aenter__()
        await next_line()
    assert await next_line() is None
    await feed.__aexit__(None, None, None)


@cases("query", ["since=-1", "since=x", "since=1.5", "since=%D9%A3"])
def test_a_version_is_a_number(query):
    @in_loop
    async def run():
        async with page_of() as page:
            answer = await page.send("GET", f"/feed?{query}", {"x-accord-key": page.key})
            assert answer.status == 400

    run()


# -- limits of time


@in_virtual_time
async def test_further_wrong_keys_have_to_wait():
    app = InspectorApp(with_recording(), loopback_address(80), "key")
    loop = asyncio.get_running_loop()

    async def ask(key):
        began, sent = loop.time(), []

        async def send(message):
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"x-accord-key", key)]
        scope = {"type": "http", "method": "GET", "path": "/other", "query_string": b""}
        await app({**scope, "headers": headers}, None, send)
        return sent[0]["status"], loop.time() - began

    for _ in range(WRONG_KEYS_MOST):
        assert await ask(b"wrong") == (401, pytest.approx(0, abs=0.5))
    assert await ask(b"wrong") == (401, pytest.approx(1, abs=0.5))
    assert await ask(b"key") == (404, pytest.approx(0, abs=0.5))
    found = await asyncio.gather(*(ask(b"wrong") for _ in range(200)))
    assert {status for status, _ in found} == {401, 429}


@in_loop
async def test_clients_that_send_too_slowly_are_cut_off(monkeypatch):
    monkeypatch.setattr(serving, "_LIMITS", HttpLimits(body_timeout=0.1))
    monkeypatch.setattr(app_module, "_BODY_TIMEOUT", 0.1)
    async with page_of(with_recording()) as page:
        slow_head, head_writer = await page.open()
        head_writer.write(b"GET / HTTP/1.1\r\nhost: ")
        slow_body, body_writer = await page.open()
        headers = {"x-accord-key": page.key, "content-type": "application/json"}
        head = page.head("POST", "/api/app.state", {**headers, "content-length": "100"})
        body_writer.write(head + b"{")
        assert (await read_answer(slow_body)).status == 408
        assert (await read_answer(slow_head)).status == 408
        assert await slow_head.read() == b""
        head_writer.close()
        body_writer.close()


@in_loop
async def test_a_page_that_stops_reading_is_cut_off(define, monkeypatch):
    monkeypatch.setattr(serving, "_LIMITS", HttpLimits(write_timeout=0.1))
    monkeypatch.setattr(app_module, "ACTIONS_MOST", 1)

    async def flood(session):
        return Download("flood", "text/plain", [b"x" * 1_000_000] * 40)

    define("test.flood", flood)
    async with page_of() as page:
        headers = {"x-accord-key": page.key, "content-type": "application/json"}
        request = page.head("POST", "/api/test.flood", {**headers, "content-length": "14"})
        with socket.create_connection(("127.0.0.1", page.port)) as silent:
            silent.sendall(request + b'{"target": -1}')
            for wanted in (503, 200):
                while (await page.call("app.state")).status != wanted:
                    await asyncio.sleep(0.05)

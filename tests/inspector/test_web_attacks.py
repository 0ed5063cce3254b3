"""Attacks that succeeded against other inspectors, and everything that a stranger may send."""

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from accord.errors import TransportError
from accord_tools.inspector.inspection import Inspection
from accord_tools.inspector.web.serving import PageSockets, serve_inspection
from accord_tools.inspector.web.static_files import StaticFiles
from support.page_client import PageClient, page_of, read_answer
from support.tables import cases
from support.waiting import LONG, in_loop

SHELL = "command=sh&args=-c+id&transportType=stdio&env=%7B%7D&url=http%3A%2F%2Fevil.example"
LAUNCH = b'{"command":"sh","args":["-c","id"],"serverConfig":{"command":"sh"},"serverId":"x"}'


@in_loop
async def test_requests_that_launched_commands_in_other_inspectors_are_refused():
    own = {"content-type": "application/json"}
    requests = [
        # A query that names the command: a simple GET of any web page (CVE-2025-49596).
        ("GET", f"/sse?{SHELL}", {}, b""),
        ("GET", f"/stdio?{SHELL}", {"origin": "http://evil.example"}, b""),
        (
            "GET",
            f"/mcp?{SHELL}",
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
            b"",
        ),
        ("POST", f"/message?sessionId=1&{SHELL}", own, LAUNCH),
        # An address that browsers took for another site than loopback.
        ("GET", f"/sse?{SHELL}", {"host": "0.0.0.0:{port}"}, b""),
        # A name that leads here (DNS rebinding).
        ("POST", "/api/session.connect", {**own, "host": "rebind.example:{port}"}, LAUNCH),
        ("GET", "/", {"host": "rebind.example:{port}"}, b""),
        # An endpoint that connects to what the request names (CVE-2026-23744).
        ("POST", "/api/mcp/connect", own, LAUNCH),
        ("POST", "/api/servers/reconnect", own, LAUNCH),
        ("POST", "/api/session.connect", own, LAUNCH),
        # The address with the key in place of the header, and the key as a cookie.
        ("POST", "/api/session.connect?key={key}", own, LAUNCH),
        ("POST", "/api/session.connect", {**own, "cookie": "accord-key={key}"}, LAUNCH),
        ("POST", "/api/session.connect", {**own, "authorization": "Bearer {key}"}, LAUNCH),
        # A form, which needs no permission of a browser.
        ("POST", "/api/session.connect", {"content-type": "text/plain"}, LAUNCH),
    ]
    async with page_of() as page:
        for method, path, headers, body in requests:
            values = {"port": page.port, "key": page.key}
            given = {name: value.format(**values) for name, value in headers.items()}
            answer = await page.send(method, path.format(**values), given, body)
            assert answer.status in (401, 403, 405), (method, path, headers)


@in_loop
async def test_a_request_that_asks_for_permission_gets_none():
    headers = {
        "origin": "http://evil.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-accord-key",
        "access-control-request-private-network": "true",
    }
    async with page_of() as page:
        for origin in ("http://evil.example", f"http://{page.host}"):
            answer = await page.send("OPTIONS", "/api/app.state", {**headers, "origin": origin})
            assert answer.status in (403, 405)
            assert not [each for each in answer.headers if each.startswith("access-control")]


@in_loop
async def test_an_upgrade_is_refused():
    upgrade = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with page_of() as page:
        assert (await page.send("GET", "/feed", upgrade)).status == 401
        for path, status in (("/ws", 404), ("/api/app.state", 405)):
            answer = await page.send("GET", path, {**upgrade, "x-accord-key": page.key})
            assert answer.status == status


@cases(
    "head",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET /feed HTTP/1.1\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nhost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: 127.0.0.1:%(port)d\r\nhost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: 127.0.0.1:%(port)d\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nhost: 127.0.0.1:%(port)d\r\na: " + b"b" * 1_000_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: 127.0.0.1:%(port)d\r\n\r\n",
        (
            b"POST /api/app.state HTTP/1.1\r\nhost: 127.0.0.1:%(port)d\r\ncontent-length: 1\r\n"
            b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n\r\nGET\r\n\r\n",
    ],
)
def test_malformed_and_oversized_heads_are_refused(head):
    @in_loop
    async def run():
        async with page_of() as page:
            reader, writer = await page.open()
            for at in range(0, len(head), 65_536):
                if writer.is_closing():
                    break
                part = head.replace(b"%(port)d", b"%d" % page.port)[at : at + 65_536]
                writer.write(part)
            answer = await read_answer(reader)
            assert answer.status in (400, 401, 403, 431)
            writer.close()
            assert (await page.send("GET", "/")).status == 200

    run()


@in_loop
async def test_a_second_request_in_a_body_is_not_served():
    async with page_of() as page:
        inner = page.head("POST", "/api/app.state", {"x-accord-key": page.key})
        answer = await page.send("POST", "/api/app.state", {}, inner)
        assert answer.status == 401


@in_loop
async def test_random_requests_without_the_key_get_files_and_refusals_alone():
    chance = random.Random(18)  # the same requests in every run
    files = [*StaticFiles().paths]
    words = ["api", "feed", "app.state", "calls.tool", "..", "%2e%2e", "index.html", "x", "", "~"]
    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"]
    async with page_of() as page:
        for _ in range(300):
            path = "/" + "/".join(chance.choices(words, k=chance.randrange(4)))
            path = chance.choice([path, path, f"{path}?since=0", chance.choice(files)])
            method = chance.choice(methods)
            headers = {
                "content-type": chance.choice([None, "application/json", "text/plain"]),
                "x-accord-key": chance.choice([None, None, None, ""]),
                "origin": chance.choice([None, None, "null", f"http://{page.host}"]),
                "sec-fetch-site": chance.choice([None, None, "same-origin", "none", "cross-site"]),
                "x-forwarded-host": chance.choice([None, page.host]),
                "x-http-method-override": chance.choice([None, "GET"]),
            }
            body = chance.choice([b"", b"{}", chance.randbytes(50)])
            answer = await page.send(method, path, headers, body)
            allowed = (401, 403, 405)
            if method in ("GET", "HEAD") and path.partition("?")[0] in files:
                allowed = (200, 403)
            assert answer.status in allowed, (method, path, headers, answer)


def test_no_action_launches_writes_imports_or_reaches_what_a_request_names(tmp_path):
    (tmp_path / "evil_payload.py").write_text("open('stolen', 'w')")
    here = Path(__file__).parent
    command = [sys.executable, str(here.parents[1] / "examples" / "ten_lines.py")]
    done = subprocess.run(
        [sys.executable, str(here / "audited_page.py"), *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parent), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * LONG,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["answers"]["200"] > 100
    assert found["answers"]["422"] > 100
    for event, args in found["events"]:
        if event == "subprocess.Popen":
            assert args[1] == repr(command)
        elif event == "socket.connect":
            assert args == [repr(("127.0.0.1", found["port"]))]
        elif event.startswith("sqlite3.connect"):
            assert args[0] == repr(":memory:") or event != "sqlite3.connect"
        else:
            assert event == "import", (event, args)
            assert "evil" not in args[0]
    assert os.listdir(tmp_path) == ["evil_payload.py"]


# -- where the page listens


@in_loop
async def test_the_page_listens_on_loopback_alone():
    sockets = PageSockets()
    names = {each.getsockname()[0] for each in sockets.sockets}
    ports = {each.getsockname()[1] for each in sockets.sockets}
    assert names <= {"127.0.0.1", "::1"}
    assert ports == {sockets.port}
    async with serve_inspection(Inspection(), sockets) as url:
        page = PageClient(url)
        for each in sockets.sockets:
            host = each.getsockname()[0]
            reader, writer = await asyncio.open_connection(host, sockets.port)
            named = f"[{host}]" if ":" in host else host
            writer.write(page.head("GET", "/", {"host": f"{named}:{sockets.port}"}))
            assert (await read_answer(reader)).status == 200
            writer.close()


def test_a_port_that_is_taken_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TransportError, match=f"port {port} is taken"):
            PageSockets(port)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_port_that_another_program_has_in_the_other_family_is_not_taken():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TransportError, match="is taken"):
            PageSockets(port)


@in_loop
async def test_keys_of_two_launches_differ_and_are_long():
    async with page_of() as one, page_of() as other:
        assert one.key != other.key
        assert len(one.key) >= 43
        headers = {"x-accord-key": one.key, "content-type": "application/json"}
        assert (await other.send("POST", "/api/app.state", headers, b"{}")).status == 401


@in_loop
async def test_nothing_stays_open_when_the_page_has_ended():
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    async with page_of() as page:
        assert (await page.send("GET", "/")).status == 200
        port = page.port
    with pytest.raises(OSError, match=r".*"):
        await asyncio.open_connection("127.0.0.1", port)
    if before:
        assert len(os.listdir("/proc/self/fd")) <= len(before)

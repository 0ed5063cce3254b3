"""Between a client and a server over HTTP: bodies pass as they are, without delay."""

import gzip
import random
import re
import signal
import socket
import threading
import time
import zlib
from contextlib import contextmanager, suppress

import pytest

from accord import Server
from accord.client import blocking
from accord.trace import read
from accord_tools.check.trace_check import replay
from accord_tools.watch.http_proxy import serve_proxy
from accord_tools.watch.watcher import Watcher
from check.watching.between import INITIALIZE, OPENED, launched, line
from support.http_server import free_port, serving, serving_within
from support.waiting import LONG, until_sync


class Upstream:
    """A server whose every byte is for the test to choose: one function per connection."""

    def __init__(self, behaviour):
        self._behaviour = behaviour
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.heads = []
        self.bodies = []
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        connection.settimeout(LONG)
        with connection, suppress(OSError):  # a connection that was cut off has nothing more to say
            head, body = received(connection)
            self.heads.append(head)
            self.bodies.append(body)
            self._behaviour(connection)


def received(connection):
    """Read one request or response; returns head and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return data, b""
        data += chunk
    if data.startswith(b"HTTP/1.1 100 "):
        data = data.partition(b"\r\n\r\n")[2]
        return _rest(connection, data or connection.recv(65536))
    return _rest(connection, data)


def _rest(connection, data):
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    while length and len(body) < int(length[1]):
        body += connection.recv(65536)
    while not length and b"chunked" in head.lower() and not body.endswith(b"0\r\n\r\n"):
        body += connection.recv(65536)
    return head, body


def unchunked(body):
    out = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        out += body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]
    return out


@contextmanager
def proxied(url, *, headers=None, **options):
    """Serve a proxy for a URL; yields its port and the watcher."""
    watcher = Watcher("it", **options)
    with serving_within(
        lambda sockets: serve_proxy(url, sockets, watcher, headers=headers)
    ) as port:
        yield port, watcher
    watcher.close()


@contextmanager
def between(behaviour, path="/mcp", **options):
    with (
        Upstream(behaviour) as upstream,
        proxied(f"http://127.0.0.1:{upstream.port}{path}", **options) as (port, watcher),
    ):
        yield upstream, port, watcher


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=LONG)


def asked(port, data):
    with connected(port) as client:
        client.sendall(data)
        return received(client)


def post(body, *headers):
    more = "".join(f"{each}\r\n" for each in ("Content-Type: application/json", *headers))
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def answer(body, *headers, status="200 OK"):
    more = "".join(f"{each}\r\n" for each in headers)
    return f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


GET = b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
JSON = "Content-Type: application/json"


def headers_of(head):
    lines = head.decode("latin-1").split("\r\n")[1:]
    return [(name.lower(), text) for name, _, text in (each.partition(": ") for each in lines)]


def test_a_request_reaches_the_server_as_it_was_sent():
    body = random.Random(1).randbytes(200_000)
    with between(lambda each: each.sendall(answer(b""))) as (upstream, port, _):
        request = (
            "PUT /a%2Fb/%C3%A4?q=%20&q=2 HTTP/1.1\r\nHost: localhost:1\r\nX-Two: 1\r\nX-Two: 2\r\n"
            "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nExpect: 100-continue\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        asked(port, request.encode() + body)
    (head,) = upstream.heads
    assert head.startswith(b"PUT /a%2Fb/%C3%A4?q=%20&q=2 HTTP/1.1\r\n")
    assert upstream.bodies == [body]
    assert headers_of(head) == [
        ("host", f"127.0.0.1:{upstream.port}"),
        ("x-two", "1"),
        ("x-two", "2"),
        ("content-length", str(len(body))),
    ]


def test_a_response_reaches_the_client_as_it_was_sent():
    body = random.Random(2).randbytes(200_000)
    sent = answer(body, "Set-Cookie: a", "Set-Cookie: b", "X-Odd: \xe4", status="418 Odd")
    with between(lambda each: each.sendall(sent)) as (_, port, _):
        head, came = asked(port, post(b"{}"))
    assert head.startswith(b"HTTP/1.1 418 ")
    assert came == body
    assert [each for each in headers_of(head) if each[0] in ("set-cookie", "server")] == [
        ("set-cookie", "a"),
        ("set-cookie", "b"),
    ]


def test_a_connection_that_the_server_may_be_closing_is_not_used_again():
    def behave(connection):
        connection.sendall(answer(b"{}", JSON))
        connection.recv(1)  # a client that sends more here is cut off

    with between(behave) as (_, port, _):
        assert asked(port, post(b"{}"))[0].startswith(b"HTTP/1.1 200 ")
        time.sleep(1.2)  # clock: longer than an unused connection is trusted
        assert asked(port, post(b"{}"))[0].startswith(b"HTTP/1.1 200 ")


def test_a_chunked_request_passes():
    with between(lambda each: each.sendall(answer(b"ok"))) as (upstream, port, _):
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        asked(port, head + b"3\r\n{\r\n\r\n1\r\n}\r\n0\r\n\r\n")
    assert upstream.bodies == [b"{\r\n}"]


def test_events_pass_without_delay_and_as_they_are():
    parts = [b": hello\r\n\r\n", b'id: 1\nevent: message\ndata: {"a":\ndata: 1}\n\n', b"data: half"]
    passed = threading.Semaphore(0)

    def behave(connection):
        connection.sendall(STREAM)
        for part in parts:
            connection.sendall(part)
            assert passed.acquire(timeout=LONG)  # not before the client has it

    with between(behave) as (_, port, _), connected(port) as client:
        client.sendall(post(b"{}"))
        data = client.recv(65536)
        while b"\r\n\r\n" not in data:
            data += client.recv(65536)
        data = data.partition(b"\r\n\r\n")[2]
        whole = b""
        for part in parts:
            whole += part
            framed = b"%x\r\n%b\r\n" % (len(part), part)
            while framed not in data:
                more = client.recv(65536)
                assert more
                data += more
            passed.release()
        while not data.endswith(b"0\r\n\r\n"):
            data += client.recv(65536)
    assert unchunked(data) == whole


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
def test_packed_answers_pass_packed_and_are_judged_unpacked(packing):
    plain = line({**OPENED, "jsonrpc": "1.0"}).strip()
    packed = gzip.compress(plain) if packing == "gzip" else zlib.compress(plain)
    sent = answer(packed, JSON, f"Content-Encoding: {packing}")
    with between(lambda each: each.sendall(sent)) as (_, port, watcher):
        _, came = asked(port, post(line(INITIALIZE), f"Accept-Encoding: {packing}"))
    assert came == packed
    assert watcher.dropped == 0
    assert [
        each.violation
        for each in watcher.reports()[0].violations
        if each.violation.party == "server"
    ]


@pytest.mark.parametrize(
    ("packing", "body"), [("br", b"\x0b\x02\x80"), ("gzip", b"no gzip")], ids=["unknown", "broken"]
)
def test_a_body_that_cannot_be_unpacked_passes_unjudged_and_is_counted(packing, body):
    sent = answer(body, JSON, f"Content-Encoding: {packing}")
    with between(lambda each: each.sendall(sent)) as (_, port, watcher):
        _, came = asked(port, post(line(INITIALIZE)))
    assert came == body
    assert watcher.dropped == 1
    assert not any(each.violation.party == "server" for each in watcher.reports()[0].violations)


def test_an_unreachable_server_is_answered_with_502_and_a_reason():
    with proxied(f"http://127.0.0.1:{free_port()}/mcp") as (port, _):
        head, body = asked(port, post(line(INITIALIZE)))
    assert head.startswith(b"HTTP/1.1 502 ")
    assert b'"message":"accord watch: the server cannot be reached' in body


@pytest.mark.parametrize("host", ["evil.example:9000", "", "[", "127.0.0.1.evil.example"])
def test_a_page_under_another_name_is_refused(host):
    with between(lambda each: each.sendall(answer(b""))) as (upstream, port, _):
        request = post(b"{}").replace(b"Host: localhost", f"Host: {host}".encode())
        head, body = asked(port, request)
    assert head.startswith(b"HTTP/1.1 403 ")
    assert b"expected 127.0.0.1 or localhost" in body
    assert upstream.heads == []


FOREIGN_ORIGINS = [
    "https://evil.example",
    "null",
    "http://localhost.evil.example",
    "http://evil.example@localhost",
    "http://localhost, https://evil.example",
    "chrome-extension://localhost",
    "",
]


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_foreign_web_page_cannot_use_the_token_of_the_watch(origin):
    with between(
        lambda each: each.sendall(answer(b"private", "Access-Control-Allow-Origin: *")),
        headers={"Authorization": "Bearer hush"},
    ) as (upstream, port, _):
        asks = post(line(INITIALIZE), f"Origin: {origin}")
        preflight = (
            "OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: POST\r\n"
            f"Origin: {origin}\r\n\r\n"
        ).encode()
        answers = [asked(port, request) for request in (asks, preflight)]
    for head, body in answers:
        assert head.startswith(b"HTTP/1.1 403 ")
        assert b"access-control-allow-origin" not in head.lower()
        assert b"the Origin is" in body
    assert upstream.heads == []


@pytest.mark.parametrize(("site", "status"), [("cross-site", b"403"), ("none", b"200")])
def test_a_picture_in_a_foreign_page_is_refused_too(site, status):
    with between(lambda each: each.sendall(answer(b""))) as (upstream, port, _):
        head, _ = asked(
            port, GET.replace(b"\r\n\r\n", f"\r\nSec-Fetch-Site: {site}\r\n\r\n".encode())
        )
    assert head.split()[1] == status
    assert len(upstream.heads) == (status == b"200")


@pytest.mark.parametrize(
    "origin", ["http://localhost:6274", "http://127.0.0.1", "https://[::1]:1", "HTTP://LOCALHOST"]
)
def test_a_page_of_this_machine_may_use_the_watch(origin):
    with between(
        lambda each: each.sendall(answer(b"ok")), headers={"Authorization": "Bearer hush"}
    ) as (upstream, port, _):
        head, body = asked(port, post(line(INITIALIZE), f"Origin: {origin}"))
    assert (head.split()[1], body) == (b"200", b"ok")
    assert ("authorization", "Bearer hush") in headers_of(upstream.heads[0])


@pytest.mark.parametrize("when", ["before an answer", "amid a stream"])
def test_a_disconnect_of_the_client_reaches_the_server(when):
    ready, left = threading.Event(), threading.Event()

    def behave(connection):
        if when == "amid a stream":
            connection.sendall(STREAM + b"data: {}\n\n")
        ready.set()
        if connection.recv(1) == b"":
            left.set()

    with between(behave) as (_, port, _):
        with connected(port) as client:
            client.sendall(post(b"{}"))
            assert ready.wait(LONG)
            if when == "amid a stream":
                client.recv(65536)
        assert left.wait(LONG)


@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
def test_an_answer_that_is_cut_is_cut_for_the_client_too(framing):
    start = b"5\r\nhello\r\n" if "chunked" in framing else b"hello"
    sent = f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode() + start
    with between(lambda each: each.sendall(sent)) as (_, port, _), connected(port) as client:
        client.sendall(post(b"{}"))
        data = b""
        while chunk := client.recv(65536):
            data += chunk
    assert b"hello" in data
    assert not data.endswith(b"0\r\n\r\n")
    assert b"Content-Length: 5\r\n" not in data


@pytest.mark.parametrize(
    ("place", "passed"),
    [
        ("/messages?id=1", "/messages?id=1"),
        ("http://127.0.0.1:{port}/messages?id=1", "/messages?id=1"),
        ("http://localhost:{port}/messages?id=1", "/messages?id=1"),
        ("https://elsewhere.example/messages?id=1", "https://elsewhere.example/messages?id=1"),
        ("http://[/messages", "http://[/messages"),
    ],
    ids=["relative", "absolute", "by another name", "elsewhere", "no URL"],
)
@pytest.mark.parametrize("pieces", [1, 7], ids=["in one piece", "in pieces"])
def test_an_endpoint_leads_through_the_proxy(place, passed, pieces):
    def behave(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own = place.format(port=connection.getsockname()[1])
        event = f": hi\r\n\r\nevent: endpoint\r\ndata: {own}\r\n\r\ndata: {{}}\n\n".encode()
        connection.sendall(STREAM)
        step = -(-len(event) // pieces)
        for at in range(0, len(event), step):
            connection.sendall(event[at : at + step])

    with between(behave, "/sse") as (_, port, _):
        _, body = asked(port, GET)
    event = f": hi\r\n\r\nevent: endpoint\r\ndata: {passed}\r\n\r\ndata: {{}}\n\n"
    assert unchunked(body) == event.encode()


# -- judging


def desk():
    server = Server("desk")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server


def verdicts(report):
    return {each.id: each.verdict for each in report.results}


def use(url, **options):
    with blocking.connect(url, **{"revision": "2025-11-25", **options}) as client:
        assert [each.name for each in client.tools()] == ["add"]
        assert client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
        return client.revision


@pytest.mark.parametrize("form", ["http", "http-stream", "sse", "stateless"])
def test_clients_one_after_the_other_are_judged_apart_and_raise_no_alarm(form, tmp_path):
    settings = {
        "http": {},
        "http-stream": {"answers": "stream"},
        "sse": {"sse": True},
        "stateless": {"sessions": False},
    }[form]
    path = tmp_path / "session.jsonl"
    place = "/sse" if form == "sse" else "/mcp"
    options = {"transport": "sse"} if form == "sse" else {}
    with (
        serving(desk().asgi(grace=0, **settings)) as own,
        proxied(f"http://127.0.0.1:{own}{place}", recording=path) as (port, watcher),
    ):
        for _ in range(2):
            use(f"http://127.0.0.1:{port}{place}", **options)
    assert watcher.dropped == 0
    reports = [each for each in watcher.reports() if each.revision is not None]
    assert len(reports) == 2
    must = [f for each in reports for f in each.violations if f.severity == "fail"]
    assert must == []
    for number, report in enumerate(watcher.reports(), 1):
        if report.revision is None:
            continue  # a GET that came after its client had left, without a message
        file = path if number == 1 else path.with_name(f"session-{number}.jsonl")
        again = replay(read(file), target="it")
        assert verdicts(again) == verdicts(report)


def test_clients_at_the_same_time_are_judged_apart():
    with (
        serving(desk().asgi(grace=0)) as own,
        proxied(f"http://127.0.0.1:{own}/mcp") as (port, watcher),
    ):
        url = f"http://127.0.0.1:{port}/mcp"
        threads = [threading.Thread(target=use, args=(url,), daemon=True) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(LONG)
    reports = watcher.reports()
    assert len(reports) == 4
    assert not any(each.has_failed for each in reports)


def test_two_without_a_session_at_once_are_not_judged_by_guess():
    reply = answer(line(OPENED), JSON)

    def behave(connection):
        connection.sendall(reply)
        while b"POST" in (received(connection)[0]):
            connection.sendall(answer(b"", status="202 Accepted"))

    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    with (
        between(behave) as (_, port, watcher),
        connected(port) as one,
        connected(port) as other,
    ):
        for client, said in ((one, INITIALIZE), (other, INITIALIZE), (one, ready)):
            client.sendall(post(line(said)))
            received(client)
    assert watcher.dropped >= 2


def test_secrets_in_headers_are_masked_in_the_recording(tmp_path):
    path = tmp_path / "session.jsonl"
    with (
        serving(desk().asgi(grace=0)) as own,
        proxied(
            f"http://127.0.0.1:{own}/mcp",
            recording=path,
            headers={"Authorization": "Bearer hush-1"},
        ) as (port, _),
    ):
        use(f"http://127.0.0.1:{port}/mcp", headers={"X-Key": "hush-2"}, auth="hush-3")
    text = path.read_text()
    assert "hush" not in text
    assert '"authorization":"Bearer masked-' in text
    assert '"mcp-session-id":"masked-' in text
    assert '"content-type":"application/json"' in text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_says_where_it_listens_adds_the_token_and_ends_by_signal(tmp_path, number):
    with Upstream(lambda each: each.sendall(answer(b"{}", JSON))) as upstream:
        url = f"http://127.0.0.1:{upstream.port}/mcp"
        record = tmp_path / "x.jsonl"
        words = ("--listen", 0, f"{url}?key=hush", "--bearer", "hush", "--record", record)
        with launched(*words) as process:
            said = process.stderr.readline().decode()
            port = int(re.search(r"is watched at http://127\.0\.0\.1:(\d+)/mcp;", said)[1])
            asked(port, post(line(INITIALIZE)))
            until_sync(lambda: record.read_bytes().count(b"\n") == 2)
            process.send_signal(number)
            out, err = process.communicate(timeout=LONG)
    assert ("authorization", "Bearer hush") in headers_of(upstream.heads[0])
    assert (process.returncode, out) == (1, b"")  # {} is not an answer
    assert b"Traceback" not in err
    assert "hush" not in said + err.decode() + record.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "watch needs a command after --, or --listen PORT and a URL"),
        (("http://x/mcp",), "watch needs a command after --, or --listen PORT and a URL"),
        (("--listen", "0", "ftp://x"), "ftp://x: the URL of a server begins with http"),
        (("--listen", "0", "http://x/", "--", "cat"), "not both"),
    ],
)
def test_a_target_that_cannot_be_watched_is_reported(words, said):
    process = launched(*words)
    out, err = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (2, b"")
    assert said in err.decode()

"""What clients such as curl see of the listener: versions of HTTP, bodies, limits, and its end."""

import asyncio
import socket
import threading

import pytest

from accord import Server
from accord.http.server.connection import HttpConnection
from accord.http.server.listener import HttpListener
from accord.http.settings import HttpLimits
from support.http_offer import offer
from support.listened import OPENING, call_body, call_lines, head, listened, post
from support.waiting import LONG, until_sync


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def server(request):
    loop = "auto" if request.param == "uvloop" else "asyncio"
    with listened(offer().asgi(), loop=loop) as found:
        yield found


# -- HTTP


def test_a_client_of_http_1_0_gets_its_answer_and_the_end(server):
    with server.connect() as wire:
        wire.send(post(*call_lines("add"), body=call_body("add", a=1, b=2), version="1.0"))
        answer = wire.answer()
        assert answer.status == 200
        assert answer.headers["connection"] == "close"
        assert wire.rest() == b""


def test_a_client_of_http_1_0_may_keep_its_connection(server):
    with server.connect() as wire:
        for _ in range(2):
            body = call_body("add", a=1, b=2)
            wire.send(post("Connection: keep-alive", *call_lines("add"), body=body, version="1.0"))
            answer = wire.answer()
            assert answer.headers["connection"] == "keep-alive"
            assert b'"3"' in answer.body


def test_a_stream_to_a_client_of_http_1_0_ends_with_the_connection(server):
    with server.connect() as wire:
        lines = ["Connection: keep-alive", *call_lines("hold")]
        body = call_body("hold", token="t", name="old")
        wire.send(post(*lines, body=body, version="1.0"))
        with server.connect() as other:
            until_sync(lambda: b"old begins" in other.call("history").body)
            other.call("free", name="old")
        answer = wire.answer()
        assert "transfer-encoding" not in answer.headers
        assert answer.headers["connection"] == "close"
        assert b'"text":"old"' in answer.body


def test_head_has_the_length_of_the_answer_and_no_body(server):
    with server.connect() as wire:
        wire.send(head(method="HEAD", path="/healthz"))
        answer = wire.answer(is_head=True)
        assert answer.headers["content-length"] == str(len(b'{"status":"ok"}'))
        assert wire.ask().status == 200


def test_options_says_what_is_allowed(server):
    with server.connect() as wire:
        wire.send(head(method="OPTIONS"))
        answer = wire.answer()
        assert answer.status in (200, 204)
        assert "POST" in answer.headers["allow"]
        assert wire.ask().status == 200


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(server):
    with server.connect() as wire:
        wire.send(head("Expect: 100-continue", f"Content-Length: {len(OPENING)}"))
        assert wire.answer().status == 100
        wire.send(OPENING)
        assert wire.answer().status == 200
        assert wire.ask().status == 200


def test_a_body_that_is_too_large_is_not_asked_for(server):
    with server.connect() as wire:
        wire.send(head("Expect: 100-continue", "Content-Length: 99999999"))
        answer = wire.answer()
        assert answer.status == 413
        assert answer.headers["connection"] == "close"
        assert wire.rest() == b""


def test_a_body_in_chunks_is_read(server):
    with server.connect() as wire:
        wire.send(head("Transfer-Encoding: chunked"))
        for place in range(0, len(OPENING), 50):
            part = OPENING[place : place + 50]
            wire.send(b"%x\r\n%b\r\n" % (len(part), part))
        wire.send(b"0\r\n\r\n")
        assert wire.answer().status == 200
        assert wire.ask().status == 200


def test_a_request_byte_by_byte_is_read(server):
    with server.connect() as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post():
            wire.send(bytes([byte]))
        assert wire.answer().status == 200


def test_requests_that_arrive_together_are_answered_in_order(server):
    with server.connect() as wire:
        lines = call_lines("add")
        wire.send(
            b"".join(post(*lines, body=call_body("add", a=number, b=0)) for number in range(5))
        )
        for number in range(5):
            assert f'"text":"{number}"'.encode() in wire.answer().body


def test_a_connection_ends_if_its_client_asks_for_that(server):
    with server.connect() as wire:
        answer = wire.ask("Connection: close")
        assert answer.headers["connection"] == "close"
        assert wire.rest() == b""


# -- limits


def test_a_request_that_takes_too_long_is_refused_however_steadily_it_arrives():
    app = offer().asgi(limits=HttpLimits(request_timeout=0.4, body_timeout=LONG))
    with listened(app) as found, found.connect() as wire:
        wire.send(head("Content-Length: 100000"))
        sending = threading.Event()

        def send():
            while not sending.wait(0.02):
                wire.send(b" " * 40)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        answer = wire.answer()
        sending.set()
        thread.join(LONG)
        assert answer.status == 408
        assert b"(request_timeout)" in answer.body


def test_one_address_may_have_so_many_connections(monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.0.0.1")
    with listened(
        offer().asgi(limits=HttpLimits(connections_per_address=2)), "127.0.0.1:0"
    ) as found:
        with found.connect() as first, found.connect() as second:
            assert first.ask().status == second.ask().status == 200
            with found.connect() as third:
                answer = third.answer()
                assert answer.status == 429
                assert b"(connections_per_address)" in answer.body
                assert third.rest() == b""
            with socket.socket() as another:
                another.bind(("127.0.0.2", 0))
                another.connect(("127.0.0.1", found.port))
                another.sendall(post())
                assert another.recv(12) == b"HTTP/1.1 200"
            assert first.ask().status == 200
        until_sync(lambda: len(found.served.listener) == 0)
        with found.connect() as later:
            assert later.ask().status == 200


def test_a_trusted_proxy_may_have_any_number_of_connections():
    with (
        listened(offer().asgi(limits=HttpLimits(connections_per_address=1))) as found,
        found.connect() as first,
        found.connect() as second,
    ):
        assert first.ask().status == second.ask().status == 200


def test_addresses_of_one_customer_count_together(monkeypatch):
    addresses = ["2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:3::1"]

    class Remote(HttpConnection):
        """A connection from the next address: a test has no IPv6 network of its own."""

        def __init__(self, listener):
            super().__init__(listener)
            self._from = addresses.pop(0)

        @property
        def client(self):
            return self._from, 1

    monkeypatch.setattr(HttpListener, "connection_type", Remote)
    with (
        listened(offer().asgi(limits=HttpLimits(connections_per_address=1))) as found,
        found.connect() as first,
    ):
        assert first.ask().status == 200
        with found.connect() as second, found.connect() as third:
            assert second.answer().status == 429
            assert third.ask().status == 200


# -- the end


def ending(found):
    """Begin to stop a server, and wait until it refuses new connections."""
    found.served.stop()

    def is_closed():
        with socket.socket() as asking:
            return asking.connect_ex(("127.0.0.1", found.port)) != 0

    until_sync(is_closed)


def test_open_connections_may_send_what_a_call_under_way_needs():
    with (
        listened(offer().asgi(grace=LONG)) as found,
        found.connect() as busy,
        found.connect() as other,
    ):
        busy.send(post(*call_lines("wait"), body=call_body("wait", name="x")))
        until_sync(lambda: b"x begins" in other.call("history").body)
        ending(found)
        assert found.thread.is_alive()
        assert other.call("free", name="x").status == 200
        answer = busy.answer()
        assert answer.status == 200
        assert b'"text":"x"' in answer.body
        assert busy.rest() == other.rest() == b""


def test_idle_connections_end_at_once_if_nothing_is_under_way():
    with listened(offer().asgi(grace=LONG)) as found, found.connect() as idle:
        assert idle.ask().status == 200
        found.served.stop()
        assert idle.rest() == b""


def test_later_only_calls_under_way_are_answered_and_their_connection_ends():
    begun, freed = threading.Event(), threading.Event()
    server = Server("patient")

    @server.tool
    async def work() -> str:
        """Work until the test ends it."""
        begun.set()
        while not freed.is_set():
            await asyncio.sleep(0.01)
        return "worked"

    with (
        listened(server.asgi(grace=2.0)) as found,
        found.connect() as idle,
        found.connect() as busy,
    ):
        assert idle.ask().status == 200
        busy.send(post(*call_lines("work"), body=call_body("work")))
        assert begun.wait(LONG)
        found.served.stop()
        assert idle.rest() == b""
        freed.set()
        answer = busy.answer()
        assert b"worked" in answer.body
        assert answer.headers["connection"] == "close"
        assert busy.rest() == b""


def test_a_call_that_does_not_end_is_cut_off_after_the_grace_period():
    with listened(offer().asgi(grace=0.2)) as found, found.connect() as busy:
        busy.send(post(*call_lines("wait"), body=call_body("wait", name="x")))
        with found.connect() as other:
            until_sync(lambda: b"x begins" in other.call("history").body)
        found.served.stop()
        found.thread.join(LONG)
        assert not found.thread.is_alive()
        assert b"HTTP/1.1 200" not in busy.rest()


def test_a_unix_socket_is_gone_once_the_server_has_ended(tmp_path):
    path = tmp_path / "a.sock"
    with listened(offer().asgi(), f"unix:{path}") as found, found.connect() as wire:
        assert wire.call("add", a=1, b=2).status == 200
        session = wire.ask().headers["mcp-session-id"]
        assert wire.ask(f"Mcp-Session-Id: {session}").status in (200, 400)
    assert not path.exists()

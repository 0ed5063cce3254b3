"""Which client a request has behind proxies, as handlers, quotas and guards see it."""

import json

import pytest

from accord import Context, Server
from accord.errors import TransportError
from accord.http.server.proxies import TrustedProxies
from accord.http.server.running import ServedApp
from support.http_offer import offer
from support.listened import listened
from support.stored_apps import in_one_process

VARIABLE = "FORWARDED_ALLOW_IPS"


def reporting(seen):
    """A server that says where a request comes from."""
    server = Server("where")

    @server.tool
    async def where(ctx: Context) -> str:
        """Return the address of the client."""
        return str(ctx.request.peer and ctx.request.peer[0])

    return server.asgi(principal=lambda scope: seen.append(scope["scheme"]))


def peer(wire, *lines):
    answer = wire.call("where", *lines)
    assert answer.status == 200, answer.body
    return answer.json["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("trusted", "forwarded", "found"),
    [
        (None, "203.0.113.7", "203.0.113.7"),
        (None, "203.0.113.7, 127.0.0.1", "203.0.113.7"),
        # What a client wrote itself stands on the left.
        (None, "1.1.1.1, 203.0.113.7", "203.0.113.7"),
        ("127.0.0.1,10.0.0.0/8", "1.1.1.1, 203.0.113.7, 10.1.2.3", "203.0.113.7"),
        ("127.0.0.1,2001:db8::/32", "2001:db9::1, 2001:db8::2", "2001:db9::1"),
        ("127.0.0.1, ::ffff:10.0.0.0/104", "::ffff:203.0.113.7", "::ffff:203.0.113.7"),
        ("127.0.0.1, 10.0.0.1", "203.0.113.7, ::ffff:10.0.0.1", "203.0.113.7"),
        ("*", "203.0.113.7, 10.1.2.3", "203.0.113.7"),
        ("10.0.0.1", "203.0.113.7", "127.0.0.1"),
        ("", "203.0.113.7", "127.0.0.1"),
        (None, "", "127.0.0.1"),
    ],
)
def test_the_client_is_the_first_from_the_right_that_is_not_trusted(
    monkeypatch, trusted, forwarded, found
):
    monkeypatch.delenv(VARIABLE, raising=False)
    if trusted is not None:
        monkeypatch.setenv(VARIABLE, trusted)
    with listened(reporting([])) as server, server.connect() as wire:
        assert peer(wire, f"X-Forwarded-For: {forwarded}") == found


def test_headers_on_two_lines_are_read_as_one(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    lines = ["X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.7"]
    with listened(reporting([])) as server, server.connect() as wire:
        assert peer(wire, *lines) == "203.0.113.7"


@pytest.mark.parametrize(
    ("trusted", "proto", "scheme"),
    [
        (None, "https", "https"),
        (None, "HTTPS", "https"),
        (None, "gopher", "http"),
        ("10.0.0.1", "https", "http"),
    ],
)
def test_the_scheme_is_what_a_trusted_proxy_says(monkeypatch, trusted, proto, scheme):
    monkeypatch.delenv(VARIABLE, raising=False)
    if trusted is not None:
        monkeypatch.setenv(VARIABLE, trusted)
    seen = []
    with listened(reporting(seen)) as server, server.connect() as wire:
        wire.ask(f"X-Forwarded-Proto: {proto}")
    assert set(seen) == {scheme}


def test_a_proxy_on_a_unix_socket_is_trusted(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, "10.0.0.1")
    seen = []
    path = f"unix:{tmp_path}/a.sock"
    with listened(reporting(seen), path) as server, server.connect() as wire:
        assert peer(wire) == "None"
        assert peer(wire, "X-Forwarded-For: 203.0.113.7") == "203.0.113.7"
        wire.ask("X-Forwarded-Proto: https")
    assert seen[-1] == "https"


@in_one_process
def test_sessions_are_counted_for_each_client_behind_a_proxy(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with listened(offer().asgi(sessions_per_caller=1)) as server, server.connect() as wire:
        one, two = "X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 203.0.113.8"
        first = wire.ask(one).headers["mcp-session-id"]
        second = wire.ask(two).headers["mcp-session-id"]
        wire.ask(one)  # its first session, which is idle, makes room

        def status(session, line):
            body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping"}).encode()
            return wire.ask(f"Mcp-Session-Id: {session}", line, body=body).status

        assert status(first, one) == 404
        assert status(second, two) == 200


@pytest.mark.parametrize("value", ["10.0.0.300", "proxy.example", "10.0.0.1/8", "10.0.0.1;::1"])
def test_a_malformed_variable_is_an_error_before_the_server_starts(monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(TransportError, match=f"variable {VARIABLE}: .*expected addresses"):
        ServedApp(offer().asgi(), [])


def test_addresses_are_remembered_within_bounds():
    proxies = TrustedProxies(["10.0.0.0/8"])
    for number in range(5_000):
        assert proxies.trust(f"10.0.{number // 256}.{number % 256}")
        assert not proxies.trust(f"x{number}")
    assert len(proxies._known) <= 1_024

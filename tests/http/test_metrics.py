"""Counts of a server, as Prometheus reads them."""

import re
import socket

import pytest

from accord.auth import Protected, StaticTokens
from support.http_offer import offer
from support.http_server import serving
from support.listened import Wire, head, listened
from support.waiting import until_sync

LINE = re.compile(r'accord_\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? \d+')


def read(wire):
    """Ask for the counts; return them by name and labels."""
    wire.send(head(method="GET", path="/metrics"))
    answer = wire.answer()
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.body.decode()
    assert text.endswith("\n")
    found, described = {}, set()
    for line in text.splitlines():
        if line.startswith("#"):
            described.add(line.split()[2])
            continue
        assert LINE.fullmatch(line), line
        name, _, value = line.rpartition(" ")
        assert name.partition("{")[0] in described
        found[name] = int(value)
    return found


def test_requests_sessions_and_streams_are_counted():
    app = offer().asgi(metrics=True)
    with listened(app) as server, server.connect() as wire, server.connect() as other:
        session = wire.ask().headers["mcp-session-id"]
        wire.send(head(f"Mcp-Session-Id: {session}", method="GET"))
        assert other.call("add", a=1, b=2).status == 200
        assert other.ask("Host: evil.example").status == 403
        other.send(head("Connection: close", method="GET", path="/nowhere"))
        assert other.answer().status == 404
        with server.connect() as third:
            until_sync(lambda: read(third)["accord_streams_open"] == 1)
            found = read(third)
        assert found["accord_connections_total"] == 3
        assert found["accord_sessions_open"] == 1
        assert found["accord_requests_open"] == 2
        assert found['accord_responses_total{method="POST",status="2xx"}'] == 2
        assert found['accord_responses_total{method="POST",status="4xx"}'] == 1
        assert found['accord_responses_total{method="GET",status="4xx"}'] == 1
        assert found["accord_stopping"] == 0


def test_refused_connections_are_counted(monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.0.0.1")
    with listened(offer().asgi(metrics=True, connections_per_address=2)) as server:
        with server.connect() as first, server.connect() as second:
            assert first.ask().status == 200
            assert second.ask().status == 200
            with server.connect() as third:
                assert third.answer().status == 429
            found = read(first)
        assert found['accord_connections_refused_total{setting="connections_per_address"}'] == 1
        assert found['accord_connections_refused_total{setting="connections"}'] == 0
        assert found['accord_responses_total{method="other",status="4xx"}'] == 1


def test_connections_that_have_ended_are_not_open():
    with listened(offer().asgi(metrics=True)) as server, server.connect() as wire:
        for _ in range(3):
            with server.connect() as other:
                assert other.ask().status == 200
        until_sync(lambda: read(wire)["accord_connections_open"] == 1)
        assert read(wire)["accord_connections_total"] == 4


def test_metrics_are_served_only_if_they_are_asked_for():
    with listened(offer().asgi()) as server, server.connect() as wire:
        wire.send(head(method="GET", path="/metrics"))
        assert wire.answer().status == 404


def test_metrics_need_no_token_but_calls_do():
    auth = Protected(StaticTokens({"right": "ann"}), issuer=[])
    app = offer(auth=auth).asgi(metrics=True, access_log=True)
    with listened(app, "127.0.0.1:0") as server, server.connect() as wire:
        host = f"Host: localhost:{server.port}"
        assert wire.ask(host).status == 401
        assert wire.ask(host, "Authorization: Bearer right").status == 200
        found = read(wire)
        assert found['accord_responses_total{method="POST",status="4xx"}'] == 1
        assert found["accord_sessions_open"] == 1


def test_under_another_server_the_app_reports_what_it_knows():
    with serving(offer().asgi(metrics=True)) as port, socket.socket() as made:
        made.connect(("127.0.0.1", port))
        found = read(Wire(made))
        assert found["accord_sessions_open"] == 0
        assert found["accord_requests_open"] == 1
        assert "accord_connections_open" not in found


def test_the_endpoint_cannot_be_at_the_path_of_the_metrics():
    with pytest.raises(ValueError, match="path is '/metrics', which the app uses already"):
        offer().asgi(path="/metrics", metrics=True)
    offer().asgi(path="/metrics")


def test_foreign_methods_share_one_count():
    with listened(offer().asgi(metrics=True)) as server, server.connect() as wire:
        for method in ("PATCH", "PUT", "TRACE"):
            wire.send(head(method=method))
            assert wire.answer().status == 405
        found = read(wire)
        assert found['accord_responses_total{method="other",status="4xx"}'] == 3

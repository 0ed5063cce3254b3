"""Counts of a server, as Prometheus reads them."""

import re
import socket
from contextlib import ExitStack

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from accord.auth import Protected, StaticTokens
from accord.errors import MissingExtra
from accord.http.server.metrics import CountReport, MetricFamily, encode_families, join_reports
from accord.http.settings import HttpLimits
from support.http_offer import offer
from support.http_server import serving
from support.listened import Wire, head, listened
from support.stored_apps import in_one_process
from support.tables import cases
from support.waiting import until_sync

pytestmark = in_one_process

LINE = re.compile(r'accord_\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? \d+(\.\d+)?(e-\d+)?')
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
PROMETHEUS = (
    "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def ask(wire, *lines, path="/metrics"):
    """Ask for the counts, with an Accept header of one's own."""
    text = "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *lines, "", ""])
    wire.send(text.encode())
    return wire.answer()


def read(wire, path="/metrics"):
    """Ask for the counts; return them by name and labels."""
    wire.send(head(method="GET", path=path))
    answer = wire.answer()
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == PLAIN
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
        found[name] = float(value)
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
    with listened(
        offer().asgi(metrics=True, limits=HttpLimits(connections_per_address=2))
    ) as server:
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


# -- OpenMetrics


def test_openmetrics_is_served_to_readers_that_take_it():
    with listened(offer().asgi(metrics=True)) as server, server.connect() as wire:
        answer = ask(wire, PROMETHEUS)
        kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["vary"] == "accept"
        lines = answer.body.decode().splitlines()
    assert lines[-1] == "# EOF"
    assert "# TYPE accord_connections counter" in lines
    assert "accord_connections_total 1.0" in lines
    described = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    for line in lines:
        if not line.startswith("#"):
            name = re.split(r"[{ ]", line)[0]
            assert name.removesuffix("_total") in described, line
    assert list(text_string_to_metric_families("\n".join(lines) + "\n"))


@cases(
    "accept",
    [
        "text/plain",
        "*/*",
        "application/json",
    ],
)
def test_the_older_text_is_served_to_other_readers(accept):
    with listened(offer().asgi(metrics=True)) as server, server.connect() as wire:
        answer = ask(wire, f"Accept: {accept}")
        assert answer.headers["content-type"] == PLAIN
        assert b"# TYPE accord_connections_total counter" in answer.body
        assert b"EOF" not in answer.body


def test_a_reader_whose_version_is_not_a_number_is_answered():
    with listened(offer().asgi(metrics=True)) as server, server.connect() as wire:
        answer = ask(wire, "Accept: application/openmetrics-text;version=many")
    assert answer.status == 200
    assert b"# HELP accord_connections" in answer.body


def test_labels_and_descriptions_are_escaped():
    family = MetricFamily("x", "gauge", 'a "b" \\ \n', [({"name": 'a "b" \\ \n'}, 1)])
    text, _ = encode_families([family], "")
    ((metric,),) = [list(text_string_to_metric_families(text.decode() + "# EOF\n"))]
    assert metric.samples[0].labels == {"name": 'a "b" \\ \n'}


def test_without_prometheus_client_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("accord.http.server.metrics.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"metrics=True, .* needs the extra 'prometheus'"):
        offer().asgi(metrics=True)
    offer().asgi()


def test_workers_that_disagree_about_a_metric_are_not_mixed():
    counter = CountReport(1, "w1", "here", [MetricFamily("x", "counter", "X.", [({}, 1)])])
    gauge = CountReport(1, "w2", "here", [MetricFamily("x", "gauge", "X.", [({}, 2)])])
    (joined,) = join_reports([counter, gauge])
    assert joined == MetricFamily("x", "counter", "X.", [({"worker": "w1"}, 1)])


# -- with a store


def test_a_worker_shows_the_counts_of_all_workers(tmp_path):
    store = f"sqlite:///{tmp_path}/store.db"
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(listened(offer().asgi(metrics=True, store=store))) for _ in range(2)
        )
        with first.connect() as wire, second.connect() as other:
            assert other.call("add", a=1, b=2).status == 200
            assert read(other)  # which writes them down for the others
            found = read(wire)
            ids = {re.search(r'worker="(\w+)"', name)[1] for name in found}
            assert len(ids) == 2
            answered = [name for name in found if 'accord_responses_total{method="POST"' in name]
            assert [found[name] for name in answered] == [1]
            operations = [name for name in found if "store_operations_total" in name]
            assert len(operations) == 2
            assert all(found[name] > 0 for name in operations)
            own = read(wire, "/metrics?workers=own")
            assert len({re.search(r'worker="(\w+)"', name)[1] for name in own}) == 1
            assert ask(wire, path="/metrics?workers=several").status == 400
            assert read(other, "/metrics?workers=all")[answered[0]] == 1

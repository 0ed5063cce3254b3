import pytest

from accord.http.rules import gate
from accord.http.rules.gate import Gate, HttpGuard, HttpRefusal, RequestHead, guard_for
from support.tables import cases

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


def head(method="POST", **headers):
    return RequestHead(method, {name.replace("_", "-"): value for name, value in headers.items()})


# -- from where


@pytest.mark.requirement("http.origin.validated")
@cases("host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]", "[::1]:9"])
def test_loopback_hosts_are_served(host):
    assert HttpGuard().refuse(head(host=host)) is None


@pytest.mark.requirement("http.origin.validated")
@cases(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "localhost:80@evil.example",
        "evil@localhost",
        "localhost:port",
        "localhost:99999",
        "localhost/x",
        "localhost?",
        "[",
        "[::1",
        "127.0.0.1.evil.example",
        "127.1",
        "localhost,localhost",
    ],
)
def test_other_hosts_are_refused_by_name(host):
    refusal = HttpGuard().refuse(head(host=host))
    assert refusal is not None
    assert (refusal.status, repr(host) in refusal.message) == (403, True)
    assert "allowed_hosts" in refusal.message


@cases("guard", [HttpGuard(), guard_for(hosts=["*"])], ids=["loopback", "all"])
@cases("method", ["POST", "GET"])
def test_a_request_without_a_host_or_with_two_is_a_bad_one(guard, method):
    for headers in ({}, {"host": "localhost, localhost"}, {"host": "localhost, evil.example"}):
        refusal = guard.refuse(head(method, **headers))
        assert refusal is not None
        assert (refusal.status, "Host" in refusal.message) == (400, True)


@pytest.mark.parametrize("version", ["1.0", "2"])
def test_other_versions_of_http_need_no_host(version):
    assert HttpGuard().refuse(RequestHead("POST", {}, version)) is None
    twice = HttpGuard().refuse(RequestHead("POST", {"host": "localhost, localhost"}, version))
    assert twice is not None
    assert twice.status == 400


@pytest.mark.requirement("http.origin.validated")
@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]"])
def test_pages_of_the_same_machine_are_served(origin):
    assert HttpGuard().refuse(head(host="localhost", origin=origin)) is None


@pytest.mark.requirement("http.origin.validated")
@cases(
    "origin",
    ["null", "", "https://evil.example", "file://localhost", "http://[", "localhost", "http:"],
)
def test_other_origins_are_refused_by_name(origin):
    refusal = HttpGuard().refuse(head(host="localhost", origin=origin))
    assert refusal is not None
    assert (refusal.status, repr(origin) in refusal.message) == (403, True)
    assert "allowed_origins" in refusal.message


def test_long_values_are_cut_in_the_refusal():
    refusal = HttpGuard().refuse(head(host="x" * 1_000))
    assert refusal is not None
    assert len(refusal.message) < 300


def test_a_request_without_an_origin_comes_from_no_browser_and_is_served():
    assert HttpGuard().refuse(head(host="localhost")) is None


def test_an_allowed_host_is_served_in_any_case():
    guard = guard_for(
        "https://Tools.Example:8443/mcp", ["Proxy", "other:1"], ["https://App.Example/"]
    )
    for host in ("tools.example", "TOOLS.example:8443", "proxy:77", "other:1", "OTHER:1"):
        assert guard.refuse(head(host=host)) is None
    assert guard.refuse(head(host="other:2")) is not None
    for origin in ("https://tools.example:8443", "https://APP.example"):
        assert guard.refuse(head(host="proxy", origin=origin)) is None
    for origin in ("https://tools.example", "http://app.example"):
        assert guard.refuse(head(host="proxy", origin=origin)) is not None


@cases(
    ("allowed", "host"),
    [
        ("tools.example:*", "tools.example:77"),
        ("fe80::1", "[fe80::1]:8000"),
        ("[fe80::1]", "[fe80::1]"),
        ("[fe80::1]", "[fe80::1]:8000"),
        ("[fe80::1]:80", "[fe80::1]:80"),
    ],
)
def test_a_host_may_be_written_in_several_ways(allowed, host):
    assert guard_for(None, [allowed]).refuse(head(host=host)) is None


@cases(
    ("allowed", "origin"),
    [
        ("https://tools.example:443/", "https://tools.example"),
        ("http://tools.example:80", "http://tools.example"),
        ("http://tools.example:443", "http://tools.example:443"),
        ("vscode-webview://abc", "vscode-webview://abc"),
        ("null", "null"),
    ],
)
def test_an_origin_is_what_browsers_send(allowed, origin):
    assert guard_for(None, (), [allowed]).refuse(head(host="localhost", origin=origin)) is None


def test_a_public_url_may_name_the_usual_port():
    guard = guard_for("https://me@tools.example:443/mcp")
    assert guard.refuse(head(host="tools.example", origin="https://tools.example")) is None


@cases(
    ("hosts", "origins", "named"),
    [
        (["https://a.example"], [], "allowed_hosts has 'https://a.example'"),
        (["*.a.example"], [], r"allowed_hosts has '\*.a.example'"),
        (["a.example/mcp"], [], "allowed_hosts"),
        (["a.example:port"], [], "allowed_hosts"),
        ([""], [], "allowed_hosts has ''"),
        ([], ["a.example"], "allowed_origins has 'a.example'"),
        ([], ["https://*.a.example"], "allowed_origins"),
        ([], ["https://a.example/app"], "allowed_origins"),
        ([], ["://a.example"], "allowed_origins"),
    ],
)
def test_a_host_that_would_never_match_is_refused(hosts, origins, named):
    with pytest.raises(ValueError, match=named):
        guard_for(None, hosts, origins)


def test_everything_can_be_allowed():
    guard = guard_for(None, ["*"], ["*"])
    assert guard.refuse(head(host="[", origin="null")) is None


@cases("url", ["tools.example", "ftp://tools.example", "https://", ""])
def test_a_public_url_must_be_one(url):
    with pytest.raises(ValueError, match="public_url"):
        guard_for(url)


# -- what


@cases(
    ("content_type", "status"),
    [
        ("application/json", None),
        ("application/json; charset=utf8", None),
        ("application/json; charset=utf-16", 415),
        ("application/json-rpc", 415),
        ("text/plain", 415),
    ],
)
def test_bodies_are_json(content_type, status):
    refusal = gate.refuse_content(head(content_type=content_type))
    assert (refusal and refusal.status) == status


def test_a_missing_content_type_is_named():
    refusal = gate.refuse_content(head())
    assert refusal is not None
    assert "missing" in refusal.message


@cases("coding", ["identity", "Identity", "", "identity, identity"])
def test_bodies_may_say_that_they_are_not_compressed(coding):
    given = head(content_type="application/json", content_encoding=coding)
    assert gate.refuse_content(given) is None


@pytest.mark.parametrize("coding", ["gzip", "BR", "identity, deflate"])
def test_bodies_are_not_compressed(coding):
    refusal = gate.refuse_content(head(content_type="application/json", content_encoding=coding))
    assert refusal is not None
    assert refusal.status == 415
    assert f"Content-Encoding is {coding!r}" in refusal.message
    assert refusal.headers == (("accept-encoding", "identity"),)


@cases(
    ("accept", "answers", "form"),
    [
        (None, "auto", "auto"),
        ("application/json, text/event-stream", "auto", "auto"),
        ("application/json", "auto", "json"),
        ("text/event-stream", "auto", "stream"),
        ("text/html", "auto", None),
        ("*/*", "json", "json"),
        ("*/*", "stream", "stream"),
        ("text/event-stream", "json", None),
        ("application/json", "stream", None),
    ],
)
def test_the_form_of_an_answer_is_one_that_both_sides_know(accept, answers, form):
    assert gate.choose_form(accept, answers) == form


def test_a_get_wants_an_event_stream():
    assert gate.refuse_get(head("GET", accept="text/*")) is None
    refusal = gate.refuse_get(head("GET", accept="application/json"))
    assert refusal is not None
    assert refusal.status == 406


@pytest.mark.requirement("http.version-header.default-2025-03-26", "http.version-header.bad-400")
def test_the_version_header_names_a_revision_with_a_handshake():
    assert gate.revision_of(head(), REVISIONS) is gate.UNNAMED
    assert gate.UNNAMED.id == "2025-03-26"
    found = gate.revision_of(head(mcp_protocol_version="2025-06-18"), REVISIONS)
    assert not isinstance(found, HttpRefusal)
    assert found.id == "2025-06-18"
    for named, supported in (
        ("2026-07-28", REVISIONS),
        ("2025-06-18", ("2025-03-26",)),
        ("x" * 99, REVISIONS),
    ):
        refusal = gate.revision_of(head(mcp_protocol_version=named), supported)
        assert isinstance(refusal, HttpRefusal)
        assert refusal.status == 400
        assert "2025-03-26" in refusal.message


def test_the_version_header_may_name_a_revision_without_sessions():
    both, older = REVISIONS, REVISIONS[:-1]
    found = gate.stateless_revision(head(mcp_protocol_version="2026-07-28"), both)
    assert found is not None
    assert not found.handshake
    for named, supported in (
        (None, both),
        ("2025-06-18", both),
        ("2026-07-28", older),
        ("x", both),
    ):
        given = head() if named is None else head(mcp_protocol_version=named)
        assert gate.stateless_revision(given, supported) is None


# -- all of it at once


def make_gate(answers="auto"):
    return Gate(HttpGuard(), answers, REVISIONS)


def test_a_gate_says_everything_about_a_head():
    verdict = make_gate().judge(
        "POST",
        {b"host": b"localhost", b"content-type": b"application/json", b"accept": b"*/*"},
    )
    assert (verdict.foreign, verdict.refusal, verdict.form) == (None, None, "auto")
    assert verdict.revision is gate.UNNAMED


@cases(
    ("method", "headers", "status"),
    [
        ("POST", {b"content-type": b"text/plain", b"accept": b"text/html"}, 415),
        ("POST", {b"content-type": b"application/json", b"accept": b"text/html"}, 406),
        ("POST", {b"content-type": b"application/json", b"content-encoding": b"gzip"}, 415),
        ("GET", {b"accept": b"text/html"}, 406),
        ("GET", {}, None),
        ("DELETE", {b"accept": b"text/html"}, None),
    ],
)
def test_a_gate_refuses_what_does_not_fit(method, headers, status):
    verdict = make_gate().judge(method, headers)
    assert (verdict.refusal and verdict.refusal.status) == status


@pytest.mark.parametrize(
    ("answers", "accept", "needed"),
    [
        ("auto", b"text/html", "application/json and text/event-stream"),
        ("json", b"text/event-stream", "application/json: this server"),
        ("stream", b"application/json", "text/event-stream: this server"),
    ],
)
def test_a_gate_says_what_must_be_accepted(answers, accept, needed):
    verdict = make_gate(answers).judge(
        "POST", {b"content-type": b"application/json", b"accept": accept}
    )
    assert verdict.refusal is not None
    assert needed in verdict.refusal.message


def test_a_gate_remembers_heads_but_neither_long_nor_all_of_them():
    one = make_gate()
    headers = {b"host": b"localhost", b"accept": b"text/event-stream"}
    first = one.judge("GET", headers)
    assert one.judge("GET", headers) is first
    long = {**headers, b"accept": b"text/event-stream," + b"x" * 2_000}
    assert one.judge("GET", long) is not one.judge("GET", long)
    assert one.judge("GET", long) == first
    for number in range(1_000):
        one.judge("GET", {b"host": b"host%d" % number})
    assert len(one._known) <= 512


def test_a_gate_remembers_more_than_one_head():
    one = make_gate()
    first = one.judge("GET", {b"host": b"localhost"})
    one.judge("GET", {b"host": b"localhost:1"})
    assert one.judge("GET", {b"host": b"localhost"}) is first


def test_a_gate_answers_in_the_form_that_is_accepted():
    headers = {b"content-type": b"application/json", b"accept": b"application/json"}
    assert make_gate().judge("POST", headers).form == "json"


def test_a_gate_survives_any_bytes():
    verdict = make_gate().judge("POST", {b"host": b"\xff\xfe", b"origin": b"\x80"})
    assert verdict.foreign is not None

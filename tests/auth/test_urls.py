"""Which URLs are taken."""

import pytest

from accord.auth.urls import (
    canonical_http_url,
    is_loopback_host,
    is_loopback_url,
    is_same_redirect,
    is_same_resource,
    redirect_fault,
    with_query,
)
from support.tables import cases


@cases(
    "uri",
    [
        "https://app.example/callback",
        "https://app.example:8443/callback?tenant=1",
        "https://app.example",
        "http://127.0.0.1/callback",
        "http://127.0.0.1:51004/callback",
        "http://localhost:3000",
        "http://[::1]:3000/callback",
    ],
)
def test_https_and_loopback_can_be_registered(uri):
    assert redirect_fault(uri) is None


@pytest.mark.requirement("auth.https.endpoints")
@cases(
    "uri",
    [
        "http://app.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://localhost.evil.example/callback",
        "http://localhost@evil.example/callback",
        "http://127.0.0.1:3000@evil.example/",
        "http://127.1/callback",
        "http://2130706433/callback",
        "http://0.0.0.0/callback",
        "https://app.example/callback#fragment",
        "https://app.example/callback#",
        "https://user:word@app.example/callback",
        "https://user@app.example/callback",
        "https://:word@app.example/callback",
        "https://app.example/a/../b",
        "https://app.example\\@evil.example/",
        "https://app.example/ callback",
        "https://app.example/\ncallback",
        "https://app.exämple/callback",
        "https:///callback",
        "https://app.example:0/callback",
        "https://%65vil.com/callback",
        "https://app.example%2f@evil.example/callback",
        "https://app.example%00.evil.example/callback",
        "https://app.example,evil.example/callback",
        "https://127.1/callback",
        "https://2130706433/callback",
        "https://0x7f.1/callback",
        "https://app.example:99999/callback",
        "javascript:alert(1)",
        "data:text/html,hello",
        "file:///etc/passwd",
        "cursor://callback",
        "//app.example/callback",
        "/callback",
        "",
        "https://app.example/" + "a" * 2000,
    ],
    ids=lambda uri: ascii(uri[:50]),
)
def test_other_redirect_uris_cannot_be_registered(uri):
    assert redirect_fault(uri) is not None


@pytest.mark.requirement("auth.redirect.exact-match")
@cases(
    ("registered", "asked", "same"),
    [
        ("https://a.example/cb", "https://a.example/cb", True),
        ("https://a.example/cb", "https://a.example/cb/", False),
        ("https://a.example/cb", "https://a.example/cb?x=1", False),
        ("https://a.example/cb", "https://a.example/cb/../evil", False),
        ("https://a.example/cb", "https://a.example/CB", False),
        ("https://a.example/cb", "https://A.example/cb", False),
        ("https://a.example/cb", "https://a.example:443/cb", False),
        ("https://a.example/cb", "https://a.example:8443/cb", False),
        ("https://a.example/cb", "https://a.example/cb%2f", False),
        ("https://a.example/cb", "https://a.example.evil.example/cb", False),
        ("https://a.example/cb", "http://a.example/cb", False),
        ("https://a.example/*", "https://a.example/evil", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:50123/cb", True),
        ("http://127.0.0.1:3000/cb", "http://127.0.0.1:50123/cb", True),
        ("http://[::1]/cb", "http://[::1]:50123/cb", True),
        ("http://localhost:1/cb", "http://localhost/cb", True),
        ("http://127.0.0.1:3000/cb", "http://localhost:3000/cb", False),
        ("http://127.0.0.1:3000/cb", "http://127.0.0.1:3000/other", False),
        ("http://127.0.0.1:3000/cb", "https://127.0.0.1:3000/cb", False),
        ("http://127.0.0.1:3000/cb", "http://127.0.0.1:3000@evil.example/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:3000/cb#x", False),
        ("https://a.example/cb", "http://127.0.0.1/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:0/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:99999/cb", False),
    ],
)
def test_redirect_uris_are_the_same_character_by_character_but_for_loopback_ports(
    registered, asked, same
):
    assert is_same_redirect(registered, asked) is same


@cases(
    ("url", "form"),
    [
        ("HTTPS://A.Example/mcp/", "https://a.example/mcp"),
        ("https://a.example:443/mcp", "https://a.example/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("https://a.example", "https://a.example"),
        ("https://a.example/mcp#x", None),
        ("ftp://a.example/mcp", None),
        ("https://me@a.example/mcp", None),
        ("https://a.example:x/mcp", None),
        ("https:///mcp", None),
        ("mcp", None),
    ],
)
def test_a_resource_has_one_form(url, form):
    assert canonical_http_url(url) == form


@cases(
    ("one", "other", "same"),
    [
        ("http://localhost:8000/mcp", "http://127.0.0.1:8000/mcp/", True),
        ("http://localhost:8000/mcp", "http://127.0.0.1:8001/mcp", False),
        ("http://localhost:8000/mcp", "http://127.0.0.1:8000/other", False),
        ("http://localhost:8000/mcp", "http://127.0.0.1:8000/mcp?x=1", False),
        ("https://a.example/mcp", "https://b.example/mcp", False),
        ("https://a.example/mcp", "nothing", False),
        ("nothing", "https://a.example/mcp", False),
        ("nothing", "nothing", False),
    ],
)
def test_loopback_is_one_host_under_all_its_names(one, other, same):
    assert is_same_resource(one, other) is same


@cases(
    ("host", "local"),
    [
        ("localhost:8000", True),
        ("127.0.0.1", True),
        ("[::1]:8000", True),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:8000", False),
        ("[::1", False),
        ("", False),
        (None, False),
    ],
)
def test_loopback_is_known_by_its_names_alone(host, local):
    assert is_loopback_host(host) is local


@cases(
    ("url", "local"),
    [
        ("http://127.0.0.1:8000/cb", True),
        ("https://localhost/cb", True),
        ("https://localhost.evil.example/cb", False),
        ("/cb", False),
        ("http://[::1", False),
    ],
)
def test_a_url_of_loopback_is_known_by_its_host_alone(url, local):
    assert is_loopback_url(url) is local


def test_an_answer_is_added_to_the_query_that_is_there():
    assert with_query("https://a.example/cb?t=1", code="a b", state=None) == (
        "https://a.example/cb?t=1&code=a+b"
    )
    assert with_query("https://a.example/cb", code="c") == "https://a.example/cb?code=c"

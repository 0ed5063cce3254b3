"""The gate as a table: which requests are let in, and with which status others are refused."""

from itertools import product

import pytest

from accord_tools.inspector.web.gate import GateRequest, examine, loopback_address, public_address
from support.tables import cases

KEY = "k" * 43
HOST = "127.0.0.1:4711"
FILES = ("/", "/index.html", "/app.js")
JSON = ("content-type", "application/json")
HOME = loopback_address(4711)


def status(method, path, *headers, host=HOST, key=None, address=HOME):
    given = [*headers]
    given += [("host", host)] if host is not None else []
    given += [("x-accord-key", key)] if key is not None else []
    encoded = [(name.encode(), value.encode()) for name, value in given]
    refusal = examine(GateRequest(method, path, encoded), address, KEY, FILES)
    return 200 if refusal is None else refusal.status


@cases(
    ("method", "path", "key", "expected"),
    [
        ("GET", "/", None, 200),
        ("HEAD", "/app.js", None, 200),
        ("GET", "/feed", None, 401),
        ("GET", "/feed", "wrong", 401),
        ("GET", "/feed", KEY, 200),
        ("HEAD", "/feed", KEY, 405),
        ("POST", "/feed", KEY, 405),
        ("POST", "/api/calls.tool", None, 401),
        ("POST", "/api/calls.tool", "", 401),
        ("POST", "/api/calls.tool", KEY[:-1], 401),
        ("POST", "/api/calls.tool", KEY, 200),
        ("GET", "/api/calls.tool", KEY, 405),
        ("PUT", "/api/calls.tool", KEY, 405),
        ("POST", "/", KEY, 405),
        ("OPTIONS", "/", None, 405),
        ("OPTIONS", "/api/calls.tool", KEY, 405),
        ("CONNECT", "/", KEY, 405),
        ("TRACE", "/", KEY, 405),
        # Unknown paths need the key, too: answers do not tell which paths exist.
        ("GET", "/no-such-file", None, 401),
        ("GET", "/../index.html", None, 401),
        ("GET", "/feed/", None, 401),
        ("GET", "//", None, 401),
    ],
)
def test_all_but_the_files_of_the_page_needs_the_key(method, path, key, expected):
    assert status(method, path, JSON, key=key) == expected


@cases(
    "host",
    [
        "127.0.0.1:4711",
        "localhost:4711",
        "LOCALHOST:4711",
        "[::1]:4711",
    ],
)
def test_the_names_of_loopback_with_the_right_port_are_let_in(host):
    origin = f"http://{host.lower()}"
    assert status("POST", "/api/x", JSON, ("origin", origin), host=host, key=KEY) == 200


@cases(
    "host",
    [
        None,
        "",
        "127.0.0.1",
        "127.0.0.1:4712",
        "localhost",
        "0.0.0.0:4711",
        "127.1:4711",
        "127.0.0.2:4711",
        "2130706433:4711",
        "evil.example:4711",
        "127.0.0.1:4711.evil.example",
        "127.0.0.1:4711@evil.example",
        "a.localhost:4711",
        "localhost.:4711",
        "127.0.0.1.nip.io:4711",
        "127.0.0.1:04711",
        " 127.0.0.1:4711",
        "[::ffff:127.0.0.1]:4711",
    ],
)
@cases(("method", "path"), [("GET", "/"), ("POST", "/api/x")])
def test_any_other_host_is_refused_even_with_the_key(host, method, path):
    assert status(method, path, JSON, host=host, key=KEY) == 403


def test_two_hosts_are_refused():
    assert status("GET", "/", ("host", HOST)) == 403


@cases(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:4712",
        "http://localhost:4711",
        "http://localhost:3000",
        "https://127.0.0.1:4711",
        "http://127.0.0.1:4711/",
        "http://127.0.0.1:4711.evil.example",
        "file://",
        "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
    ],
)
@cases(("method", "path"), [("GET", "/"), ("GET", "/feed"), ("POST", "/api/x")])
def test_pages_of_other_origins_are_refused_even_with_the_key(origin, method, path):
    assert status(method, path, JSON, ("origin", origin), key=KEY) == 403


def test_two_origins_are_refused():
    own = ("origin", f"http://{HOST}")
    assert status("POST", "/api/x", JSON, own, key=KEY) == 200
    assert status("POST", "/api/x", JSON, own, own, key=KEY) == 403


@cases("site", ["same-origin", "same-site", "cross-site", "none", "", "x"])
def test_only_the_page_itself_is_opened_from_outside(site):
    header = ("sec-fetch-site", site)
    own = site == "same-origin"
    assert status("GET", "/", header) == (200 if own or site == "none" else 403)
    assert status("GET", "/app.js", header) == (200 if own else 403)
    assert status("GET", "/feed", header, key=KEY) == (200 if own else 403)
    assert status("POST", "/api/x", JSON, header, key=KEY) == (200 if own else 403)


@cases(
    ("types", "expected"),
    [
        (["application/json"], 200),
        (["Application/JSON; charset=utf-8"], 200),
        ([], 415),
        (["text/plain"], 415),
        (["application/x-www-form-urlencoded"], 415),
        (["multipart/form-data"], 415),
        (["text/plain; application/json"], 415),
        (["application/json", "text/plain"], 415),
    ],
)
def test_an_action_is_json(types, expected):
    headers = [("content-type", each) for each in types]
    assert status("POST", "/api/x", *headers, key=KEY) == expected


def test_two_keys_are_refused():
    given = ("x-accord-key", KEY)
    assert status("POST", "/api/x", JSON, given, key=KEY) == 401
    assert status("POST", "/api/x", JSON, given, key="wrong") == 401


def test_no_combination_without_the_key_gets_further_than_the_files():
    methods = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
    paths = (*FILES, "/feed", "/api/", "/api/app.state", "/api/x", "/other")
    hosts = (HOST, "localhost:4711", "evil.example")
    origins = (None, f"http://{HOST}", "null", "http://evil.example")
    sites = (None, "same-origin", "none", "cross-site")
    for method, path, host, origin, site in product(methods, paths, hosts, origins, sites):
        headers = [JSON]
        headers += [("origin", origin)] if origin is not None else []
        headers += [("sec-fetch-site", site)] if site is not None else []
        found = status(method, path, *headers, host=host)
        is_file = method in ("GET", "HEAD") and path in FILES
        assert found in ((200, 403) if is_file else (401, 403, 405)), (method, path, headers)


@pytest.mark.parametrize(
    ("url", "hosts", "origin"),
    [
        ("https://tools.example.com", ["tools.example.com"], "https://tools.example.com"),
        (
            "https://tools.example.com:443/",
            ["tools.example.com", "tools.example.com:443"],
            "https://tools.example.com",
        ),
        ("http://desk:8000", ["desk:8000"], "http://desk:8000"),
    ],
)
def test_a_public_page_is_reached_by_its_public_name_alone(url, hosts, origin):
    address = public_address(url)
    for host in hosts:
        own = ("origin", origin)
        assert status("POST", "/api/x", JSON, own, host=host, key=KEY, address=address) == 200
    for host in ("127.0.0.1:8000", "localhost:8000", "evil.example"):
        assert status("GET", "/", host=host, address=address) == 403


def test_port_80_may_be_left_out():
    address = loopback_address(80)
    assert status("GET", "/", host="127.0.0.1", address=address) == 200
    assert status("GET", "/", host="127.0.0.1:80", address=address) == 200
    assert (
        status("GET", "/", ("origin", "http://localhost"), host="localhost", address=address) == 200
    )

import pytest

from accord.http.rules.responses import (
    bearer_challenge,
    endpoint_url,
    excerpt,
    explain,
    one_line,
    parse_challenges,
    parse_response,
    parse_retry_after,
    quote_text,
    quote_url,
    redirect_url,
)
from support.tables import cases


@cases(
    "body",
    [
        b"",
        b"hello",
        b"[]",
        b"{}",
        b"\xff",
        b'{"method": "ping", "result": 1}',
        b'{"id": 1, "error": "text"}',
        b"[" * 10_000,
        b'{"more": ' + b"[" * 10_000,
    ],
)
def test_a_body_that_is_not_a_response_gives_nothing(body):
    assert parse_response(body) is None


def test_a_response_is_found_with_or_without_an_id():
    found = parse_response(b'{"jsonrpc": "2.0", "id": "a", "result": {}}')
    assert found is not None
    assert found.id == "a"
    refused = parse_response(b'{"id": null, "error": {"code": -32600, "message": "no"}}')
    assert refused is not None
    assert refused.error.message == "no"


@cases(
    ("body", "text"),
    [
        (b"", ""),
        (b"plain\n text\x00\x1b[31m", "plain text [31m"),
        (b"<html><head><title>A\n title</title></head><p>x", "A title"),
        (b"<html><head><title> </title></head><body><p>Some <b>text</b>", "Some text"),
        (b"<!-- no --><script>no</script>yes", "yes"),
        (b"a < b", "a < b"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"y" * 500, "y" * 117 + "..."),
        (b"y" * 120, "y" * 120),
        (b"y" * 201 + b"<title>far away</title>", "y" * 117 + "..."),
    ],
)
def test_an_excerpt_is_one_line_that_people_can_read(body, text):
    assert excerpt(body) == text


@cases(
    ("status", "kind", "body", "words"),
    [
        (401, "text/plain", b"no", "HTTP 401: no (it wants authorization"),
        (404, "", b"", "HTTP 404 (nothing is served at this path"),
        (499, "", b"x", "HTTP 499: x"),
        (300, "", b"", "HTTP 300 (the server redirects elsewhere"),
        (307, "", b"", "HTTP 307 (the server redirects elsewhere"),
        (204, "", b"", "HTTP 204 (no answer to the request)"),
        (200, "text/html", b"<p>hi", "HTTP 200: hi (the body is text/html, expected JSON"),
        (200, "application/json", b"{}", "HTTP 200: {} (no answer to the request)"),
        (
            200,
            "application/json",
            b"\xef\xbb\xbf{}",
            "HTTP 200: {} (a byte order mark stands before",
        ),
        (
            400,
            "application/json",
            b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "bad"}}',
            "HTTP 400: bad (the server did not accept",
        ),
        (400, "", b'{"result": 1}', 'HTTP 400: {"result": 1} (the server did not accept'),
    ],
)
def test_an_unusable_answer_is_explained(status, kind, body, words):
    assert explain(status, kind, body).startswith(words)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (405, "HTTP 405 (this path takes no POST; is it the endpoint of an MCP server?)"),
        (401, "HTTP 401 (it wants authorization)"),
        (499, "HTTP 499"),
    ],
)
def test_a_hint_is_given_where_there_is_one_for_the_status(status, text):
    assert explain(status, "", b"") == text


@pytest.mark.parametrize(
    ("status", "retry_after", "words"),
    [
        (429, "3600", "HTTP 429: x (too many requests; it asks to wait 3600 s)"),
        (500, "2", "HTTP 500: x (it asks to wait 2 s)"),
        (429, "Fri, 31 Dec 1999 23:59:59 GMT", "HTTP 429: x (too many requests)"),
    ],
)
def test_the_time_to_wait_is_reported(status, retry_after, words):
    assert explain(status, "text/plain", b"x", retry_after=retry_after) == words


BASE = "https://example.com/mcp/sse"


@cases(
    ("named", "url"),
    [
        ("/messages?id=1", "https://example.com/messages?id=1"),
        ("messages", "https://example.com/mcp/messages"),
        ("?id=1", "https://example.com/mcp/sse?id=1"),
        (" /messages \n", "https://example.com/messages"),
        ("https://example.com:443/x", "https://example.com:443/x"),
        ("http://example.com/x", None),
        ("https://example.com:8443/x", None),
        ("https://example.com.evil.org/x", None),
        ("//evil.org/x", None),
        ("https://user@evil.org/x", None),
        ("file:///etc/passwd", None),
        ("https://[::1/x", None),
        ("https://example.com:port/x", None),
    ],
)
@pytest.mark.requirement("sse.connect.endpoint-event")
def test_an_endpoint_is_resolved_within_its_origin(named, url):
    assert endpoint_url(BASE, named) == url


@cases(
    ("base", "location", "url"),
    [
        ("https://a.org/mcp", "/mcp/", "https://a.org/mcp/"),
        ("http://a.org/mcp", "https://a.org/mcp", "https://a.org/mcp"),
        ("http://me:x@a.org/mcp", "https://a.org/y", "https://me:x@a.org/y"),
        ("http://a.org:80/mcp", "https://a.org:443/y", "https://a.org:443/y"),
        ("http://a.org/mcp", "https://a.org:8443/y", None),
        ("http://a.org:8080/mcp", "https://a.org/y", None),
        ("http://a.org:8080/mcp", "https://a.org:8080/y", None),
        ("http://me:x@a.org/mcp", "http://you@a.org/y", "http://you@a.org/y"),
        ("https://a.org/mcp", "http://a.org/mcp", None),
        ("https://a.org/mcp", "https://b.org/mcp", None),
        ("http://a.org/mcp", "https://b.org/mcp", None),
        ("https://a.org/mcp", None, None),
        ("https://a.org/mcp", "https://[::1", None),
    ],
)
def test_a_redirect_leads_nowhere_but_the_same_host(base, location, url):
    assert redirect_url(base, location) == url


@cases(
    ("header", "seconds"),
    [
        (None, None),
        ("3", 3.0),
        (" 0 ", 0.0),
        (" " * 9 + "5", 5.0),
        ("-1", None),
        ("1.5", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("99999999999", None),
        ("²", None),
        ("٣", None),
    ],
)
def test_a_time_to_wait_is_a_number_of_seconds(header, seconds):
    assert parse_retry_after(header) == seconds


def test_a_text_is_one_line_of_characters():
    assert one_line(" a\tb\r\n\x1b[2Jc\u202e d ") == "a b [2Jc d"


def test_a_text_that_is_quoted_is_not_long():
    assert quote_text("x" * 500) == "x" * 200
    assert quote_text("\n".join("ab")) == "a b"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@h.example/x?token=1#f", "https://h.example/x"),
        ("http://[::1]:8000/\x1b[2J", "http://[::1]:8000/ [2J"),
        ("https://[bad", "a malformed URL"),
    ],
)
def test_a_url_is_shown_without_queries_and_names(url, shown):
    assert quote_url(url) == shown


def test_a_url_is_shown_as_seen_from_another():
    assert quote_url("../y?token=1", "https://u:p@h.example/x/z") == "https://h.example/y"
    assert quote_url("https://[bad", "https://h.example") == "a malformed URL"


@pytest.mark.requirement("auth.challenge.client-parses")
@cases(
    ("value", "expected"),
    [
        ("Bearer", [("bearer", {})]),
        (
            'Bearer realm="a, b", resource_metadata="https://h.example/x", scope="a b"',
            [
                (
                    "bearer",
                    {"realm": "a, b", "resource_metadata": "https://h.example/x", "scope": "a b"},
                )
            ],
        ),
        (
            'Basic realm="x", bearer ERROR=invalid_token',
            [("basic", {"realm": "x"}), ("bearer", {"error": "invalid_token"})],
        ),
        ("Negotiate abc==, Bearer scope=a", [("negotiate", {}), ("bearer", {"scope": "a"})]),
        ("Negotiate abc, Bearer scope=a", [("negotiate", {}), ("bearer", {"scope": "a"})]),
        (r'Bearer realm="say \"x\""', [("bearer", {"realm": 'say "x"'})]),
        ('Bearer scope = "a" , error="b"', [("bearer", {"scope": "a", "error": "b"})]),
        ("Basic, Bearer", [("basic", {}), ("bearer", {})]),
        ('Bearer scope="a", scope="b"', [("bearer", {"scope": "a"})]),
        ("", []),
        (",,,", []),
        ('="', []),
        ('="x", Bearer scope=a', [("bearer", {"scope": "a"})]),
        ('Bearer scope="unterminated', [("bearer", {})]),
    ],
    ids=str,
)
def test_challenges_are_read(value, expected):
    found = [(each.scheme, dict(each.params)) for each in parse_challenges([value])]
    assert found == expected


def test_of_several_headers_the_bearer_challenge_that_says_most_is_found():
    found = bearer_challenge(["Basic", "Bearer", 'Bearer scope="a b a", error="x"'])
    assert found is not None
    assert found.scopes == ("a", "b")
    assert found.error == "x"
    assert bearer_challenge(["Basic"]) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("Bearer", ((), "", None)),
        ('Bearer scope="", error="", resource_metadata=""', ((), "", None)),
        ("Bearer resource_metadata=https://h.example/x", ((), "", "https://h.example/x")),
    ],
    ids=["nothing", "nothing in quotes", "metadata"],
)
def test_missing_parts_of_a_challenge_are_empty(value, said):
    found = bearer_challenge([value])
    assert found is not None
    assert (found.scopes, found.error, found.resource_metadata) == said


def test_a_header_made_to_be_slow_is_read_in_no_time():
    for value in ('Bearer a="' + "\\" * 100_000, "a=" * 50_000, "Bearer " + " ,=" * 30_000):
        parse_challenges([value])


def test_an_error_of_oauth_is_shown_by_its_text():
    body = b'{"error": "invalid_token", "error_description": "it has expired"}'
    assert explain(400, "application/json", body).startswith("HTTP 400: it has expired")
    short = b'{"error": "invalid_token"}'
    assert explain(400, "application/json", short).startswith("HTTP 400: " + short.decode())

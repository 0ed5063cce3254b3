import doctest

import pytest

from accord.protocol import syntax
from accord.protocol.syntax import is_base64, is_http_token, is_mime_type, is_uri, scheme_of
from support.tables import cases


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(syntax).failed == 0


@cases("text", ["", "aGk=", "aA==", "aGky", "+/+/", "A" * 4_000_000])
def test_base64_is_recognised(text: str) -> None:
    assert is_base64(text)


@cases(
    "text",
    [
        "a",
        "aGk",
        "aGk==",
        "a===",
        "====",
        "=",
        "aG k",
        "aGk=\n",
        "aGky\naGky",
        "aG-_",
        "aA==aA==",
        "ä===",
    ],
)
def test_text_that_is_not_base64_is_refused(text: str) -> None:
    assert not is_base64(text)


@cases(
    "text",
    [
        "text/plain",
        "image/svg+xml",
        "application/vnd.api+json",
        "text/html;profile=mcp-app",
        "text/plain; charset=utf-8 ; a=b",
        'multipart/x;boundary="a b \\" c"',
        "X-a/B",
    ],
)
def test_mime_types_are_recognised(text: str) -> None:
    assert is_mime_type(text)


@cases(
    "text",
    [
        "",
        "text",
        "text/",
        "/plain",
        "image/*",
        "text/pl ain",
        "text/plain;",
        "text/plain;a",
        "a/b/c",
        "text/plain\n",
        "a/ü",
    ],
)
def test_text_that_is_not_a_mime_type_is_refused(text: str) -> None:
    assert not is_mime_type(text)


@cases(
    "text",
    [
        "https://example.com/a?b=c#d",
        "file:///home/a.txt",
        "note:a",
        "a+b.c-d:",
        "urn:isbn:0451450523",
        "http://user:pw@[2001:db8::1]:8080/x",
        "http://[v1.a:b]/",
        "mem://%C3%BC/(x)",
        "x:?#",
        "http://h?/?#/?",
        "data:text/plain;base64,aGk=",
        "http://example.com:80",
        "x://",
    ],
)
def test_uris_are_recognised(text: str) -> None:
    assert is_uri(text)


@cases(
    "text",
    [
        "",
        ":",
        "/a/b",
        "a/b",
        "//host/a",
        "1a:b",
        "my_notes://a",
        "note://a b",
        "note://ü",
        "note:%",
        "note:%4",
        "note:%zz",
        "note:a#b#c",
        "note:[a]",
        "http://h/[a]",
        "http://[::1",
        "http://h:8x/",
        "note:a\n",
        "note:{a}",
        'note:"a"',
        "note:a\\b",
    ],
)
def test_text_that_is_not_a_uri_is_refused(text: str) -> None:
    assert not is_uri(text)


def test_a_long_uri_takes_no_long_time() -> None:
    assert is_uri("data:," + "a%20" * 500_000)
    assert not is_uri("data:," + "a%20" * 500_000 + " ")


@pytest.mark.parametrize(("text", "scheme"), [("A+1.b-:x", "a+1.b-"), ("x", None), (":x", None)])
def test_the_scheme_of_a_uri_is_found(text: str, scheme: str | None) -> None:
    assert scheme_of(text) == scheme


@cases("text", ["a:b", "a\n", "(a)", "ä", "a,b"])
def test_text_that_is_not_a_header_name_is_refused(text: str) -> None:
    assert not is_http_token(text)

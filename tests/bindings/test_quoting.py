"""What others wrote, for people to read."""

import pytest

from accord.bindings.http_responses import one_line, quote_text, quote_url


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

import pytest

from accord.http.rules import headers
from support.tables import cases

JSON, STREAM = "application/json", "text/event-stream"


@cases("given", [{}, {"X-Trace": "a b\tc"}, {"authorization": "Bearer é"}, {"x": ""}])
def test_headers_of_ones_own_may_be_sent(given):
    headers.check_headers(given)


@cases(
    ("given", "reason"),
    [
        ({"": "x"}, "'' is not a valid header name"),
        ({"a b": "x"}, "'a b' is not a valid header name"),
        ({"a:": "x"}, "'a:' is not a valid header name"),
        ({b"a": "x"}, "b'a' is not a valid header name"),
        ({"a": b"x"}, "the value of header a is not text on one line"),
        ({"a": "secret\n"}, "the value of header a is not text on one line"),
        ({"a": "secret\x7f"}, "the value of header a is not text on one line"),
        ({"fine": "x", "MCP-Session-Id": "x"}, "header MCP-Session-Id is set by the transport"),
        ({"content-length": "1"}, "header content-length is set by the transport"),
    ],
)
def test_headers_that_would_break_a_request_are_refused(given, reason):
    with pytest.raises(ValueError) as caught:
        headers.check_headers(given)
    assert str(caught.value) == reason


@pytest.mark.requirement("session.id.visible-ascii")
@cases(("text", "is_one"), [("a", True), ("!~", True), ("", False), ("a b", False), ("é", False)])
def test_session_ids_are_visible_ascii(text, is_one):
    assert headers.is_session_id(text) is is_one


@cases(
    ("accept", "takes_json", "takes_stream"),
    [
        (None, True, True),
        ("", True, True),
        (" ", True, True),
        ("*/*", True, True),
        ("application/json", True, False),
        ("Application/JSON , TEXT/event-stream;q=0.5", True, True),
        ("application/*", True, False),
        ("text/*;q=0.1", False, True),
        ("text/html", False, False),
        ("*/*;q=0", False, False),
        ("*/*, text/event-stream;q=0", True, False),
        ("text/event-stream;q=0, */*", True, False),
        ("*/*, text/*;q=0", True, False),
        ("text/*, text/event-stream;q=0", False, False),
        ("application/json;profile=x;q=0.000", False, False),
        ("application/json; Q = 0 ", False, False),
        ("application/json;q=1.0", True, False),
        (",,;;", False, False),
    ],
)
def test_the_most_specific_range_of_an_accept_header_decides(accept, takes_json, takes_stream):
    assert headers.accepts(accept, JSON) is takes_json
    assert headers.accepts(accept, STREAM) is takes_stream


@cases(
    ("content_type", "kind", "charset"),
    [
        (None, "", None),
        ("", "", None),
        ("application/json", JSON, None),
        (" Application/JSON ;charset=UTF-8", JSON, "utf-8"),
        ('text/plain; a=b; Charset= "latin1"', "text/plain", "latin1"),
    ],
)
def test_content_types_have_a_type_and_perhaps_a_charset(content_type, kind, charset):
    assert headers.media_type(content_type) == kind
    assert headers.charset(content_type) == charset


def test_facts_are_shown_without_the_values_of_headers():
    facts = headers.RequestFacts(headers={"x-key": "hush"}, peer=("10.0.0.1", 9))
    assert repr(facts) == "<RequestFacts of ('10.0.0.1', 9): x-key>"


@pytest.mark.parametrize("with_secrets", [True, False])
def test_credentials_are_decoded_only_if_nothing_has_checked_them(with_secrets):
    given = [(b"x-team", b"red"), (b"authorization", b"Bearer t")]
    decoded = headers.decode_headers(given, with_secrets=with_secrets)
    assert decoded["x-team"] == "red"
    assert ("authorization" in decoded) is with_secrets

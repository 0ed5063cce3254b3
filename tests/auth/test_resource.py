"""Pure decisions of a protected server."""

import json

import pytest

from accord.auth import resource
from accord.auth.resource import AccessRefusal, bearer_token, challenge, is_for
from accord.auth.urls import canonical_url, metadata_url
from support.tables import cases

URL = "https://desk.example/.well-known/oauth-protected-resource/mcp"


def bearer(value, query=b""):
    return bearer_token([value], query)


# -- names


@pytest.mark.requirement("auth.resource.case-tolerant")
@cases(
    "spelling",
    [
        "https://desk.example/mcp",
        "HTTPS://Desk.EXAMPLE/mcp",
        "https://desk.example/mcp/",
        "https://desk.example:443/mcp",
    ],
)
def test_a_resource_has_one_canonical_spelling(spelling):
    assert canonical_url(spelling) == "https://desk.example/mcp"


@cases(
    ("uri", "expected"),
    [
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("http://desk.example:80/MCP", "http://desk.example/MCP"),
        ("https://desk.example/mcp?tenant=1", "https://desk.example/mcp?tenant=1"),
    ],
)
def test_significant_differences_of_resources_are_kept(uri, expected):
    assert canonical_url(uri) == expected


@cases(
    "uri",
    [
        "desk.example/mcp",
        "//desk.example/mcp",
        "/mcp",
        "https:///mcp",
        "https://desk.example/mcp#x",
        "https://desk.example/mcp#",
        "https://a@desk.example",
        "",
    ],
)
def test_an_invalid_resource_is_refused(uri):
    with pytest.raises(ValueError, match="invalid resource"):
        canonical_url(uri)


@pytest.mark.requirement("auth.token.audience-validated", "auth.resource.case-tolerant")
@cases(
    ("audience", "expected"),
    [
        ("https://desk.example/mcp", True),
        ("HTTPS://DESK.example/mcp/", True),
        (["https://other.example", "https://desk.example/mcp"], True),
        ("https://desk.example", False),
        ("https://desk.example/mcp/more", False),
        ("https://desk.example.evil.example/mcp", False),
        ("https://other.example/mcp", False),
        ("http://desk.example/mcp", False),
        ([], False),
        (None, False),
        ({"https://desk.example/mcp": 1}, False),
        ([["https://desk.example/mcp"]], False),
    ],
)
def test_an_audience_is_ours_only_if_it_names_us(audience, expected):
    assert is_for(audience, ["https://desk.example/mcp"]) is expected


def test_an_audience_may_be_a_plain_name():
    assert is_for("api://desk", ["api://desk"])
    assert is_for("desk", ["desk"])
    assert not is_for("Desk", ["desk"])


# -- what a request brings


@pytest.mark.parametrize("value", [b"Bearer abc.DEF-1_~+/==", b"bearer abc", b"BEARER   abc  "])
def test_a_token_is_found_in_the_authorization_header(value):
    assert bearer(value) == value.split()[1].decode()


@cases("value", [b"Basic YTpi", b"abc", b"", b"Digest x"])
def test_another_scheme_is_not_a_token(value):
    assert bearer(value) is None
    assert bearer_token([]) is None


@pytest.mark.requirement("auth.status-codes")
@cases(
    "value", [b"Bearer", b"Bearer ", b"Bearer a b", b"Bearer \xff", b'Bearer "a"', b"Bearer a,b"]
)
def test_a_malformed_header_is_400(value):
    found = bearer(value)
    assert isinstance(found, AccessRefusal)
    assert (found.status, found.error) == (400, "invalid_request")


def test_two_authorization_headers_are_400():
    found = bearer_token([b"Bearer a", b"Bearer a"])
    assert isinstance(found, AccessRefusal)
    assert found.status == 400


@pytest.mark.requirement("auth.token.not-in-query")
@cases(
    "query",
    [
        b"access_token=abc",
        b"a=1&access_token=abc",
        b"access%5Ftoken=abc",
        b"access_t%6Fken=abc",
        b"Access_Token=",
    ],
)
def test_a_token_in_the_query_string_is_400_whatever_the_header_says(query):
    found = bearer(b"Bearer abc", query)
    assert isinstance(found, AccessRefusal)
    assert found.status == 400
    assert "query string" in found.message


def test_other_queries_pass():
    assert bearer(b"Bearer abc", b"session_id=1&tokens=2&x=%20") == "abc"


def test_a_huge_token_is_refused_unread():
    found = bearer(b"Bearer " + b"a" * (resource.TOKEN_MOST + 1))
    assert isinstance(found, AccessRefusal)
    assert (found.status, found.error) == (401, "invalid_token")
    assert "longer than 16384 bytes" in found.message
    assert bearer(b"Bearer " + b"a" * resource.TOKEN_MOST) == "a" * resource.TOKEN_MOST


# -- how it is refused


@pytest.mark.requirement("auth.challenge.www-authenticate")
def test_a_missing_token_gets_the_metadata_url_and_no_error():
    refusal = resource.missing_token(["read"])
    assert refusal.status == 401
    assert challenge(refusal, URL) == f'Bearer resource_metadata="{URL}", scope="read"'


def test_an_invalid_token_gets_an_invalid_token_challenge():
    said = challenge(resource.invalid_token(), URL)
    assert said.startswith(f'Bearer resource_metadata="{URL}", error="invalid_token"')
    assert 'error_description="the token is expired, revoked, or not meant for this' in said


@pytest.mark.requirement("auth.status-codes")
def test_a_weak_token_gets_all_needed_scopes():
    refusal = resource.insufficient_scope({"write", "read"})
    assert refusal.status == 403
    assert 'error="insufficient_scope", scope="read write"' in challenge(refusal, URL)
    assert json.loads(refusal.body)["scope"] == "read write"


def test_nothing_breaks_out_of_a_challenge():
    refusal = AccessRefusal(401, "invalid_token", 'a"b\\c\r\nX: y')
    said = challenge(refusal, 'https://x/"\r\n')
    assert '"abcX: y"' in said
    assert "\r" not in said
    assert said.count('"') == 6


# -- what is published


@pytest.mark.requirement("auth.prm.server", "auth.prm.lists-as")
def test_the_metadata_names_the_resource_and_the_issuers():
    found = json.loads(
        resource.resource_metadata(
            "https://desk.example/mcp",
            ["https://issuer.example"],
            scopes=["read"],
            name="Desk",
            documentation="https://desk.example/help",
        )
    )
    assert found == {
        "resource": "https://desk.example/mcp",
        "authorization_servers": ["https://issuer.example"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["read"],
        "resource_name": "Desk",
        "resource_documentation": "https://desk.example/help",
    }


@cases(
    ("url", "path", "expected"),
    [
        ("https://a.example/mcp", "/mcp", "https://a.example/.well-known/X/mcp"),
        ("https://a.example", "", "https://a.example/.well-known/X"),
        ("https://a.example/t/mcp", "/mcp", "https://a.example/t/.well-known/X/mcp"),
        ("https://a.example/t", "/mcp", "https://a.example/.well-known/X/t"),
        ("https://a.example/t", "", "https://a.example/.well-known/X/t"),
    ],
)
def test_metadata_is_where_the_server_can_be_reached(url, path, expected):
    assert metadata_url(url, path) == expected.replace("X", "oauth-protected-resource")

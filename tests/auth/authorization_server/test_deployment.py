"""Where the authorization server is reached, and which requests it serves."""

import pytest

from accord.auth.authorization_server.endpoints import Deployment, check_issuer
from accord.auth.authorization_server.models import OAuthRefusal
from support.tables import cases

ISSUER = "https://auth.example/login"
DESK = "https://desk.example/mcp"
OTHER = "https://desk.example/sse"
SET = Deployment(issuer=ISSUER, resources=(DESK,), path="/mcp")
NEAR = Deployment(path="/mcp")


@cases(
    ("path", "found"),
    [
        ("/token", "/token"),
        ("/login/token", "/token"),
        ("/login/token/", "/token"),
        ("/logintoken", None),
        ("/other/token", None),
        ("/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server"),
        (
            "/.well-known/oauth-authorization-server/login",
            "/.well-known/oauth-authorization-server",
        ),
        ("/.well-known/oauth-authorization-server/other", None),
    ],
)
def test_a_path_may_begin_with_that_of_the_issuer(path, found):
    assert SET.route({"path": path}) == found


def test_a_path_that_only_resembles_the_issuers_stays_as_it_is():
    place = Deployment(issuer="https://auth.example/auth")
    assert place.route({"path": "/authorize"}) == "/authorize"


def test_an_issuer_that_is_set_stands_before_the_url_of_the_server():
    assert Deployment(ISSUER, path="/mcp").at(DESK).issuer == ISSUER
    assert Deployment(path="/mcp").at(DESK).issuer == "https://desk.example"


@pytest.mark.requirement("auth.https.endpoints")
def test_an_issuer_is_reached_over_https_or_on_this_machine():
    assert check_issuer("https://Auth.example/login/") == ISSUER
    assert check_issuer("http://localhost:8000/") == "http://localhost:8000"
    for wrong in ("http://auth.example", "https://auth.example/?a=1", "auth.example", ""):
        with pytest.raises(ValueError, match="expected https"):
            check_issuer(wrong)


@cases(
    ("place", "issuer", "asked", "resources"),
    [
        (SET, ISSUER, (), (DESK,)),
        (NEAR, "http://localhost:8000", (), ("http://localhost:8000/mcp",)),
        (Deployment(issuer=ISSUER), ISSUER, (), ()),
        (Deployment(issuer=ISSUER, path="/mcp", other_paths=("/sse",)), ISSUER, (OTHER,), ()),
        (
            Deployment(issuer=ISSUER, resources=(DESK,), path="/mcp", other_paths=("/sse",)),
            "",
            (),
            (DESK,),
        ),
        (
            Deployment(
                issuer=ISSUER, resources=(DESK,), path="/mcp", other_paths=("/sse", "/more")
            ),
            ISSUER,
            (OTHER,),
            (DESK, OTHER),
        ),
    ],
    ids=["set", "loopback", "none", "none but others", "others unasked", "one of two others"],
)
def test_tokens_are_for_what_is_there_and_for_further_endpoints_on_demand(
    place, issuer, asked, resources
):
    assert place.resources_of(issuer, asked) == resources


@cases(
    ("place", "headers", "client"),
    [
        (NEAR, {"host": "evil.example"}, None),
        (NEAR, {}, None),
        (Deployment(issuer="http://localhost:8000"), {"host": "evil.example:8000"}, None),
        (SET, {"host": "auth.example", "x-forwarded-proto": "http"}, None),
        (Deployment(needs_loopback=True), {"host": "localhost"}, ("192.0.2.1", 5)),
        (Deployment(needs_loopback=True), {"host": "localhost", "x-real-ip": "127.0.0.1"}, None),
    ],
    ids=["name", "no name", "name of the issuer", "no TLS", "address", "proxy"],
)
def test_a_request_for_another_host_or_without_https_is_refused(place, headers, client):
    with pytest.raises(OAuthRefusal) as caught:
        place.issuer_of({"client": client}, headers)
    assert caught.value.status == 403


@cases(
    ("place", "scope", "host", "issuer"),
    [
        (NEAR, {}, "LOCALHOST:8000", "http://localhost:8000"),
        (NEAR, {"scheme": "https", "root_path": "/x/"}, "[::1]:1", "https://[::1]:1/x"),
        (SET, {}, "any.example", ISSUER),
        (Deployment(needs_loopback=True), {"client": ("::1", 5)}, "localhost", "http://localhost"),
    ],
    ids=["loopback", "mounted", "set", "near"],
)
def test_the_issuer_is_what_is_set_or_the_name_that_the_client_uses(place, scope, host, issuer):
    assert place.issuer_of(scope, {"host": host}) == issuer

"""The authorization request: what is refused, where, and what comes back."""

import html
import re

import pytest

from accord.auth.authorization_server.clients import KnownClient
from support.oauth import ISSUER, RESOURCE, RETURN, Desk, claims_of, request_query


@pytest.fixture
def desk():
    return Desk()


@pytest.mark.requirement("auth.oauth21.authorization-server")
def test_a_person_logs_in_allows_and_is_sent_back_with_a_code_the_state_and_the_issuer(desk):
    client = desk.client()
    answer = desk.allow(client)
    assert answer.status == 303
    assert answer.location.startswith(f"{RETURN}?")
    returned = answer.returned
    assert returned.pop("code")
    assert returned == {"state": "some state", "iss": ISSUER}
    assert answer.headers["cache-control"] == "no-store"


def test_a_denial_redirects_to_the_client_without_a_code(desk):
    answer = desk.submit(desk.consent(desk.client()), decision="deny")
    assert answer.returned == {
        "error": "access_denied",
        "error_description": "the user declined",
        "state": "some state",
        "iss": ISSUER,
    }


def test_a_client_without_state_gets_none(desk):
    assert "state" not in desk.allow(desk.client(), state=None).returned


@pytest.mark.requirement("auth.redirect.exact-match")
@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/callback",
        "http://127.0.0.1:3000/callback/../evil",
        "http://127.0.0.1:3000/callback/",
        "http://127.0.0.1:3000/callback?next=https://evil.example",
        "http://127.0.0.1:3000@evil.example/callback",
        "http://localhost:3000/callback",
        "javascript:alert(1)",
    ],
)
def test_a_redirect_uri_that_is_not_registered_is_refused(desk, uri):
    answer = desk.authorize(desk.client(), redirect_uri=uri)
    assert answer.status == 400
    assert "location" not in answer.headers
    assert "not one that it registered" in answer.text
    assert "evil" not in answer.text


@pytest.mark.requirement("auth.redirect.exact-match")
def test_any_port_of_loopback_is_the_registered_one(desk):
    uri = "http://127.0.0.1:55555/callback"
    client = desk.client()
    answer = desk.allow(client, redirect_uri=uri)
    assert answer.location.startswith(uri)
    assert desk.redeem(client, answer.returned["code"], redirect_uri=uri).status == 200


def test_an_unknown_client_is_reported_to_the_user(desk):
    answer = desk.authorize("nobody")
    assert answer.status == 400
    assert "location" not in answer.headers
    assert "not registered here" in answer.text


def test_a_request_without_client_is_reported_to_the_user(desk):
    assert desk.send("GET", "/authorize").status == 400


def test_the_only_redirect_uri_need_not_be_named(desk):
    assert desk.allow(desk.client(), redirect_uri=None).location.startswith(RETURN)
    two = desk.client(redirect_uris=[RETURN, "https://a.example/cb"])
    assert desk.authorize(two, redirect_uri=None).status == 400


def test_a_parameter_that_is_there_twice_is_refused_without_a_redirect(desk):
    query = request_query(desk.client()) + "&redirect_uri=https%3A%2F%2Fevil.example"
    answer = desk.send("GET", "/authorize", query=query)
    assert answer.status == 400
    assert "location" not in answer.headers


@pytest.mark.requirement("auth.oauth21.authorization-server")
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"scope": "fly"}, "invalid_scope"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": f"{RESOURCE}#x"}, "invalid_target"),
        ({"request": "x"}, "request_not_supported"),
        ({"request_uri": "https://a.example"}, "request_uri_not_supported"),
        ({"prompt": "none"}, "login_required"),
    ],
    ids=str,
)
def test_other_faults_are_reported_to_the_client(desk, changed, error):
    answer = desk.authorize(desk.client(), **changed)
    assert answer.status == 303
    assert answer.location.startswith(RETURN)
    returned = answer.returned
    assert returned["error"] == error
    assert returned["state"] == "some state"
    assert returned["iss"] == ISSUER
    assert "code" not in returned


@pytest.mark.requirement("auth.redirect.untrusted")
@pytest.mark.parametrize("changed", [{"scope": "fly"}, {"prompt": "none"}], ids=str)
def test_the_user_is_asked_before_a_redirect_to_a_registered_uri(desk, changed):
    uri = "https://evil.example/x?a=1"
    page = desk.authorize(desk.client(redirect_uris=[uri]), redirect_uri=uri, **changed)
    assert page.status == 400
    assert "location" not in page.headers
    (leads,) = re.findall(r'<a href="([^"]*)">Go back to evil.example</a>', page.text)
    assert html.unescape(leads).startswith(f"{uri}&error=")
    known = KnownClient(client_id="page", redirect_uris=(uri,))
    trusting = Desk(clients={"page": known.client})
    assert trusting.authorize("page", redirect_uri=uri, **changed).location.startswith(uri)


def test_a_client_gets_only_the_grants_it_registered_for(desk):
    kind = "urn:ietf:params:oauth:grant-type:device_code"
    client = desk.client(grant_types=[kind], response_types=[])
    assert desk.authorize(client).returned["error"] == "unauthorized_client"


def test_without_a_scope_the_default_ones_are_asked_for():
    desk = Desk(default_scopes=("write",))
    page = desk.consent(desk.client(), scope=None)
    assert "<code>write</code>" in page.text
    assert "Read your notes" not in page.text


def test_scopes_that_do_not_exist_are_left_out_and_the_response_says_so(desk):
    tokens = desk.tokens(desk.client(), scope="read openid offline_access")
    assert tokens["scope"] == "read"


def test_a_client_asks_for_no_more_than_its_own_scopes():
    known = KnownClient(client_id="k", redirect_uris=(RETURN,), scopes=("read",))
    desk = Desk(clients={"k": known.client})
    assert desk.tokens("k", scope="read write")["scope"] == "read"
    assert desk.authorize("k", scope="write").returned["error"] == "invalid_scope"


def test_without_a_resource_the_only_one_is_meant(desk):
    tokens = desk.tokens(desk.client(), resource=None)
    assert claims_of(tokens["access_token"])["aud"] == RESOURCE
    desk.resources = (RESOURCE, "https://auth.example/other")
    answer = desk.authorize(desk.client(), resource=None)
    assert answer.returned["error"] == "invalid_target"


def test_a_token_is_for_one_resource_not_for_several(desk):
    query = request_query(desk.client()) + "&resource=https%3A%2F%2Fauth.example%2Fother"
    assert desk.send("GET", "/authorize", query=query).status == 400


@pytest.mark.parametrize("written", ["HTTPS://AUTH.example/mcp/", "https://auth.example:443/mcp"])
def test_a_resource_may_be_written_in_other_ways(desk, written):
    tokens = desk.tokens(desk.client(), resource=written)
    assert claims_of(tokens["access_token"])["aud"] == RESOURCE

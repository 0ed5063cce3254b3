"""Grants, scopes, registration and the answers of authorization servers, without a network."""

from base64 import b64decode
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from accord.auth.client_identity import (
    ClientDescription,
    ClientIdentity,
    challenge_of,
    check_redirect_uri,
    choose_method,
    new_pkce,
    preregistered_client,
    register,
    token_request,
)
from accord.auth.discovery import DiscoveryResult, ResourceMetadata, ServerMetadata
from accord.auth.flow import (
    AuthorizationRequest,
    ForgedResponse,
    GrantRequest,
    ResourceRejected,
    TokenRefused,
    authorization_url,
    choose_scopes,
    exchange_code,
    poll_device,
    read_authorization_response,
    refresh,
    request_client_credentials,
    start_device,
)
from accord.auth.tokens import TokenGrant
from accord.errors import FlowFailed
from accord.http.client.guarded import NoResponse
from support.flows import drive, reply
from support.tables import cases

ISSUER = "https://login.example.org"
SERVER = ServerMetadata(
    issuer=ISSUER,
    authorization_endpoint=f"{ISSUER}/authorize?tenant=1",
    token_endpoint=f"{ISSUER}/token",
    registration_endpoint=f"{ISSUER}/register",
    device_authorization_endpoint=f"{ISSUER}/device",
    code_challenge_methods_supported=("S256",),
)
FOUND = DiscoveryResult(resource="https://example.com/mcp", server=SERVER)
CLIENT = ClientIdentity(client_id="me")
URI = "http://127.0.0.1:4711/callback"
TOKEN = {"access_token": "at", "token_type": "Bearer", "expires_in": 100, "refresh_token": "rt"}


def asking(found=FOUND, **more):
    usual = {"client": CLIENT, "redirect_uri": URI, "pkce": new_pkce(), "state": "s" * 32}
    return AuthorizationRequest(found=found, **(usual | more))


def grant_request(**more):
    return GrantRequest(**({"found": FOUND, "client": CLIENT} | more))


def among(server=SERVER, **changes):
    return msgspec.structs.replace(FOUND, server=msgspec.structs.replace(server, **changes))


def fields_of(request):
    return dict(parse_qsl(request.body.decode()))


def query_of(url):
    return dict(parse_qsl(urlsplit(url).query))


# -- the authorization request


@pytest.mark.requirement(
    "auth.pkce.implemented",
    "auth.resource-parameter.sent",
    "auth.resource-indicators.client",
    "auth.state.verified",
)
def test_the_authorization_request_carries_pkce_state_and_resource():
    request = asking(scopes=("a", "b"))
    query = query_of(authorization_url(request))
    assert query == {
        "tenant": "1",
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": URI,
        "state": request.state,
        "code_challenge": request.pkce.challenge,
        "code_challenge_method": "S256",
        "scope": "a b",
        "resource": "https://example.com/mcp",
    }


def test_without_scopes_none_are_named():
    assert "scope" not in query_of(authorization_url(asking()))


def test_parameters_in_the_endpoint_url_do_not_override_ours():
    endpoint = f"{ISSUER}/authorize?state=theirs&client_id=other&code_challenge_method=plain&a=1"
    url = authorization_url(asking(among(authorization_endpoint=endpoint)))
    pairs = parse_qsl(urlsplit(url).query)
    assert len(pairs) == len(dict(pairs))
    ours = {"a": "1", "client_id": "me", "state": "s" * 32, "code_challenge_method": "S256"}
    assert ours.items() <= dict(pairs).items()


def test_offline_access_asks_the_user_for_consent():
    query = query_of(authorization_url(asking(scopes=("a", "offline_access"))))
    assert (query["prompt"], query["scope"]) == ("consent", "a offline_access")


def test_the_challenge_of_pkce_is_that_of_the_rfc():
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == (
        "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    )
    one, two = new_pkce(), new_pkce()
    assert one.verifier != two.verifier
    assert 43 <= len(one.verifier) <= 128
    assert one.verifier not in repr(one)


@pytest.mark.requirement("auth.pkce.implemented", "auth.oauth21.implementations")
@pytest.mark.parametrize("methods", [(), ("plain",), ("s256",)], ids=str)
def test_a_server_that_says_it_cannot_check_pkce_is_refused(methods):
    with pytest.raises(FlowFailed, match="S256") as caught:
        authorization_url(asking(among(code_challenge_methods_supported=methods)))
    assert "PKCE" in caught.value.hint


@pytest.mark.requirement("auth.pkce.refuse-without-methods", "auth.pkce.verify-support")
def test_a_server_whose_metadata_omits_pkce_is_refused():
    with pytest.raises(FlowFailed, match="without code_challenge_methods_supported") as caught:
        authorization_url(asking(among(code_challenge_methods_supported=None)))
    assert "OAuth(pkce='assume')" in caught.value.hint


@pytest.mark.requirement("auth.pkce.s256")
@pytest.mark.parametrize(
    ("server", "request_facts"),
    [({}, {"assumes_pkce": True}), ({"is_assumed": True}, {})],
    ids=["assumed by the user", "without metadata"],
)
def test_pkce_is_used_where_it_may_be_assumed(server, request_facts):
    found = among(code_challenge_methods_supported=None, **server)
    url = authorization_url(asking(found, **request_facts))
    assert query_of(url)["code_challenge_method"] == "S256"


@cases("endpoint", [None, "javascript:alert(1)", "file:///etc/passwd", "data:x"])
def test_only_web_pages_are_opened(endpoint):
    with pytest.raises(FlowFailed, match="authorization_endpoint"):
        authorization_url(asking(among(authorization_endpoint=endpoint)))


# -- what comes back


def test_control_characters_of_servers_do_not_reach_the_terminal():
    endpoint = "https://login.example.org/a\x1b[2Jb/\u00fc%20;c=1?x=\x07"
    shown = authorization_url(asking(found=among(authorization_endpoint=endpoint)))
    assert shown.isprintable()
    assert shown.isascii()
    assert shown.startswith("https://login.example.org/a%1B%5B2Jb/%C3%BC%20;c=1?x=%07&")
    said = {"error": "bad\x1b[2J", "error_description": "\x07 why", "state": "s" * 32}
    with pytest.raises(FlowFailed) as caught:
        read_authorization_response(said, asking())
    assert str(caught.value).isprintable()


def test_the_code_of_our_answer_is_taken():
    request = asking()
    assert read_authorization_response({"code": "c", "state": request.state}, request) == "c"
    assert (
        read_authorization_response({"code": "c", "state": request.state, "iss": ISSUER}, request)
        == "c"
    )


@pytest.mark.requirement("auth.state.verified")
@cases("state", [None, "", "other", "s" * 31, "s" * 33, "ü"], ids=str)
def test_an_answer_without_our_state_is_refused(state):
    params = {"code": "c"} | ({} if state is None else {"state": state})
    with pytest.raises(FlowFailed, match="state"):
        read_authorization_response(params, asking())


@pytest.mark.requirement(
    "auth.iss.compare-present", "auth.iss.exact-string", "auth.iss.record-issuer"
)
@cases(
    "iss",
    [
        "https://evil.example",
        f"{ISSUER}/",
        "https://LOGIN.example.org",
        "HTTPS://login.example.org",
        f"{ISSUER}:443",
        "https://login.ex%61mple.org",
        "",
    ],
)
def test_an_answer_of_another_issuer_is_refused(iss):
    request = asking()
    with pytest.raises(ForgedResponse, match="issuer") as caught:
        read_authorization_response({"code": "c", "state": request.state, "iss": iss}, request)
    assert ISSUER in caught.value.hint


@pytest.mark.requirement("auth.iss.errors-too")
@pytest.mark.parametrize("iss", ["https://evil.example", None])
def test_an_error_of_another_issuer_is_not_shown(iss):
    request = asking(among(authorization_response_iss_parameter_supported=True))
    said = {"error": "invalid_target", "error_description": "CALL THIS NUMBER", "error_uri": "u:x"}
    given = {} if iss is None else {"iss": iss}
    with pytest.raises(ForgedResponse) as caught:
        read_authorization_response(said | given | {"state": request.state}, request)
    shown = f"{caught.value} {caught.value.came} {caught.value.hint}"
    assert not any(each in shown for each in said.values())


@pytest.mark.requirement("auth.iss.reject-absent-when-advertised")
def test_an_issuer_that_promises_to_name_itself_has_to():
    request = asking(among(authorization_response_iss_parameter_supported=True))
    with pytest.raises(FlowFailed, match="without iss"):
        read_authorization_response({"code": "c", "state": request.state}, request)


def test_an_error_is_reported_with_a_hint():
    request = asking()
    params = {"error": "access_denied", "error_description": "not\ntoday", "state": request.state}
    with pytest.raises(FlowFailed, match="access_denied: not today") as caught:
        read_authorization_response(params, request)
    assert "declined" in caught.value.hint
    with pytest.raises(FlowFailed) as caught:
        read_authorization_response({"error": "server_error", "state": request.state}, request)
    assert caught.value.hint == "try again later"
    with pytest.raises(FlowFailed, match="without a code"):
        read_authorization_response({"state": request.state}, request)


def test_an_error_about_the_resource_is_distinguished_from_others():
    request = asking()
    for params in (
        {"error": "invalid_target"},
        {"error": "invalid_request", "error_description": "unknown parameter Resource"},
    ):
        with pytest.raises(ResourceRejected):
            read_authorization_response(params | {"state": request.state}, request)
    with pytest.raises(FlowFailed) as caught:
        read_authorization_response({"error": "invalid_request", "state": request.state}, request)
    assert not isinstance(caught.value, ResourceRejected)
    # A request without it cannot leave it out either.
    silent = asking(names_resource=False)
    with pytest.raises(FlowFailed) as caught:
        read_authorization_response({"error": "invalid_target", "state": silent.state}, silent)
    assert not isinstance(caught.value, ResourceRejected)


# -- the token endpoint


@pytest.mark.requirement("auth.resource.both-requests", "auth.pkce.implemented")
def test_a_code_is_redeemed_with_verifier_and_resource():
    request = asking(scopes=("a",))
    grant, (sent,) = drive(exchange_code("c", request, 1_000.0), lambda _: reply(TOKEN))
    assert fields_of(sent) == {
        "grant_type": "authorization_code",
        "code": "c",
        "redirect_uri": URI,
        "code_verifier": request.pkce.verifier,
        "resource": "https://example.com/mcp",
        "client_id": "me",
    }
    assert grant.access_token == "at"
    assert grant.expires_at == 1_100.0
    assert grant.scopes == ("a",)
    assert grant.issuer == ISSUER


@cases(
    "said",
    [
        {},
        {"access_token": "", "token_type": "Bearer"},
        {"access_token": 7, "token_type": "Bearer"},
        {"access_token": "a b", "token_type": "Bearer"},
        {"access_token": "a\r\nX: y", "token_type": "Bearer"},
        {"access_token": "ü", "token_type": "Bearer"},
        {"access_token": "x" * 100_000, "token_type": "Bearer"},
        {"access_token": "at", "token_type": "DPoP"},
        {"access_token": "at"},
    ],
    ids=lambda said: str(said)[:60],
)
def test_a_token_that_is_not_a_bearer_token_is_refused(said):
    with pytest.raises(FlowFailed):
        drive(exchange_code("c", asking(), 0.0), lambda _: reply(said))


@cases(
    ("expires_in", "expires_at"),
    [
        (60, 160.0),
        ("60", 160.0),
        (None, None),
        ("soon", None),
        (0, None),
        ("0", None),
        (-1, None),
        (True, None),
    ],
    ids=str,
)
def test_the_end_of_a_token_is_an_absolute_time(expires_in, expires_at):
    said = TOKEN | {"expires_in": expires_in}
    grant, _ = drive(exchange_code("c", asking(), 100.0), lambda _: reply(said))
    assert grant.expires_at == expires_at


def test_a_token_is_due_some_time_before_it_is_over():
    grant, _ = drive(exchange_code("c", asking(), 0.0), lambda _: reply(TOKEN))
    assert not grant.is_due(80.0)
    assert grant.is_due(95.0)
    lasting = msgspec.structs.replace(grant, expires_at=None)
    assert not lasting.is_due(1e12)


def granted(**more):
    usual = {
        "issuer": ISSUER,
        "resource": "https://example.com/mcp",
        "client": CLIENT,
        "token_endpoint": f"{ISSUER}/token",
        "access_token": "old",
        "refresh_token": "rt",
        "scopes": ("a",),
    }
    return TokenGrant(**(usual | more))


def test_the_old_refresh_token_is_kept_when_none_comes_back():
    said = {"access_token": "new", "token_type": "bearer"}
    grant, (sent,) = drive(refresh(granted(), 0.0), lambda _: reply(said))
    assert fields_of(sent)["refresh_token"] == "rt"
    assert fields_of(sent)["resource"] == "https://example.com/mcp"
    assert (grant.access_token, grant.refresh_token, grant.scopes) == ("new", "rt", ("a",))
    for odd in (7, "", None):
        grant, _ = drive(refresh(granted(), 0.0), lambda _: reply(said | {"refresh_token": odd}))  # noqa: B023
        assert grant.refresh_token == "rt"
    grant, _ = drive(refresh(granted(), 0.0), lambda _: reply(said | {"refresh_token": "next"}))
    assert grant.refresh_token == "next"


def test_a_refusal_tells_step_question_answer_and_remedy_but_no_secrets():
    said = {"error": "invalid_grant", "error_description": "used up"}
    with pytest.raises(TokenRefused) as caught:
        drive(refresh(granted(refresh_token="SECRET"), 0.0), lambda _: reply(said, 400))
    error = caught.value
    assert (error.step, error.asked) == ("refresh", f"POST {ISSUER}/token")
    assert error.came == "HTTP 400 invalid_grant: used up"
    assert "authorize again" in error.hint
    assert error.error == "invalid_grant"
    assert "SECRET" not in str(error)


def test_secrets_show_in_no_repr():
    client = ClientIdentity(client_id="me", client_secret="SECRET", method="client_secret_post")
    grant = granted(client=client, access_token="SECRET", refresh_token="SECRET")
    request = token_request(f"{ISSUER}/token?x=SECRET", {"code": "SECRET"}, client, issuer=ISSUER)
    described = ClientDescription(client_id="me", client_secret="SECRET")
    assert "SECRET" not in f"{client!r}{grant!r}{request!r}{described!r}{asking(client=client)!r}"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_the_client_authenticates_in_the_way_it_was_registered_for(method):
    client = ClientIdentity(client_id="a b", client_secret="s:é", method=method)
    request = token_request(f"{ISSUER}/token", {"x": "y"}, client, issuer=ISSUER)
    fields, basic = fields_of(request), request.headers.get("Authorization")
    if method == "client_secret_basic":
        assert b64decode(basic.removeprefix("Basic ")) == b"a+b:s%3A%C3%A9"
    else:
        assert basic is None
    assert fields["client_id"] == "a b"
    assert fields.get("client_secret") == ("s:é" if method == "client_secret_post" else None)


@cases(
    ("supported", "method"),
    [
        (None, "client_secret_basic"),
        (("client_secret_post",), "client_secret_post"),
        (("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (("private_key_jwt",), "client_secret_basic"),
    ],
    ids=str,
)
def test_a_given_secret_is_shown_in_a_way_that_the_server_supports(supported, method):
    server = among(token_endpoint_auth_methods_supported=supported).server
    assert choose_method(server, has_secret=True) == method
    assert choose_method(server, has_secret=False) == "none"


def test_client_credentials_need_no_user():
    grant, (sent,) = drive(
        request_client_credentials(grant_request(scopes=("a",)), 0.0), lambda _: reply(TOKEN)
    )
    assert fields_of(sent) == {
        "grant_type": "client_credentials",
        "scope": "a",
        "resource": "https://example.com/mcp",
        "client_id": "me",
    }
    assert grant.access_token == "at"


# -- scopes


def supporting(*scopes, offline=False):
    metadata = ResourceMetadata(resource=FOUND.resource, scopes_supported=scopes)
    server = SERVER
    if offline:
        server = msgspec.structs.replace(SERVER, scopes_supported=("offline_access",))
    return msgspec.structs.replace(FOUND, resource_metadata=metadata, server=server)


@pytest.mark.requirement(
    "auth.scope.selection-order",
    "auth.scope.no-assumed-relation",
    "auth.scope.challenge-authoritative",
)
@cases(
    ("how", "expected"),
    [
        ({"wanted": None}, ("a", "b")),
        ({"wanted": None, "challenged": ["c"]}, ("c",)),
        ({"wanted": ["d"]}, ("d",)),
        ({"wanted": ["d"], "challenged": ["c"]}, ("d", "c")),
        ({"wanted": None, "challenged": ["c"], "held": ["a"]}, ("a", "c")),
    ],
    ids=str,
)
def test_scopes_come_from_the_challenge_before_the_metadata(how, expected):
    assert choose_scopes(supporting("a", "b"), **how) == expected


def test_to_be_remembered_is_asked_for_where_it_is_offered_and_wanted():
    assert choose_scopes(supporting("a", offline=True), wanted=None) == ("a", "offline_access")
    assert choose_scopes(supporting("a", offline=True), wanted=None, offline=False) == ("a",)
    assert choose_scopes(supporting("a"), wanted=None) == ("a",)
    assert choose_scopes(supporting(offline=True), wanted=None) == ()


# -- registration


@pytest.mark.requirement(
    "auth.dcr.implementations",
    "auth.redirect.registered",
    "auth.redirect.localhost-or-https",
    "auth.refresh.grant-type",
)
def test_a_client_registers_with_its_redirect_uri():
    server = among(token_endpoint_auth_methods_supported=("none",)).server
    client, (sent,) = drive(
        register(server, ClientDescription(name="x"), redirect_uris=[URI], scopes=("a",)),
        lambda _: reply({"client_id": "new"}, 201),
    )
    assert msgspec.json.decode(sent.body) == {
        "client_name": "x",
        "redirect_uris": [URI],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "scope": "a",
    }
    assert (client.client_id, client.method, client.redirect_uris) == ("new", "none", (URI,))


@pytest.mark.requirement("auth.dcr.application-type", "auth.dcr.native", "auth.dcr.web")
@cases(
    ("uris", "kind"),
    [
        ([URI], "native"),
        (["http://localhost:1/x", "http://[::1]:2/x"], "native"),
        ([], "native"),
        (["https://app.example/callback"], "web"),
        ([URI, "https://app.example/callback"], "web"),
    ],
    ids=str,
)
def test_a_client_registers_as_native_if_it_is_redirected_to_on_this_machine(uris, kind):
    _, (sent,) = drive(
        register(SERVER, ClientDescription(), redirect_uris=uris),
        lambda _: reply({"client_id": "new"}, 201),
    )
    assert msgspec.json.decode(sent.body)["application_type"] == kind


@pytest.mark.requirement("auth.dcr.handles-refusal")
def test_a_refused_redirect_uri_is_reported_with_another_to_try():
    with pytest.raises(FlowFailed, match="no loopback") as caught:
        drive(
            register(SERVER, ClientDescription(), redirect_uris=[URI]),
            lambda _: reply(
                {"error": "invalid_redirect_uri", "error_description": "no loopback"}, 400
            ),
        )
    assert "OAuth(redirect_uri='http://localhost/callback')" in caught.value.hint


@cases(
    ("supported", "asked"),
    [
        (("client_secret_post", "none"), "none"),
        (("client_secret_post",), "client_secret_post"),
        (("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (None, "client_secret_basic"),
    ],
    ids=str,
)
def test_the_method_asked_for_is_one_that_the_server_supports(supported, asked):
    server = among(token_endpoint_auth_methods_supported=supported).server
    _, (sent,) = drive(
        register(server, ClientDescription(), redirect_uris=[URI]),
        lambda _: reply({"client_id": "new"}),
    )
    assert msgspec.json.decode(sent.body)["token_endpoint_auth_method"] == asked


@cases(
    ("said", "method"),
    [
        ({"client_secret": "s"}, "client_secret_basic"),
        ({"client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}, None),
        ({"token_endpoint_auth_method": "client_secret_basic"}, "none"),
        ({"client_secret": "s", "token_endpoint_auth_method": "none"}, None),
    ],
    ids=str,
)
def test_the_registered_metadata_of_the_response_counts(said, method):
    client, _ = drive(
        register(SERVER, ClientDescription(), redirect_uris=[URI]),
        lambda _: reply({"client_id": "new"} | said),
    )
    assert client.method == (method or said["token_endpoint_auth_method"])


def test_a_secret_that_is_over_is_not_used_again():
    said = {"client_id": "new", "client_secret": "s", "client_secret_expires_at": 50}
    client, _ = drive(
        register(SERVER, ClientDescription(), redirect_uris=[URI]), lambda _: reply(said)
    )
    assert client.is_usable(49)
    assert not client.is_usable(50)


def test_a_server_without_registration_is_reported_with_a_hint():
    with pytest.raises(FlowFailed, match="registration_endpoint") as caught:
        drive(
            register(
                among(registration_endpoint=None).server, ClientDescription(), redirect_uris=[URI]
            ),
            {},
        )
    assert "client_id" in caught.value.hint
    for answer in (reply({"error": "nope"}, 403), reply({}), NoResponse("no connection")):
        with pytest.raises(FlowFailed, match="registration"):
            drive(
                register(SERVER, ClientDescription(), redirect_uris=[URI]),
                lambda _, answer=answer: answer,
            )


@pytest.mark.requirement("auth.redirect.localhost-or-https")
@cases(
    "uri",
    ["http://example.com/cb", "http://127.0.0.1.evil.example/", "myapp://cb", "https:///x", "//x"],
)
def test_codes_come_back_over_tls_or_on_this_machine(uri):
    with pytest.raises(ValueError, match="redirect URI"):
        check_redirect_uri(uri)
    check_redirect_uri("https://example.com/cb")
    check_redirect_uri("http://localhost:1/cb")


@pytest.mark.requirement("auth.register.priority", "auth.cimd.client-checks-support")
def test_a_client_that_is_known_needs_no_registration():
    given = preregistered_client(SERVER, ClientDescription(client_id="me", client_secret="s"))
    assert given == ClientIdentity(client_id="me", client_secret="s", method="client_secret_basic")
    document = ClientDescription(metadata_url="https://me.example/client.json")
    assert preregistered_client(SERVER, document) is None
    able = among(client_id_metadata_document_supported=True).server
    assert preregistered_client(able, document).client_id == "https://me.example/client.json"


# -- another device


def test_a_person_on_another_device_is_waited_for():
    said = {"device_code": "d", "user_code": "U\x1b-1", "verification_uri": "https://v.example"}
    code, (sent,) = drive(start_device(grant_request(scopes=("a",)), 0.0), lambda _: reply(said))
    assert fields_of(sent)["resource"] == FOUND.resource
    assert code.instructions == "open https://v.example and enter the code U-1"
    slower = msgspec.structs.replace(code, interval=10.0)
    for asked, error, wait in (
        (code, "authorization_pending", 5.0),
        (code, "slow_down", 10.0),
        (slower, "slow_down", 15.0),
        (slower, "server_error", 15.0),
        (slower, "authorization_pending", 10.0),
    ):
        answer, _ = drive(
            poll_device(asked, grant_request(), 0.0),
            lambda _, error=error: reply({"error": error}, 400),
        )
        assert answer == wait
    grant, (sent,) = drive(poll_device(code, grant_request(), 0.0), lambda _: reply(TOKEN))
    assert grant.access_token == "at"
    assert fields_of(sent)["device_code"] == "d"
    with pytest.raises(FlowFailed, match="access_denied"):
        drive(
            poll_device(code, grant_request(), 0.0),
            lambda _: reply({"error": "access_denied"}, 400),
        )


def test_a_server_without_that_grant_says_so():
    with pytest.raises(FlowFailed, match="device_authorization_endpoint"):
        drive(start_device(grant_request(found=among(device_authorization_endpoint=None)), 0.0), {})

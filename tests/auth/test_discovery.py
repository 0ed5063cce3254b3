"""From a challenge to an authorization server, without a network."""

import pytest

from accord.auth.discovery import discover, metadata_urls, resource_metadata_urls
from accord.auth.urls import belongs_to, canonical_resource, is_same_issuer
from accord.errors import FlowFailed
from accord.http.client.guarded import HttpResponse, NoResponse
from support.flows import drive, reply
from support.tables import cases

SERVER = "https://example.com/team/mcp"
ISSUER = "https://login.example.org"
SUFFIXED = "https://example.com/.well-known/oauth-protected-resource/team/mcp"
ROOT = "https://example.com/.well-known/oauth-protected-resource"
METADATA = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "code_challenge_methods_supported": ["S256"],
}
RESOURCE = {"resource": SERVER, "authorization_servers": [ISSUER]}
OAUTH = f"{ISSUER}/.well-known/oauth-authorization-server"


def urls(asked):
    return [each.url for each in asked]


@pytest.mark.requirement(
    "auth.prm.client-uses", "auth.as-metadata.client", "auth.prm.client-both-mechanisms"
)
def test_the_metadata_that_the_challenge_names_is_asked_first():
    named = "https://example.com/elsewhere/metadata"
    found, asked = drive(
        discover(SERVER, named=named), {named: reply(RESOURCE), OAUTH: reply(METADATA)}
    )
    assert urls(asked) == [named, OAUTH]
    assert found.resource == SERVER
    assert found.server.token_endpoint == f"{ISSUER}/token"


@pytest.mark.requirement("auth.prm.client-both-mechanisms")
def test_without_a_name_the_path_comes_before_the_root():
    _, asked = drive(discover(SERVER), {ROOT: reply(RESOURCE), OAUTH: reply(METADATA)})
    assert urls(asked) == [SUFFIXED, ROOT, OAUTH]
    _, asked = drive(discover(SERVER), {SUFFIXED: reply(RESOURCE), OAUTH: reply(METADATA)})
    assert urls(asked) == [SUFFIXED, OAUTH]


def test_a_server_at_the_root_has_one_place_for_its_metadata():
    assert resource_metadata_urls("https://example.com/") == [ROOT]


@pytest.mark.requirement("auth.asm.order-with-path", "auth.asm.no-own-suffix")
def test_an_issuer_with_a_path_is_asked_in_three_forms():
    assert metadata_urls("https://h.example/tenant1/") == [
        "https://h.example/.well-known/oauth-authorization-server/tenant1",
        "https://h.example/.well-known/openid-configuration/tenant1",
        "https://h.example/tenant1/.well-known/openid-configuration",
    ]


@pytest.mark.requirement("auth.asm.order-without-path", "auth.asm.no-own-suffix")
def test_an_issuer_without_a_path_is_asked_in_two_forms():
    assert metadata_urls(ISSUER) == [OAUTH, f"{ISSUER}/.well-known/openid-configuration"]


@pytest.mark.requirement("auth.client.discovery-both", "auth.asm.client-tries-several")
@pytest.mark.parametrize("place", range(3))
def test_every_form_of_metadata_is_found(place):
    issuer = f"{ISSUER}/tenant1"
    resource = RESOURCE | {"authorization_servers": [issuer]}
    there = metadata_urls(issuer)[place]
    found, asked = drive(
        discover(SERVER),
        {SUFFIXED: reply(resource), there: reply(METADATA | {"issuer": issuer})},
    )
    assert found.server.issuer == issuer
    assert len(asked) == place + 2


@pytest.mark.requirement("auth.discovery.protocol-version-header")
def test_every_question_of_discovery_names_the_revision():
    _, asked = drive(discover(SERVER), {ROOT: reply(RESOURCE), OAUTH: reply(METADATA)})
    assert all(each.headers["MCP-Protocol-Version"] for each in asked)


@pytest.mark.requirement("auth.discovery.base-url", "auth.as-metadata.client")
def test_a_server_of_the_older_kind_has_its_metadata_at_its_root():
    place = "https://example.com/.well-known/oauth-authorization-server"
    said = METADATA | {"issuer": "https://example.com"}
    found, asked = drive(discover(SERVER), {place: reply(said)})
    assert urls(asked) == [SUFFIXED, ROOT, place]
    assert found.resource == SERVER
    assert not found.server.is_assumed


@pytest.mark.requirement(
    "auth.fallback.default-paths",
    "auth.fallback.authorize-path",
    "auth.fallback.token-path",
    "auth.fallback.register-path",
    "auth.discovery.base-url",
)
def test_a_server_without_any_metadata_has_default_paths():
    found, _ = drive(discover(SERVER), {})
    server = found.server
    assert server.is_assumed
    assert server.authorization_endpoint == "https://example.com/authorize"
    assert server.token_endpoint == "https://example.com/token"
    assert server.registration_endpoint == "https://example.com/register"


@cases(
    "resource",
    [
        "https://evil.example/team/mcp",
        "https://example.com:8443/team/mcp",
        "http://example.com/team/mcp",
        "https://example.com/other",
        "https://example.com/team/mc",
        "https://example.com/team/mcp#part",
        "https://example.com.evil.example/team/mcp",
        "https://example.com@evil.example/team/mcp",
        f"{SERVER}?tenant=1",
        "https://[bad",
        "https://example.com:port/team/mcp",
        None,
        7,
    ],
    ids=str,
)
@pytest.mark.requirement("auth.tokens.only-own-issuer")
def test_metadata_of_another_resource_is_refused(resource):
    with pytest.raises(FlowFailed, match="another resource") as caught:
        drive(discover(SERVER), {SUFFIXED: reply(RESOURCE | {"resource": resource})})
    assert caught.value.step == "protected resource metadata"
    assert caught.value.asked == f"GET {SUFFIXED}"
    assert SERVER in caught.value.hint


def test_metadata_of_another_path_of_the_server_names_the_url_to_use():
    place = "https://example.com/.well-known/oauth-protected-resource"
    with pytest.raises(FlowFailed) as caught:
        drive(discover("https://example.com/"), {place: reply(RESOURCE | {"resource": SERVER})})
    assert caught.value.hint.startswith(f"the server is at {SERVER}: use that URL; or the metadata")


@cases("resource", [SERVER, f"{SERVER}/", "https://EXAMPLE.com/team", "https://example.com"])
def test_a_resource_that_the_server_is_part_of_is_its_own(resource):
    assert belongs_to(resource, SERVER)
    assert belongs_to(resource, f"{SERVER}?tenant=1")


def test_a_query_that_a_resource_names_is_that_of_the_server():
    assert belongs_to(f"{SERVER}?tenant=1", f"{SERVER}?tenant=1")
    assert not belongs_to(f"{SERVER}?tenant=1", f"{SERVER}?tenant=2")


@pytest.mark.requirement("auth.resource.canonical", "auth.resource.most-specific")
def test_the_resource_is_exactly_what_the_metadata_names():
    said = RESOURCE | {"resource": "https://example.com"}
    found, _ = drive(discover(SERVER), {SUFFIXED: reply(said), OAUTH: reply(METADATA)})
    assert found.resource == "https://example.com"


@pytest.mark.requirement("auth.resource.canonical", "auth.resource.most-specific")
@cases(
    ("url", "canonical"),
    [
        ("https://example.com/mcp", "https://example.com/mcp"),
        ("HTTPS://Example.COM:443/mcp/", "https://example.com/mcp"),
        ("https://example.com/", "https://example.com"),
        ("https://example.com/mcp?token=x#y", "https://example.com/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
    ],
)
def test_the_canonical_uri_is_absolute_and_says_no_more_than_it_means(url, canonical):
    assert canonical_resource(url) == canonical


@pytest.mark.requirement("auth.asm.issuer-identical")
@cases(
    "issuer",
    ["https://evil.example", f"{ISSUER}/tenant", "https://LOGIN.example.org", None, ["x"]],
    ids=str,
)
def test_metadata_of_another_issuer_is_not_used(issuer):
    said = METADATA | {"issuer": issuer}
    with pytest.raises(FlowFailed) as caught:
        drive(discover(SERVER), {SUFFIXED: reply(RESOURCE), OAUTH: reply(said)})
    assert caught.value.step == "authorization server metadata"
    assert ISSUER in caught.value.hint


@cases(
    ("said", "expected", "same"),
    [
        ("https://a.example/", "https://a.example", True),
        ("https://a.example", "https://a.example/", True),
        ("https://a.example/x", "https://a.example/x", True),
        ("https://a.example/x/", "https://a.example/x", False),
        ("https://a.example/x", "https://a.example/x/", False),
        ("https://A.example", "https://a.example", False),
        (None, "https://a.example", False),
        (["https://a.example"], "https://a.example", False),
    ],
)
def test_issuers_are_compared_as_they_are_written(said, expected, same):
    assert is_same_issuer(said, expected) is same


@pytest.mark.requirement("auth.asm.issuer-identical")
def test_metadata_whose_issuer_has_another_slash_is_not_used():
    said = METADATA | {"issuer": f"{ISSUER}/"}
    with pytest.raises(FlowFailed, match="issuer") as caught:
        drive(discover(SERVER), {SUFFIXED: reply(RESOURCE), OAUTH: reply(said)})
    assert "only a slash" in caught.value.hint


@pytest.mark.parametrize("issuer", [ISSUER, f"{ISSUER}/"])
def test_the_issuer_may_be_spelled_as_the_resource_or_the_user_does(issuer):
    said = METADATA | {"issuer": issuer}
    flow = discover(SERVER, preferred=[f"{ISSUER}/"])
    found, _ = drive(flow, {SUFFIXED: reply(RESOURCE), OAUTH: reply(said)})
    assert found.server.issuer == issuer


def test_older_metadata_may_name_its_own_root_with_a_slash():
    place = "https://example.com/.well-known/oauth-authorization-server"
    said = METADATA | {"issuer": "https://example.com/"}
    found, _ = drive(discover(SERVER), {place: reply(said)})
    assert found.server.issuer == "https://example.com/"


def test_older_metadata_of_another_issuer_is_refused():
    place = "https://example.com/.well-known/oauth-authorization-server"
    with pytest.raises(FlowFailed, match="another issuer"):
        drive(discover(SERVER), {place: reply(METADATA)})


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_temporary_fault_causes_no_fallback(status):
    with pytest.raises(FlowFailed, match=f"HTTP {status}") as caught:
        drive(discover(SERVER), {SUFFIXED: HttpResponse(status=status)})
    assert caught.value.hint == "try again later"


def test_a_place_that_must_not_be_asked_ends_the_flow():
    refusal = NoResponse("10.0.0.1 is at a private address", is_refused=True, hint="trust it")
    with pytest.raises(FlowFailed, match="private address") as caught:
        drive(discover(SERVER, named="https://10.0.0.1/x"), {"https://10.0.0.1/x": refusal})
    assert caught.value.hint == "trust it"


def test_metadata_that_is_not_a_json_object_is_reported():
    for body in (b"<html>", b"[1]", b"\xff", b"[" * 100_000):
        with pytest.raises(FlowFailed, match="RFC 9728"):
            drive(discover(SERVER), {SUFFIXED: HttpResponse(status=200, body=body)})


def test_a_server_that_answers_every_path_with_a_page_may_have_metadata_at_its_root():
    page = HttpResponse(status=200, body=b"<html>")
    place = "https://example.com/.well-known/oauth-authorization-server"
    said = METADATA | {"issuer": "https://example.com"}
    found, asked = drive(discover(SERVER), {SUFFIXED: page, ROOT: page, place: reply(said)})
    assert urls(asked) == [SUFFIXED, ROOT, place]
    assert not found.server.is_assumed
    with pytest.raises(FlowFailed, match="RFC 9728"):
        drive(discover(SERVER, named=SUFFIXED), {SUFFIXED: page, ROOT: reply(RESOURCE)})
    good = {SUFFIXED: page, ROOT: reply(RESOURCE), OAUTH: reply(METADATA)}
    found, asked = drive(discover(SERVER, named="/gone"), good)
    assert found.server.issuer == ISSUER
    assert urls(asked) == ["https://example.com/gone", SUFFIXED, ROOT, OAUTH]


def test_an_issuer_that_answers_with_a_page_may_have_metadata_elsewhere():
    page = HttpResponse(status=200, body=b"<html>")
    known = {SUFFIXED: reply(RESOURCE), OAUTH: page}
    openid = f"{ISSUER}/.well-known/openid-configuration"
    found, _ = drive(discover(SERVER), known | {openid: reply(METADATA)})
    assert found.server.issuer == ISSUER
    with pytest.raises(FlowFailed) as caught:
        drive(discover(SERVER), known)
    assert f"{OAUTH} (HTTP 200" in str(caught.value)
    assert openid in str(caught.value)


def test_the_preferred_of_several_issuers_is_taken():
    second = "https://second.example"
    said = RESOURCE | {"authorization_servers": [ISSUER, second]}
    place = f"{second}/.well-known/oauth-authorization-server"
    found, _ = drive(
        discover(SERVER, preferred=["https://other.example", second]),
        {SUFFIXED: reply(said), place: reply(METADATA | {"issuer": second})},
    )
    assert found.server.issuer == second

"""The documents, CORS, methods."""

import pytest

from accord.auth.authorization_server.clients import KnownClient
from support.oauth import ISSUER, Desk
from support.tables import cases

METADATA = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


@pytest.mark.requirement("auth.as.rfc8414-required")
@pytest.mark.requirement("auth.https.endpoints")
def test_the_metadata_names_every_endpoint_over_https():
    answer = Desk().send("GET", METADATA)
    assert answer.status == 200
    document = answer.json
    assert document["issuer"] == ISSUER
    for name, path in (
        ("authorization_endpoint", "/authorize"),
        ("token_endpoint", "/token"),
        ("registration_endpoint", "/register"),
        ("revocation_endpoint", "/revoke"),
        ("device_authorization_endpoint", "/device_authorization"),
        ("jwks_uri", "/jwks"),
    ):
        assert document[name] == f"{ISSUER}{path}"
    assert document["response_types_supported"] == ["code"]
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["scopes_supported"] == ["read", "write"]
    assert "client_credentials" not in document["grant_types_supported"]


@pytest.mark.requirement("auth.as.discovery-either")
@pytest.mark.requirement("auth.pkce.as-oidc-advertises")
def test_the_same_is_offered_as_openid_discovery():
    document = Desk().send("GET", OPENID).json
    assert document["issuer"] == ISSUER
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["subject_types_supported"] == ["public"]
    assert document["id_token_signing_alg_values_supported"] == ["ES256"]


@pytest.mark.requirement("auth.iss.as-advertises")
def test_the_metadata_says_that_answers_name_the_issuer():
    document = Desk().send("GET", METADATA).json
    assert document["authorization_response_iss_parameter_supported"] is True


@pytest.mark.requirement("auth.cimd.supported")
def test_the_metadata_says_that_ids_may_be_documents():
    document = Desk().send("GET", METADATA).json
    assert document["client_id_metadata_document_supported"] is True


@pytest.mark.requirement("auth.iss.as-sends")
def test_answers_and_errors_name_the_issuer():
    desk = Desk()
    client = desk.client()
    assert desk.allow(client).returned["iss"] == ISSUER
    assert desk.authorize(client, code_challenge=None).returned["iss"] == ISSUER


def test_metadata_names_client_credentials_if_a_client_may_use_them():
    machine = KnownClient(client_id="m", secret="s")
    document = Desk(clients={"m": machine.client}).send("GET", METADATA).json
    assert "client_credentials" in document["grant_types_supported"]


@cases("path", [METADATA, OPENID, "/jwks", "/token", "/register", "/revoke"])
def test_pages_of_other_sites_may_ask_and_read(path):
    desk = Desk()
    preflight = desk.send("OPTIONS", path)
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert "mcp-protocol-version" in preflight.headers["access-control-allow-headers"]
    method = "POST" if path in ("/token", "/register", "/revoke") else "GET"
    answer = desk.send(method, path, origin="https://app.example")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers


@cases(
    ("method", "path", "allowed"),
    [
        ("GET", "/token", "POST"),
        ("GET", "/register", "POST"),
        ("DELETE", "/authorize", "GET, POST"),
        ("OPTIONS", "/authorize", "GET, POST"),
        ("POST", METADATA, "GET"),
    ],
)
def test_other_methods_are_refused_with_those_that_are_served(method, path, allowed):
    answer = Desk().send(method, path)
    assert answer.status == 405
    assert answer.headers["allow"] == allowed


def test_a_query_of_too_many_fields_is_refused():
    assert Desk().send("GET", "/authorize", query="a=1&" * 51).status == 400

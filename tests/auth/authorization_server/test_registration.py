"""Dynamic registration: every field is checked."""

import json

import pytest

from support.oauth import RESOURCE, RETURN, Desk, basic
from support.tables import cases


@pytest.mark.requirement("auth.dcr.authorization-server")
def test_a_public_client_registers_itself():
    answer = Desk().register()
    assert answer.status == 201
    assert answer.headers["cache-control"] == "no-store"
    told = answer.json
    assert told.pop("client_id")
    assert told == {
        "client_id_issued_at": 1_000_000,
        "client_name": "Notes",
        "redirect_uris": [RETURN],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


@pytest.mark.requirement("auth.dcr.authorization-server")
def test_a_client_that_can_keep_a_secret_gets_one_that_is_kept_as_a_hash():
    desk = Desk()
    told = desk.register(token_endpoint_auth_method="client_secret_basic").json
    assert len(told["client_secret"]) >= 43
    assert told["client_secret_expires_at"] == 0
    kept = desk.store.clients.find(told["client_id"])
    assert told["client_secret"] not in repr(kept)
    answer = desk.token(grant_type="refresh_token", refresh_token="x", client_id=told["client_id"])
    assert answer.error == "invalid_client"
    headers = basic(told["client_id"], told["client_secret"])
    answer = desk.post("/token", headers=headers, grant_type="refresh_token", refresh_token="x")
    assert answer.error == "invalid_grant"


def test_ids_are_never_given_twice():
    desk = Desk()
    assert len({desk.client() for _ in range(20)}) == 20


def test_fields_that_mean_nothing_here_are_dropped():
    told = Desk().register(logo_uri="https://a.example/logo.png", contacts=["a@a.example"]).json
    assert "logo_uri" not in told
    assert "contacts" not in told


@pytest.mark.requirement("auth.dcr.application-type")
@pytest.mark.parametrize("kind", ["native", "web"])
def test_the_application_type_is_stored_and_returned(kind):
    desk = Desk()
    said = desk.register(application_type=kind).json
    assert said["application_type"] == kind
    assert desk.store.clients.find(said["client_id"]).application_type == kind


def test_scopes_that_the_server_does_not_have_are_dropped():
    desk = Desk()
    assert desk.register(scope="read fly").json["scope"] == "read"
    assert "scope" not in desk.register(scope="fly").json


def test_grant_types_that_are_not_offered_are_dropped():
    told = Desk().register(grant_types=["authorization_code", "implicit"]).json
    assert told["grant_types"] == ["authorization_code"]


@cases(
    ("fields", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://evil.example/cb"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [RETURN, "https://a.example/#x"]}, "invalid_redirect_uri"),
        (
            {"redirect_uris": [f"https://a.example/{n}" for n in range(11)]},
            "invalid_redirect_uri",
        ),
        ({"redirect_uris": "https://a.example/cb"}, "invalid_client_metadata"),
        ({"redirect_uris": [1]}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"grant_types": ["implicit"]}, "invalid_client_metadata"),
        ({"grant_types": ["refresh_token"]}, "invalid_client_metadata"),
        ({"grant_types": []}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
        ({"client_name": "a" * 101}, "invalid_client_metadata"),
        ({"client_name": "Not\u202ees"}, "invalid_client_metadata"),
        ({"client_name": "Notes\x00"}, "invalid_client_metadata"),
        ({"application_type": "toaster"}, "invalid_client_metadata"),
        ({"client_name": 7}, "invalid_client_metadata"),
        ({"scope": "a " * 600}, "invalid_client_metadata"),
        ({"scope": ["read"]}, "invalid_client_metadata"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_invalid_client_metadata_is_refused(fields, error):
    answer = Desk().register(**fields)
    assert (answer.status, answer.error) == (400, error)
    assert answer.json["error_description"]


def test_registration_does_not_allow_client_credentials():
    answer = Desk().register(
        grant_types=["authorization_code", "client_credentials"],
        token_endpoint_auth_method="client_secret_basic",
    )
    assert (answer.status, answer.error) == (400, "invalid_client_metadata")


@cases("body", [b"", b"[]", b"{", b"\xff", b"null", b'{"redirect_uris": null}', b"[" * 5000])
def test_a_registration_that_cannot_be_read_is_refused(body):
    answer = Desk().send("POST", "/register", body=body, content_type="application/json")
    assert (answer.status, answer.error) == (400, "invalid_client_metadata")


def test_a_registration_must_say_that_it_is_json():
    answer = Desk().send("POST", "/register", body=b"{}", content_type="text/plain")
    assert (answer.status, answer.error) == (400, "invalid_client_metadata")


def test_an_oversized_registration_is_refused():
    answer = Desk().register(software_statement="x" * 17_000)
    assert (answer.status, answer.error) == (413, "invalid_client_metadata")


DAY = 86_400


def test_a_full_server_forgets_the_client_that_has_had_no_grant_for_longest():
    desk = Desk(clients_most=3)
    first, second, third = (desk.client() for _ in range(3))
    desk.tokens(second)
    desk.now += 10
    desk.tokens(first)
    desk.now += 40 * DAY  # the grants of both are gone, the third was never used
    kept = []
    for _ in range(4):
        desk.now += 1
        kept.append([each for each in (first, second, third) if desk.store.clients.find(each)])
        desk.client()
    assert kept == [[first, second, third], [first, second], [first], []]


def test_a_client_with_a_grant_never_makes_room():
    desk = Desk(clients_most=2)
    used = desk.client()
    tokens = desk.tokens(used)
    for _ in range(5):
        fresh = desk.client()
    assert desk.store.clients.find(used) is not None
    assert desk.refresh(used, tokens["refresh_token"]).status == 200
    desk.tokens(fresh)
    answer = desk.register()
    assert (answer.status, answer.error) == (503, "temporarily_unavailable")


def test_registration_is_open_again_a_year_after_all_clients_were_used_once():
    desk = Desk(clients_most=3)
    for _ in range(3):
        desk.tokens(desk.client())
    desk.now += 365 * DAY
    assert desk.register().status == 201


def test_clients_without_a_grant_are_forgotten_after_months():
    desk = Desk(client_ttl=100 * DAY, remember_consent=True)
    unused, once, steady = (desk.client() for _ in range(3))
    desk.tokens(once)
    refresh = desk.tokens(steady)["refresh_token"]
    for _ in range(11):
        desk.now += 9 * DAY
        refresh = desk.refresh(steady, refresh).json["refresh_token"]
    assert all(map(desk.store.clients.find, (unused, once, steady)))
    desk.now += 2 * DAY
    desk.send("GET", "/jwks")
    assert [each for each in (unused, once, steady) if desk.store.clients.find(each)] == [steady]
    assert desk.store.clients.consented_scopes("ada", once, RESOURCE) is None
    assert desk.store.clients.consented_scopes("ada", steady, RESOURCE) is not None
    # From the last refresh on, not from the first grant.
    desk.now += 97 * DAY
    desk.send("GET", "/jwks")
    assert desk.store.clients.find(steady) is not None


def test_one_address_registers_no_more_than_so_often():
    desk = Desk()
    statuses = [desk.register().status for _ in range(61)]
    assert statuses == [201] * 60 + [429]
    desk.address = "192.0.2.2"
    assert desk.register().status == 201
    desk.address = "192.0.2.1"
    desk.now += 61
    assert desk.register().status == 201


def test_registration_can_be_turned_off():
    desk = Desk(registration=False)
    assert desk.register().status == 403
    metadata = desk.send("GET", "/.well-known/oauth-authorization-server").json
    assert "registration_endpoint" not in metadata


def test_registration_can_need_a_token():
    desk = Desk(registration_token="sesame")
    body = json.dumps({"redirect_uris": [RETURN]}).encode()
    for given, status in (
        ({}, 401),
        ({"authorization": "Bearer x"}, 401),
        ({"authorization": "Basic sesame"}, 401),
    ):
        answer = desk.send("POST", "/register", body=body, content_type="application/json", **given)
        assert answer.status == status
    answer = desk.send(
        "POST",
        "/register",
        body=body,
        content_type="application/json",
        authorization="Bearer sesame",
    )
    assert answer.status == 201

"""The token endpoint: codes, refresh tokens, credentials; what is stolen is worth nothing."""

import asyncio
import base64
import hmac
import json

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from accord.auth.authorization_server.access_tokens import OwnTokenVerifier, RevokedGrants
from accord.auth.authorization_server.clients import KnownClient
from support.oauth import ADA, FORM, ISSUER, RESOURCE, RETURN, Desk, basic, challenge_of, claims_of
from support.tables import cases

OTHER = "https://auth.example/other"
MACHINE = KnownClient(client_id="machine", secret="long secret", scopes=("read",))


@pytest.fixture
def desk():
    return Desk()


def verified(desk: Desk, token: str, audience: str = RESOURCE, issuer: str | None = ISSUER):
    def endpoints():
        return desk.endpoints

    tokens = OwnTokenVerifier(
        endpoints, issuer=issuer, audiences=(audience,), revoked=RevokedGrants(endpoints)
    )
    principal = tokens.read_principal(token, desk.now)
    if principal is None or principal.claims["grant"] in desk.store.grants.read_revoked():
        return None
    return principal


@pytest.mark.requirement("auth.token.short-lived")
def test_a_code_becomes_tokens_that_are_short_lived_and_for_one_audience(desk):
    client = desk.client()
    answer = desk.redeem(client, desk.code(client))
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json["token_type"] == "Bearer"
    assert answer.json["expires_in"] == 600
    claims = claims_of(answer.json["access_token"])
    assert claims["exp"] - claims["iat"] == 600
    assert claims["aud"] == RESOURCE
    assert claims["iss"] == ISSUER
    assert claims["sub"] == "ada"
    assert claims["client_id"] == client
    assert claims["scope"] == "read"


def test_the_verifier_takes_what_was_issued_until_it_expires(desk):
    token = desk.tokens(desk.client())["access_token"]
    principal = verified(desk, token)
    assert principal is not None
    assert (principal.subject, principal.scopes) == ("ada", frozenset({"read"}))
    assert verified(desk, token, OTHER) is None
    assert verified(desk, token[:-4] + "AAAA") is None
    desk.now += 600
    assert verified(desk, token) is None


@pytest.mark.requirement("auth.oauth21.authorization-server")
def test_a_code_is_good_once_and_its_replay_revokes_what_came_from_it(desk):
    client = desk.client()
    code = desk.code(client)
    first = desk.redeem(client, code).json
    assert verified(desk, first["access_token"]) is not None
    assert desk.redeem(client, code).error == "invalid_grant"
    assert verified(desk, first["access_token"]) is None
    assert desk.refresh(client, first["refresh_token"]).error == "invalid_grant"


def test_a_replay_is_noticed_after_the_code_has_expired(desk):
    client = desk.client()
    code = desk.code(client)
    first = desk.redeem(client, code).json
    desk.now += 120
    assert desk.redeem(client, code).error == "invalid_grant"
    assert verified(desk, first["access_token"]) is None


@pytest.mark.requirement("auth.oauth21.authorization-server")
@pytest.mark.parametrize(
    "form",
    [
        {"code_verifier": "w" * 50},
        {"code_verifier": "v" * 49},
        {"code_verifier": "v" * 42},
        {"code_verifier": "v" * 129},
        {"redirect_uri": "http://127.0.0.1:3001/callback"},
        {"code": "guessed"},
    ],
    ids=str,
)
def test_a_code_is_worth_nothing_without_what_it_is_bound_to(desk, form):
    client = desk.client()
    code = desk.code(client)
    assert desk.redeem(client, **({"code": code} | form)).error == "invalid_grant"


def test_a_missing_verifier_does_not_bypass_pkce(desk):
    client = desk.client()
    assert desk.redeem(client, desk.code(client), code_verifier="").error == "invalid_request"


@pytest.mark.parametrize("verifier", ["v" * 42, "v" * 129, "ü" * 50], ids=["short", "long", "ü"])
def test_a_verifier_that_could_be_guessed_is_not_taken_even_if_it_fits(desk, verifier):
    client = desk.client()
    code = desk.code(client, code_challenge=challenge_of(verifier))
    assert desk.redeem(client, code, code_verifier=verifier).error == "invalid_grant"


def test_a_code_is_burnt_by_a_wrong_verifier(desk):
    client = desk.client()
    code = desk.code(client)
    assert desk.redeem(client, code, code_verifier="w" * 50).error == "invalid_grant"
    assert desk.redeem(client, code).error == "invalid_grant"


def test_a_code_of_another_client_is_worth_nothing(desk):
    mine, other = desk.client(), desk.client()
    code = desk.code(mine)
    assert desk.redeem(other, code).error == "invalid_grant"


def test_a_code_expires_after_a_minute(desk):
    client = desk.client()
    code = desk.code(client)
    desk.now += 60
    assert desk.redeem(client, code).error == "invalid_grant"


def test_a_code_is_for_the_resource_that_was_asked_for(desk):
    desk.resources = (RESOURCE, OTHER)
    client = desk.client()
    assert desk.redeem(client, desk.code(client), resource=OTHER).error == "invalid_target"
    answer = desk.redeem(client, desk.code(client), resource=RESOURCE)
    assert claims_of(answer.json["access_token"])["aud"] == RESOURCE


def test_the_redirect_uri_need_not_be_repeated(desk):
    client = desk.client()
    assert desk.redeem(client, desk.code(client), redirect_uri="").status == 200


@pytest.mark.requirement("auth.tokens.refresh-rotated")
def test_a_refresh_token_is_replaced_with_every_use(desk):
    client = desk.client()
    first = desk.tokens(client)
    second = desk.refresh(client, first["refresh_token"])
    assert second.status == 200
    assert second.json["refresh_token"] != first["refresh_token"]
    assert second.json["scope"] == "read"
    third = desk.refresh(client, second.json["refresh_token"], resource=RESOURCE)
    assert third.status == 200


@pytest.mark.requirement("auth.tokens.refresh-rotated")
def test_a_refresh_token_used_twice_revokes_the_whole_family(desk):
    client = desk.client()
    first = desk.tokens(client)
    second = desk.refresh(client, first["refresh_token"]).json
    assert desk.refresh(client, first["refresh_token"]).error == "invalid_grant"
    assert desk.refresh(client, second["refresh_token"]).error == "invalid_grant"
    assert verified(desk, second["access_token"]) is None


def test_the_family_of_one_grant_is_not_that_of_another(desk):
    client = desk.client()
    first, other = desk.tokens(client), desk.tokens(client)
    desk.refresh(client, first["refresh_token"])
    desk.refresh(client, first["refresh_token"])
    assert desk.refresh(client, other["refresh_token"]).status == 200


def test_two_refreshes_at_once_can_be_tolerated():
    desk = Desk(reuse_tolerance=10)
    client = desk.client()
    first = desk.tokens(client)
    second = desk.refresh(client, first["refresh_token"])
    desk.now += 5
    again = desk.refresh(client, first["refresh_token"])
    assert (second.status, again.status) == (200, 200)
    assert second.json["refresh_token"] != again.json["refresh_token"]
    desk.now += 5
    assert desk.refresh(client, first["refresh_token"]).error == "invalid_grant"
    assert desk.refresh(client, again.json["refresh_token"]).error == "invalid_grant"


def test_a_refresh_token_expires_when_it_is_not_used():
    desk = Desk(refresh_ttl=1000)
    client = desk.client()
    token = desk.tokens(client)["refresh_token"]
    desk.now += 999
    token = desk.refresh(client, token).json["refresh_token"]
    desk.now += 999
    token = desk.refresh(client, token).json["refresh_token"]
    desk.now += 1000
    assert desk.refresh(client, token).error == "invalid_grant"


def test_a_refresh_token_of_another_client_is_worth_nothing_and_has_no_effect(desk):
    mine, other = desk.client(), desk.client()
    token = desk.tokens(mine)["refresh_token"]
    assert desk.refresh(other, token).error == "invalid_grant"
    assert desk.refresh(mine, token).status == 200


def test_a_refreshed_token_may_allow_less_but_never_more(desk):
    client = desk.client()
    first = desk.tokens(client, scope="read write")
    second = desk.refresh(client, first["refresh_token"], scope="read").json
    assert second["scope"] == "read"
    third = desk.refresh(client, second["refresh_token"]).json
    assert third["scope"] == "read write"
    narrow = desk.tokens(client, scope="read")["refresh_token"]
    assert desk.refresh(client, narrow, scope="read write").error == "invalid_scope"
    fourth = desk.refresh(client, narrow, scope="read offline_access").json
    assert fourth["scope"] == "read"
    assert desk.refresh(client, fourth["refresh_token"]).status == 200


def test_a_refreshed_token_stays_for_its_resource(desk):
    desk.resources = (RESOURCE, OTHER)
    client = desk.client()
    token = desk.tokens(client)["refresh_token"]
    assert desk.refresh(client, token, resource=OTHER).error == "invalid_target"
    assert desk.refresh(client, token).status == 200


def test_scopes_that_the_operator_removed_are_not_granted_again():
    before = Desk()
    client = before.client()
    tokens = before.tokens(client, scope="read write")
    after = Desk(store=before.store, scopes={"read": ""})
    answer = after.refresh(client, tokens["refresh_token"])
    assert answer.json["scope"] == "read"
    assert claims_of(answer.json["access_token"])["scope"] == "read"


@pytest.mark.parametrize(
    "settings",
    [{"users": {"bob": ADA}}, {"users": {}, "single_user": "bob"}],
    ids=["users", "single user"],
)
def test_a_user_removed_from_the_settings_gets_no_further_token(settings):
    before = Desk()
    client = before.client()
    tokens = before.tokens(client)
    code = before.code(client)
    after = Desk(store=before.store, **settings)
    after.cookie = before.cookie
    for refused in (after.refresh(client, tokens["refresh_token"]), after.redeem(client, code)):
        assert (refused.status, refused.error) == (400, "invalid_grant")
    assert verified(after, tokens["access_token"]) is None
    assert "<strong>ada</strong>" not in after.authorize(client).text
    again = Desk(store=before.store)
    assert again.refresh(client, tokens["refresh_token"]).status == 400


def test_a_token_that_allows_nothing_in_particular_has_no_scope():
    desk = Desk(scopes={})
    tokens = desk.tokens(desk.client(), scope=None)
    assert "scope" not in tokens
    assert "scope" not in claims_of(tokens["access_token"])
    principal = verified(desk, tokens["access_token"])
    assert principal is not None
    assert principal.scopes == frozenset()


def test_a_client_not_registered_for_refresh_tokens_gets_none(desk):
    client = desk.client(grant_types=["authorization_code"])
    assert "refresh_token" not in desk.tokens(client)
    assert desk.refresh(client, "x").error == "unauthorized_client"


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "invalid_request"),
        ({"grant_type": "password", "username": "ada"}, "unsupported_grant_type"),
        ({"grant_type": "authorization_code"}, "invalid_request"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
        ({"grant_type": "client_credentials"}, "unauthorized_client"),
    ],
    ids=str,
)
def test_a_token_request_that_says_too_little_is_refused(desk, form, error):
    answer = desk.token(client_id=desk.client(), **form)
    assert (answer.status, answer.error) == (400, error)
    assert answer.headers["cache-control"] == "no-store"


def test_a_token_request_is_a_form(desk):
    answer = desk.send("POST", "/token", body=b"{}", content_type="application/json")
    assert (answer.status, answer.error) == (400, "invalid_request")
    for body, error in (
        (b"grant_type=refresh_token&grant_type=authorization_code", "invalid_request"),
        (b"resource=https://a.example&resource=https://b.example", "invalid_target"),
        (b"grant_type=\xff", "invalid_request"),
    ):
        answer = desk.send("POST", "/token", body=body, content_type=FORM)
        assert (answer.status, answer.error) == (400, error)


def test_a_machine_gets_a_token_for_itself():
    desk = Desk(clients={"machine": MACHINE.client})
    headers = basic("machine", "long secret")
    answer = desk.post("/token", headers=headers, grant_type="client_credentials")
    assert answer.status == 200
    assert "refresh_token" not in answer.json
    claims = claims_of(answer.json["access_token"])
    assert (claims["sub"], claims["scope"], claims["aud"]) == ("machine", "read", RESOURCE)
    form = {"grant_type": "client_credentials"}
    assert desk.post("/token", headers=headers, **form, scope="write").error == "invalid_scope"
    assert desk.post("/token", headers=headers, **form, resource=OTHER).error == "invalid_target"


def test_a_machine_gets_no_refresh_token_whatever_it_is_registered_for():
    both = msgspec.structs.replace(
        MACHINE.client, grant_types=("client_credentials", "refresh_token")
    )
    desk = Desk(clients={"machine": both})
    answer = desk.post(
        "/token", headers=basic("machine", "long secret"), grant_type="client_credentials"
    )
    assert answer.status == 200
    assert "refresh_token" not in answer.json


def test_a_machine_authenticates_with_its_secret():
    desk = Desk(clients={"machine": MACHINE.client})
    form = {"grant_type": "client_credentials"}
    answer = desk.post("/token", headers=basic("machine", "wrong"), **form)
    assert (answer.status, answer.error) == (401, "invalid_client")
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert desk.token(client_id="machine", client_secret="long secret", **form).status == 200
    assert desk.token(client_id="machine", **form).status == 401


def test_a_machine_without_a_secret_gets_nothing():
    trusting = msgspec.structs.replace(MACHINE.client, secret_hash=None, authentication="none")
    desk = Desk(clients={"machine": trusting})
    answer = desk.token(client_id="machine", grant_type="client_credentials")
    assert answer.error == "unauthorized_client"


def test_the_token_of_a_machine_can_be_revoked():
    desk = Desk(clients={"machine": MACHINE.client})
    headers = basic("machine", "long secret")
    given = desk.post("/token", headers=headers, grant_type="client_credentials").json
    assert verified(desk, given["access_token"]) is not None
    assert desk.post("/revoke", headers=headers, token=given["access_token"]).status == 200
    assert verified(desk, given["access_token"]) is None


@cases(
    ("headers", "form", "error"),
    [
        ({}, {}, "invalid_client"),
        ({}, {"client_id": "nobody"}, "invalid_client"),
        ({"authorization": "Bearer x"}, {}, "invalid_client"),
        ({"authorization": "Basic !"}, {}, "invalid_client"),
        ({"authorization": "Basic bm9jb2xvbg=="}, {}, "invalid_client"),
        ({"authorization": "Basic cHVibGlj"}, {}, "invalid_client"),
        ({"authorization": "Bearer cHVibGljOg=="}, {}, "invalid_client"),
        (basic("public", ""), {}, "unauthorized_client"),
        (basic("machine", "long secret"), {"client_secret": "x"}, "invalid_request"),
        (basic("machine", "long secret"), {"client_id": "other"}, "invalid_request"),
        (basic("machine", ""), {}, "invalid_client"),
        ({}, {"client_id": "public", "client_secret": "x"}, "invalid_client"),
    ],
    ids=str,
)
def test_unreadable_client_credentials_are_refused(headers, form, error):
    public = KnownClient(client_id="public", redirect_uris=(RETURN,))
    desk = Desk(clients={"machine": MACHINE.client, "public": public.client})
    answer = desk.post("/token", headers=headers, grant_type="client_credentials", **form)
    assert answer.error == error


def test_a_basic_header_is_form_encoded():
    known = KnownClient(client_id="a:b", secret="p%/+ ü")
    desk = Desk(clients={"a:b": known.client})
    headers = basic("a%3Ab", "p%25%2F%2B+%C3%BC")
    answer = desk.post("/token", headers=headers, grant_type="client_credentials")
    assert answer.status == 200


def test_guessing_at_the_token_endpoint_is_slowed_down():
    desk = Desk(clients={"machine": MACHINE.client})
    form = {"grant_type": "client_credentials", "client_id": "machine"}
    statuses = {desk.token(client_secret=f"guess {n}", **form).status for n in range(60)}
    assert statuses == {401}
    answer = desk.token(client_secret="long secret", **form)
    assert answer.status == 429
    assert answer.headers["retry-after"] == "60"
    assert desk.send("GET", "/jwks").status == 200
    desk.address = "192.0.2.2"
    assert desk.token(client_secret="long secret", **form).status == 200
    desk.address = "192.0.2.1"
    desk.now += 61
    assert desk.token(client_secret="long secret", **form).status == 200


def test_failures_of_one_client_turn_away_no_other_behind_the_same_address():
    other = KnownClient(client_id="other", secret="other secret")
    desk = Desk(clients={"machine": MACHINE.client, "other": other.client})
    public = desk.client()
    tokens = desk.tokens(public)
    form = {"grant_type": "client_credentials"}
    for name in ("machine", "made up", *(f"made up {n}" for n in range(3))):
        statuses = [
            desk.token(client_id=name, client_secret=f"guess {n}", **form).status for n in range(70)
        ]
        assert set(statuses) == ({429} if name.startswith("made up ") else {401, 429})
    assert desk.token(client_id="other", client_secret="other secret", **form).status == 200
    assert desk.refresh(public, tokens["refresh_token"]).status == 200
    assert desk.register().status == 201


def test_revoking_a_refresh_token_ends_all_that_came_with_it(desk):
    client = desk.client()
    tokens = desk.tokens(client)
    answer = desk.post("/revoke", client_id=client, token=tokens["refresh_token"])
    assert answer.status == 200
    assert desk.refresh(client, tokens["refresh_token"]).error == "invalid_grant"
    assert verified(desk, tokens["access_token"]) is None


def test_revoking_an_access_token_ends_all_that_came_with_it(desk):
    client = desk.client()
    tokens = desk.tokens(client)
    form = {"token": tokens["access_token"], "token_type_hint": "access_token"}
    assert desk.post("/revoke", client_id=client, **form).status == 200
    assert verified(desk, tokens["access_token"]) is None
    assert desk.refresh(client, tokens["refresh_token"]).error == "invalid_grant"


def test_a_revoked_grant_is_forgotten_once_its_tokens_are_over(desk):
    client = desk.client()
    tokens = desk.tokens(client)
    desk.post("/revoke", client_id=client, token=tokens["refresh_token"])
    desk.now += 599
    desk.send("GET", "/jwks")
    assert len(desk.store.grants.read_revoked()) == 1
    desk.now += 61
    desk.send("GET", "/jwks")
    assert desk.store.grants.read_revoked() == frozenset()
    assert desk.refresh(client, tokens["refresh_token"]).error == "invalid_grant"


@pytest.mark.parametrize("token", ["", "a.b.c", "x"], ids=["empty", "three parts", "one part"])
def test_a_malformed_token_has_no_principal(desk, token):
    assert verified(desk, token) is None


def test_a_token_that_others_signed_is_worth_nothing(desk):
    mine = desk.tokens(desk.client())["access_token"]
    claims, head = claims_of(mine), jwt.get_unverified_header(mine)
    stranger = ec.generate_private_key(ec.SECP256R1())
    for key, algorithm in ((stranger, "ES256"), (None, "none")):
        for key_id in (head["kid"], "unknown"):
            headers = {"kid": key_id, "typ": "at+jwt"}
            forged = jwt.encode(claims, key, algorithm=algorithm, headers=headers)
            assert verified(desk, forged) is None


def test_a_token_signed_with_the_public_key_as_secret_is_refused(desk):
    mine = desk.tokens(desk.client())["access_token"]
    head = {"alg": "HS256", "typ": "at+jwt", "kid": jwt.get_unverified_header(mine)["kid"]}
    (published,) = desk.endpoints.keys.jwks(desk.now)["keys"]
    pem = jwt.PyJWK(published).key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = f"{encoded(json.dumps(head).encode())}.{mine.split('.')[1]}"
    signature = hmac.new(pem, signed.encode(), "sha256").digest()
    assert verified(desk, f"{signed}.{encoded(signature)}") is None


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_a_token_of_another_kind_or_issuer_is_worth_nothing(desk):
    claims = claims_of(desk.tokens(desk.client())["access_token"])
    (key,) = desk.store.signing_keys()
    for changed, kind in (
        ({}, "JWT"),
        ({"iss": "https://other.example"}, "at+jwt"),
        ({"iss": "http://localhost:8000"}, "at+jwt"),
        ({"aud": [RESOURCE, OTHER]}, "at+jwt"),
        ({"grant": None}, "at+jwt"),
    ):
        signed = {k: v for k, v in (claims | changed).items() if v is not None}
        headers = {"kid": key.key_id, "typ": kind}
        token = jwt.encode(signed, key.pem, algorithm="ES256", headers=headers)
        assert verified(desk, token) is None
    headers = {"kid": key.key_id, "typ": "at+jwt"}
    token = jwt.encode(claims, key.pem, algorithm="ES256", headers=headers)
    assert verified(desk, token) is not None
    # Where no issuer is set, it is whatever loopback is called, and nothing else.
    assert verified(desk, token, issuer=None) is None
    near = jwt.encode(
        claims | {"iss": "http://localhost:8000"}, key.pem, algorithm="ES256", headers=headers
    )
    assert verified(desk, near, issuer=None) is not None


def test_a_description_holds_no_character_that_it_may_not(desk):
    answer = desk.token(client_id=desk.client(), grant_type='"\\ü\n')
    assert set(answer.json["error_description"]).isdisjoint('"\\ü\n')


def test_a_grant_revoked_during_a_read_is_noticed_at_the_next_check(desk):
    client = desk.client()
    token = desk.tokens(client)["access_token"]
    grant = claims_of(token)["grant"]
    told = []

    def endpoints():
        if not told:
            told.append("something changes")
            revoked.forget()
        return desk.endpoints

    async def scenario():
        assert not await revoked.has(grant)
        desk.post("/revoke", client_id=client, token=token)
        assert await revoked.has(grant)

    revoked = RevokedGrants(endpoints)
    asyncio.run(scenario())


def test_a_client_cannot_revoke_the_tokens_of_another(desk):
    mine, other = desk.client(), desk.client()
    tokens = desk.tokens(mine)
    foreign = jwt.encode({"grant": "x"}, "s" * 32, headers={"kid": "unknown"})
    for token in (tokens["refresh_token"], tokens["access_token"], "nothing", "a.b.c", foreign):
        assert desk.post("/revoke", client_id=other, token=token).status == 200
    assert verified(desk, tokens["access_token"]) is not None
    assert desk.refresh(mine, tokens["refresh_token"]).status == 200
    assert desk.post("/revoke", client_id=mine).error == "invalid_request"
    assert desk.post("/revoke", token="x").status == 401

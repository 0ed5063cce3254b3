"""JWT access tokens: the good ones, and all that attackers and mistakes come up with."""

import asyncio
import hmac
import json
import time
from hashlib import sha256

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from accord.auth import JwtVerifier
from accord.auth.jwt_verifier import claims_fault
from accord.errors import AuthError
from support.issuer import (
    ISSUER,
    RESOURCE,
    Published,
    _part,
    claims,
    jwk,
    jwks,
    private_key,
    token,
    unsigned,
)
from support.tables import cases

SECRET = "a secret that is long enough to be one"


def verifier(**settings):
    settings.setdefault("keys", jwks("first"))
    return JwtVerifier(ISSUER, audience=RESOURCE, **settings)


def verify(given, **settings):
    return asyncio.run(verifier(**settings).verify(given))


# -- good ones


@pytest.mark.requirement("auth.token.validated")
def test_a_valid_token_has_a_principal():
    found = verify(token(scope="read write", extra={"a": 1}))
    assert (found.subject, found.client_id, found.issuer) == ("ann", "laptop", ISSUER)
    assert found.scopes == {"read", "write"}
    assert found.expires_at > time.time()
    assert found.claims["extra"] == {"a": 1}


@cases("typ", ["at+jwt", "AT+JWT", "JWT", "application/at+jwt", None])
def test_access_tokens_are_called_by_several_types(typ):
    assert verify(token(header={"typ": typ})) is not None


@cases(
    ("changes", "scopes"),
    [
        ({"scope": None, "scp": "a b"}, {"a", "b"}),
        ({"scope": None, "scp": ["a", "b", 5]}, {"a", "b"}),
        ({"scope": None}, set()),
        ({"scope": 7}, set()),
    ],
    ids=["scp text", "scp list", "none", "number"],
)
def test_scopes_are_found_where_issuers_put_them(changes, scopes):
    assert verify(token(**changes)).scopes == scopes


def test_a_client_that_acts_for_itself_is_its_own_subject():
    found = verify(token(sub=None, client_id=None, azp="robot"))
    assert (found.subject, found.client_id) == ("robot", "robot")
    for nobody in (7, ""):
        assert verify(token(client_id=nobody, azp="robot")).client_id == "robot"


def pem(pair):
    return pair.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.mark.parametrize("form", [str, str.encode], ids=["text", "bytes"])
def test_public_keys_in_pem_form_verify_tokens(form):
    both = form(pem(private_key("r", "RSA")) + pem(private_key("first")))
    assert verify(token("r", "RSA"), keys=both) is not None
    assert verify(token("first"), keys=both) is not None
    assert verify(token("second"), keys=both) is None


def private_pem():
    pair = private_key()
    return pair.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@cases(
    ("make", "said"),
    [
        (lambda: "https://issuer.example", "text without a PEM public key; expected PEM, a JWKS"),
        (private_pem, "a private key was given; give its public key"),
        (lambda: pem(private_key())[:60] + "\n-----END PUBLIC KEY-----", "cannot be read"),
        (lambda: pem(x25519.X25519PrivateKey.generate()), "its kind is not known, or weak"),
    ],
    ids=["url", "private", "cut", "other kind"],
)
def test_text_that_is_not_a_public_key_is_refused_as_keys(make, said):
    with pytest.raises(ValueError, match=said):
        verifier(keys=make())


def test_rsa_keys_and_tokens_without_key_id_work():
    assert verify(token("r", "RSA"), keys=[jwk("r", "RSA")]) is not None
    assert verify(token(header={"kid": None}), keys=jwks("second", "first")) is not None


@pytest.mark.parametrize("kid", ["first", None], ids=["the same name", "no name"])
def test_a_key_that_changes_without_a_new_name_is_noticed(kid):
    async def scenario():
        now = [1000.0]
        published = Published()
        published.document = {"keys": [jwk("first", kid=kid)]}
        fetching = {"keys": None, "send": published.send, "jwks_url": f"{ISSUER}/jwks"}
        taking = verifier(**fetching, clock=lambda: now[0])
        said = {"exp": 2000, "iat": 1000, "header": {"kid": kid}}
        assert await taking.verify(token("first", **said)) is not None
        published.document = {"keys": [jwk("second", kid=kid)]}
        # Not at once: forged tokens must not make us flood the issuer.
        assert await taking.verify(token("second", **said)) is None
        now[0] += 11
        assert await taking.verify(token("second", **said)) is not None
        assert await taking.verify(token("third", **said)) is None
        assert len(published.asked) == 2

    asyncio.run(scenario())


@cases("name", ["client_id", "azp", "cid", "appid"])
def test_a_token_without_audience_is_taken_from_clients_of_our_own(name):
    silent = token(**{"aud": None, "client_id": None, name: "desk"})
    assert verify(silent) is None
    assert verify(silent, clients=["other"]) is None
    assert verify(silent, clients=["desk"]).client_id == "desk"
    for audience in ("https://other.example", [], ""):
        assert verify(token(aud=audience, client_id="desk"), clients=["desk"]) is None
    assert verify(token(aud=None, client_id=None), clients=["desk"]) is None


def test_scopes_may_stand_in_other_claims():
    given = token(scope="a", roles=["b", 7], permissions="c d")
    assert verify(given).scopes == {"a"}
    assert verify(given, scope_claims=["roles", "permissions"]).scopes == {"b", "c", "d"}


def test_scopes_may_have_a_longer_name_than_in_tokens():
    found = verify(token(scope=None, scp="use api://desk/write"), scope_prefix="api://desk/")
    assert found.scopes == {"api://desk/use", "api://desk/write"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"aud": ["account", "x\ny"]}, f"audience is ['account', 'x\\ny'], expected '{RESOURCE}'"),
        ({"iss": f"{ISSUER}/"}, f"issuer is '{ISSUER}/', expected '{ISSUER}'"),
        ({"exp": 1_000}, "it expired"),
        ({"header": {"kid": "gone"}}, "no key 'gone' for ES256"),
        ({"name": "second", "header": {"kid": "first"}}, "not that of the issuer's key 'first'"),
    ],
    ids=["audience", "issuer", "expired", "key", "signature"],
)
def test_the_log_says_what_came_and_what_was_expected(caplog, changes, said):
    given = token(**changes)
    with caplog.at_level("INFO", "accord.auth"):
        assert verify(given) is None
    assert said in caplog.text
    assert given not in caplog.text


def test_clocks_may_differ_a_little():
    now = int(time.time())
    assert verify(token(exp=now - 30)) is not None
    assert verify(token(nbf=now + 30, iat=now + 30)) is not None
    assert verify(token(exp=now - 30), leeway=0) is None


def test_a_shared_secret_works_when_it_is_asked_for():
    given = jwt.encode(claims(), SECRET, algorithm="HS256")
    assert verify(given, keys=None, secret=SECRET) is not None
    assert verify(given) is None
    forged = jwt.encode(claims(), "another secret of the same length!!!!!", algorithm="HS256")
    assert verify(forged, keys=None, secret=SECRET) is None
    assert verify(given, keys=None, secret=SECRET.encode()) is not None
    longer = jwt.encode(claims(), SECRET * 2, algorithm="HS512")
    assert verify(longer, keys=None, secret=SECRET * 2) is None
    assert verify(longer, keys=None, secret=SECRET * 2, algorithms=["HS512"]) is not None


# -- bad ones

NOW = int(time.time())


@pytest.mark.requirement(
    "auth.token.validated", "auth.token.audience-validated", "auth.token.foreign-rejected"
)
@cases(
    "changes",
    [
        {"aud": "https://other.example/mcp"},
        {"aud": ["https://other.example/mcp", "https://desk.example"]},
        {"aud": None},
        {"aud": "https://desk.example"},
        {"aud": 7},
        {"iss": "https://evil.example"},
        {"iss": f"{ISSUER}/"},
        {"iss": None},
        {"exp": NOW - 100},
        {"exp": None},
        {"exp": True},
        {"exp": "tomorrow"},
        {"exp": 1e300},
        {"nbf": NOW + 86_400},
        {"nbf": "x"},
        {"nbf": True},
        {"iat": NOW + 86_400},
        {"sub": None, "client_id": None},
        {"sub": 7, "client_id": None},
    ],
    ids=[
        "other audience",
        "other audiences",
        "no audience",
        "origin alone",
        "audience is a number",
        "other issuer",
        "issuer with a slash",
        "no issuer",
        "expired",
        "no expiry",
        "expiry is true",
        "expiry is text",
        "expiry is beyond time",
        "not yet",
        "not before is text",
        "not before is true",
        "issued later",
        "nobody",
        "subject is a number",
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(changes):
    header = {"alg": "ES256", "kid": "first"}
    assert verify(signed_as_it_is(header)) is not None
    assert verify(signed_as_it_is(header, **changes)) is None


def signed_as_it_is(header, **changes):
    # The library that signs would not write some of these.
    text = f"{_part(header)}.{_part(claims(**changes))}"
    signature = jwt.get_algorithm_by_name("ES256").sign(text.encode(), private_key("first"))
    return f"{text}.{jwt.utils.base64url_encode(signature).decode()}"


def test_a_token_without_signature_is_refused():
    for algorithm in ("none", "None", "NONE", "", None, 5, ["ES256"], "ES256", "HS256"):
        assert verify(unsigned({"alg": algorithm, "typ": "JWT", "kid": "first"})) is None


@pytest.mark.parametrize("kind", ["EC", "RSA"])
def test_a_public_key_is_never_a_secret(kind):
    """A token signed by HMAC with the public key, in any of its forms, is refused."""
    public = private_key("first", kind).public_key()
    forms = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(jwk("first", kind)).encode(),
    ]
    signed = f"{_part({'alg': 'HS256', 'kid': 'first', 'typ': 'JWT'})}.{_part(claims())}"
    for form in forms:
        mac = hmac.new(form, signed.encode(), sha256).digest()
        given = f"{signed}.{jwt.utils.base64url_encode(mac).decode()}"
        assert verify(given, keys=[jwk("first", kind)]) is None


def test_a_key_of_one_kind_verifies_no_algorithm_of_another():
    keys = [jwk("first"), jwk("r", "RSA")]
    assert verify(token("r", "RSA", header={"kid": "first"}), keys=keys) is None
    assert verify(token("first", header={"kid": "r"}), keys=keys) is None


def test_another_key_or_a_changed_claim_is_noticed():
    assert verify(token("second", header={"kid": "first"})) is None
    head, _, signature = token().split(".")
    assert verify(f"{head}.{_part(claims(sub='eve'))}.{signature}") is None


@cases("header", [{"crit": ["exp"], "exp": 1}, {"crit": []}, {"typ": "dpop+jwt"}, {"typ": 7}])
def test_headers_that_ask_for_more_than_we_know_are_refused(header):
    assert verify(token(header=header)) is None


def test_algorithms_that_are_not_listed_are_refused():
    assert verify(token(), algorithms=["RS256"], keys=[jwk("first"), jwk("r", "RSA")]) is None


@cases("text", ["", "a", "a.b", "a.b.c", "....", "e30.e30.", "\u00e9.x.y", "." * 5000])
def test_a_malformed_token_is_refused(text):
    assert verify(text) is None


def test_a_secret_may_be_just_long_enough():
    assert JwtVerifier(ISSUER, secret="x" * 32).algorithms == {"HS256"}


def test_claims_that_are_not_an_object_are_refused():
    assert verify(signed_payload(json.dumps(claims()).encode())) is not None
    for payload in (b"[]", b"5", b"\xff", b"[" * 100_000):
        assert verify(signed_payload(payload)) is None


def signed_payload(payload):
    return jwt.PyJWS().encode(
        payload, private_key("first"), algorithm="ES256", headers={"kid": "first"}
    )


@cases(
    ("settings", "why"),
    [
        ({"keys": [], "secret": SECRET}, "only one of"),
        ({"keys": [], "jwks_url": "https://issuer.example/jwks"}, "only one of"),
        ({"secret": "x" * 31}, "has 31 bytes, expected at least 32"),
        ({"secret": "-----BEGIN PUBLIC KEY-----" + "x" * 40}, "key of a pair"),
        ({"secret": "ssh-ed25519 " + "x" * 40}, "key of a pair"),
        ({"keys": [], "algorithms": ["HS256"]}, "HS256 do not go with keys"),
        ({"keys": [], "algorithms": ["none"]}, "none do not go with keys"),
        ({"secret": SECRET, "algorithms": ["RS256"]}, "RS256 do not go with a shared secret"),
        ({"keys": {}}, "invalid JWKS"),
    ],
    ids=[
        "two",
        "two others",
        "short",
        "public",
        "public of ssh",
        "hmac with keys",
        "none",
        "secret with rsa",
        "jwks",
    ],
)
def test_settings_that_would_be_unsafe_are_refused(settings, why):
    with pytest.raises(ValueError, match=why):
        JwtVerifier(ISSUER, **settings)


def test_a_verifier_without_audience_takes_nothing_until_it_has_one():
    unbound = JwtVerifier(ISSUER, keys=jwks("first"))
    assert asyncio.run(unbound.verify(token())) is None
    assert asyncio.run(unbound.for_audience(RESOURCE).verify(token())) is not None
    assert asyncio.run(unbound.for_audience("https://x.example").verify(token())) is None
    fixed = verifier()
    assert fixed.for_audience("https://x.example") is fixed


def test_a_token_that_one_server_has_taken_is_not_taken_by_its_neighbour():
    async def scenario():
        unbound = JwtVerifier(ISSUER, keys=jwks("first"))
        given = token()
        assert await unbound.for_audience(RESOURCE).verify(given) is not None
        assert await unbound.for_audience("https://x.example").verify(given) is None

    asyncio.run(scenario())


def test_claims_are_judged_without_a_clock():
    judged = {"issuer": ISSUER, "audience": [RESOURCE], "leeway": 0.0}
    good = claims(exp=100, iat=50)
    assert claims_fault(good, now=99.0, **judged) is None
    assert claims_fault(good, now=50.0, **judged) is None
    assert claims_fault(good, now=100.0, **judged) == "it expired 0 s ago"
    assert "not valid for another 1 s" in claims_fault(good, now=49.0, **judged)


# -- time


def test_a_token_that_was_good_is_refused_once_it_has_expired():
    async def scenario():
        now = [time.time()]
        subject = verifier(leeway=0, clock=lambda: now[0])
        given = token()
        assert await subject.verify(given) is not None
        assert await subject.verify(given) is not None
        now[0] += 601
        assert await subject.verify(given) is None

    asyncio.run(scenario())


def test_a_good_token_is_looked_at_once():
    async def scenario():
        published = Published("first")
        subject = verifier(keys=None, jwks_url="https://issuer.example/jwks", send=published.send)
        given = token()
        first = await subject.verify(given)
        assert await subject.verify(given) is first

    asyncio.run(scenario())


def test_key_rotation_does_not_interrupt_verification():
    async def scenario():
        now, published = [time.time()], Published("first")
        subject = verifier(
            keys=None,
            jwks_url="https://i.example/jwks",
            send=published.send,
            clock=lambda: now[0],
        )
        assert await subject.verify(token()) is not None
        published.document = jwks("first", "second")
        now[0] += 11
        assert await subject.verify(token("second")) is not None
        assert await subject.verify(token("third")) is None
        assert len(published.asked) == 2

    asyncio.run(scenario())


def test_keys_that_cannot_be_fetched_raise_an_auth_error():
    async def scenario():
        published = Published("first")
        published.is_down = True
        subject = verifier(keys=None, jwks_url="https://i.example/jwks", send=published.send)
        with pytest.raises(AuthError, match="no keys could be fetched"):
            await subject.verify(token())
        # What is refused by its header alone needs no keys.
        assert await subject.verify(unsigned({"alg": "none"})) is None

    asyncio.run(scenario())


def test_settings_of_fetching_need_keys_to_fetch():
    with pytest.raises(TypeError, match="settings for fetched keys: ttl"):
        JwtVerifier(ISSUER, keys=jwks("first"), ttl=5)


def test_a_token_must_name_its_key_by_a_text():
    nameless = [jwk("first", kid=None)]
    assert verify(signed_as_it_is({"alg": "ES256", "kid": "any"}), keys=nameless) is not None
    assert verify(signed_as_it_is({"alg": "ES256", "kid": 7}), keys=nameless) is None

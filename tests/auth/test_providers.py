"""Identity providers as they are: what they forget, leave out, insist on and repeat."""

import time

import jwt
import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from accord import connect
from accord.auth import ClientKey, MemoryStore, OAuth
from accord.errors import FlowFailed
from support.scripted_authorization import browse, scripted
from support.tables import cases
from support.waiting import run


def oauth(**more):
    usual = {"store": MemoryStore(), "open_browser": browse, "timeout": 5.0, "tell": str}
    return OAuth(**(usual | more))


async def use(script, auth):
    async with connect(script.url, auth=auth) as client:
        return (await client.call_tool("x")).content[0].text


async def aged(auth, script, *, left):
    """Let the token in the store end so many seconds from now."""
    known = auth._servers[script.url]
    known.grant = msgspec.structs.replace(
        known.grant, expires_at=time.time() + left, lifetime=3600.0
    )
    await auth._store.write(known.grant.key, msgspec.json.encode(known.grant).decode())


def pem_of(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


# -- what they forget


def test_a_provider_that_has_forgotten_the_client_registers_it_anew():
    async def main():
        auth = oauth()
        async with scripted() as script:
            await use(script, auth)
            script.expire()
            script.token_errors = [(401, {"error": "invalid_client"})]
            assert await use(script, auth) == "done"
            assert script.count("/register") == 2
            first, second = script.forms("/authorize")
            assert first["client_id"] != second["client_id"]

    run(main())


def test_a_registration_the_user_gave_up_is_not_reused():
    async def main():
        store = MemoryStore()
        async with scripted() as script:
            await use(script, oauth(store=store))
            script.expire()
            script.refreshable.clear()
            nobody = oauth(store=store, open_browser=lambda url: None, timeout=0.2)
            with pytest.raises(FlowFailed, match="no answer within") as caught:
                await use(script, nobody)
            assert "/callback" in caught.value.hint
            assert await use(script, oauth(store=store)) == "done"
            assert script.count("/register") == 2

    run(main())


@pytest.mark.parametrize(
    "error",
    [(200, {"error": "bad_refresh_token"}), (400, {"error": "invalid_request"}), (400, {})],
    ids=["a word of its own", "another word", "no word"],
)
def test_a_refresh_token_that_is_refused_in_any_words_leads_to_a_person(error):
    async def main():
        auth = oauth()
        async with scripted() as script:
            await use(script, auth)
            script.expire()
            script.token_errors = [error]
            assert await use(script, auth) == "done"
            assert script.count("/authorize") == 2

    run(main())


@pytest.mark.parametrize("status", [403, 404, 429, 500, 503])
def test_a_token_that_cannot_be_renewed_yet_serves_to_its_end(status, monkeypatch):
    monkeypatch.setattr("accord.auth.oauth._RENEW_PAUSE", 1_000.0)

    async def main():
        auth = oauth()
        async with scripted() as script:
            await use(script, auth)
            await aged(auth, script, left=28)
            script.overrides["/token"] = lambda request: web.Response(status=status, text="<html>")
            before = script.count("/token")
            assert await use(script, auth) == "done"
            assert script.count("/token") == before + 1
            await aged(auth, script, left=-1)
            with pytest.raises(FlowFailed, match=f"HTTP {status} with text/plain") as caught:
                await use(script, auth)
            hint = "token_endpoint" if status in (403, 404) else "try again later"
            assert caught.value.step == "refresh"
            assert hint in caught.value.hint
            assert script.count("/authorize") == 1

    run(main())


# -- what they insist on


@pytest.mark.parametrize("how", ["basic", "post"])
def test_a_secret_is_shown_as_the_client_was_registered_for(how):
    async def main():
        async with scripted() as script:
            secret = {"client_secret": "SECRET", "issuer": script.issuer}
            await use(script, oauth(client_id="me", authenticate=how, **secret))
            (sent,), (head,) = script.forms("/token"), script.heads("/token")
            assert ("Authorization" in head, "client_secret" in sent) == (
                how == "basic",
                how == "post",
            )

    run(main())


def test_a_secret_that_was_given_is_not_stored_and_may_be_replaced():
    async def main():
        store = MemoryStore()
        async with scripted() as script:
            given = {"client_id": "me", "authenticate": "post", "store": store}
            given["issuer"] = script.issuer
            await use(script, oauth(**given, client_secret="SECRET"))
            assert "SECRET" not in str(store._values)
            script.expire()
            assert await use(script, oauth(**given, client_secret="LATER")) == "done"
            secrets = [each["client_secret"] for each in script.forms("/token")]
            assert secrets == ["SECRET", "LATER"]
            assert script.forms("/token")[-1]["grant_type"] == "refresh_token"

    run(main())


def test_an_empty_secret_counts_as_missing():
    async def main():
        async with scripted() as script:
            await use(script, oauth(client_id="me", client_secret=""))
            assert "Authorization" not in script.heads("/token")[0]

    run(main())


def test_a_redirect_uri_may_be_any_of_this_machine():
    async def main():
        auth = oauth(client_id="me", redirect_uri="http://localhost/signed-in")
        async with scripted() as script:
            assert await use(script, auth) == "done"
            (asked,), (redeemed,) = script.forms("/authorize"), script.forms("/token")
            assert asked["redirect_uri"] == redeemed["redirect_uri"]
            start, _, rest = asked["redirect_uri"].removeprefix("http://").partition(":")
            assert (start, rest.partition("/")[2]) == ("localhost", "signed-in")

    run(main())


def test_a_pinned_issuer_may_lack_the_slash_that_means_nothing():
    async def main():
        async with scripted(metadata={"issuer": None}) as script:
            root = script.issuer
            script.issuer = f"{root}/"
            script.metadata = {"issuer": f"{root}/"}
            auth = oauth(issuer=root)
            assert await use(script, auth) == "done"
            assert await use(script, oauth(issuer=root, store=auth.store)) == "done"
            assert script.count("/authorize") == 1

    run(main())


@pytest.mark.requirement("auth.cimd.required-members", "auth.cimd.id-equals-url")
@pytest.mark.parametrize(
    ("settings", "uri"),
    [
        ({}, "http://127.0.0.1/callback"),
        ({"redirect_port": 33418}, "http://127.0.0.1:33418/callback"),
        ({"redirect_uri": "http://localhost/x"}, "http://localhost/x"),
    ],
    ids=str,
)
def test_a_client_can_publish_its_metadata(settings, uri):
    url = "https://app.example/client.json"
    auth = OAuth(store=MemoryStore(), client_metadata_url=url, client_name="Desk", **settings)
    assert auth.client_document() == {
        "client_id": url,
        "client_name": "Desk",
        "redirect_uris": [uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    }


def test_the_metadata_of_a_client_with_a_key_has_its_public_half():
    pem = pem_of(ec.generate_private_key(ec.SECP256R1()))
    url = "https://app.example/client.json"
    auth = OAuth(store=MemoryStore(), client_metadata_url=url, client_key=ClientKey(pem, id="k1"))
    document = auth.client_document()
    assert document["token_endpoint_auth_method"] == "private_key_jwt"
    assert document["token_endpoint_auth_signing_alg"] == "ES256"
    (key,) = document["jwks"]["keys"]
    assert set(key) == {"kty", "crv", "x", "y", "kid"}
    with pytest.raises(ValueError, match="client_metadata_url"):
        OAuth(store=MemoryStore()).client_document()


@cases(
    "wrong",
    [
        {"authenticate": "header"},
        {"redirect_uri": "https://example.com/callback"},
        {"redirect_uri": "http://example.com/callback"},
        {"redirect_uri": "https://localhost/x"},
        {"redirect_uri": "http://localhost/x?y=1"},
        {"redirect_uri": "http://localhost/x#y"},
        {"redirect_uri": "http://user@localhost/x"},
        {"redirect_uri": "http://localhost/x", "redirect_port": 1},
        {"trust": ["sso.corp"]},
        {"pkce": "maybe"},
        {"client_metadata_url": "http://app.example/client.json"},
        {"client_metadata_url": "https://app.example/"},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused_at_once(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OAuth(store=MemoryStore(), **wrong)


# -- what they repeat


def test_secrets_that_a_provider_repeats_are_not_shown():
    async def main():
        async with scripted() as script:
            secret = {"client_secret": "SECRET", "issuer": script.issuer}
            auth = oauth(client_id="me", authenticate="post", **secret)

            async def echo(request):
                said = " ".join(f"{k}={v}" for k, v in (await request.post()).items())
                return web.json_response({"error": "x", "error_description": said}, status=400)

            script.overrides["/token"] = echo
            with pytest.raises(FlowFailed) as caught:
                await use(script, auth)
            (sent,) = script.forms("/token")
            for name in ("code", "code_verifier", "client_secret"):
                assert sent[name] not in str(caught.value)
            assert "code=masked-0" in caught.value.came

    run(main())


# -- keys in place of secrets


def test_a_client_authenticates_with_its_key():
    key = ec.generate_private_key(ec.SECP256R1())

    async def main():
        auth = oauth(
            client_id="me",
            client_key=ClientKey(pem_of(key), id="first"),
            grant="client_credentials",
        )
        async with scripted() as script:
            assert await use(script, auth) == "done"
            script.expire()
            assert await use(script, auth) == "done"
            proofs = []
            for sent, head in zip(script.forms("/token"), script.heads("/token"), strict=True):
                assert "Authorization" not in head
                assert "client_secret" not in sent
                assert sent["client_assertion_type"].endswith(":jwt-bearer")
                assert sent["client_id"] == "me"
                proof = sent["client_assertion"]
                assert jwt.get_unverified_header(proof)["kid"] == "first"
                proofs.append(
                    jwt.decode(proof, key.public_key(), ["ES256"], audience=script.issuer)
                )
            assert all(each["iss"] == each["sub"] == "me" for each in proofs)
            assert proofs[0]["jti"] != proofs[1]["jti"]
            assert all(0 < each["exp"] - each["iat"] <= 300 for each in proofs)

    run(main())


def test_a_key_is_needed_again_to_renew_and_is_never_stored():
    key = pem_of(ec.generate_private_key(ec.SECP256R1()))

    async def main():
        store = MemoryStore()
        async with scripted() as script:
            keyed = {"client_id": "me", "client_key": ClientKey(key, audience="token_endpoint")}
            await use(script, oauth(store=store, **keyed))
            assert "PRIVATE" not in str(store._values)
            script.expire()
            with pytest.raises(FlowFailed, match="client_key=ClientKey"):
                await use(script, oauth(store=store, client_id="me"))
            assert await use(script, oauth(store=store, **keyed)) == "done"
            renewed = script.forms("/token")[-1]
            assert renewed["grant_type"] == "refresh_token"
            said = jwt.decode(renewed["client_assertion"], options={"verify_signature": False})
            assert said["aud"] == f"{script.issuer}/token"

    run(main())


@pytest.mark.requirement("auth.binding.preregistered-mismatch-error")
@pytest.mark.parametrize("kind", ["client_secret", "ClientKey"])
def test_a_credential_that_any_server_could_have_sent_elsewhere_needs_the_issuer(kind):
    pem = pem_of(ec.generate_private_key(ec.SECP256R1()))
    given = {"client_id": "me", "grant": "client_credentials"}
    if kind == "client_secret":
        given["client_secret"] = "SECRET"
    else:
        given["client_key"] = ClientKey(pem, audience="https://honest.example")
    with pytest.raises(ValueError, match=kind) as caught:
        oauth(**given)
    assert "add OAuth(issuer='https://...')" in str(caught.value)
    assert "SECRET" not in str(caught.value)

    async def main():
        async with scripted() as script, scripted() as honest:
            script.prm = {"authorization_servers": [script.issuer]}
            pinned = oauth(**given, issuer=honest.issuer)
            with pytest.raises(FlowFailed, match="trusts no other"):
                await use(script, pinned)
            assert script.count("/token") == 0
            assert await use(honest, pinned) == "done"
            assert honest.count("/token") == 1

    run(main())


def test_a_key_that_signs_for_the_server_it_is_shown_to_needs_no_issuer():
    pem = pem_of(ec.generate_private_key(ec.SECP256R1()))
    for audience in ("issuer", "token_endpoint"):
        assert oauth(client_id="me", client_key=ClientKey(pem, audience=audience)).issuer is None


@pytest.mark.parametrize(
    ("make", "algorithm"),
    [
        (lambda: ec.generate_private_key(ec.SECP384R1()), "ES384"),
        (lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256"),
        (ed25519.Ed25519PrivateKey.generate, "EdDSA"),
    ],
    ids=["elliptic", "rsa", "edwards"],
)
def test_the_algorithm_is_what_is_usual_for_a_key(make, algorithm):
    key = make()
    found = ClientKey(pem_of(key).encode())
    assert found.algorithm == algorithm
    assert pem_of(key) not in repr(found)
    said = found.assertion("me", issuer="https://i.example", endpoint="https://i.example/t", now=0)
    assert jwt.get_unverified_header(said)["alg"] == algorithm


def test_a_key_that_cannot_sign_is_refused_at_once_and_not_shown():
    elliptic = pem_of(ec.generate_private_key(ec.SECP256R1()))
    for given, more in (
        ("SECRET", {}),
        (elliptic, {"algorithm": "RS256"}),
        (elliptic, {"algorithm": "x"}),
    ):
        with pytest.raises(ValueError, match="key") as caught:
            ClientKey(given, **more)
        assert given not in str(caught.value)
    for wrong in ({"client_secret": "s", "client_id": "me"}, {}):
        with pytest.raises(ValueError, match="client_key"):
            OAuth(store=MemoryStore(), client_key=ClientKey(elliptic), **wrong)

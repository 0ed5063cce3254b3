"""Tokens that are bound to a key: proofs, nonces, and what becomes of tokens of other keys."""

import hashlib
import json
from base64 import urlsafe_b64encode

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from accord import connect
from accord.auth import DpopKey, MemoryStore, OAuth
from accord.auth.client_identity import ClientIdentity, new_pkce
from accord.auth.discovery import DiscoveryResult, ServerMetadata
from accord.auth.flow import AuthorizationRequest, exchange_code
from accord.client import HttpClientOptions
from accord.errors import FlowFailed, Unauthorized
from support.flows import drive, reply
from support.scripted_authorization import browse, scripted
from support.tables import cases
from support.waiting import run

ISSUER = "https://login.example"
BOUND = {"access_token": "at", "token_type": "DPoP", "expires_in": 100}


def digest(data):
    return urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def pem_of(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_proof(proof):
    """Verify a proof with the key in it, as a server does, and return its claims and the key."""
    head = jwt.get_unverified_header(proof)
    assert head["typ"] == "dpop+jwt"
    assert "d" not in head["jwk"]
    key = jwt.PyJWK(head["jwk"], head["alg"])
    return jwt.decode(proof, key, algorithms=[head["alg"]]), head["jwk"]


# -- proofs


@cases(
    ("make", "algorithm", "members"),
    [
        (lambda: ec.generate_private_key(ec.SECP256R1()), "ES256", ["crv", "kty", "x", "y"]),
        (lambda: ec.generate_private_key(ec.SECP384R1()), "ES384", ["crv", "kty", "x", "y"]),
        (lambda: rsa.generate_private_key(65537, 2048), "RS256", ["e", "kty", "n"]),
        (ed25519.Ed25519PrivateKey.generate, "EdDSA", ["crv", "kty", "x"]),
    ],
    ids=["P-256", "P-384", "RSA", "Ed25519"],
)
def test_a_proof_is_for_one_request_and_signed_with_the_key(make, algorithm, members):
    key = DpopKey(pem_of(make()))
    assert key.algorithm == algorithm
    proof = key.proof("POST", "https://a.example/mcp?x=1#y", now=1000.7, token="at")
    claims, public = read_proof(proof)
    assert claims.pop("jti") != read_proof(key.proof("POST", "https://a.example/", now=0))[0]["jti"]
    assert claims == {
        "htm": "POST",
        "htu": "https://a.example/mcp",
        "iat": 1000,
        "ath": digest(b"at"),
    }
    canonical = json.dumps({name: public[name] for name in members}, separators=(",", ":"))
    assert key.thumbprint == digest(canonical.encode())


def test_a_proof_has_the_last_nonce_of_its_origin():
    key = DpopKey()
    assert key.learn("https://a.example/token", "first")
    assert not key.learn("https://a.example/other", "first")
    assert not key.learn("https://a.example/other", None)
    assert not key.learn("https://a.example/other", "n" * 1001)
    assert key.learn("https://a.example/mcp", "second")
    assert read_proof(key.proof("GET", "https://a.example/x", now=0))[0]["nonce"] == "second"
    assert "nonce" not in read_proof(key.proof("GET", "https://b.example/x", now=0))[0]


def test_the_nonces_of_the_last_origins_are_remembered():
    key = DpopKey()
    for number in range(101):
        key.learn(f"https://{number}.example", "n")
    assert "nonce" not in read_proof(key.proof("GET", "https://0.example", now=0))[0]
    assert "nonce" in read_proof(key.proof("GET", "https://1.example", now=0))[0]


@pytest.mark.parametrize(
    ("pem", "algorithm"),
    [("not a key", None), (pem_of(ec.generate_private_key(ec.SECP256R1())), "RS256")],
)
def test_a_key_that_cannot_sign_is_refused(pem, algorithm):
    with pytest.raises(ValueError, match="key"):
        DpopKey(pem, algorithm=algorithm)


def test_a_key_does_not_show_itself():
    key = DpopKey()
    assert repr(key) == f"<DpopKey {key.thumbprint!r}, ES256>"


# -- token requests


def asking(key):
    server = ServerMetadata(issuer=ISSUER, token_endpoint=f"{ISSUER}/token")
    return AuthorizationRequest(
        found=DiscoveryResult(resource="https://m.example/mcp", server=server),
        client=ClientIdentity(client_id="me"),
        redirect_uri="http://127.0.0.1:1/callback",
        pkce=new_pkce(),
        state="s",
        dpop=key,
    )


def test_a_token_request_is_repeated_once_with_the_nonce_that_the_server_wants():
    key = DpopKey()
    wants = reply({"error": "use_dpop_nonce"}, 400, **{"dpop-nonce": "n1"})
    answers = iter([wants, reply(BOUND, **{"dpop-nonce": "n2"})])
    grant, sent = drive(exchange_code("c", asking(key), 0.0), lambda _: next(answers))
    assert grant.thumbprint == key.thumbprint
    first, second = (read_proof(each.headers["DPoP"])[0] for each in sent)
    assert "nonce" not in first
    assert second["nonce"] == "n1"
    assert first["jti"] != second["jti"]
    assert read_proof(key.proof("POST", f"{ISSUER}/token", now=0))[0]["nonce"] == "n2"


def test_a_server_that_always_wants_another_nonce_is_given_up():
    numbers = iter(range(9))

    def answer(_):
        return reply({"error": "use_dpop_nonce"}, 400, **{"dpop-nonce": str(next(numbers))})

    with pytest.raises(FlowFailed, match="use_dpop_nonce"):
        drive(exchange_code("c", asking(DpopKey()), 0.0), answer)
    assert next(numbers) == 2


@pytest.mark.parametrize(
    ("key", "kind"), [(DpopKey(), "Bearer"), (None, "DPoP")], ids=["unbound", "bound"]
)
def test_a_token_of_the_other_type_is_refused(key, kind):
    with pytest.raises(FlowFailed, match=f"a token of type '{kind}'") as caught:
        drive(exchange_code("c", asking(key), 0.0), lambda _: reply(BOUND | {"token_type": kind}))
    assert "OAuth(dpop=...)" in caught.value.hint


# -- with servers


def oauth(**more):
    usual = {"store": MemoryStore(), "open_browser": browse, "timeout": 5.0, "dpop": DpopKey()}
    return OAuth(**(usual | more))


def bound(**more):
    return scripted(scheme="DPoP", token={"token_type": "DPoP"}, **more)


async def use(script, auth):
    async with connect(script.url, auth=auth, http=HttpClientOptions(listen=False)) as client:
        await client.ping()
        return (await client.call_tool("x")).content[0].text


def test_every_request_with_a_token_has_a_proof_of_its_own():
    async def main():
        async with bound() as script:
            auth = oauth()
            assert await use(script, auth) == "done"
            (asked,) = script.forms("/authorize")
            assert asked["dpop_jkt"] == auth.dpop.thumbprint
            (head,) = script.heads("/token")
            claims, _ = read_proof(head["DPoP"])
            assert (claims["htm"], claims["htu"]) == ("POST", f"{script.issuer}/token")
            assert "ath" not in claims
            seen = []
            methods = [method for method, path, _, _ in script.seen if path == "/mcp"]
            for method, head in zip(methods[1:], script.heads("/mcp")[1:], strict=True):
                scheme, _, token = head["Authorization"].partition(" ")
                claims, _ = read_proof(head["DPoP"])
                assert scheme == "DPoP"
                assert claims["ath"] == digest(token.encode())
                assert (claims["htm"], claims["htu"]) == (method, script.url)
                seen.append(claims["jti"])
            assert len(set(seen)) == len(seen) > 2

    run(main())


def test_a_server_that_wants_a_nonce_gets_it_without_another_token():
    async def main():
        async with bound() as script:
            auth = oauth()
            async with connect(script.url, auth=auth) as client:

                def want_nonce(request):
                    del script.overrides["/mcp"]
                    says = 'DPoP error="use_dpop_nonce", error_description="a nonce is required"'
                    headers = {"WWW-Authenticate": says, "DPoP-Nonce": "n1"}
                    return web.Response(status=401, headers=headers)

                script.overrides["/mcp"] = want_nonce
                await client.call_tool("x")
            assert script.count("/token") == 1
            proofs = [head["DPoP"] for head in script.heads("/mcp") if "DPoP" in head]
            assert read_proof(proofs[-1])[0]["nonce"] == "n1"

    run(main())


def test_a_server_that_always_wants_a_nonce_is_given_up():
    async def main():
        deaf = HttpClientOptions(listen=False)
        async with bound() as script, connect(script.url, auth=oauth(), http=deaf) as client:
            await client.ping()
            headers = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": "n"}
            before = script.count("/mcp")
            script.overrides["/mcp"] = lambda _: web.Response(status=401, headers=headers)
            with pytest.raises(Unauthorized):
                await client.call_tool("x")
            assert script.count("/mcp") - before == 4
            assert script.count("/authorize") == 1
            del script.overrides["/mcp"]

    run(main())


def test_the_metadata_in_a_challenge_for_bound_tokens_is_used():
    async def main():
        place = "/elsewhere/metadata"

        def challenge(script):
            root = script.url.removesuffix("/mcp")
            return f'DPoP algs="ES256", resource_metadata="{root}{place}", scope="read"'

        async with bound(prm_paths=(place,), challenge=challenge) as script:
            assert await use(script, oauth()) == "done"
            assert script.forms("/authorize")[0]["scope"] == "read"
            with pytest.raises(Unauthorized, match="DpopKey"):
                await connect(script.url)

    run(main())


def test_a_renewed_token_is_proven_too():
    async def main():
        async with bound() as script:
            auth = oauth()
            async with connect(script.url, auth=auth) as client:
                script.expire()
                await client.ping()
            first, second = (read_proof(head["DPoP"]) for head in script.heads("/token"))
            assert script.forms("/token")[1]["grant_type"] == "refresh_token"
            assert first[1] == second[1]

    run(main())


def test_stored_tokens_are_used_with_their_key_alone():
    async def main():
        pem = pem_of(ec.generate_private_key(ec.SECP256R1()))
        store = MemoryStore()
        async with bound() as script:
            for key in (DpopKey(pem), DpopKey(pem)):
                assert await use(script, oauth(store=store, dpop=key)) == "done"
            assert script.count("/authorize") == 1
            assert await OAuth(store=store).token(script.url) is None
            assert await use(script, oauth(store=store)) == "done"
            assert script.count("/authorize") == 2

    run(main())


def test_an_authorization_server_for_other_algorithms_gets_no_request():
    async def main():
        async with bound(metadata={"dpop_signing_alg_values_supported": ["PS256"]}) as script:
            with pytest.raises(FlowFailed, match="without ES256"):
                await use(script, oauth())
            assert script.count("/authorize") == script.count("/register") == 0

    run(main())

"""Keys: which are taken from a JWKS, and when they are fetched."""

import asyncio
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from accord.auth.jwks import FetchedKeys, FixedKeys, fetch_keys, read_keys
from accord.errors import AuthError
from accord.http.client.guarded import HttpResponse, NoResponse
from support.issuer import ISSUER, Published, jwk, jwks
from support.tables import cases

URL = "https://issuer.example/jwks"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def fetched(published, clock, **settings):
    return FetchedKeys(ISSUER, URL, send=published.send, clock=clock, **settings)


async def ids(keys, name, algorithm="ES256"):
    return [key.id for key in await keys.candidates(algorithm, name)]


# -- reading


def test_keys_are_read_with_what_they_are_for():
    first, second = read_keys({"keys": [jwk("a"), jwk("b", "RSA")]})
    assert (first.id, first.algorithms) == ("a", {"ES256"})
    every = {f"{family}S{bits}" for family in "RP" for bits in (256, 384, 512)}
    assert (second.id, second.algorithms) == ("b", every)


def test_a_key_that_names_its_algorithm_is_for_no_other():
    (key,) = read_keys([jwk("a", "RSA", alg="RS256")])
    assert "RS256" in key.algorithms
    assert "PS256" not in key.algorithms


def weak():
    pair = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    return jwt.get_algorithm_by_name("RS256").to_jwk(pair.public_key(), as_dict=True)


@cases(
    "unfit",
    [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "a"},
        {"kty": "RSA", "kid": "a"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-99", "x": "AA", "y": "AA"},
        {"kty": "??"},
        "text",
        None,
        {},
    ],
    ids=["secret", "no modulus", "not on the curve", "unknown curve", "kind", "text", "null", "{}"],
)
def test_keys_that_cannot_verify_are_left_out(unfit):
    assert [key.id for key in read_keys({"keys": [unfit, jwk("good")]})] == ["good"]


def test_keys_for_other_uses_and_weak_ones_are_left_out():
    others = [
        jwk("a", use="enc"),
        jwk("b", key_ops=["encrypt"]),
        jwk("c", kid=7),
        {**weak(), "kid": "d"},
    ]
    assert read_keys({"keys": others}) == []


@cases("document", [{}, {"keys": {}}, {"keys": "x"}, None, "x", 5])
def test_a_malformed_jwks_is_refused(document):
    with pytest.raises(ValueError, match="invalid JWKS"):
        read_keys(document)


def test_a_token_without_key_id_is_tried_with_all_that_fit():
    async def scenario():
        keys = FixedKeys(read_keys([jwk("a"), jwk("b"), jwk("c", "RSA")]))
        assert await ids(keys, None) == ["a", "b"]
        assert await ids(keys, "b") == ["b"]
        assert await ids(keys, "z") == []
        unnamed = FixedKeys(read_keys([jwk("a", kid=None)]))
        assert await ids(unnamed, "z") == [None]

    asyncio.run(scenario())


# -- fetching


def test_keys_are_fetched_once_for_all_callers_and_then_kept():
    async def scenario():
        published = Published("a")
        keys = fetched(published, Clock())
        found = await asyncio.gather(*(ids(keys, "a") for _ in range(50)))
        assert found == [["a"]] * 50
        assert await ids(keys, "a") == ["a"]
        assert len(published.asked) == 1

    asyncio.run(scenario())


def test_a_fetched_key_without_a_name_goes_by_any():
    async def scenario():
        published = Published()
        published.document = {"keys": [jwk("a", kid=None), {"kty": "new"}, jwk("b")]}
        keys = fetched(published, Clock())
        assert await ids(keys, "z") == [None]
        assert await ids(keys, "b") == ["b"]
        assert len(published.asked) == 1

    asyncio.run(scenario())


def test_a_new_key_is_fetched_when_a_token_names_it():
    async def scenario():
        published, clock = Published("a"), Clock()
        keys = fetched(published, clock, pause=10.0)
        await ids(keys, "a")
        published.document = jwks("b")
        clock.now += 11
        found = await asyncio.gather(*(ids(keys, "b") for _ in range(20)))
        assert found == [["b"]] * 20
        assert len(published.asked) == 2
        assert await ids(keys, "a") == []

    asyncio.run(scenario())


def test_unknown_names_do_not_make_us_fetch_all_the_time():
    async def scenario():
        published, clock = Published("a"), Clock()
        keys = fetched(published, clock, pause=10.0)
        for number in range(100):
            assert await ids(keys, f"made up {number}") == []
        assert len(published.asked) == 1
        clock.now += 11
        await ids(keys, "made up")
        assert len(published.asked) == 2

    asyncio.run(scenario())


def test_a_known_name_with_another_algorithm_fetches_nothing():
    async def scenario():
        published, clock = Published("a"), Clock()
        keys = fetched(published, clock, pause=0.0)
        await ids(keys, "a")
        assert await ids(keys, "a", "RS256") == []
        assert len(published.asked) == 1

    asyncio.run(scenario())


def test_old_keys_are_used_while_new_ones_are_fetched_and_when_that_fails():
    async def scenario():
        published, clock = Published("a"), Clock()
        keys = fetched(published, clock, ttl=100.0, pause=10.0, keep=1000.0)
        await ids(keys, "a")
        clock.now += 101
        published.is_down = True
        assert await ids(keys, "a") == ["a"]
        await asyncio.sleep(0)
        assert len(published.asked) == 2
        published.is_down, published.status = False, 500
        clock.now += 11
        assert await ids(keys, "a") == ["a"]
        await asyncio.sleep(0)
        published.status, published.document = 200, {"keys": []}
        clock.now += 11
        assert await ids(keys, "a") == ["a"]
        await asyncio.sleep(0)
        assert len(published.asked) == 4
        assert await ids(keys, "a") == ["a"]

    asyncio.run(scenario())


def test_keys_are_not_used_for_ever():
    async def scenario():
        published, clock = Published("a"), Clock()
        keys = fetched(published, clock, ttl=100.0, keep=1000.0)
        await ids(keys, "a")
        clock.now += 1001
        published.is_down = True
        with pytest.raises(AuthError, match=r"no keys could be fetched from https://issuer\.exam"):
            await ids(keys, "a")
        published.is_down = False
        clock.now += 11
        assert await ids(keys, "a") == ["a"]

    asyncio.run(scenario())


def test_without_keys_verification_fails_and_is_retried():
    async def scenario():
        published, clock = Published("a"), Clock()
        published.is_down = True
        keys = fetched(published, clock, pause=10.0)
        for _ in range(5):
            with pytest.raises(AuthError):
                await ids(keys, "a")
        assert len(published.asked) == 1
        published.is_down = False
        clock.now += 11
        assert await ids(keys, "a") == ["a"]

    asyncio.run(scenario())


def test_a_caller_that_gives_up_waiting_does_not_stop_the_fetch_for_others():
    async def scenario():
        published, gate = Published("a"), asyncio.Event()

        async def send(request):
            await gate.wait()
            return await published.send(request)

        keys = FetchedKeys(ISSUER, URL, send=send)
        hasty = asyncio.create_task(ids(keys, "a"))
        patient = asyncio.create_task(ids(keys, "a"))
        await asyncio.sleep(0)
        hasty.cancel()
        await asyncio.sleep(0)
        gate.set()
        assert await patient == ["a"]
        assert len(published.asked) == 1

    asyncio.run(scenario())


# -- finding


def found(answers, issuer=ISSUER):
    """Play an issuer; returns its keys, and what it was asked for."""
    flow, asked = fetch_keys(issuer), []
    try:
        request = next(flow)
        while True:
            asked.append(request.url)
            answer = answers.get(request.url, 404)
            if answer is None:
                request = flow.throw(NoResponse("connection refused"))
            elif isinstance(answer, int):
                request = flow.send(HttpResponse(status=answer, body=b'{"error": "x"}'))
            elif isinstance(answer, bytes):
                request = flow.send(HttpResponse(status=200, body=answer))
            else:
                request = flow.send(HttpResponse(status=200, body=json.dumps(answer).encode()))
    except StopIteration as end:
        return [key.id for key in end.value], asked


OPENID = f"{ISSUER}/.well-known/openid-configuration"
OAUTH = f"{ISSUER}/.well-known/oauth-authorization-server"
SAID = {"issuer": ISSUER, "jwks_uri": URL}


@cases("place", [OPENID, OAUTH])
@cases(
    "other", [404, None, {"issuer": ISSUER}, b"<html>"], ids=["absent", "down", "bare", "a page"]
)
def test_keys_are_found_by_the_metadata_of_the_issuer(place, other):
    answers = {OPENID: other, OAUTH: other, place: SAID, URL: jwks("a")}
    names, asked = found(answers)
    assert names == ["a"]
    assert asked[-1] == URL


def test_an_issuer_below_a_path_is_asked_there():
    issuer = f"{ISSUER}/tenant"
    place = f"{issuer}/.well-known/openid-configuration"
    names, _ = found({place: {"issuer": issuer, "jwks_uri": URL}, URL: jwks("a")}, issuer)
    assert names == ["a"]


def test_metadata_of_another_issuer_is_not_believed():
    with pytest.raises(ValueError, match=r"another issuer, 'https://evil\.example', expected"):
        found({OAUTH: {**SAID, "issuer": "https://evil.example"}, URL: jwks("a")})


def test_an_issuer_that_names_no_keys_has_none():
    with pytest.raises(ValueError, match="no jwks_uri") as caught:
        found({})
    assert f"{OPENID}: HTTP 404" in str(caught.value)
    with pytest.raises(ValueError, match="none of the keys can verify"):
        found({OAUTH: SAID, URL: {"keys": []}})
    with pytest.raises(ValueError, match="HTTP 404"):
        found({OAUTH: SAID})

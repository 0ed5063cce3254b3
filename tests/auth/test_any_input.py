"""Whatever a request brings, a decision comes out of it, and never a traceback."""

import jwt
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.auth import JwtVerifier
from accord.auth.resource import AccessRefusal, bearer_token, challenge, is_for
from accord.auth.urls import canonical_url
from support.issuer import ISSUER, RESOURCE, _part, jwks, private_key, token

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
SUBJECT = JwtVerifier(ISSUER, audience=RESOURCE, keys=jwks("first"))


def verify(text):
    """Verify without a loop: with the keys at hand there is nothing to wait for."""
    try:
        SUBJECT.verify(text).send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


@given(st.binary(max_size=60), st.binary(max_size=60), st.booleans())
def test_any_header_and_query_give_a_token_a_refusal_or_nothing(value, query, is_bearer):
    value = b"Bearer " + value if is_bearer else value
    found = bearer_token([value], query)
    assert found is None or isinstance(found, str | AccessRefusal)
    if isinstance(found, str):
        assert found.isascii()
        assert found


@given(st.text(max_size=60))
def test_a_canonical_spelling_is_its_own(text):
    try:
        once = canonical_url(f"https://{text}")
    except ValueError:
        return
    assert canonical_url(once) == once


@given(json_values)
def test_no_odd_audience_is_ours(audience):
    assert is_for(audience, [RESOURCE]) is False


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_breaks_out_of_a_challenge(message, url):
    said = challenge(AccessRefusal(401, "invalid_token", message), url)
    assert said.isascii()
    assert said.isprintable()
    assert said.count('"') == 6


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=100) | st.builds(lambda a, b: f"{a}.{b}.x", st.text(), st.text()))
def test_no_text_is_a_token(text):
    assert verify(text) is None


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5u"]), json_values)
def test_no_odd_header_makes_a_token_good(name, value):
    head = {"alg": "ES256", "kid": "first", name: value}
    _, body, signature = token().split(".")
    assert verify(f"{_part(head)}.{body}.{signature}") is None


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["iss", "aud", "exp", "nbf", "sub"]), json_values)
def test_no_odd_claim_that_is_signed_breaks_anything(name, value):
    claims = {"iss": ISSUER, "aud": RESOURCE, "exp": 4_000_000_000, "sub": "ann", name: value}
    head, body = _part({"alg": "ES256", "kid": "first"}), _part(claims)
    signed = jwt.get_algorithm_by_name("ES256").sign(
        f"{head}.{body}".encode(), private_key("first")
    )
    encoded = jwt.utils.base64url_encode(signed).decode()
    found = verify(f"{head}.{body}.{encoded}")
    assert found is None or found.subject

"""The signing keys: made once, rotated, published as long as their tokens live."""

import jwt
import pytest

from accord.auth.authorization_server.access_tokens import SigningKeys
from accord.auth.authorization_server.models import AuthorizationServerSettings
from accord.auth.authorization_server.state.store import AuthorizationStore
from support.oauth import Desk, file_store


def keys_of(store: AuthorizationStore, **changed):
    settings = AuthorizationServerSettings(key_ttl=1000.0, access_ttl=600.0, **changed)
    return SigningKeys(store, settings)


@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
def test_published_keys_verify_a_token(algorithm):
    keys = keys_of(file_store(), algorithm=algorithm)
    token = keys.sign({"sub": "ada"}, 1.0)
    head = jwt.get_unverified_header(token)
    assert (head["alg"], head["typ"]) == (algorithm, "at+jwt")
    (published,) = keys.jwks(1.0)["keys"]
    assert published["kid"] == head["kid"]
    assert published["use"] == "sig"
    assert not {"d", "p", "q", "k"} & set(published)
    key = jwt.PyJWK(published)
    assert jwt.decode(token, key.key, algorithms=[algorithm]) == {"sub": "ada"}


def test_old_keys_are_published_while_their_tokens_live():
    keys = keys_of(file_store())
    token = keys.sign({}, 0.0)
    old = jwt.get_unverified_header(token)["kid"]
    keys.rotate(500.0)
    new = jwt.get_unverified_header(keys.sign({}, 500.0))["kid"]
    assert old != new
    assert [key["kid"] for key in keys.jwks(1100.0)["keys"]] == [new, old]
    assert keys.read(token, 1100.0) == {}
    assert [key["kid"] for key in keys.jwks(1300.0)["keys"]] == [new]
    assert keys.read(token, 1300.0) is None


def test_a_key_is_replaced_after_its_time():
    keys = keys_of(file_store())
    first = jwt.get_unverified_header(keys.sign({}, 0.0))["kid"]
    assert jwt.get_unverified_header(keys.sign({}, 999.0))["kid"] == first
    assert jwt.get_unverified_header(keys.sign({}, 1000.0))["kid"] != first


def test_another_algorithm_means_another_key():
    store = file_store()
    keys_of(store).sign({}, 0.0)
    token = keys_of(store, algorithm="RS256").sign({}, 1.0)
    assert jwt.get_unverified_header(token)["alg"] == "RS256"
    assert len(keys_of(store).jwks(1.0)["keys"]) >= 2


def test_keys_that_are_of_no_use_are_forgotten():
    desk = Desk(key_ttl=1000.0)
    desk.tokens(desk.client())
    desk.now += 2000
    desk.tokens(desk.client())
    desk.now += 1000
    desk.send("GET", "/jwks")
    assert len(desk.store.signing_keys()) == 2
    desk.now += 100
    desk.send("GET", "/jwks")
    assert len([key for key in desk.store.signing_keys() if key.retired_at is None]) == 1

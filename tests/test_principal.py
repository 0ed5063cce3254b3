"""The identity of a principal, and what is shown of it."""

from operator import ne

import msgspec

from accord import Principal


def test_a_principal_is_the_same_whatever_its_token_allows():
    one = Principal("ada", issuer="https://id.example", scopes=frozenset({"read"}))
    other = Principal("ada", issuer="https://id.example", scopes=frozenset({"write"}))
    assert one == other
    assert one == one
    assert not ne(one, other)
    assert hash(one) == hash(other)


def test_the_same_name_from_another_issuer_or_client_is_another_principal():
    ada = Principal("ada", issuer="https://id.example")
    assert ada != Principal("ada", issuer="https://other.example")
    assert ada != Principal("ada", issuer="https://id.example", client_id="app")


def test_claims_are_not_shown():
    shown = repr(Principal("ada", claims={"email": "ada@example.com"}))
    assert "ada@example.com" not in shown


def test_a_principal_is_stored_without_what_has_no_stored_form():
    plain = Principal("ada", issuer="https://id.example", claims={"plan": ["paid"]})
    for given in (plain, Principal("ada", upstream=object()), Principal("ada", claims={"x": ne})):
        stored = msgspec.msgpack.encode(given.storable())
        found = msgspec.msgpack.decode(stored, type=Principal)
        assert found == given
        assert found.upstream is None
        assert found.claims == (given.claims if given is plain else {})

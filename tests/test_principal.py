"""The identity of a principal, and what is shown of it."""

from enum import IntEnum
from operator import ne
from uuid import UUID

import msgspec
import pytest

from accord import Principal
from accord.principal import as_principal, identity_text
from support.tables import cases


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


class Shown(str):
    """Text that is shown in another way."""

    __slots__ = ()

    def __str__(self):
        return "ann"


class Level(IntEnum):
    LOW = 1


ALIKE = [
    None,
    "",
    "1",
    1,
    b"1",
    UUID(int=1),
    str(UUID(int=1)),
    (),
    (1,),
    ("1",),
    (b"1",),
    (None,),
    ("None",),
    ("1", "2"),
    ("1', '2",),
    (("1",), "2"),
    ("1", ("2",)),
    *map(repr, ((1,), ("1",), b"1", "1")),
    "\ud800",
    Principal("1", issuer="int"),
    Principal("1", client_id="int"),
    Principal("None"),
]


def test_different_callers_have_different_identities():
    texts = [identity_text(as_principal(each)) for each in ALIKE]
    assert len(set(texts)) == len(ALIKE)
    assert all(text.isascii() for text in texts)


@cases(
    ("value", "same"),
    [
        ("ann", Principal("ann")),
        (Shown("bob"), "bob"),
        (Level.LOW, 1),
        (bytes(bytearray(b"x")), b"x"),
        (UUID(int=5), UUID(int=5)),
        ((Shown("bob"), Level.LOW), ("bob", 1)),
    ],
)
def test_a_caller_has_the_same_identity_each_time(value, same):
    assert as_principal(value) == as_principal(same)
    assert identity_text(as_principal(value)) == identity_text(as_principal(same))


@pytest.mark.parametrize(
    ("value", "subject"), [("ann", "ann"), (7, "7"), (UUID(int=1), str(UUID(int=1)))]
)
def test_the_subject_is_what_the_caller_is_named_by(value, subject):
    assert as_principal(value).subject == subject


@cases("value", [1.5, True, object(), frozenset(), [], ("a", 1.5)])
def test_a_value_without_an_identity_of_its_own_is_refused(value):
    with pytest.raises(TypeError, match="let `principal=` return a Principal, a str"):
        as_principal(value)

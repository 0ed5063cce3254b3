"""The sealed ids of sessions."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from accord import Principal
from accord.sharing import KeyRing
from accord.sharing.workers.session_tokens import (
    FORMAT,
    SessionToken,
    SessionTokens,
    identify_caller,
)
from support.tables import cases

KEY, OTHER = "k" * 40, "o" * 40
TOKEN = SessionToken(
    FORMAT,
    "5e551011a2b3c4d5e6f70819",
    "e90c4",
    1_800_000_000.5,
    b"caller",
    "2025-06-18",
    ("elicitation", "roots.listChanged"),
    ("desk", "1.0"),
)


def tokens(*keys):
    return SessionTokens(KeyRing(keys or [KEY]))


def test_a_sealed_token_opens_as_it_was():
    sealed = tokens().seal(TOKEN)
    assert tokens().open(sealed) == TOKEN


def test_an_id_is_visible_ascii_and_short():
    sealed = tokens().seal(TOKEN)
    assert all(0x21 <= byte <= 0x7E for byte in sealed)
    assert len(sealed) < 250


def test_a_token_that_was_altered_anywhere_does_not_open():
    sealed = tokens().seal(TOKEN)
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. "
    for at in range(len(sealed)):
        for letter in alphabet:
            if letter != sealed[at]:
                assert tokens().open(sealed[:at] + bytes([letter]) + sealed[at + 1 :]) is None


@cases(
    "change",
    [
        lambda sealed: sealed[:-1],
        lambda sealed: sealed[1:],
        lambda sealed: sealed + b"A",
        lambda sealed: sealed + b"=",
        lambda sealed: sealed + b"==",
        lambda sealed: b" " + sealed,
        lambda sealed: sealed + b"\n",
        lambda sealed: sealed.replace(b"-", b"+").replace(b"_", b"/") + b"AAAA",
        lambda sealed: sealed * 20,
        lambda sealed: b"",
    ],
)
def test_a_token_with_more_or_less_does_not_open(change):
    assert tokens().open(change(tokens().seal(TOKEN))) is None


@given(st.binary(max_size=300))
def test_bytes_that_were_made_up_do_not_open(data):
    assert tokens().open(data) is None
    assert tokens().open(base64.urlsafe_b64encode(data).rstrip(b"=")) is None


def test_a_token_of_a_foreign_key_does_not_open():
    assert tokens(OTHER).open(tokens().seal(TOKEN)) is None


def test_a_key_that_was_rotated_opens_for_as_long_as_it_is_in_the_ring():
    sealed = tokens(KEY).seal(TOKEN)
    rotated = tokens(OTHER, KEY)
    assert rotated.open(sealed) == TOKEN
    assert tokens(OTHER).open(rotated.seal(TOKEN)) == TOKEN
    assert tokens(KEY).open(rotated.seal(TOKEN)) is None


def test_a_token_of_another_format_does_not_open():
    later = SessionToken(FORMAT + 1, "a", "b", 0.0, b"")
    assert tokens().open(tokens().seal(later)) is None


def test_a_sealed_value_that_is_not_a_token_does_not_open():
    import hmac

    key = KeyRing([KEY]).derive("session id")[0]
    for payload in (b"", b"\x90", b"\x01", b"\xc1", b"[" * 2000):
        mac = hmac.digest(key, payload, "sha256")[:16]
        sealed = base64.urlsafe_b64encode(payload + mac).rstrip(b"=")
        assert tokens().open(sealed) is None


def test_members_that_a_later_version_adds_are_ignored():
    import hmac

    import msgspec

    key = KeyRing([KEY]).derive("session id")[0]
    payload = msgspec.msgpack.encode([*msgspec.to_builtins(TOKEN, builtin_types=[bytes]), "more"])
    sealed = payload + hmac.digest(key, payload, "sha256")[:16]
    assert tokens().open(base64.urlsafe_b64encode(sealed).rstrip(b"=")) == TOKEN


def test_a_long_name_of_a_client_is_left_out():
    long = SessionToken(FORMAT, "a", "b", 0.0, b"", client=("n" * 500, "1"))
    opened = tokens().open(tokens().seal(long))
    assert opened is not None
    assert opened.client == ("", "")
    assert opened.sid == "a"


# -- callers


@cases(
    "other",
    [
        Principal("ada", "app", issuer="https://b"),
        Principal("ada", "other", issuer="https://a"),
        Principal("eve", "app", issuer="https://a"),
        Principal("ada", issuer="https://a"),
        Principal("ada"),
        None,
    ],
)
def test_another_caller_has_another_digest(other):
    ada = Principal("ada", "app", issuer="https://a")
    assert identify_caller(other) != identify_caller(ada)


def test_the_same_caller_with_another_token_has_the_same_digest():
    first = Principal("ada", "app", frozenset({"read"}), "https://a", 5.0, {"sub": "ada"})
    second = Principal("ada", "app", frozenset(), "https://a", 99.0)
    assert identify_caller(first) == identify_caller(second)


def test_an_anonymous_caller_has_an_empty_digest_and_no_other_has():
    assert identify_caller(None) == b""
    assert len(identify_caller(Principal(""))) == len(identify_caller(Principal("ada"))) == 9


def test_parts_of_an_identity_cannot_be_shifted():
    first = Principal("a", "b", issuer="c\0a")
    second = Principal("a\0a", "b", issuer="c")
    assert first.identity != second.identity
    assert identify_caller(first) != identify_caller(second)


def test_a_caller_with_half_a_character_has_a_digest():
    assert identify_caller(Principal("\ud800"))

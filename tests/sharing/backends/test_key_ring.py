"""The keys of a deployment: what is derived from them, and how they are given."""

import pytest

from accord.errors import ConfigurationError
from accord.sharing.backends.memory_backend import MemoryBackend
from accord.sharing.backends.sealed_backend import (
    KEYS_VARIABLE,
    KeyRing,
    SealedBackend,
    read_keys,
    seal_backend,
)
from support.tables import cases

FIRST = "first-key-of-the-deployment-0123456789"
SECOND = b"\x00\xffsecond key of the deployment, in bytes"


def test_text_and_its_bytes_are_the_same_key():
    assert KeyRing([FIRST]).derive("x") == KeyRing([FIRST.encode()]).derive("x")


def test_each_purpose_and_each_key_gives_a_key_of_its_own():
    ring = KeyRing([FIRST, SECOND])
    derived = [key for purpose in ("sessions", "states") for key in ring.derive(purpose)]
    assert len(set(derived)) == 4
    assert {len(key) for key in derived} == {32}
    assert not any(FIRST.encode() in key for key in derived)


def test_derived_keys_stay_the_same_between_processes_and_versions():
    # What was sealed before an upgrade has to open after it.
    ring = KeyRing(["k" * 32])
    assert ring.ids[0].hex() == "9b8d56ec"
    assert (
        ring.derive("sessions")[0].hex()
        == "dee8071987d87d33bdb4278f5196ab14bb8e89094668ea91817a9d68be755147"
    )


def test_a_new_key_in_front_leaves_the_older_one_second():
    old, rotated = KeyRing([FIRST]), KeyRing([SECOND, FIRST])
    assert rotated.derive("x")[1] == old.derive("x")[0]
    assert rotated.ids[1] == old.ids[0]


def test_a_code_verifies_with_any_key_of_the_ring():
    old, rotated, other = KeyRing([FIRST]), KeyRing([SECOND, FIRST]), KeyRing([SECOND])
    code = old.mac("x", b"data")
    assert rotated.verify("x", b"data", code)
    assert rotated.verify("x", b"data", rotated.mac("x", b"data"))
    assert rotated.mac("x", b"data") != code
    assert not other.verify("x", b"data", code)
    assert not rotated.verify("y", b"data", code)
    assert not rotated.verify("x", b"other", code)


@cases(
    ("keys", "message"),
    [
        ([], "a store needs at least one key"),
        (["short"], "key 1 of the store has 5 bytes, and needs at least 32"),
        ([FIRST, b"x" * 31], "key 2 of the store has 31 bytes"),
        ([FIRST, SECOND, FIRST], "key 3 of the store is in the list twice"),
        (FIRST, "a list"),
        (SECOND, "a list"),
    ],
)
def test_unfit_keys_are_refused_by_number_and_never_shown(keys, message):
    with pytest.raises(ConfigurationError) as caught:
        KeyRing(keys)
    assert message in str(caught.value)
    assert "short" not in str(caught.value)
    assert FIRST not in str(caught.value)


def test_a_ring_is_shown_without_its_keys():
    ring = KeyRing([FIRST, SECOND])
    assert repr(ring) == f"<KeyRing {ring.ids[0].hex()} {ring.ids[1].hex()}>"


def test_given_keys_win_over_the_environment():
    ring = read_keys([FIRST], {KEYS_VARIABLE: SECOND.decode("latin-1")})
    assert ring is not None
    assert ring.ids == KeyRing([FIRST]).ids
    assert read_keys(ring, {}) is ring


def test_keys_are_read_from_the_environment_in_order():
    ring = read_keys(None, {KEYS_VARIABLE: f" {'a' * 40} , {'b' * 40},"})
    assert ring is not None
    assert ring.ids == KeyRing(["a" * 40, "b" * 40]).ids


@pytest.mark.parametrize("environ", [{}, {KEYS_VARIABLE: ""}, {KEYS_VARIABLE: " , "}])
def test_without_keys_there_is_no_ring(environ):
    assert read_keys(None, environ) is None


def test_an_empty_list_of_keys_is_a_mistake():
    with pytest.raises(ConfigurationError, match="at least one key"):
        read_keys([], {KEYS_VARIABLE: FIRST})


def test_an_unfit_key_of_the_environment_is_reported_with_the_variable():
    with pytest.raises(ConfigurationError, match=f"{KEYS_VARIABLE}: key 1 .* 3 bytes"):
        read_keys(None, {KEYS_VARIABLE: "abc"})


def test_a_remote_store_needs_keys(monkeypatch):
    class Remote(MemoryBackend):
        url = "redis://somewhere"
        is_remote = True

    monkeypatch.delenv(KEYS_VARIABLE, raising=False)
    remote, local = Remote(), MemoryBackend()
    with pytest.raises(ConfigurationError, match="redis://somewhere is reached over a network"):
        seal_backend(remote, None)
    assert seal_backend(remote, "none") == (remote, None)
    assert seal_backend(local, None) == (local, None)
    sealed, keys = seal_backend(remote, [FIRST])
    assert isinstance(sealed, SealedBackend)
    assert isinstance(keys, KeyRing)

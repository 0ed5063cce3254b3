"""Fixed tokens, several verifiers in order, and what is remembered."""

import asyncio
import time

import pytest

from accord import Principal
from accord.auth import FirstOf, StaticTokens, TokenVerifier
from accord.auth.verifiers import TokenMemory, for_audience
from accord.errors import AuthError
from support.tables import cases


def verify(verifier, token):
    return asyncio.run(verifier.verify(token))


class Unreachable:
    async def verify(self, token):
        raise AuthError("not reachable")


class Bound:
    def __init__(self, audience=None):
        self.audience = audience

    async def verify(self, token):
        return Principal(self.audience) if self.audience else None

    def for_audience(self, audience):
        return Bound(audience)


def test_a_fixed_token_stands_for_its_principal():
    ann = Principal("ann", scopes=frozenset({"read"}))
    verifier = StaticTokens({"secret-1": ann, "secret-2": ["read", "write"], "secret-3": "admin"})
    assert isinstance(verifier, TokenVerifier)
    assert verify(verifier, "secret-1") is ann
    assert verify(verifier, "secret-2").scopes == {"read", "write"}
    assert verify(verifier, "secret-3").scopes == {"admin"}
    assert verify(verifier, "secret-2") != verify(verifier, "secret-3")
    assert verify(verifier, "secret") is None
    assert "secret-1" not in repr(verifier)


@cases("wrong", ["", "two words", "\u00fc", "a\n"], ids=ascii)
def test_an_invalid_static_token_is_refused_at_once(wrong):
    with pytest.raises(ValueError, match="token 2 is empty or has characters") as caught:
        StaticTokens({"good": ["read"], wrong: ["read"]})
    assert not wrong or wrong not in str(caught.value)


def test_a_fixed_token_may_expire():
    verifier = StaticTokens({"a": Principal("ann", expires_at=time.time() - 1)})
    assert verify(verifier, "a") is None


def test_the_first_verifier_that_takes_a_token_decides():
    first = StaticTokens({"a": Principal("ann")})
    second = StaticTokens({"a": Principal("eve"), "b": Principal("bob")})
    both = FirstOf(first, second)
    assert verify(both, "a") == Principal("ann")
    assert verify(both, "b") == Principal("bob")
    assert verify(both, "c") is None
    with pytest.raises(ValueError, match="at least one"):
        FirstOf()


def test_a_verifier_that_cannot_tell_stands_in_nobodys_way():
    fixed = StaticTokens({"a": Principal("ann")})
    both = FirstOf(Unreachable(), fixed)
    assert verify(both, "a") == Principal("ann")
    with pytest.raises(AuthError, match="not reachable"):
        verify(both, "b")


def test_an_audience_reaches_those_who_want_one():
    fixed = StaticTokens({})
    assert for_audience(fixed, "x") is fixed
    both = for_audience(FirstOf(fixed, Bound()), "https://desk.example/mcp")
    assert verify(both, "any").subject == "https://desk.example/mcp"


def test_a_remembered_result_ends_with_the_token_or_sooner():
    now = [100.0]
    memory = TokenMemory(clock=lambda: now[0])
    memory.keep(b"long", Principal("ann", expires_at=1000.0), 60.0)
    memory.keep(b"short", Principal("bob", expires_at=110.0), 60.0)
    memory.keep(b"bad", None, 5.0)
    assert memory.find(b"bad") == (None, 105.0)
    assert memory.find(b"other") is None
    now[0] = 110.0
    assert memory.find(b"bad") is None
    assert memory.find(b"short") is None
    assert memory.find(b"long")[0] == Principal("ann")
    now[0] = 160.0
    assert memory.find(b"long") is None
    assert len(memory.known) == 0


def test_remembered_results_are_bounded():
    memory = TokenMemory(most=3)
    for number in range(10):
        memory.keep(bytes([number]), Principal("ann"), 60.0)
    assert len(memory.known) == 3
    assert memory.find(bytes([9])) is not None
    assert memory.find(bytes([6])) is None

"""Tokens whose issuer is asked about each."""

import asyncio
import base64
import contextvars
import json
import time
from urllib.parse import parse_qs

import pytest

from accord.auth import IntrospectionVerifier
from accord.auth.verifiers import REQUEST_SOURCE
from accord.errors import AuthError
from accord.http.client.guarded import HttpResponse, NoResponse
from support.issuer import ISSUER, RESOURCE, claims
from support.tables import cases

URL = "https://issuer.example/introspect"


class Endpoint:
    """An introspection endpoint with one answer, which may be slow or fail."""

    def __init__(self, status=200, **answer):
        self.status = status
        self.answer = answer
        self.asked = []
        self.gate = None

    async def send(self, request):
        self.asked.append(request)
        if self.gate is not None:
            await self.gate.wait()
        if self.status == 0:
            raise NoResponse("connection refused")
        return HttpResponse(status=self.status, body=json.dumps(self.answer).encode())


def verifier(endpoint, **settings):
    settings.setdefault("audience", RESOURCE)
    return IntrospectionVerifier(URL, "desk", "p:w%", send=endpoint.send, **settings)


def verify(endpoint, **settings):
    return asyncio.run(verifier(endpoint, **settings).verify("opaque"))


@pytest.mark.requirement("auth.token.validated")
def test_an_active_token_has_a_principal():
    said = claims(scope="read write")
    for settings in ({"issuer": ISSUER}, {}):
        found = verify(Endpoint(active=True, **said), **settings)
        assert (found.subject, found.client_id, found.issuer) == ("ann", "laptop", ISSUER)
        assert found.scopes == {"read", "write"}
        assert found.expires_at == said["exp"]


def test_the_question_is_a_form_with_our_credentials_in_a_header():
    endpoint = Endpoint(active=False)
    verify(endpoint)
    (request,) = endpoint.asked
    assert (request.method, request.url) == ("POST", URL)
    assert parse_qs(request.body.decode()) == {
        "token": ["opaque"],
        "token_type_hint": ["access_token"],
    }
    scheme, _, value = request.headers["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(value)) == ("Basic", b"desk:p%3Aw%25")
    assert "opaque" not in repr(request)


def test_credentials_may_stand_in_the_form():
    endpoint = Endpoint(active=False)
    verify(endpoint, authenticate="post")
    (request,) = endpoint.asked
    assert "Authorization" not in request.headers
    form = parse_qs(request.body.decode())
    assert (form["client_id"], form["client_secret"]) == (["desk"], ["p:w%"])


@pytest.mark.requirement("auth.token.audience-validated", "auth.token.foreign-rejected")
@cases(
    "answer",
    [
        {"active": False, **claims()},
        {},
        {"active": "true", **claims()},
        {"active": True, **claims(aud="https://other.example/mcp")},
        {"active": True, **claims(aud=None)},
        {"active": True, **claims(iss="https://evil.example")},
        {"active": True, **claims(exp=int(time.time()) - 1000)},
        {"active": True, **claims(sub=None, client_id=None)},
    ],
    ids=["inactive", "empty", "text", "audience", "no audience", "issuer", "expired", "nobody"],
)
def test_an_inactive_or_foreign_token_is_refused(answer):
    assert verify(Endpoint(**answer), issuer=ISSUER) is None


def test_an_issuer_may_leave_out_what_it_has_looked_at():
    answer = {"active": True, "username": "ann", "aud": RESOURCE}
    found = verify(Endpoint(**answer), issuer=ISSUER)
    assert (found.subject, found.issuer, found.expires_at) == ("ann", ISSUER, None)


def test_an_issuer_that_tells_no_audience_needs_that_to_be_said():
    answer = {"active": True, **claims(aud=None)}
    assert verify(Endpoint(**answer), audience=None) is None
    assert verify(Endpoint(**answer), audience=[]) is not None
    assert verify(Endpoint(**{**answer, "aud": []}), audience=[]) is not None
    assert verify(Endpoint(**answer), clients=["laptop"]).client_id == "laptop"
    assert verify(Endpoint(**answer), clients=["other"]) is None
    other = {"active": True, **claims(aud="https://other.example")}
    assert verify(Endpoint(**other), clients=["laptop"]) is None
    assert verify(Endpoint(**other), audience=[]) is None


def test_the_audience_is_that_of_the_server_by_default():
    async def scenario():
        endpoint = Endpoint(active=True, **claims())
        unbound = verifier(endpoint, audience=None)
        assert await unbound.verify("opaque") is None
        ours, theirs = (unbound.for_audience(each) for each in (RESOURCE, "https://x.example"))
        both = await asyncio.gather(ours.verify("opaque"), theirs.verify("opaque"))
        assert both[0] is not None
        assert both[1] is None
        again = unbound.for_audience("https://y.example")
        assert await again.verify("opaque") is None
        fixed = verifier(endpoint)
        assert fixed.for_audience("https://x.example") is fixed

    asyncio.run(scenario())


def test_an_answer_counts_for_a_while_and_then_is_asked_for_again():
    async def scenario():
        now = [time.time()]
        endpoint = Endpoint(active=True, **claims())
        subject = verifier(endpoint, remember=30.0, clock=lambda: now[0])
        for _ in range(5):
            assert await subject.verify("opaque") is not None
        assert len(endpoint.asked) == 1
        endpoint.answer = {"active": False}
        now[0] += 31
        for _ in range(5):
            assert await subject.verify("opaque") is None
        assert len(endpoint.asked) == 2

    asyncio.run(scenario())


def test_many_requests_with_one_token_ask_once():
    async def scenario():
        endpoint = Endpoint(active=True, **claims())
        endpoint.gate = asyncio.Event()
        subject = verifier(endpoint)
        waiting = [asyncio.create_task(subject.verify("opaque")) for _ in range(20)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        endpoint.gate.set()
        found = await asyncio.gather(*waiting[1:])
        assert [each.subject for each in found] == ["ann"] * 19
        assert len(endpoint.asked) == 1

    asyncio.run(scenario())


class Slow(Endpoint):
    """An endpoint that keeps questions about made-up tokens waiting."""

    async def send(self, request):
        is_made_up = b"made+up" in request.body
        self.answer = {"active": False} if is_made_up else {"active": True, **claims()}
        if is_made_up:
            return await super().send(request)
        self.asked.append(request)
        return HttpResponse(status=200, body=json.dumps(self.answer).encode())


def from_address(address, work):
    """Start work as a request from an address does."""
    context = contextvars.copy_context()
    context.run(REQUEST_SOURCE.set, address)
    return asyncio.get_running_loop().create_task(work, context=context)


async def turns_of_the_loop(times=20):
    for _ in range(times):
        await asyncio.sleep(0)


def test_a_flood_of_tokens_from_one_address_does_not_reach_the_issuer():
    async def scenario():
        endpoint = Endpoint(active=False)
        endpoint.gate = asyncio.Event()
        subject = verifier(endpoint)
        flood = [asyncio.create_task(subject.verify(f"made up {n}")) for n in range(300)]
        await turns_of_the_loop()
        assert len(endpoint.asked) == 50
        endpoint.gate.set()
        outcomes = await asyncio.gather(*flood, return_exceptions=True)
        assert len(endpoint.asked) == 150
        assert sum(isinstance(each, AuthError) for each in outcomes) == 150
        assert await subject.verify("another") is None

    asyncio.run(scenario())


@pytest.mark.parametrize("addresses", [1, 2, 10])
def test_made_up_tokens_under_way_turn_no_good_one_away(addresses):
    async def scenario():
        endpoint = Slow()
        endpoint.gate = asyncio.Event()
        subject = verifier(endpoint)
        flood = [
            from_address(f"198.51.100.{n % addresses}", subject.verify(f"made up {n}"))
            for n in range(300)
        ]
        await turns_of_the_loop()
        good = from_address("192.0.2.1", subject.verify("good"))
        await turns_of_the_loop()
        # One address leaves half of the places free; with more the next free one goes round.
        assert good.done() is (addresses == 1)
        endpoint.gate.set()
        assert (await asyncio.wait_for(good, 30)).subject == "ann"
        await asyncio.gather(*flood, return_exceptions=True)
        assert not subject._asking

    asyncio.run(scenario())


def test_made_up_tokens_push_no_good_one_out_of_memory():
    async def scenario():
        endpoint = Endpoint(active=True, **claims())
        subject = verifier(endpoint)
        assert await subject.verify("good") is not None
        endpoint.answer = {"active": False}
        for number in range(12_000):
            await subject.verify(f"made up {number}")
        asked = len(endpoint.asked)
        assert await subject.verify("good") is not None
        assert await subject.verify("made up 11999") is None
        assert len(endpoint.asked) == asked

    asyncio.run(scenario())


@pytest.mark.parametrize("status", [0, 401, 500])
def test_an_issuer_that_does_not_answer_leaves_it_open_and_nothing_is_remembered(status):
    async def scenario():
        endpoint = Endpoint(status, active=True, **claims())
        subject = verifier(endpoint)
        with pytest.raises(AuthError, match="introspection failed") as raised:
            await subject.verify("opaque")
        assert "opaque" not in str(raised.value)
        endpoint.status = 200
        assert await subject.verify("opaque") is not None

    asyncio.run(scenario())


def test_unknown_settings_are_refused_and_secrets_not_shown():
    with pytest.raises(TypeError, match="unknown settings: ttl"):
        verifier(Endpoint(), ttl=5)
    assert "p:w" not in repr(verifier(Endpoint()))

"""Tokens by the assertion of another authority: workloads, and identity providers of companies."""

import asyncio
import json
from base64 import b64decode
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from accord import connect
from accord.auth import AssertionRequest, IdentityAssertion, MemoryStore, OAuth, WorkloadToken
from accord.errors import FlowFailed
from accord.http.client.guarded import HttpResponse
from support.flows import reply
from support.scripted_authorization import scripted
from support.tables import cases
from support.waiting import run

JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ3In0.c2ln"
OTHER_JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
IDP = "https://idp.example"
WANTED = AssertionRequest(issuer="https://as.example", resource="https://m.example/mcp")


def oauth(script, assertion, **more):
    usual = {"grant": "jwt_bearer", "client_id": "robot", "issuer": script.issuer}
    return OAuth(**(usual | {"store": MemoryStore(), "assertion": assertion} | more))


async def use(script, auth):
    async with connect(script.url, auth=auth) as client:
        return (await client.call_tool("x")).content[0].text


# -- workloads


def test_a_workload_gets_a_token_for_its_jwt():
    async def main():
        async with scripted(challenge='Bearer scope="read"') as script:
            assert await use(script, oauth(script, WorkloadToken(JWT))) == "done"
            (asked,) = script.forms("/token")
            assert asked == {
                "grant_type": BEARER,
                "assertion": JWT,
                "scope": "read",
                "resource": script.url,
                "client_id": "robot",
            }
            assert script.count("/register") == script.count("/authorize") == 0

    run(main())


def test_the_token_of_a_workload_is_read_again_for_the_next_access_token(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{JWT}\n")

    async def main():
        async with scripted() as script:
            async with connect(script.url, auth=oauth(script, WorkloadToken(file))) as client:
                await client.ping()
                file.write_text(OTHER_JWT)
                script.expire()
                await client.ping()
            assert [each["assertion"] for each in script.forms("/token")] == [JWT, OTHER_JWT]

    run(main())


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_scope", "unauthorized_client"])
def test_a_refused_assertion_is_reported_and_not_tried_again(error):
    async def main():
        async with scripted() as script:
            said = {"error": error, "error_description": f"not {JWT}"}
            script.token_errors = [(400, said)] * 5
            with pytest.raises(FlowFailed, match=error) as caught:
                await use(script, oauth(script, WorkloadToken(JWT)))
            assert JWT not in str(caught.value)
            assert script.count("/token") == 1
            assert script.count("/authorize") == script.count("/register") == 0

    run(main())


def test_an_assertion_goes_to_no_other_issuer():
    async def main():
        async with scripted() as script, scripted() as evil:
            auth = oauth(script, WorkloadToken(JWT))
            script.prm = {"authorization_servers": [evil.issuer]}
            with pytest.raises(FlowFailed, match="protected by"):
                await use(script, auth)
            assert evil.count("/token") == script.count("/token") == 0

    run(main())


async def ask(source):
    return await WorkloadToken(source)(WANTED)


def test_the_token_may_come_from_a_function():
    async def later():
        return JWT

    assert asyncio.run(ask(lambda: JWT)) == JWT
    assert asyncio.run(ask(later)) == JWT


@cases(
    ("source", "why"),
    [
        ("not a jwt", "not a signed JWT"),
        (lambda: None, "not a signed JWT"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        (Path("/nowhere/token"), "No such file"),
    ],
    ids=["text", "nothing", "failing", "missing"],
)
def test_a_token_that_cannot_be_read_is_reported_without_its_text(source, why):
    with pytest.raises(FlowFailed, match=why) as caught:
        asyncio.run(ask(source))
    assert "not a jwt" not in str(caught.value)


def test_a_file_that_is_not_text_is_reported(tmp_path):
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(FlowFailed, match="UnicodeDecodeError"):
        asyncio.run(ask(file))


@cases(
    ("settings", "why"),
    [
        ({"grant": "jwt_bearer"}, "need each other"),
        ({"assertion": WorkloadToken(JWT)}, "need each other"),
        ({"grant": "jwt_bearer", "assertion": WorkloadToken(JWT)}, "needs the client_id"),
        (
            {"grant": "jwt_bearer", "assertion": WorkloadToken(JWT), "client_id": "x"},
            "needs issuer=",
        ),
    ],
    ids=str,
)
def test_incomplete_settings_are_refused(settings, why):
    with pytest.raises(ValueError, match=why):
        OAuth(store=MemoryStore(), **settings)


# -- identity providers of companies


def provider(answer, asked, **more):
    """Return an identity provider that gives an answer, and notes the requests."""

    async def send(request):
        asked.append(request)
        if request.method == "GET":
            return reply({"issuer": IDP, "token_endpoint": f"{IDP}/oauth/token"})
        return answer

    usual = {"issuer": IDP, "client_id": "desk-at-idp", "send": send}
    return IdentityAssertion(JWT, **(usual | more))


GIVEN = reply({"access_token": OTHER_JWT, "issued_token_type": ID_JAG, "token_type": "N_A"})


def test_the_users_id_token_is_exchanged_and_the_assertion_presented():
    async def main():
        asked = []
        async with scripted(challenge='Bearer scope="read"') as script:
            assertion = provider(GIVEN, asked, client_secret="s3")
            auth = oauth(script, assertion, client_secret="other")
            assert await use(script, auth) == "done"
            found, exchange = asked
            assert found.url == f"{IDP}/.well-known/oauth-authorization-server"
            assert exchange.url == f"{IDP}/oauth/token"
            assert dict(parse_qsl(exchange.body.decode())) == {
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "requested_token_type": ID_JAG,
                "subject_token": JWT,
                "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
                "audience": script.issuer,
                "resource": script.url,
                "scope": "read",
                "client_id": "desk-at-idp",
            }
            basic = exchange.headers["Authorization"].removeprefix("Basic ")
            assert b64decode(basic) == b"desk-at-idp:s3"
            (redeemed,) = script.forms("/token")
            assert redeemed["grant_type"] == BEARER
            assert redeemed["assertion"] == OTHER_JWT
            (head,) = script.heads("/token")
            assert b64decode(head["Authorization"].removeprefix("Basic ")) == b"robot:other"
            assert JWT not in json.dumps(script.seen)

    run(main())


def test_a_given_token_endpoint_needs_no_metadata():
    asked = []
    assertion = provider(GIVEN, asked, token_endpoint=f"{IDP}/exchange")
    assert asyncio.run(assertion(WANTED)) == OTHER_JWT
    assert [each.url for each in asked] == [f"{IDP}/exchange"]
    assert "scope" not in dict(parse_qsl(asked[0].body.decode()))


@cases(
    ("answer", "why"),
    [
        (
            reply({"error": "access_denied", "error_description": f"not {JWT}"}, 400),
            "access_denied",
        ),
        (reply({"access_token": OTHER_JWT, "issued_token_type": "x"}), "a token of type 'x'"),
        (reply({"access_token": "opaque", "issued_token_type": ID_JAG}), "not a signed JWT"),
        (HttpResponse(status=500), "HTTP 500"),
    ],
    ids=["refused", "other type", "opaque", "failed"],
)
def test_an_exchange_that_gives_no_assertion_is_reported(answer, why):
    with pytest.raises(FlowFailed, match=why) as caught:
        asyncio.run(provider(answer, [])(WANTED))
    assert JWT not in str(caught.value)


def test_an_identity_provider_without_a_token_endpoint_is_reported():
    async def send(request):
        return reply({"issuer": IDP})

    assertion = IdentityAssertion(JWT, issuer=IDP, client_id="x", send=send)
    with pytest.raises(FlowFailed, match="without a token_endpoint"):
        asyncio.run(assertion(WANTED))


def test_an_identity_provider_is_a_url():
    with pytest.raises(ValueError, match="issuer is 'idp'"):
        IdentityAssertion(JWT, issuer="idp", client_id="x")


def test_neither_shows_its_token():
    assertion = IdentityAssertion(JWT, issuer=IDP, client_id="x", client_secret="s3cret")
    assert JWT not in repr([WorkloadToken(JWT), assertion])
    assert "s3cret" not in repr(assertion)

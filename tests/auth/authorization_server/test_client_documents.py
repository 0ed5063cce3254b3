"""Clients whose id is the URL of their metadata: what is fetched, checked, stored and shown."""

import asyncio
import logging
import ssl

import pytest
from aiohttp import web

from accord import Context, Server, connect
from accord.auth import AuthorizationServer, KnownClient, MemoryStore, OAuth
from accord.auth.authorization_server.clients import (
    ClientDocuments,
    document_sender,
    fresh_seconds,
)
from accord.auth.authorization_server.models import OAuthRefusal, Request
from accord.auth.urls import client_url_fault
from accord.http.client.guarded import HttpResponse, NoResponse
from support.certificates import self_signed, serving_with
from support.flows import reply
from support.http_server import bounded
from support.oauth import ISSUER, RETURN, Desk, claims_of, request_query
from support.scripted_authorization import browse
from support.tables import cases
from support.waiting import run

URL = "https://app.example/client.json"
DOCUMENT = {"client_id": URL, "client_name": "Notes", "redirect_uris": [RETURN]}


def describe(desk, document=DOCUMENT, **headers):
    """Store the client of a document, as if it had just been fetched."""
    desk.endpoints.keep_document(URL, reply(document, **headers), desk.now)


def needs_document(desk, url=URL):
    request = Request(method="GET", path="/authorize", issuer=ISSUER, address=desk.address)
    return desk.endpoints.needs_document(request, url, desk.now)


# -- which URLs


@pytest.mark.requirement("auth.cimd.https-hosted")
@cases(
    ("url", "fault"),
    [
        (URL, None),
        ("https://app.example:8443/a/b?c=d", None),
        ("https://app.example", "has no path"),
        ("https://app.example/", "has no path"),
        ("http://app.example/client.json", "is neither https"),
        ("http://localhost/client.json", "is not https"),
        ("https://app.example/a/../b", "has .. in its path"),
        ("https://app.example/./b", "has . in its path"),
        ("https://app.example/a#b", "has a fragment"),
        ("https://ada@app.example/a", "contains a user name"),
        ("https://127.1/a", "has a host that"),
        (f"https://app.example/{'a' * 2000}", "is longer than"),
    ],
)
def test_the_url_of_a_document_is_https_with_a_path(url, fault):
    found = client_url_fault(url)
    assert found is None if fault is None else found.startswith(fault)


def test_an_id_that_cannot_be_a_document_is_not_fetched():
    with pytest.raises(OAuthRefusal, match="has no path"):
        needs_document(Desk(), "https://app.example/")


# -- the document


@pytest.mark.requirement(
    "auth.cimd.supported", "auth.cimd.as-fetches", "auth.cimd.as-checks-redirect"
)
def test_a_described_client_gets_tokens():
    desk = Desk()
    assert needs_document(desk)
    describe(desk)
    assert not needs_document(desk)
    tokens = desk.tokens(URL)
    assert claims_of(tokens["access_token"])["client_id"] == URL
    assert desk.refresh(URL, tokens["refresh_token"]).status == 200


@pytest.mark.requirement("auth.cimd.as-checks-redirect", "auth.redirect.exact-match")
@pytest.mark.parametrize(
    "uri", ["https://evil.example/callback", "http://127.0.0.1:3000/other", "https://app.example/"]
)
def test_a_redirect_uri_that_the_document_lacks_is_refused(uri):
    desk = Desk()
    describe(desk)
    page = desk.authorize(URL, redirect_uri=uri)
    assert page.status == 400
    assert "not one that it registered" in page.text
    assert uri not in page.headers.get("location", "")


@pytest.mark.requirement(
    "auth.cimd.as-checks-id", "auth.cimd.as-checks-structure", "auth.cimd.required-members"
)
@cases(
    ("change", "why"),
    [
        ({"client_id": "https://app.example/Client.json"}, "is for another client_id"),
        ({"client_id": f"{URL}/"}, "is for another client_id"),
        ({"client_id": None}, "cannot be read"),
        ({"client_name": None}, "cannot be read"),
        ({"client_name": " "}, "empty client_name"),
        ({"client_name": "Not\u202ees"}, "invisible"),
        ({"redirect_uris": None}, "cannot be read"),
        ({"redirect_uris": []}, "redirect_uris is missing"),
        ({"redirect_uris": ["http://evil.example/cb"]}, "neither https"),
        ({"token_endpoint_auth_method": "client_secret_basic"}, "expected 'none'"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "expected 'none'"),
        ({"client_secret": "s"}, "would not be secret"),
        ({"grant_types": ["client_credentials"]}, "grant_types must name"),
        ({"response_types": ["token"]}, "response_types must name code"),
        ({"application_type": "toaster"}, "application_type"),
    ],
    ids=str,
)
def test_an_invalid_document_is_refused_and_not_stored(change, why):
    desk = Desk()
    document = {key: value for key, value in (DOCUMENT | change).items() if value is not None}
    with pytest.raises(OAuthRefusal, match=why):
        describe(desk, document)
    assert desk.store.clients.find(URL) is None


@pytest.mark.requirement("auth.cimd.as-checks-structure")
@cases(
    ("response", "why"),
    [
        (HttpResponse(status=404), "HTTP 404"),
        (HttpResponse(status=302, headers={"location": URL}), "HTTP 302"),
        (reply(DOCUMENT, **{"content-type": "text/html"}), "'text/html'"),
        (HttpResponse(status=200, headers={"content-type": "application/json"}), "cannot be read"),
        (reply([DOCUMENT]), "cannot be read"),
    ],
    ids=str,
)
def test_a_response_that_is_not_a_document_is_refused(response, why):
    with pytest.raises(OAuthRefusal, match=why):
        Desk().endpoints.keep_document(URL, response, 0.0)


def test_grants_and_scopes_that_are_not_offered_are_dropped():
    desk = Desk()
    grants = ["authorization_code", "client_credentials", "implicit"]
    more = {"grant_types": grants, "scope": "read fly", "application_type": "native", "x": 1}
    describe(desk, DOCUMENT | more, **{"content-type": "application/cimd+json; charset=utf-8"})
    kept = desk.store.clients.find(URL)
    assert kept.grant_types == ("authorization_code",)
    assert kept.scopes == ("read",)
    assert kept.application_type == "native"


# -- how long it is used


@pytest.mark.requirement("auth.cimd.as-fetches")
@cases(
    ("headers", "seconds"),
    [
        ({}, 300),
        ({"cache-control": "public, max-age=3600"}, 3600),
        ({"cache-control": "max-age=3600", "age": "600"}, 3000),
        ({"cache-control": "max-age=3600", "age": "-1"}, 3600),
        ({"cache-control": "no-store"}, 60),
        ({"cache-control": "no-cache, max-age=3600"}, 60),
        ({"cache-control": "max-age=1"}, 60),
        ({"cache-control": "max-age=99999999"}, 86_400),
        ({"expires": "Thu, 01 Jan 1970 02:00:00 GMT"}, 7200),
        ({"expires": "0"}, 60),
    ],
    ids=str,
)
def test_a_document_is_fresh_as_http_says_within_bounds(headers, seconds):
    assert fresh_seconds(headers, 0.0) == seconds


def test_a_stale_document_is_fetched_again_and_replaces_the_old_one():
    desk = Desk()
    describe(desk, **{"cache-control": "max-age=100"})
    desk.tokens(URL)
    desk.now += 101
    assert needs_document(desk)
    describe(desk, DOCUMENT | {"client_name": "Better notes"})
    assert "Better notes" in desk.consent(URL).text
    assert desk.store.clients.find(URL) is not None  # it has a grant


def test_described_clients_count_as_registered_ones():
    desk = Desk(clients_most=2)
    first = desk.client()
    desk.now += 1
    second = desk.client()
    desk.now += 4_000
    describe(desk)
    assert desk.store.clients.find(first) is None
    assert desk.store.clients.find(second) is not None
    assert desk.store.clients.count() == 2


def test_fetches_for_one_address_are_limited():
    desk = Desk()
    for number in range(60):
        assert needs_document(desk, f"{URL}{number}")
    with pytest.raises(OAuthRefusal, match="too many requests"):
        needs_document(desk, f"{URL}60")
    desk.address = "198.51.100.7"
    assert needs_document(desk, f"{URL}60")


def test_documents_can_be_switched_off():
    desk = Desk(client_metadata_documents=False)
    describe(desk)  # stored before it was switched off
    assert not needs_document(desk)
    assert "not registered here" in desk.authorize(URL).text
    document = desk.send("GET", "/.well-known/oauth-authorization-server").json
    assert "client_id_metadata_document_supported" not in document


def test_a_client_that_the_operator_set_up_is_not_fetched():
    known = KnownClient(client_id=URL, redirect_uris=(RETURN,))
    assert not needs_document(Desk(clients={URL: known.client}))


# -- the consent page


@pytest.mark.requirement("auth.cimd.as-shows-redirect-host", "auth.cimd.as-localhost-warning")
def test_the_consent_page_names_the_host_of_the_document_and_warns_of_loopback():
    desk = Desk()
    describe(desk)
    page = desk.consent(URL).text
    assert "<strong>app.example</strong>" in page
    assert f"<code>{URL}</code>" in page
    assert "Any program on this computer can claim to be this one" in page
    assert RETURN in page


@pytest.mark.requirement("auth.cimd.as-shows-redirect-host")
def test_the_consent_page_names_the_host_of_a_web_redirect_without_a_warning():
    desk = Desk()
    web_uri = "https://app.example/callback"
    describe(desk, DOCUMENT | {"redirect_uris": [web_uri]})
    page = desk.consent(URL, redirect_uri=web_uri).text
    assert "sent to</h2>\n<p><strong>app.example</strong>" in page
    assert "Any program on this computer" not in page


# -- fetching


def authorize_request(client_id=URL):
    return Request(
        method="GET", path="/authorize", query=request_query(client_id), issuer=ISSUER, address="a"
    )


def prepare(documents, desk, request):
    return asyncio.run(documents.prepare(request, lambda: desk.endpoints))


def test_requests_of_other_clients_fetch_nothing():
    async def send(request):
        raise AssertionError(request)

    desk, documents = Desk(), ClientDocuments(send=send)
    for request in (
        authorize_request("a-registered-one"),
        authorize_request("http://app.example/client.json"),
        Request(method="GET", path="/jwks", issuer=ISSUER, query=f"client_id={URL}"),
        Request(method="GET", path="/authorize", issuer=ISSUER, query="a=1&a=2"),
    ):
        assert prepare(documents, desk, request) is request


def test_a_document_is_fetched_once_while_it_is_fresh():
    seen = []

    async def send(request):
        seen.append(request.url)
        return reply(DOCUMENT)

    desk, documents = Desk(), ClientDocuments(send=send)
    for _ in range(3):
        assert prepare(documents, desk, authorize_request()).refusal is None
    assert seen == [URL]
    assert desk.store.clients.find(URL).fresh_until > desk.store.now() + 200


def test_a_failed_fetch_is_shown_without_its_reason_and_tried_again(caplog):
    async def send(request):
        raise NoResponse("app.example is at a private address")

    desk, documents = Desk(), ClientDocuments(send=send)
    with caplog.at_level(logging.INFO, "accord.auth"):
        request = prepare(documents, desk, authorize_request())
    assert "at a private address" in caplog.text
    page = desk.endpoints.respond(request, desk.now)
    assert page.status == 400
    assert b"metadata document of the program cannot be fetched" in page.body
    assert b"private" not in page.body
    assert desk.endpoints.needs_document(request, URL, desk.now)


def test_a_device_with_an_invalid_document_is_refused():
    async def send(request):
        return HttpResponse(status=410)

    desk, documents = Desk(), ClientDocuments(send=send)
    form = {"content-type": "application/x-www-form-urlencoded"}
    body = f"client_id={URL}".encode()
    device = Request(
        method="POST", path="/device_authorization", headers=form, body=body, issuer=ISSUER
    )
    response = desk.endpoints.respond(prepare(documents, desk, device), desk.now)
    assert response.status == 400
    assert b"HTTP 410" in response.body


def test_fetches_at_the_same_time_are_limited():
    async def main():
        going_on, gate = [], asyncio.Event()

        async def send(request):
            going_on.append(request)
            await gate.wait()
            return HttpResponse(status=404)

        desk, documents = Desk(), ClientDocuments(send=send)
        tasks = [
            asyncio.create_task(
                documents.prepare(authorize_request(f"{URL}{number}"), lambda: desk.endpoints)
            )
            for number in range(16)
        ]
        while len(going_on) < 16:
            await asyncio.sleep(0)
        last = await documents.prepare(authorize_request(), lambda: desk.endpoints)
        assert last.refusal.status == 503
        gate.set()
        for request in await asyncio.gather(*tasks):
            assert "HTTP 404" in request.refusal.description

    run(main())


@pytest.mark.parametrize("trust", [["app.example"], ["http://app.example"], ["https://"]])
def test_trust_names_origins(trust):
    with pytest.raises(ValueError, match="trust has"):
        AuthorizationServer(store=None, trust=trust)


# -- over TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("certificate"))


async def serve_document(certificate, seen, *, size=0):
    app = web.Application()

    async def answer(request):
        seen.append(request.path)
        if request.path == "/moved.json":
            return web.Response(status=302, headers={"Location": "/client.json"})
        url = f"https://{request.host}{request.path}"
        document = OAuth(client_metadata_url=url, store=MemoryStore()).client_document()
        return web.json_response(document | {"x": "x" * size})

    app.router.add_get("/{path}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving_with(certificate))
    await site.start()
    return runner, f"https://localhost:{site._server.sockets[0].getsockname()[1]}"


@pytest.mark.requirement("auth.cimd.supported", "auth.cimd.client-checks-support")
def test_a_client_with_a_document_need_not_register(certificate):
    async def main():
        seen = []
        runner, origin = await serve_document(certificate, seen)
        tls = ssl.create_default_context(cafile=certificate[0])
        send = document_sender([origin], tls=tls)
        auth = AuthorizationServer(auto_approve="ada", registration=False, send=send)
        server = Server("desk", auth=auth)

        @server.tool
        def client_of(ctx: Context) -> str:
            """Say which client asks."""
            return ctx.principal.client_id

        url = f"{origin}/client.json"
        oauth = OAuth(store=MemoryStore(), open_browser=browse, client_metadata_url=url)
        with bounded(server.asgi()) as port:
            async with connect(f"http://127.0.0.1:{port}/mcp", auth=oauth) as client:
                assert await client.call_tool("client_of", result_type=str) == url
        assert seen == ["/client.json"]
        await runner.cleanup()

    run(main())


@pytest.mark.requirement("auth.cimd.as-ssrf")
def test_documents_inside_are_not_fetched_and_redirects_not_followed(certificate):
    async def main():
        seen = []
        runner, origin = await serve_document(certificate, seen, size=20_000)
        desk = Desk()
        inside = await ClientDocuments().prepare(
            authorize_request(f"{origin}/client.json"), lambda: desk.endpoints
        )
        assert "cannot be fetched" in inside.refusal.description
        assert seen == []
        tls = ssl.create_default_context(cafile=certificate[0])
        documents = ClientDocuments(send=document_sender([origin], tls=tls))
        for path, why in (("moved.json", "HTTP 302"), ("client.json", "cannot be fetched")):
            request = authorize_request(f"{origin}/{path}")
            found = await documents.prepare(request, lambda: desk.endpoints)
            assert why in found.refusal.description
        assert seen == ["/moved.json", "/client.json"]
        await runner.cleanup()

    run(main())

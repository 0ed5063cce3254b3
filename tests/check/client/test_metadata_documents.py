"""A client whose id is a metadata document is judged by that document.

The document is on this machine, behind a certificate that only these tests trust.
"""

import asyncio
import json
import ssl
from urllib.parse import urlsplit

import pytest

from accord.testing import run_in_virtual_time
from accord_tools.check.client_check import ClientPlan, check_client
from accord_tools.check.scenarios.client.authorization import OffersEveryRegistration
from check.client.authorizing import Stateless
from support.certificates import self_signed, serving_with

MEMBERS = "auth.cimd.required-members"
SAME = "auth.cimd.id-equals-url"
HOSTED = "auth.cimd.https-hosted"
DOCUMENT = {"client_name": "raw", "redirect_uris": ["http://localhost:3000/callback"]}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("certificate"))


def checked(certificate, monkeypatch, body, status="200 OK"):
    """Check a client with a document; returns the verdicts, and the requests for the document."""
    seen = []
    trusted = ssl.create_default_context(cafile=certificate[0])
    monkeypatch.setattr(OffersEveryRegistration, "tls", trusted)

    async def serve(reader, writer):
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        url = f"https://localhost:{port}/client.json"
        text = body(url).encode()
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + text)
        await writer.drain()
        writer.close()

    async def run():
        nonlocal port
        tls = serving_with(certificate)
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]

        async def client(place):
            kind = type("Documented", (Stateless,), {"document": url_of(port)})
            return await kind(place).run()

        plan = ClientPlan(
            command=["{url}"],
            revisions=[Stateless.revision],
            client=client,
            patience=0.4,
            scenarios=["OffersEveryRegistration"],
        )
        async with server:
            return await check_client(plan)

    port = 0
    report = run_in_virtual_time(run())
    return {each.id: each for each in report.results}, seen


def url_of(port):
    return f"https://localhost:{port}/client.json"


def breaches(verdicts):
    return {each.id for each in verdicts.values() if each.verdict in ("fail", "warn")}


def document(**changes):
    def body(url):
        made = {"client_id": url, **DOCUMENT, **changes}
        return json.dumps({name: value for name, value in made.items() if value is not None})

    return body


def test_a_whole_document_passes(certificate, monkeypatch):
    verdicts, seen = checked(certificate, monkeypatch, document())
    assert breaches(verdicts) == set()
    for id in (MEMBERS, SAME, HOSTED, "auth.cimd.supported", "auth.register.priority"):
        assert verdicts[id].verdict == "pass"
    assert len(seen) == 1
    assert b"uthorization" not in seen[0]


@pytest.mark.parametrize(
    "body",
    [
        document(client_name=None),
        document(client_name=7),
        document(redirect_uris=None),
        document(redirect_uris=[]),
        document(redirect_uris="http://localhost:3000/callback"),
        document(client_id=None),
        lambda _url: "<html>my client</html>",
    ],
    ids=["no name", "a number", "no URIs", "empty URIs", "one URI", "no id", "a page"],
)
def test_a_document_without_a_required_member_is_a_violation(certificate, monkeypatch, body):
    verdicts, _ = checked(certificate, monkeypatch, body)
    assert breaches(verdicts) == {MEMBERS}
    assert "document at https://localhost" in verdicts[MEMBERS].evidence[1].why


@pytest.mark.parametrize(
    "change",
    [
        lambda url: f"{url}?v=1",
        lambda url: url.replace("localhost", "LOCALHOST"),
        lambda url: f"https://client.example{urlsplit(url).path}",
        lambda url: f"{url}/",
    ],
    ids=["a query", "another case", "another host", "a slash"],
)
def test_a_document_with_another_id_than_its_url_is_a_violation(certificate, monkeypatch, change):
    def body(url):
        return json.dumps({**DOCUMENT, "client_id": change(url)})

    verdicts, _ = checked(certificate, monkeypatch, body)
    assert breaches(verdicts) == {SAME}


def test_a_document_that_cannot_be_read_proves_nothing(certificate, monkeypatch):
    verdicts, seen = checked(certificate, monkeypatch, document(), status="404 Not Found")
    assert breaches(verdicts) == set()
    assert seen
    assert verdicts[MEMBERS].verdict == "not-exercised"
    assert "was not read: HTTP 404" in verdicts[MEMBERS].message

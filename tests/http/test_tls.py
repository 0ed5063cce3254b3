"""HTTPS on the listener, with the ssl module of Python on the other side."""

import http.client
import json
import ssl
import subprocess
from contextlib import ExitStack

import pytest

from accord import Server, connect
from accord.client import HttpClientOptions
from accord.errors import TransportError
from accord.http.server.listener import HttpListener
from accord.http.server.tls import load_certificate
from accord.http.settings import HttpLimits
from support.certificates import self_signed
from support.http_offer import offer
from support.listened import call_body, call_lines, head, listened, post
from support.tables import cases
from support.waiting import LONG, in_loop, until_sync


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A certificate for localhost, and its key."""
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def trusting(files):
    return ssl.create_default_context(cafile=files[0])


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def secure(request, files):
    """A server with HTTPS."""
    loop = "auto" if request.param == "uvloop" else "asyncio"
    with listened(offer().asgi(), tls=load_certificate(*files), loop=loop) as found:
        yield found


@in_loop
async def test_our_client_calls_over_https(secure, trusting):
    url = f"https://localhost:{secure.port}/mcp"
    async with connect(url, http=HttpClientOptions(verify=trusting)) as client:
        steps = []
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.content[0].text == "3"
        note = steps.append
        await client.call_tool("count", {"to": 3}, on_progress=lambda step, *_: note(step))
        assert len(steps) == 3


def test_a_connection_serves_many_requests_over_https(secure, trusting):
    connection = http.client.HTTPSConnection(
        "localhost", secure.port, context=trusting, timeout=LONG
    )
    headers = dict(line.split(": ", 1) for line in call_lines("add"))
    headers |= {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    for number in range(3):
        body = call_body("add", a=number, b=1)
        connection.request("POST", "/mcp", body, headers)
        used = connection.sock
        answer = json.loads(connection.getresponse().read())
        assert answer["result"]["content"][0]["text"] == str(number + 1)
        assert connection.sock is used is not None
    connection.close()


def test_a_stream_arrives_over_https(secure, trusting):
    with secure.connect(trusting) as wire:
        body = call_body("count", token="t", to=2, size=40_000)
        answer = wire.ask(*call_lines("count"), body=body)
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.body.count(b"notifications/progress") == 2


def test_a_refused_client_reads_its_refusal_over_https(secure, trusting):
    # TLS connections cannot be closed on one side.
    with secure.connect(trusting) as wire:
        wire.send(
            head("Host: evil.example", "Content-Length: 9", "Connection: close") + b"123456789"
        )
        answer = wire.answer()
        assert answer.status == 403
        assert answer.headers["connection"] == "close"
        assert wire.rest() == b""
    with secure.connect(trusting) as wire:
        wire.send(b"this is not HTTP\r\n\r\n")
        assert wire.answer().status == 400
        assert wire.rest() == b""


def test_old_versions_of_tls_are_refused(secure, files):
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(files[0])
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):
        secure.connect(old)


def test_plain_http_on_a_port_for_https_ends(secure, trusting):
    with secure.connect() as wire:
        wire.send(post())
        assert b"HTTP/" not in wire.rest()
    with secure.connect(trusting) as wire:
        assert wire.ask().status == 200


def test_a_handshake_that_hangs_ends(files, monkeypatch):
    monkeypatch.setattr(HttpListener, "handshake_timeout", 0.2)
    with listened(offer().asgi(), tls=load_certificate(*files)) as found, found.connect() as wire:
        assert wire.rest() == b""


def test_handshakes_that_hang_count_for_their_address(files, trusting, monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.0.0.1")
    app = offer().asgi(limits=HttpLimits(connections_per_address=2), grace=0.1)
    with listened(app, tls=load_certificate(*files)) as found, ExitStack() as open_ones:
        served = open_ones.enter_context(found.connect(trusting))
        assert served.ask().status == 200
        hanging = [open_ones.enter_context(found.connect()) for _ in range(30)]
        refused = found.served.listener.metrics.refused
        until_sync(lambda: refused["connections_per_address"] >= 13)
        assert hanging[-1].rest() == b""
        assert len(found.served.listener._handshakes) == 17
        assert served.ask().status == 200
        for each in hanging:
            each.socket.close()
            each._file.close()
        until_sync(lambda: not found.served.listener._handshakes)
        with found.connect(trusting) as another:
            assert another.ask().status == 200


def test_handlers_see_the_scheme_of_the_connection(files, trusting):
    server = Server("scheme")
    seen = []
    app = server.asgi(principal=lambda scope: seen.append(scope["scheme"]))
    with listened(app, tls=load_certificate(*files)) as found, found.connect(trusting) as wire:
        assert wire.ask().status == 200
    assert set(seen) == {"https"}


def test_a_server_ends_while_connections_over_https_are_open(files, trusting):
    with listened(offer().asgi(grace=0.1), tls=load_certificate(*files)) as found:
        wire = found.connect(trusting)
        assert wire.ask().status == 200
        hanging = found.connect()
    with wire, hanging:
        assert wire.rest() == b""


# -- certificates


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def test_files_that_cannot_be_used_are_named(files, tmp_path):
    certificate, key = files
    with pytest.raises(
        TransportError, match=f"cannot read the certificate {tmp_path}/no.pem: no such"
    ):
        load_certificate(tmp_path / "no.pem", key)
    with pytest.raises(TransportError, match=f"cannot read the key {tmp_path}/no.pem: no such"):
        load_certificate(certificate, str(tmp_path / "no.pem"))
    with pytest.raises(TransportError, match=f"cannot use the certificate {key}: there is no cert"):
        load_certificate(key, key)
    with pytest.raises(TransportError, match=f"cannot use the key {certificate}: there is no key"):
        load_certificate(certificate)
    damaged = tmp_path / "damaged.pem"
    damaged.write_text(key.read_text()[:60] + "\n-----END PRIVATE KEY-----\n")
    with pytest.raises(TransportError, match=f"cannot use {certificate} and {damaged}: "):
        load_certificate(certificate, damaged)


def test_a_key_of_another_certificate_is_refused(files, tmp_path):
    other = tmp_path / "other.pem"
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(other))
    with pytest.raises(TransportError, match=f"the key {other} does not belong to the cert"):
        load_certificate(files[0], other)


def test_a_certificate_and_its_key_may_be_in_one_file(files, tmp_path):
    both = tmp_path / "both.pem"
    both.write_text(files[0].read_text() + files[1].read_text())
    assert load_certificate(both).minimum_version == ssl.TLSVersion.TLSv1_2


def test_an_encrypted_key_needs_its_password(files, tmp_path):
    locked = tmp_path / "locked.pem"
    openssl("rsa", "-in", str(files[1]), "-aes256", "-passout", "pass:open", "-out", str(locked))
    load_certificate(files[0], locked, "open")
    with pytest.raises(TransportError, match=f"key {locked}: it is encrypted .*key_password"):
        load_certificate(files[0], locked)
    with pytest.raises(TransportError, match=f"key {locked}: the password is wrong"):
        load_certificate(files[0], locked, "wrong")


@cases(
    ("settings", "why"),
    [
        ({"key": "key.pem"}, "key is the key of a certificate"),
        ({"key_password": "x"}, "key is the key of a certificate"),
        ({"certificate": "c", "tls": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)}, "leave out cert"),
        ({"listen": "nowhere"}, "listen: 'nowhere' is not an address"),
        ({"listen": []}, "listen is empty"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_anything_starts(settings, why):
    with pytest.raises(ValueError, match=why):
        Server("desk").run("http", port=0, **settings)

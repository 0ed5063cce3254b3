"""Where requests of authorization may go, and what may come back."""

import asyncio
import socket
import ssl

import pytest
from aiohttp import web

from accord.http.client.guarded import (
    AddressPolicy,
    GuardedSender,
    HttpRequest,
    HttpResponse,
    NoResponse,
)
from accord.http.rules.addresses import address_kind, is_loopback
from support.certificates import self_signed, serving_with
from support.tables import cases
from support.waiting import run

PUBLIC = AddressPolicy.beside("https://mcp.example.com/mcp")
LOCAL = AddressPolicy.beside("http://127.0.0.1:8000/mcp")


@cases(
    ("address", "kind"),
    [
        ("93.184.216.34", "public"),
        ("2606:2800:220:1::1", "public"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fd12:3456::1", "private"),
        ("127.0.0.1", "loopback"),
        ("127.255.0.9", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:10.0.0.1", "private"),
        ("64:ff9b::a00:1", "private"),
        ("2002:7f00:1::", "loopback"),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", "loopback"),
        ("169.254.169.254", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fd00:ec2::254", "link-local"),
        ("100.100.100.200", "link-local"),
        ("168.63.129.16", "link-local"),
        ("192.0.0.192", "link-local"),
        ("0.0.0.0", "unusable"),
        ("224.0.0.1", "unusable"),
        ("255.255.255.255", "unusable"),
        ("::", "unusable"),
    ],
)
def test_addresses_are_sorted_by_kind(address, kind):
    assert address_kind(address) == kind


def test_names_of_this_machine_are_known():
    assert all(map(is_loopback, ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "::1"]))
    assert not any(map(is_loopback, ["localhost.example", "127.0.0.1.example", "", "10.0.0.1"]))


@cases(
    ("url", "why"),
    [
        ("http://login.example.com/x", "is not https"),
        ("ftp://login.example.com/x", "is not an http"),
        ("file:///etc/passwd", "is not an http"),
        ("https://user:pw@login.example.com/", "credentials"),
        ("https://user@login.example.com/", "credentials"),
        ("https://:pw@login.example.com/", "credentials"),
        ("https://127.0.0.1/x", "loopback address"),
        ("http://127.0.0.1/x", "is not https"),
        ("http://localhost/x", "is not https"),
        ("https://localhost/x", "loopback address"),
        ("https://a.localhost/x", "loopback address"),
        ("https://127\u30020\u30020\u30021/x", "beyond ASCII"),
        ("https://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/x", "beyond ASCII"),
        ("https://2130706433/x", "not a canonical IP address"),
        ("https://0177.0.0.1/x", "not a canonical IP address"),
        ("https://127.1/x", "not a canonical IP address"),
        ("https://127.0.0.1./x", "not a canonical IP address"),
        ("https://0/x", "not a canonical IP address"),
        ("https://0x7f.1/x", "not a canonical IP address"),
        ("https://0x7f000001/x", "not a canonical IP address"),
        ("https://0X7F.0.0.0x1/x", "not a canonical IP address"),
        ("https://good.example.1/x", "not a canonical IP address"),
        ("https://[fe80::1%25eth0]/x", "not an IPv6 address"),
        ("https://%65vil.example/x", "characters that are not allowed"),
        ("https://good.example\x1bc/x", "characters that are not allowed"),
        ("https://evil.example\x08\x08\x08\x08good.example/x", "characters that are not allowed"),
        ("https://good.example\x9b2J/x", "beyond ASCII"),
        ("https://good.exa\nmple/x", "control characters"),
        ("https://good.example/a\x1b[2Jb", "control characters"),
        ("https://good.example\\.evil.example/x", "characters that are not allowed"),
        ("https://good.example evil/x", "characters that are not allowed"),
        ("https://good..example/x", "characters that are not allowed"),
        ("https://[::1]/x", "loopback address"),
        ("https://10.0.0.1/x", "private address"),
        ("https://169.254.169.254/latest/meta-data", "link-local address"),
        ("https://[fe80::1]/x", "link-local address"),
        ("https://[::ffff:10.0.0.1]/x", "private address"),
        ("https://0.0.0.0/", "unusable address"),
        ("https://h.example:99999/", "malformed"),
        ("https:///x", "is not an http"),
    ],
)
def test_a_public_server_cannot_send_us_inside(url, why):
    with pytest.raises(NoResponse, match=why) as caught:
        PUBLIC.check_url(url)
    assert caught.value.is_refused


@cases(
    "url",
    [
        "https://login.example.com/x",
        "https://LOGIN.example.com./x",
        "https://auth_1.example.com/x",
        "https://1password.example/x",
        "https://93.184.216.34/x",
        "https://[2606:2800:220:1::1]/x",
        "https://xn--bcher-kva.example/x",
        "https://0xcafe.example/x",
        "https://login.example.com/a b?c=%1b",
    ],
)
def test_names_and_canonical_addresses_are_asked(url):
    PUBLIC.check_url(url)


@cases("host", ["2130706433", "0177.0.0.1", "127.1", "0", "0x7f.1"])
def test_a_number_for_a_host_is_never_connected_to(host):
    """Also for an aiohttp (3.11 to 3.13) that does not ask its resolver about such hosts."""

    async def main():
        connected = []

        async def accept(reader, writer):
            connected.append(1)
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            for policy in (PUBLIC, LOCAL, AddressPolicy.beside(f"https://{host}:{port}/mcp")):
                sender = GuardedSender(policy)
                url = f"https://{host}:{port}/x"
                with pytest.raises(NoResponse, match="not a canonical") as caught:
                    await sender.send(HttpRequest(method="GET", url=url))
                assert caught.value.is_refused
        assert not connected

    run(main())


def test_a_server_on_this_machine_may_name_neighbours_but_no_metadata_services():
    for url in ("http://127.0.0.1:9/x", "http://localhost/x", "https://10.0.0.1/", "https://a.b/"):
        LOCAL.check_url(url)
    for url in ("http://10.0.0.1/", "http://169.254.169.254/", "https://169.254.169.254/"):
        with pytest.raises(NoResponse):
            LOCAL.check_url(url)


def test_a_private_server_opens_private_addresses_but_not_this_machine():
    policy = AddressPolicy.beside("https://192.168.0.5/mcp")
    policy.check_address("login.lan", "192.168.0.9")
    with pytest.raises(NoResponse):
        policy.check_address("login.lan", "127.0.0.1")


def test_a_name_with_a_private_address_opens_no_other():
    policy = AddressPolicy.beside("https://mcp.corp.example/mcp")
    policy.check_address("mcp.corp.example", "10.0.0.1")
    with pytest.raises(NoResponse):
        policy.check_address("other.corp.example", "10.0.0.1")


def test_a_trusted_origin_may_be_at_any_address():
    policy = AddressPolicy.beside("https://m.example/mcp", ["http://auth:9000", "https://sso.corp"])
    policy.check_url("http://auth:9000/token")
    policy.check_address("sso.corp", "10.0.0.1")
    with pytest.raises(NoResponse):
        policy.check_url("http://auth:9001/token")
    with pytest.raises(NoResponse):
        policy.check_url("http://sso.corp/token")


def test_a_host_in_other_letters_is_taken_from_the_user_alone():
    AddressPolicy.beside("https://b\u00fccher.example/mcp").check_url(
        "https://b\u00fccher.example/token"
    )
    PUBLIC.check_url("https://xn--bcher-kva.example/token")
    with pytest.raises(NoResponse, match="beyond ASCII") as caught:
        PUBLIC.check_url("https://b\u00fccher.example/token")
    assert "xn--" in caught.value.hint


def test_a_name_that_resolves_inside_is_not_connected_to():
    """Whatever the name resolved to before: what is checked is what is connected to."""

    async def main():
        connected = []

        async def accept(reader, writer):
            connected.append(1)
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        inside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        async def resolve(host, *args, **more):
            assert host == "rebound.example"
            return inside

        loop.getaddrinfo = resolve
        request = HttpRequest(method="GET", url=f"https://rebound.example:{port}/x")
        with pytest.raises(NoResponse, match="loopback address") as caught:
            await GuardedSender(PUBLIC).send(request)
        assert caught.value.is_refused
        assert connected == []
        server.close()

    run(main())


def test_one_inner_address_among_others_is_reason_enough():
    async def main():
        async def resolve(host, *args, **more):
            places = ("93.184.216.34", "10.0.0.1")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 443)) for each in places]

        asyncio.get_running_loop().getaddrinfo = resolve
        with pytest.raises(NoResponse, match="private address"):
            await GuardedSender(PUBLIC).send(HttpRequest(method="GET", url="https://two.example/"))

    run(main())


def test_numbers_that_mean_this_machine_are_refused():
    async def main():
        for host in ("2130706433", "0x7f.1", "127.1"):
            with pytest.raises(NoResponse):
                await GuardedSender(PUBLIC).send(HttpRequest(method="GET", url=f"https://{host}/"))

    run(main())


# -- responses


def served(**routes):
    """Run a web server whose paths are answered by functions; yields its address."""

    async def main(work):
        app = web.Application()
        seen = []

        async def serve(request):
            seen.append((request.path, dict(request.headers)))
            return await routes[request.path.strip("/")](request)

        app.router.add_route("*", "/{path:.*}", serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            await work(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}", seen)
        finally:
            await runner.cleanup()

    return lambda work: run(main(work))


async def plain(request):
    return web.Response(text="{}", headers={"Set-Cookie": "a=b", "X-Two": "1"})


async def huge(request):
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(100):
        await response.write(b"x" * 65536)
    return response


async def endless(request):
    await asyncio.sleep(30)
    return web.Response()


def redirecting(to):
    async def serve(request):
        raise web.HTTPFound(to)

    return serve


def get(url, **more):
    return HttpRequest(method="GET", url=url, **more)


def test_an_answer_is_read_whole_and_cookies_are_forgotten():
    async def work(url, seen):
        async with GuardedSender(LOCAL) as sender:
            for _ in range(2):
                response = await sender.send(get(f"{url}/x"))
            assert (response.status, response.object(), response.is_ok) == (200, {}, True)
            assert response.headers["x-two"] == "1"
        assert all("Cookie" not in headers for _, headers in seen)

    served(x=plain)(work)


def test_an_oversized_answer_is_given_up():
    async def work(url, seen):
        with pytest.raises(NoResponse, match="more than 1000 bytes") as caught:
            await GuardedSender(LOCAL, size=1000).send(get(f"{url}/x"))
        assert caught.value.is_refused

    served(x=huge)(work)


def test_an_answer_that_does_not_come_is_given_up():
    async def work(url, seen):
        with pytest.raises(NoResponse, match=r"within 0\.05 s"):
            await GuardedSender(LOCAL, seconds=0.05).send(get(f"{url}/x"))

    served(x=endless)(work)


def test_redirects_stay_at_the_same_origin():
    async def work(url, seen):
        response = await GuardedSender(LOCAL).send(get(f"{url}/near"))
        assert (response.status, response.url) == (200, f"{url}/x")
        for path in ("far", "inside", "scheme"):
            response = await GuardedSender(LOCAL).send(get(f"{url}/{path}"))
            assert response.status == 302
        with pytest.raises(NoResponse, match="redirects more than"):
            await GuardedSender(LOCAL).send(get(f"{url}/round"))

    served(
        x=plain,
        near=redirecting("/x"),
        far=redirecting("https://evil.example/x"),
        inside=redirecting("http://169.254.169.254/"),
        scheme=redirecting("file:///etc/passwd"),
        round=redirecting("/round"),
    )(work)


def test_a_redirected_post_is_not_sent_again():
    async def work(url, seen):
        request = HttpRequest(method="POST", url=f"{url}/near", body=b"secret=1")
        assert (await GuardedSender(LOCAL).send(request)).status == 302
        assert [path for path, _ in seen] == ["/near"]

    served(x=plain, near=redirecting("/x"))(work)


def test_a_failed_connection_is_reported_without_secrets():
    async def main():
        with pytest.raises(NoResponse) as caught:
            await GuardedSender(LOCAL).send(get("http://127.0.0.1:1/x?token=SECRET"))
        assert "127.0.0.1:1/x" in caught.value.reason
        assert "SECRET" not in caught.value.reason
        assert not caught.value.is_refused

    run(main())


def test_an_untrusted_certificate_is_reported_with_the_setting(tmp_path):
    file, key = self_signed(tmp_path)

    async def main():
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=serving_with((file, key)))
        async with server:
            url = f"https://localhost:{server.sockets[0].getsockname()[1]}/x"
            with pytest.raises(NoResponse, match=r"TLS failed: self.signed") as caught:
                await GuardedSender(LOCAL).send(get(url))
            assert "OAuth(tls=" in caught.value.hint
            trusting = GuardedSender(LOCAL, tls=ssl.create_default_context(cafile=file))
            assert (await trusting.send(get(url))).body == b"{}"

    run(main())


def test_errors_are_shown_without_what_a_terminal_would_obey():
    response = HttpResponse(status=400, body=b'{"error": "x\\u001b[2J", "error_description": "y"}')
    assert response.summary == "HTTP 400 x [2J: y"


def test_the_proxy_of_the_environment_is_used_and_inner_names_are_still_refused(monkeypatch):
    async def relay(request):
        return web.Response(text="{}")

    async def work(url, seen):
        # By name: that of a proxy may mean any address, for it was named by the user.
        monkeypatch.setenv("http_proxy", url.replace("127.0.0.1", "localhost"))
        monkeypatch.setenv("no_proxy", "inside.example")
        policy = AddressPolicy.beside("https://m.example/mcp", ["http://auth.example"])
        response = await GuardedSender(policy).send(get("http://auth.example/x"))
        assert response.is_ok
        assert seen[0][1]["Host"] == "auth.example"

        async def resolve(host, *args, **more):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 443))]

        asyncio.get_running_loop().getaddrinfo = resolve
        with pytest.raises(NoResponse, match="private address"):
            await GuardedSender(policy).send(get("https://inside.example/x"))
        assert len(seen) == 1

    served(x=relay)(work)

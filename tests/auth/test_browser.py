"""The one redirect that is waited for, on this machine."""

import asyncio
import re
import socket
from base64 import b64encode
from hashlib import sha256

import pytest

from accord.auth.browser import LoopbackRedirect, UserInteraction, parse_pasted
from support.tables import cases
from support.waiting import run


async def ask(redirect, data):
    port = int(redirect.uri.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def line(target, method="GET"):
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@pytest.mark.requirement("auth.state.verified", "auth.redirect.localhost-or-https")
def test_only_the_redirect_with_our_state_is_taken():
    async def main():
        async with LoopbackRedirect() as redirect:
            redirect.state = "right"
            waiting = asyncio.ensure_future(redirect.wait_for_redirect())
            for data, status in (
                (line("/callback?code=1&state=wrong"), b" 400 "),
                (line("/callback?code=1"), b" 400 "),
                (line("/other?code=1&state=right"), b" 404 "),
                (line("/callback?code=1&state=right", "POST"), b" 405 "),
                (line("/callback?code=1&state=right", "HEAD"), b" 405 "),
                (b"nonsense\r\n\r\n", b" 405 "),
                (line("//["), b" 400 "),
                (line("http://[/callback?code=1&state=right"), b" 400 "),
            ):
                assert status in await ask(redirect, data)
                assert not waiting.done()
            page = await ask(redirect, line("/callback?code=a%2Bb&state=right&iss=i"))
            assert b"You can close this window" in page
            assert b"no-store" in page
            assert b"default-src 'none'" in page
            assert b"<h1>Authorization is complete</h1>" in page
            # The style is that of the other pages, and the policy allows it.
            style = re.search(rb"<style>(.*)</style>", page, re.DOTALL)[1]
            allowed = b64encode(sha256(style).digest())
            assert b"style-src 'sha256-" + allowed + b"'" in page
            assert b"color-scheme: light dark" in style
            assert await waiting == {"code": "a+b", "state": "right", "iss": "i"}

    run(main())


@pytest.mark.requirement("auth.iss.errors-too")
@pytest.mark.parametrize("said", ["error=access_denied", "code=1"])
def test_the_page_after_a_redirect_that_is_not_believed_shows_nothing_of_it(said):
    async def main():
        async with LoopbackRedirect() as redirect:
            redirect.state = "right"
            redirect.accepts = lambda params: params.get("iss") == "ours"
            waiting = asyncio.ensure_future(redirect.wait_for_redirect())
            page = await ask(redirect, line(f"/callback?{said}&state=right&iss=theirs"))
            assert b"came from another server" in page
            assert b"complete" not in page
            assert b"refused" not in page
            assert (await waiting)["iss"] == "theirs"

    run(main())


def test_the_place_may_be_any_that_the_client_is_registered_with():
    async def main():
        async with LoopbackRedirect(host="localhost", path="") as redirect:
            redirect.state = "mine"
            assert redirect.uri.rpartition(":")[0] == "http://localhost"
            assert b" 404 " in await ask(redirect, line("/callback?code=a&state=mine"))
            assert b" 200 " in await ask(redirect, line("/?code=b&state=mine"))
            assert (await redirect.wait_for_redirect())["code"] == "b"

    run(main())


def test_a_port_that_another_program_has_on_one_address_is_not_used():
    async def main():
        with socket.socket(socket.AF_INET6) as other:
            try:
                other.bind(("::1", 0))
                other.listen()
            except OSError:
                pytest.skip("this machine has no IPv6")
            redirect = LoopbackRedirect(other.getsockname()[1], host="localhost")
            with pytest.raises(OSError, match="in use"):
                await redirect.__aenter__()

    run(main())


def test_before_there_is_a_request_nothing_is_taken():
    async def main():
        async with LoopbackRedirect() as redirect:
            assert b" 400 " in await ask(redirect, line("/callback?code=1&state="))

    run(main())


def test_a_refusal_is_shown_and_taken():
    async def main():
        async with LoopbackRedirect() as redirect:
            redirect.state = "right"
            page = await ask(redirect, line("/callback?error=access_denied&state=right"))
            assert b"was refused" in page
            assert (await redirect.wait_for_redirect())["error"] == "access_denied"

    run(main())


def test_the_page_does_not_show_the_parameters():
    async def main():
        async with LoopbackRedirect() as redirect:
            redirect.state = "right"
            page = await ask(redirect, line("/callback?code=%3Cscript%3E&state=right&x=%3Cb%3E"))
            assert b"script" not in page.split(b"\r\n\r\n", 1)[1]

    run(main())


def test_an_endless_request_is_given_up():
    async def main():
        async with LoopbackRedirect() as redirect:
            redirect.state = "right"
            assert b"200 OK" not in await ask(redirect, b"GET /" + b"x" * 200_000)
            await ask(redirect, line("/callback?code=1&state=right"))
            assert (await redirect.wait_for_redirect())["code"] == "1"

    run(main())


@cases(
    ("pasted", "params"),
    [
        ("http://127.0.0.1:1/callback?code=c&state=x", {"code": "c", "state": "x"}),
        ("?code=c&state=x", {"code": "c", "state": "x"}),
        ("http://localhost/?code=c&state=x#top", {"code": "c", "state": "x"}),
        ("http://[/callback?code=c", {"code": "c"}),
        ("http://[", {}),
        ("code=c&state=x", {"code": "c", "state": "x"}),
        ("  c \n", {"code": "c", "state": "ours"}),
        ("", {}),
    ],
    ids=repr,
)
def test_a_url_or_a_code_can_be_pasted(pasted, params):
    assert parse_pasted(pasted, "ours") == params


def test_a_text_of_a_server_commands_no_terminal(capsys):
    UserInteraction().say("open this:\n\n  https://good.example/\x1bc\x9b2J\b\b")
    said = capsys.readouterr().err
    assert said == "open this:\n\n  https://good.example/\\x1bc\\x9b2J\\x08\\x08\n"

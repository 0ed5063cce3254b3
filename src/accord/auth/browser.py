"""How the user authorizes the client: a browser and a redirect to this machine, or a pasted URL.

The frame of its page is that of every page which users see while they authorize, here and at an
authorization server: HTML and CSS without scripts.
"""

import asyncio
import contextlib
import errno
import hmac
import inspect
import os
import re
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import Any, Final, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from accord.errors import FlowFailed
from accord.runtime.tasks import run_in_thread

Opened: TypeAlias = str | bool | None
OpenBrowser: TypeAlias = Callable[[str], Opened | Awaitable[Opened]]
"""Shows a URL to the user. Returns False if it cannot, or the URL of the redirect, or a code."""

Paste: TypeAlias = Callable[[], str | Awaitable[str]]
"""Returns the text that the user pastes."""

STEP: Final = "authorization"
HOST: Final = "127.0.0.1"
PATH: Final = "/callback"
_THREAD: Final = "accord-authorize"
_V6: Final = "::1"
# A browser sends its request at once; 32 KiB is several times the URL that browsers accept.
_REQUEST_EXPECTED: Final = 10.0
_LONGEST: Final = 32 * 1024
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class LoopbackRedirect:
    """Listens on this machine for the one redirect that carries the expected state.

    Args:
        port: to listen on; 0 takes any free port.
        host: the host of the redirect URI: 127.0.0.1, localhost or ::1.
        path: the path of the redirect URI.
    """

    def __init__(self, port: int = 0, *, host: str = HOST, path: str = PATH) -> None:
        self._port = port
        self._name = host
        self._path = path
        self._servers: list[asyncio.Server] = []
        self._received: asyncio.Future[dict[str, str]]
        self.state = ""
        self.uri = ""
        self.accepts: Callable[[Mapping[str, str]], bool] | None = None
        """Says whether a redirect with the right state is to be believed; the page follows it."""
        self.on_ignored: Callable[[], object] | None = None
        """Called when a redirect has another state and is ignored."""

    async def __aenter__(self) -> Self:
        self._received = asyncio.get_running_loop().create_future()
        # Only programs on this machine may connect.
        await self._listen(_V6 if self._name == _V6 else HOST)
        self._port = self._servers[0].sockets[0].getsockname()[1]
        if self._name == "localhost":
            await self._listen_also()
        shown = f"[{_V6}]" if self._name == _V6 else self._name
        self.uri = f"http://{shown}:{self._port}{self._path}"
        return self

    async def _listen_also(self) -> None:
        """Listen at ::1 too, if this machine has it."""
        try:
            await self._listen(_V6)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                # A browser might send the code to the program that listens there.
                self._close()
                raise

    def _close(self) -> None:
        for server in self._servers:
            server.close()

    async def _listen(self, address: str) -> None:
        self._servers.append(
            await asyncio.start_server(self._serve, address, self._port, limit=_LONGEST, backlog=8)
        )

    async def __aexit__(self, *_: object) -> None:
        self._received.cancel()
        self._close()

    async def wait_for_redirect(self) -> dict[str, str]:
        """Wait for the redirect that carries `state`; others get an error page."""
        return await asyncio.shield(self._received)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        params = None
        try:
            async with asyncio.timeout(_REQUEST_EXPECTED):
                head = await reader.readuntil(b"\r\n\r\n")
                status, title, params = self._read_request(head)
                writer.write(_page(status, title))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            # The page is sent first: the waiting caller may close the server at once.
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()
            if params is not None and not self._received.done():
                self._received.set_result(params)

    def _read_request(self, head: bytes) -> tuple[str, str, dict[str, str] | None]:
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(line) != 3 or line[0] != "GET":
            title = "This address only accepts redirects of a browser."
            return "405 Method Not Allowed", title, None
        try:
            parts = urlsplit(line[1])
        except ValueError:  # such as `//[`, which begins an IPv6 address
            return "400 Bad Request", "This is not a valid address.", None
        if parts.path != (self._path or "/"):
            return "404 Not Found", "There is nothing here.", None
        params = dict(parse_qsl(parts.query))
        given = params.get("state", "").encode()
        if not self.state or not hmac.compare_digest(given, self.state.encode()):
            title = "This answer belongs to another request and was ignored."
            if self.on_ignored is not None:
                self.on_ignored()
            return "400 Bad Request", title, None  # auth.state.verified
        if self.accepts is not None and not self.accepts(params):
            # Of such a response nothing is shown, not even whether it is an error.
            return "200 OK", "This answer came from another server and was ignored.", params
        if "error" in params:
            return "200 OK", "Authorization was refused. You can close this window.", params
        return "200 OK", "Authorization is complete. You can close this window.", params


def _page(status: str, title: str) -> bytes:
    said, _, advice = title.partition(". ")
    shown = f"<h1>{escape(said.removesuffix('.'))}</h1>"
    if advice:
        shown += f"\n<p>{escape(advice)}</p>"
    body = html_page(said.removesuffix("."), shown).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
        "Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
        f"Content-Security-Policy: default-src 'none'; style-src {STYLE_SOURCE}; "
        "frame-ancestors 'none'\r\n\r\n"
    )
    return head.encode("ascii") + body


def parse_pasted(pasted: str, state: str) -> dict[str, str]:
    """Parse the text that the user pasted: the URL of the redirect, or the code alone.

    A code has no state; that it answers this request is then proven by PKCE alone.
    """
    text = pasted.strip()
    if "://" in text or text.startswith("?"):
        # Not split as a URL: the text may be malformed.
        return dict(parse_qsl(text.partition("?")[2].partition("#")[0]))
    if "code=" in text:
        return dict(parse_qsl(text))
    return {"code": text, "state": state} if text else {}


@dataclass(kw_only=True)
class UserInteraction:
    """Asks the user to authorize, and shows messages.

    Args:
        open_browser: shows a URL; by default in the browser of the system.
        paste: returns the text that the user pastes; by default a line from the terminal.
        tell: shows a message; by default on stderr.
        seconds: how long the user may take.
    """

    open_browser: OpenBrowser | None = None
    paste: Paste | None = None
    tell: Callable[[str], object] | None = None
    seconds: float = 300.0

    async def authorize(self, url: str, redirect: LoopbackRedirect) -> dict[str, str]:
        """Show a URL to the user and return the parameters of the redirect that follows.

        Raises:
            FlowFailed: there is neither a browser nor a terminal, or no answer in time.
        """
        tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(redirect.wait_for_redirect())]
        try:
            async with asyncio.timeout(self.seconds):
                return await self._authorize(url, redirect, tasks)
        except TimeoutError:
            raise FlowFailed(
                STEP,
                asked="the user, in a browser",
                came=f"no answer within {self.seconds:g} s",
                hint="if the browser shows an error, it says why: a redirect URI has to be "
                f"registered as {redirect.uri}, some servers want OAuth(resource='omit'); "
                "otherwise authorize sooner, or allow more time with OAuth(timeout=...)",
            ) from None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _authorize(
        self, url: str, redirect: LoopbackRedirect, tasks: "list[asyncio.Future[Any]]"
    ) -> dict[str, str]:
        listening = tasks[0]
        opening = asyncio.ensure_future(self._open(url))
        tasks.append(opening)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if listening.done():
            return dict(listening.result())
        opened = opening.result()
        if isinstance(opened, str):
            return parse_pasted(opened, redirect.state)
        if opened is False:
            self._require_terminal()
            self.say(f"To authorize, open this URL in a browser:\n\n  {url}\n")
            pasting = asyncio.ensure_future(self._read_pasted())
            tasks.append(pasting)
            await asyncio.wait([listening, pasting], return_when=asyncio.FIRST_COMPLETED)
            if not listening.done():
                return parse_pasted(_require_text(pasting.result()), redirect.state)
        return dict(await listening)

    def say(self, text: str) -> None:
        if self.tell is not None:
            self.tell(text)
        else:
            # URLs and codes are written by servers: control characters must not reach the terminal.
            shown = _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)
            print(shown, file=sys.stderr, flush=True)

    async def _open(self, url: str) -> Opened:
        show = self.open_browser or _open_system_browser
        try:
            if inspect.iscoroutinefunction(show):
                opened: object = await show(url)
            else:
                opened = await run_in_thread(lambda: show(url), _THREAD)
                if inspect.isawaitable(opened):
                    opened = await opened
        except FlowFailed:
            raise
        except Exception as error:  # user code may raise anything
            came = f"open_browser failed: {type(error).__name__}"
            raise FlowFailed(STEP, asked="open_browser", came=came) from None
        return opened if isinstance(opened, str | bool) else None

    def _require_terminal(self) -> None:
        """Refuse to ask where there is neither a browser nor a terminal to answer on."""
        if self.paste is None and (sys.stdin is None or not sys.stdin.isatty()):
            raise FlowFailed(
                STEP,
                asked="the user",
                came="neither a browser nor a terminal",
                hint="use OAuth(grant='client_credentials') or 'device', pass open_browser=, or "
                'a token with auth="..."; or run this once in a terminal, which keeps the token',
            )

    async def _read_pasted(self) -> str:
        if self.paste is not None:
            pasted = await run_in_thread(self.paste, _THREAD)
            return str(await pasted if inspect.isawaitable(pasted) else pasted)
        self.say("Then paste the URL that the browser ends up at, or the code, and press enter:")
        return str(await run_in_thread(sys.stdin.readline, _THREAD))


def _require_text(pasted: str) -> str:
    if pasted.strip():
        return pasted
    hint = "start again, and paste the URL that the browser ends up at, or the code in it"
    raise FlowFailed(STEP, asked="the user", came="nothing was pasted", hint=hint)


def _open_system_browser(url: str) -> bool:
    import webbrowser

    is_unix = sys.platform not in ("win32", "darwin")
    # A user who names a browser wants that one; otherwise a text browser would open in the
    # terminal, over the program's output.
    names = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    if is_unix and not any(os.environ.get(name) for name in names):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


# -- the frame of every page

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1b1f; --soft: #55555f; --ground: #f4f4f7;
  --sheet: #ffffff; --line: #8a8a96; --act: #1f4fd8; --on-act: #ffffff; --alarm: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf1; --soft: #b4b4c0; --ground: #131316;
  --sheet: #1f1f24; --line: #77778a; --act: #9db7ff; --on-act: #10214f; --alarm: #ffb4ab; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
main { max-width: 32rem; margin: 5vh auto; padding: 1.5rem; background: var(--sheet);
  border: 1px solid var(--line); border-radius: 0.75rem; }
h1 { margin: 0 0 1rem; font-size: 1.35rem; line-height: 1.3; }
h2 { margin: 1.25rem 0 0.25rem; font-size: 1rem; }
p, ul { margin: 0.25rem 0; } ul { padding-left: 1.25rem; }
.soft { color: var(--soft); } .alarm { color: var(--alarm); font-weight: 600; }
code { font-size: 0.95em; }
label { display: block; margin: 1rem 0 0.25rem; font-weight: 600; }
input { width: 100%; padding: 0.6rem; font: inherit; color: inherit; background: transparent;
  border: 1px solid var(--line); border-radius: 0.4rem; }
.buttons { display: flex; flex-wrap: wrap; gap: 0.75rem; margin-top: 1.5rem; }
button { flex: 1 1 8rem; min-height: 2.75rem; padding: 0.5rem 1rem; font: inherit;
  font-weight: 600; color: var(--ink); background: transparent; cursor: pointer;
  border: 1px solid var(--line); border-radius: 0.4rem; }
button.act { color: var(--on-act); background: var(--act); border-color: var(--act); }
button.plain { flex: none; min-height: 0; padding: 0; border: 0; color: var(--act);
  text-decoration: underline; font-weight: 400; }
a.button { flex: 1 1 8rem; padding: 0.6rem 1rem; text-align: center; font-weight: 600;
  color: var(--on-act); background: var(--act); border-radius: 0.4rem; text-decoration: none; }
a { color: var(--act); }
.foot { margin-top: 1.5rem; }
form.inline { display: inline; }
:focus-visible { outline: 3px solid var(--act); outline-offset: 2px; }
"""
STYLE_SOURCE: Final = f"'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
"""What a Content-Security-Policy has to allow for the style of a page."""


def html_page(title: str, body: str) -> str:
    """Return a whole page; the body is HTML, the title text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="robots" content="noindex">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )

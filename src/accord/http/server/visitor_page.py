"""The page for a person who opens the endpoint in a browser: what is here, and how to add it."""

import json
from collections.abc import Awaitable, Mapping
from html import escape
from typing import Final
from urllib.parse import quote

from accord.http.rules.sse import CONTENT_TYPE
from accord.http.server.exchange import SESSION, Headers, HttpExchange

_ACCEPT: Final = b"accept"
_HOST: Final = b"host"
_HTML: Final = b"text/html"
_HEADERS: Final = [
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"vary", b"Accept"),
]
_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{name}</title>
<h1>{name}</h1>
<p>This is an MCP server. Programs connect to it, not browsers: add it to a host that speaks the
<a href="https://modelcontextprotocol.io">Model Context Protocol</a>.</p>
<p>In the configuration file of most hosts:</p>
<pre>{entry}</pre>
</html>
"""


def is_visit(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a GET is that of a browser: clients of the protocol list event streams."""
    accept = headers.get(_ACCEPT, b"").lower()
    return _HTML in accept and CONTENT_TYPE.encode() not in accept and SESSION not in headers


def show_page(exchange: HttpExchange, name: str, allowed: str) -> Awaitable[None]:
    """Respond with the page; the status is what clients of the protocol expect without a stream."""
    url = exchange.options.public_url or _url_of(exchange)
    entry = json.dumps({"mcpServers": {name: {"url": url}}}, indent=2, ensure_ascii=False)
    page = _PAGE.format(name=escape(name), entry=escape(entry))
    headers: Headers = [*_HEADERS, (b"allow", allowed.encode())]
    return exchange.respond(405, headers, page.encode())


def _url_of(exchange: HttpExchange) -> str:
    scope = exchange.scope
    root, path = scope.get("root_path", "").rstrip("/"), scope["path"]
    # Some ASGI servers give the whole path, others the part below the mount or the proxy.
    whole = path if path.startswith(root) else f"{root}{path}"
    host = exchange.headers.get(_HOST, b"localhost").decode("latin-1")
    return f"{scope.get('scheme', 'http')}://{host}{quote(whole)}"

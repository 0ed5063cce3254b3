"""Finds out which form of HTTP a URL speaks: Streamable HTTP, or the older one with SSE."""

from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from accord.errors import ConnectFailed
from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.revisions import HANDSHAKE
from accord_tools.check.probing.exchange import RawResponse, exchange
from accord_tools.check.probing.failures import ConnectionEnded, MessageTimeout
from accord_tools.check.probing.http import CONTENT_JSON
from accord_tools.check.probing.messages import initialize_params, new_request
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.target import Form, ServerTarget

FORM_NAMES: Final = {"http": "Streamable HTTP", "sse": "HTTP with SSE (the older form)"}
_LOCKED: Final = (401, 403)
# A server of Streamable HTTP takes POST at its only path.
_NO_POST: Final = (404, 405, 501)
_OF_NO_HANDSHAKE: Final = (-32020, -32021, -32022)


async def with_form(target: ServerTarget) -> ServerTarget:
    """Return a target whose form is known; it is asked if it has a URL and no form.

    Raises:
        ConnectFailed: nothing listens there.
    """
    if not target.url or target.form is not None:
        return target
    found = await find_form(target)
    return replace(target, form=found or "http", is_form_found=True)


async def name_form(target: ServerTarget, error: ConnectFailed) -> ConnectFailed:
    """Return an error that names the form of a server, if the chosen form is not that."""
    if target.is_form_found or target.form is None:
        return error
    try:
        found = await find_form(target)
    except ConnectFailed:
        return error
    if found in (None, target.form):
        return error
    return ConnectFailed(
        f"{target.name} speaks {FORM_NAMES[found]}, not {FORM_NAMES[target.form]}:"
        f" leave out --transport {target.form}"
    )


async def find_form(target: ServerTarget) -> Form | None:
    """Ask a URL which form it speaks, with a POST and at most one GET; None if neither.

    Raises:
        ConnectFailed: nothing listens there.
    """
    line = replace(target, form="http").connection(is_judged=False)
    async with line:
        posted = await _post_initialize(line)
        if posted is not None:
            if posted.names[:1] == ["endpoint"]:
                return "sse"  # it answers every method with its stream
            if _is_streamable(posted):
                return "http"
            if posted.status in _LOCKED:
                # Without a token only the usual path shows the form.
                return "sse" if urlsplit(target.url).path.endswith("/sse") else "http"
        return await _listen(line, posted)


async def _post_initialize(line: RawConnection) -> RawResponse | None:
    params = initialize_params([*HANDSHAKE][-1], {})
    message = new_request("initialize", params)
    try:
        async with exchange(line, message) as heard:
            await heard.until(
                lambda heard: bool(heard.answers_to(message["id"]) or heard.names), line.patience
            )
        given = heard.headers.get("mcp-session-id")
        if given is not None:
            async with exchange(line, method="DELETE", mcp_session_id=given):
                pass
    except (ConnectionEnded, MessageTimeout):
        return None
    return heard


def _is_streamable(heard: RawResponse) -> bool:
    if heard.is_ok:
        return heard.content_type in (CONTENT_JSON, CONTENT_TYPE) or bool(heard.answers())
    return heard.code in _OF_NO_HANDSHAKE


async def _listen(line: RawConnection, posted: RawResponse | None) -> Form | None:
    headers = {"accept": CONTENT_TYPE, **line.carrier.headers}
    try:
        async with exchange(line, method="GET", headers=headers) as heard:
            if heard.is_stream:
                await heard.until(lambda heard: bool(heard.names), line.patience)
    except (ConnectionEnded, MessageTimeout, ConnectFailed):
        return None
    is_refused = posted is None or posted.status in _NO_POST
    if heard.is_stream and (heard.names[:1] == ["endpoint"] or is_refused):
        return "sse"
    return None if is_refused else "http"

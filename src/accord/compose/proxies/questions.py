"""Questions of the other server, asked in the way and the revision of the client."""

from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final

from accord.errors import MissingCapability
from accord.protocol.exchange import Exchange
from accord.server.context import Context
from accord.server.questions.input_requests import check_declared, refuse_later_mode

if TYPE_CHECKING:
    from accord.server.session import Session

_CAPABILITIES: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}


async def ask_client(
    session: "Session", exchange: Exchange, name: str, params: Any, *, key: str | None = None
) -> Any:
    """Ask the client within one of its requests.

    Args:
        session: the session that serves the request.
        exchange: the request.
        name: the method of the question.
        params: its params.
        key: names the question within the request.

    Raises:
        MissingCapability: the client cannot be asked this.
        RequestError: it refused.
    """
    context: Context[Any] = Context(session, exchange)
    capability = _CAPABILITIES[name]
    peer = exchange.peer
    assert peer is not None  # every request that a server receives has one
    if name == "sampling/createMessage":
        check_declared(params, peer)
    elif name == "elicitation/create":
        if params.mode == "url":
            capability = "elicitation.url"
        refuse_later_mode(params, peer.revision, "form for this question")
        if params.mode == "url" and peer.revision.handshake and params.elicitation_id is None:
            params.elicitation_id = token_urlsafe(16)  # elicitation.url.elicitation-id
    if name == "roots/list":
        params = None
    if getattr(params, "task", None) is not None:
        params.task = None
    if session.dispatcher.closed is not None:
        raise MissingCapability(f"{name}: the client is gone")
    return await context._ask(capability, name, params, None, key)

"""Functions around the requests of a client: to log, measure, change, repeat or refuse them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from accord.client.options import OwnMeta, encode_arguments
from accord.types import CallToolParams, GetPromptParams, JsonObject

if TYPE_CHECKING:
    from accord.client.link import Link
    from accord.client.options import CallOptions


class ClientRequest:
    """A request on its way to the server.

    Attributes:
        method: its method, such as "tools/call".
        params: its params, a type of `accord.types`, such as `CallToolParams`.
        meta: the members of `_meta` that the caller gave, to be read and changed. The progress
            token, and what the revision adds, come later.
    """

    __slots__ = ("meta", "method", "params")

    def __init__(self, method: str, params: Any, meta: JsonObject) -> None:
        self.method = method
        self.params = params
        self.meta = meta

    def __repr__(self) -> str:
        return f"<ClientRequest {self.method} {self.params!r:.200}>"

    @property
    def arguments(self) -> JsonObject:
        """The arguments of a tool or a prompt by name; empty for other requests."""
        found: object = getattr(self.params, "arguments", None)
        if isinstance(found, msgspec.Raw):
            decoded: JsonObject = msgspec.json.decode(found)
            return decoded
        return dict(found) if isinstance(found, dict) else {}


class ClientProceed(Protocol):
    """Sends the request and returns its result; may be called again, and need not be called."""

    async def __call__(
        self, *, params: Any = None, arguments: Mapping[str, object] | None = None
    ) -> Any:
        """Send the request.

        Args:
            params: params to send instead, of the same type.
            arguments: arguments of the tool or prompt to send instead.
        """


ClientMiddleware: TypeAlias = Callable[[ClientRequest, ClientProceed], Awaitable[Any]]
"""Called around every request: `await proceed()` sends it and returns the result."""


def check_middleware(layers: object) -> tuple[ClientMiddleware, ...]:
    """Return middleware as it was given to `connect`.

    Raises:
        TypeError: it is not a list of functions.
    """
    if (
        isinstance(layers, str)
        or not isinstance(layers, Sequence)
        or not all(map(callable, layers))
    ):
        raise TypeError("middleware is a list of async functions that take request and proceed")
    return tuple(layers)


class _Proceed:
    """The way from one layer inwards."""

    __slots__ = ("_layers", "_request", "_send")

    def __init__(
        self,
        request: ClientRequest,
        layers: tuple[ClientMiddleware, ...],
        send: Callable[[], Awaitable[Any]],
    ) -> None:
        self._request = request
        self._layers = layers
        self._send = send

    async def __call__(
        self, *, params: Any = None, arguments: Mapping[str, object] | None = None
    ) -> Any:
        request = self._request
        if params is not None:
            if not isinstance(params, type(request.params)):
                kind = type(request.params).__name__
                raise TypeError(f"proceed(): params are {params!r:.80}, expected {kind}")
            request.params = params
        if arguments is not None:
            request.params = _with_arguments(request, arguments)
        if not self._layers:
            return await self._send()
        layer, *inner = self._layers
        outcome = layer(request, _Proceed(request, tuple(inner), self._send))
        if not isawaitable(outcome):
            raise TypeError(f"middleware {_name(layer)} is not async: write `async def`")
        result = await outcome
        if result is None:
            raise TypeError(
                f"middleware {_name(layer)} returned None: return what `await proceed()` returns"
            )
        return result


def _name(layer: object) -> str:
    return str(getattr(layer, "__qualname__", None) or type(layer).__qualname__)


def _with_arguments(request: ClientRequest, arguments: Mapping[str, object]) -> Any:
    changed = request.params.__copy__()
    if isinstance(changed, CallToolParams):
        changed.arguments = encode_arguments(arguments)
    elif isinstance(changed, GetPromptParams):
        changed.arguments = dict(arguments)  # type: ignore[arg-type]  # checked by the revision
    else:
        raise TypeError(f"proceed(): {request.method} has no arguments")
    return changed


def _without_trace(meta: Mapping[str, Any]) -> JsonObject:
    """Leave out what names a span: it changes with each request, and no result with it."""
    return {key: value for key, value in meta.items() if key not in ("traceparent", "tracestate")}


async def ask_through(
    link: "Link", name: str, params: Any, how: "CallOptions", *, answers: bool
) -> Any:
    """Send a request through all middleware of a connection."""
    given = how.get("meta")
    before = params.__copy__()
    request = ClientRequest(name, params.__copy__(), dict(given or ()))
    own = type(given) is OwnMeta

    async def send() -> Any:
        changed = how.copy()
        if request.meta or given is not None:
            changed["meta"] = OwnMeta(request.meta) if own else request.meta
        # Each attempt begins anew: answers to questions are put into the params.
        sent = request.params.__copy__()
        is_changed = sent != before or _without_trace(request.meta) != _without_trace(given or {})
        try:
            return await link.ask(name, sent, changed, answers=answers, is_direct=True)
        finally:
            for member in ("input_responses", "request_state"):
                if hasattr(sent, member):  # the cache looks whether there were questions
                    setattr(params, member, getattr(sent, member))
            if is_changed:
                params.meta = OwnMeta(request.meta)  # and whether another request was sent

    return await _Proceed(request, link.middleware, send)()

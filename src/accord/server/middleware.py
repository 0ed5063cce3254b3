"""Middleware: functions around every request or those of some methods, which may change params."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from accord.errors import InternalError, RegistrationError, RequestError, ToolError, lower_first
from accord.errors import UrlElicitationRequired as PagesRequired
from accord.protocol.exchange import Exchange
from accord.protocol.party import peer_from_initialize
from accord.protocol.revisions import METHODS
from accord.runtime.dispatcher import LASTING
from accord.server.context import Context, current, decode_arguments
from accord.types import CallToolParams

if TYPE_CHECKING:
    from accord.server.session import Session

_encode: Final = msgspec.json.Encoder().encode


class Proceed(Protocol):
    """Serves the request: calls the next middleware, and at last the handler."""

    def __call__(self, *, params: Any = None) -> Coroutine[Any, Any, Any]:
        """Return the result, as an object of its type.

        Args:
            params: passed on in place of those that were received; of the same type, or a
                dictionary.
        """


Middleware: TypeAlias = Callable[[Context[Any], Proceed], Awaitable[object]]
"""Called around a request: `await proceed()` serves it and returns the result.

The pages of a list are encoded once, and decoded for middleware. One that does not look at results
may have an attribute `passes_results = True`: it gets a page as bytes.
"""


class Layers:
    """The middleware of a server, in the order in which it is called.

    Attributes:
        are_used: whether there is any; asked for every request.
    """

    def __init__(self, functions: Iterable[Middleware] = ()) -> None:
        self._layers: list[tuple[Middleware, frozenset[str]]] = []
        self._found: dict[str, tuple[Middleware, ...]] = {}
        self.are_used = False
        for function in functions:
            self.add(function)

    def add(self, function: Middleware, *methods: str) -> None:
        """Call a function around the requests of some methods, or of all, within earlier ones.

        Raises:
            RegistrationError: it cannot be called so, or a method does not exist.
        """
        _check_function(function)
        _check_methods(methods)
        self._layers.append((function, frozenset(methods)))
        self.are_used = True
        self._found = {}

    @property
    def functions(self) -> list[Middleware]:
        """All of them, the outermost first."""
        return [function for function, _ in self._layers]

    def around(self, method: str) -> tuple[Middleware, ...]:
        """Return the middleware around the requests of a method, the outermost first."""
        found = self._found.get(method)
        if found is None:
            found = tuple(
                function for function, names in self._layers if not names or method in names
            )
            self._found[method] = found
        return found


def _check_function(function: object) -> None:
    if not callable(function):
        raise RegistrationError(
            f"middleware is {function!r:.80}, expected an async function of ctx and proceed"
        )
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise RegistrationError(
            f"middleware {_name_of(function)} cannot be called with ctx and proceed: {error}"
        ) from None
    except ValueError:  # a built-in function without a signature
        pass
    core: Any = inspect.unwrap(function)
    if inspect.isfunction(core) and not inspect.iscoroutinefunction(core):
        raise RegistrationError(
            f"middleware {_name_of(function)} is not async: write async def, and "
            "return await proceed()"
        )


def _check_methods(methods: Iterable[str]) -> None:
    known = {row.name for row in METHODS if row.is_request and "client" in row.by}
    for method in methods:
        if method not in known:
            from difflib import get_close_matches

            close = get_close_matches(str(method), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(sorted(known))}"
            raise RegistrationError(f"middleware: the protocol has no request {method!r}; {hint}")


def _name_of(function: object) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class LayeredRequest:
    """One request on its way through middleware to its handler."""

    __slots__ = (
        "_context",
        "_exchange",
        "_handler",
        "_is_mounted",
        "_layers",
        "_params",
        "_session",
    )

    def __init__(
        self,
        session: "Session",
        exchange: Exchange,
        params: Any,
        handler: Callable[..., Any],
        layers: tuple[Middleware, ...],
        context: Context[Any] | None = None,
    ) -> None:
        if exchange.name == "initialize":
            # Middleware sees the client that introduces itself.
            level = session.server.log_level
            exchange.peer = peer_from_initialize(params, exchange.revision, level)
        self._session = session
        self._exchange = exchange
        self._params = params
        self._handler = handler
        self._layers = layers
        self._context: Context[Any] = context or Context(session, exchange)
        self._is_mounted = context is not None

    async def serve(self) -> Any:
        """Return the result of the request."""
        current.set(self._context)
        try:
            return await self._proceed(0)
        except PagesRequired as error:
            from accord.server.questions.url_elicitation import answer_required

            answer = answer_required(error, self._context)
            if isinstance(answer, RequestError):
                raise answer from error
            return answer
        except ToolError as error:
            if self._exchange.name != "tools/call":
                raise InternalError(str(error)) from error
            from accord.server.entries.tools import refusal

            return refusal(error)

    async def _proceed(self, depth: int, *, params: Any = None) -> Any:
        """Call the middleware at this depth, or the handler below the last one."""
        context = self._context
        if params is not None:
            context._params = check_params(self._exchange, params, context.meta or None)
        if depth < len(self._layers):
            layer = self._layers[depth]
            result = await layer(context, partial(self._proceed, depth + 1))
            if not isinstance(result, msgspec.Struct | bytes | dict) and result is not LASTING:
                raise TypeError(
                    f"middleware {_name_of(layer)} returned {result!r:.80} for "
                    f"{self._exchange.name}, expected a result: return await proceed()"
                )
        else:
            result = await self._call_handler()
        if result.__class__ is bytes and depth:
            return self._read_page(result, self._layers[depth - 1])
        return result

    async def _call_handler(self) -> Any:
        params, seen = self._params, self._context._params
        self._context._failure = None
        if seen is not None:
            params = served_params(params, seen)
            if not self._is_mounted:  # else the request is known by the names of the outer server
                self._exchange.params = params
        outcome = self._handler(self._session, self._exchange, params)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _read_page(self, page: Any, layer: Middleware) -> Any:
        """Decode a page of a list for middleware, unless it does not look at results."""
        if getattr(layer, "passes_results", False):
            return page
        method = self._exchange.method
        assert method is not None  # a list has one
        return msgspec.json.decode(page, type=method.result)


# -- params that middleware changes


def check_params(exchange: Exchange, given: object, meta: Any) -> Any:
    """Return the params that middleware passes on in place of those that were received.

    Args:
        exchange: the request.
        given: params of the same type, or a dictionary of their members.
        meta: their `_meta`, where the given ones have none.

    Raises:
        TypeError: they do not fit the method.
    """
    method = exchange.method
    assert method is not None  # a request without a known method reaches no handler
    expected = method.params
    if isinstance(given, Mapping):
        members = dict(given)
        arguments = members.pop("arguments", msgspec.UNSET) if expected is CallToolParams else None
        try:
            params = msgspec.convert(members, expected)
        except msgspec.ValidationError as error:
            raise TypeError(f"params of {exchange.name}: {lower_first(error)}") from None
        if arguments is not None:
            params.arguments = arguments
    elif isinstance(given, expected):
        params = given.__copy__()
    else:
        raise TypeError(
            f"params of {exchange.name} are a {type(given).__name__}, expected "
            f"{expected.__name__} or a dictionary"
        )
    if params.meta is None:
        params.meta = meta
    if isinstance(params, CallToolParams):
        params.arguments = decode_arguments(exchange.name, params.arguments)
    return params


def served_params(received: Any, seen: Any) -> Any:
    """Return the params for the handler: as received, unless middleware changed them.

    Args:
        received: the params as they came.
        seen: what middleware saw of them, and may have changed.

    Raises:
        TypeError: the arguments that it set are not JSON.
    """
    if not isinstance(seen, CallToolParams):
        return seen
    served = msgspec.structs.replace(seen)
    # As they were received, numbers keep digits that a float would lose.
    if seen.arguments == decode_arguments("tools/call", received.arguments):
        served.arguments = received.arguments
    else:
        served.arguments = msgspec.Raw(_encode(seen.arguments))
    return served

"""The params of a request as its handler and middleware see them, and as they may change them."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from accord.errors import InvalidParams, lower_first
from accord.protocol.exchange import Exchange
from accord.types import CallToolParams

_encode: Final = msgspec.json.Encoder().encode


def read_params(exchange: Exchange, params: Any = None) -> Any:
    """Return the params of a request with all their parts decoded, as a copy.

    Args:
        exchange: the request.
        params: those that a mounted server gets; by default those that were received.

    Raises:
        InvalidParams: a value in them cannot be read.
    """
    if params is None:
        params = exchange.params
    if params is None:
        return None
    params = params.__copy__()
    params.meta = exchange.meta or None
    if isinstance(params, CallToolParams):
        params.arguments = _decode_arguments(exchange.name, params.arguments)
    return params


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
        params.arguments = _decode_arguments(exchange.name, params.arguments)
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
    if seen.arguments == _decode_arguments("tools/call", received.arguments):
        served.arguments = received.arguments
    else:
        served.arguments = msgspec.Raw(_encode(seen.arguments))
    return served


def _decode_arguments(name: str, arguments: Any) -> Any:
    if arguments is msgspec.UNSET:
        return {}
    if arguments.__class__ is not msgspec.Raw:
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except (ValueError, RecursionError) as error:
        raise InvalidParams(f"{name}: {lower_first(error)}") from None

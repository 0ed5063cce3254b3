"""Requests of any method as plain JSON: of extensions, and of methods without a method of `Client`.

Nothing is left out on the way: members that no revision defines are sent, and returned.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from accord.client.options import CallOptions, check_text
from accord.errors import LocalProtocolError, RemoteProtocolError, lower_first
from accord.protocol import shape
from accord.protocol.revisions import KNOWN
from accord.protocol.unknown import find_unknown
from accord.protocol.violation import CLIENT
from accord.types import JsonObject, ProgressParams

if TYPE_CHECKING:
    from accord.client.link import Link

_META: Final = "_meta"
_LASTING: Final = "subscriptions/listen"
_encode: Final = msgspec.json.Encoder().encode


class PlainParams(dict[str, Any]):
    """The params of a request as a dictionary, with the one member that every request has."""

    @property
    def meta(self) -> JsonObject | None:
        """The member `_meta`."""
        return self.get(_META)

    @meta.setter
    def meta(self, value: JsonObject | None) -> None:
        if value is None:
            self.pop(_META, None)
        else:
            self[_META] = value

    def __copy__(self) -> Self:
        return type(self)(self)


async def request_plainly(
    link: "Link", method: str, params: Mapping[str, Any] | None, how: CallOptions
) -> Any:
    """Send a request and return its result as plain JSON."""
    check_text("the method", method)
    if params is not None and not isinstance(params, Mapping):
        raise TypeError(f"params are a mapping by name, not a {type(params).__name__}")
    if method == _LASTING:
        raise LocalProtocolError(f"{method} stays open: use client.listen(...)")
    given = PlainParams(params or {})
    own = given.pop(_META, None)
    if own is not None:
        plain = msgspec.json.decode(_encode(own))
        how = how.copy()
        how["meta"] = {**plain, **(how.get("meta") or {})} if isinstance(plain, dict) else plain
    return await link.ask(method, given, how)


async def send_plainly(
    link: "Link",
    name: str,
    params: PlainParams,
    *,
    timeout: float | None,
    cap: float | None,
    on_progress: Callable[[ProgressParams], object] | None = None,
) -> Any:
    """Send params as they are, once they are judged by the rules of their method."""
    revision = link.revision
    method = revision.requests[CLIENT].get(name)
    sent: Any = params
    unknown = None
    if method is not None:
        data = _encode(params)
        try:
            sent = shape.decode(data, method.params, revision.id)
        except (ValueError, RecursionError) as error:
            why = f"the params do not fit {revision.id}: {lower_first(error)}"
            raise LocalProtocolError(why) from None
        unknown = find_unknown(data, sent)
    elif name in KNOWN:
        raise LocalProtocolError(
            f"{name} is not part of revision {revision.id}, which was negotiated"
        )
    _, exchange = await link.dispatcher.forward(
        name,
        sent,
        timeout=timeout,
        cap=cap,
        on_progress=on_progress,
        unknown=unknown,
    )
    try:
        return msgspec.json.decode(exchange.raw)  # type: ignore[arg-type]  # it was answered
    except (ValueError, RecursionError) as error:
        why = f"the result of {name} cannot be read: {lower_first(error)}"
        raise RemoteProtocolError(why) from None

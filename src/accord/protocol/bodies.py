"""Params and results between raw JSON and message types, by method and revision; read once."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import UNSET

from accord.errors import InvalidParams, InvalidRequest, MethodNotFound, RequestError, lower_first
from accord.protocol import shape
from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Exchange
from accord.protocol.jsonrpc import Frame
from accord.protocol.party import RawMeta
from accord.protocol.revisions import METHODS, Method, Revision
from accord.types import CreateTaskResult, InputRequiredResult, TaskHandle
from accord.types._base import JsonObject

# tasks-ext.create.only-tools-call
_TASKED: Final = "tools/call"
BY_NAME: Final = {method.name: method for method in METHODS}


class _Readers(dict[str, Callable[[msgspec.Raw], Any]]):
    """Decoders by method, each made when it is first needed.

    Their `_meta` is a `RawMeta`: a dictionary of it, with its long keys, takes longer to make
    than the rest of the params.
    """

    def __missing__(self, name: str) -> Callable[[msgspec.Raw], Any]:
        params = BY_NAME[name].params
        members = {
            "__annotations__": {"meta": RawMeta | None},
            "meta": msgspec.field(name="_meta", default=None),
        }
        type_ = type(params)(params.__name__, (params,), members, kw_only=True)
        self[name] = reader = msgspec.json.Decoder(type_).decode
        return reader


READERS: Final = _Readers()
"""The first reading of params: as the newest superset of their type."""


class _Params(msgspec.Struct):
    meta: RawMeta | None = msgspec.field(name="_meta", default=None)


def second_reading(
    frame: Frame, name: str, conversation: Conversation
) -> tuple[Any, RawMeta | None, RequestError | None]:
    """Read params that are missing or not of the newest shape, or return the fault."""
    meta: RawMeta | None = None
    if frame.params is not UNSET:
        with suppress(ValueError, RecursionError):
            meta = msgspec.json.decode(frame.params, type=_Params).meta
    method = BY_NAME.get(name)
    if method is None:
        return None, meta, MethodNotFound(f"method {name!r:.100} does not exist")
    try:
        revision = conversation.revision_for(None if meta is None else meta.version)
        params = decode_params(frame, method, revision)
    except RequestError as error:
        return None, meta, error
    params.meta = None
    return params, meta, None


def decode_params(frame: Frame, method: Method, revision: Revision) -> Any:
    """Decode params once; what does not fit is an error that says where."""
    raw = frame.params
    if raw is UNSET:
        try:
            return method.params()
        except TypeError:  # a member has no default
            raise InvalidParams(f"{method.name}: params are missing") from None
    try:
        return shape.decode(raw, method.params, revision.id)
    except (ValueError, RecursionError) as error:
        start = bytes(raw).lstrip()[:1]
        message = f"{method.name}: {lower_first(error)}"
        # jsonrpc.request.params-object: an array is JSON-RPC but not MCP, anything else is neither.
        if start not in (b"{", b"["):
            raise InvalidRequest(message) from None
        raise InvalidParams(message) from None


def decode_result(frame: Frame, exchange: Exchange) -> Any:
    """Decode a result once, as that of its method, or as questions or a task instead of it.

    Raises:
        ValueError: it does not fit.
    """
    raw, method = frame.result, exchange.method
    assert raw is not UNSET
    if method is None:
        return msgspec.json.decode(raw)
    revision = exchange.revision
    if not revision.result_type:
        return shape.decode(raw, _result_before(exchange, method, raw), revision.id)
    # Nearly all are complete, so that is tried first.
    try:
        result = shape.decode(raw, method.result, revision.id)
        named = getattr(result, "result_type", None)
    except ValueError:
        named = msgspec.json.decode(raw, type=_ResultType).result_type
        if named in _COMPLETE:
            raise
    if named in _COMPLETE:
        return result
    if named == "input_required" and method.may_ask:
        return shape.decode(raw, InputRequiredResult, revision.id)
    if named == "task" and exchange.name == _TASKED:
        return shape.decode(raw, TaskHandle, revision.id)
    # result.type.unknown-is-invalid
    raise ValueError(f"resultType {named!r:.60} is unknown")


# result.type.absent-means-complete
_COMPLETE: Final = (None, "complete")


def _result_before(exchange: Exchange, method: Method, raw: msgspec.Raw) -> Any:
    """Return the type of a result that does not name it: a task only where one was wanted."""
    if exchange.is_task:
        if msgspec.json.decode(raw, type=_Accepted).task is not None:
            return CreateTaskResult
        exchange.is_task = False  # tasks.undeclared.ignored: it was answered at once
    return method.result


class _ResultType(msgspec.Struct, rename="camel"):
    result_type: str | None = None


class _Accepted(msgspec.Struct):
    task: JsonObject | None = None


def add_meta(body: Any, name: str, meta: JsonObject) -> Any:
    """Return a copy of the params of a method with further members in their `_meta`."""
    body = BY_NAME[name].params() if body is None else body.__copy__()
    body.meta = {**meta, **body.meta} if body.meta else meta
    return body

"""Params and results that no single feature owns: the plain bases, pages, progress, cancellation.

The JSON-RPC envelope around them is not described here.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from accord.types._base import (
    Cursor,
    JsonObject,
    ProgressToken,
    RequestId,
    Struct,
    must_send,
    only,
    since,
)

__all__ = [
    "CacheScope",
    "CacheableResult",
    "CancelledParams",
    "EmptyParams",
    "EmptyResult",
    "InputResponses",
    "PageParams",
    "PageResult",
    "Params",
    "ProgressParams",
    "Result",
    "RetryParams",
    "TaskMetadata",
]

InputResponses: TypeAlias = dict[str, msgspec.Raw]
"""Answers by the key of their question; only the asker knows which result type each one has."""

CacheScope: TypeAlias = Literal["public", "private"]


class Params(Struct, kw_only=True):
    """Base of the params of requests and notifications."""

    # 2026-07-28 demands it on requests; the endpoint fills it in.
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)


class EmptyParams(Params):
    """Params of messages that say all by their method."""


class PageParams(Params):
    """Ask for one page of a list."""

    cursor: Cursor | None = None


class RetryParams(Params, kw_only=True):
    """Base of the params of requests that may be repeated with answers to questions."""

    input_responses: Annotated[InputResponses | None, since("2026-07-28")] = None
    request_state: Annotated[str | None, since("2026-07-28")] = None


@only("2025-11-25")
class TaskMetadata(Struct):
    """Ask for a request to be run as a task, kept for `ttl` milliseconds."""

    ttl: int | None = None


class Result(Struct, kw_only=True):
    """Base of all results of a server."""

    meta: JsonObject | None = msgspec.field(name="_meta", default=None)
    result_type: Annotated[
        str | None, since("2026-07-28"), must_send(since="2026-07-28", stamp="complete")
    ] = None


class EmptyResult(Result):
    """The result of requests that only acknowledge."""


class CacheableResult(Result, kw_only=True):
    """Base of results that say how long they may be kept, and for which callers."""

    ttl_ms: Annotated[int | None, since("2026-07-28"), must_send(since="2026-07-28", stamp=0)] = (
        None
    )
    cache_scope: Annotated[
        CacheScope | None, since("2026-07-28"), must_send(since="2026-07-28", stamp="private")
    ] = None


class PageResult(CacheableResult, kw_only=True):
    """Base of results that hold one page of a list."""

    next_cursor: Cursor | None = None


class ProgressParams(Params):
    """Tell how far a request has come."""

    progress_token: ProgressToken
    progress: int | float
    total: int | float | None = None
    message: Annotated[str | None, since("2025-03-26")] = None


class CancelledParams(Params):
    """Tell that the answer to a request is no longer wanted."""

    request_id: Annotated[
        RequestId | None, must_send(until="2025-06-18"), must_send(since="2026-07-28")
    ] = None
    reason: str | None = None

"""How the work of a task ended, as members of its record."""

import logging
from typing import Any, Final

import msgspec

from accord.errors import InternalError, MessageTooLarge, RequestError
from accord.protocol import shape
from accord.protocol.codec import Limits, codec_for
from accord.protocol.jsonrpc import ErrorBody
from accord.protocol.revisions import Revision
from accord.runtime.tasks import explain_size, is_writable
from accord.types import CallToolResult, JsonObject

log = logging.getLogger("accord.server")

# What stands around a result in the largest message about it.
_AROUND: Final = {"size": 4096, "values": 64, "levels": 4}
_encode: Final = msgspec.json.Encoder().encode


def success_fields(
    result: CallToolResult, label: str, revision: Revision, limits: Limits
) -> JsonObject:
    """Return the members of a task whose tool has returned.

    Args:
        result: what it returned.
        label: names the tool.
        revision: that of the client.
        limits: what a message may cost.
    """
    encoded = _encode(shape.narrow(result, revision.id))
    try:
        codec_for(limits).check_size(encoded, label, **_AROUND)
    except MessageTooLarge as error:
        # It could never be sent, and the client would ask for it again and again.
        return failure_fields(explain_size(label, error))
    # tasks.errors.tool-error-is-failed; tasks-ext.status.tool-error-is-completed
    is_failed = result.is_error and revision.tasks
    return {
        "status": "failed" if is_failed else "completed",
        "message": result.text[:500] or "the tool failed" if is_failed else None,
        "result": encoded,
    }


def failure_fields(error: BaseException) -> JsonObject:
    """Return the members of a task whose work has raised."""
    if not isinstance(error, RequestError) or not is_writable(error):
        log.error("a task failed", exc_info=error)
        error = InternalError("internal error")
    data: Any = msgspec.UNSET if error.data is None else error.data
    try:
        body = _encode(ErrorBody(error.code, error.message, data))
    except (TypeError, ValueError):
        body = _encode(ErrorBody(error.code, error.message))
    return {"status": "failed", "message": error.message[:500], "error": body}

"""The members of a task: in messages, by the words of 2025-11-25 and of the extension.

And those that the end of its work adds to its record.
"""

import logging
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accord.errors import InternalError, MessageTooLarge, RequestError
from accord.protocol import shape
from accord.protocol.codec import Limits, codec_for
from accord.protocol.jsonrpc import ErrorBody
from accord.protocol.revisions import Revision
from accord.runtime.tasks import explain_size, is_writable
from accord.server.tasks.task_store import TaskRecord
from accord.types import CallToolResult, InputRequest, JsonObject

# Milliseconds after which a client may ask again about a task that has just begun.
_SOONEST: Final = 100


def iso_time(seconds: float) -> str:
    """Return a time in ISO 8601.

    >>> iso_time(1.5)
    '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def core_fields(record: TaskRecord) -> JsonObject:
    """Return the members of a task in the words of 2025-11-25."""
    return {
        "task_id": record.id,
        "status": record.status,
        "status_message": record.message,
        "created_at": iso_time(record.created_at),
        "last_updated_at": iso_time(record.updated_at),
        "ttl": record.ttl,
        "poll_interval": record.poll_interval,
    }


def extension_fields(record: TaskRecord, now: float) -> JsonObject:
    """Return the members of a task in the words of the extension."""
    return {
        "task_id": record.id,
        "status": record.status,
        "status_message": record.message,
        "created_at": iso_time(record.created_at),
        "last_updated_at": iso_time(record.updated_at),
        "ttl_ms": record.ttl,
        "poll_interval_ms": _poll_interval(record, now),
    }


def _poll_interval(record: TaskRecord, now: float) -> int:
    """Return when to ask next, in milliseconds: waiting adds a tenth to the time of a task."""
    if record.is_finished:
        return record.poll_interval
    age = (now - record.created_at) * 1000
    return min(record.poll_interval, max(_SOONEST, round(age / 10)))


def outcome_fields(record: TaskRecord, now: float) -> JsonObject:
    """Return the members of a task, with its questions, its result or its error."""
    fields = extension_fields(record, now)
    if record.questions:
        fields["input_requests"] = {
            key: msgspec.json.decode(question, type=InputRequest)
            for key, question in record.questions.items()
        }
    if record.result is not None:
        fields["result"] = msgspec.Raw(record.result)
    if record.error is not None:
        fields["error"] = msgspec.json.decode(record.error)
    return fields


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

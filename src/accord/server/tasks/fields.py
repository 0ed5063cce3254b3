"""The members of a task in messages, in the words of 2025-11-25 and of the extension."""

from datetime import UTC, datetime
from typing import Final

import msgspec

from accord.server.tasks.task_store import TaskRecord
from accord.types import InputRequest, JsonObject

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

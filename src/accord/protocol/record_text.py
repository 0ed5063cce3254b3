"""The messages and the text that a record holds."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from accord.trace import Record

__all__ = ["evidence_of", "plain_messages", "text_of"]

_EVIDENCE_LENGTH: Final = 400


def plain_messages(record: Record) -> Iterator[dict[str, Any]]:
    """Decode the messages of a record, one or a batch; none where it holds no JSON."""
    try:
        value = None if record.message is None else msgspec.json.decode(record.message)
    except (ValueError, RecursionError):
        return
    for message in value if isinstance(value, list) else [value]:
        if isinstance(message, dict):
            yield message


def text_of(record: Record) -> bytes | None:
    """Return what travelled, whether it is a message or not; None where no text did."""
    if record.message is not None:
        return bytes(record.message)
    if record.raw is None or not record.raw.strip():
        return None
    return record.raw.encode(errors="surrogatepass")


def evidence_of(record: Record) -> str:
    """Return the beginning of what travelled, to show it in a report."""
    text = (text_of(record) or b"").decode(errors="replace")
    return text if len(text) <= _EVIDENCE_LENGTH else f"{text[:_EVIDENCE_LENGTH]}..."

"""Secrets in the texts of calls: masked as the log masks them, unless a person asks for them."""

import msgspec

from accord.testing.masking import Masks
from accord.trace import Party, Record


class Hiding:
    """Masks whole messages.

    Args:
        masks: those of the conversation, so that equal secrets look equal.
    """

    def __init__(self, masks: Masks) -> None:
        self._masks = masks

    def message(self, sender: Party, data: bytes, known: dict[bytes, bytes]) -> bytes:
        """Return a message without secrets; numbers stay as they were written if it has none.

        Args:
            sender: the party that sent it.
            data: the message.
            known: messages that were masked before.
        """
        if data not in known:
            known[data] = self._mask(sender, data)
        return known[data]

    def _mask(self, sender: Party, data: bytes) -> bytes:
        record = Record(sender=sender, message=msgspec.Raw(data))
        try:
            masked = self._masks.apply(record)
        except (RecursionError, ValueError):
            return b"null"
        if masked is record or masked.message is None:
            return data
        return bytes(masked.message)

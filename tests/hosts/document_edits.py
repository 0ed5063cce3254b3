"""Edits of documents, each verified by another reader."""

from accord_tools.hosts.documents.document import open_document
from accord_tools.hosts.documents.verification import ABSENT, verify_edit


class DocumentEdits:
    """Adds and removes a value in texts of one format."""

    def __init__(self, format, keys, value):
        self._format = format
        self._keys = keys
        self._value = value

    def add(self, text, keys=None, value=None):
        """Return a text with a value in it."""
        keys = self._keys if keys is None else keys
        value = self._value if value is None else value
        after = open_document(text, self._format).set(keys, value).apply(text)
        verify_edit(text, after, self._format, {keys: value})
        return after

    def take(self, text, keys=None):
        """Return a text without a value."""
        keys = self._keys if keys is None else keys
        after = open_document(text, self._format).remove(keys).apply(text)
        verify_edit(text, after, self._format, {keys: ABSENT})
        return after

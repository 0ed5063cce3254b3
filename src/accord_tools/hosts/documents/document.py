"""A text with values in it, and edits that change one span of it."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

from accord_tools.hosts.definition import FileFormat, HostsError, KeyPath


class TextPlace(NamedTuple):
    """A place in a text; both numbers begin with 1."""

    line: int
    column: int


class UnreadableDocument(HostsError):
    """A text does not fit its format, or has one key twice.

    Attributes:
        reason: what is wrong.
        place: where.
    """

    def __init__(self, reason: str, place: TextPlace, path: Path | None = None) -> None:
        line, column = place
        where = f"line {line}, column {column}" if path is None else f"{path}:{line}:{column}"
        super().__init__(f"{where}: {reason}")
        self.reason = reason
        self.place = place

    def in_file(self, path: Path) -> "UnreadableDocument":
        """Return the same error about the text of a file."""
        return UnreadableDocument(self.reason, self.place, path)


class UneditableDocument(HostsError):
    """A text is valid, but written in a way that cannot be changed without harm."""


class Edit(NamedTuple):
    """One span of a text, and what takes its place."""

    start: int
    end: int
    text: str

    def apply(self, before: str) -> str:
        """Return the text with the edit made."""
        return before[: self.start] + self.text + before[self.end :]


class Document(Protocol):
    """A parsed text, which knows where each value stands.

    Attributes:
        text: as it is in the file, with its own line ends.
        data: the value; objects are dictionaries in the order of the text.
    """

    text: str
    data: Any

    def find(self, keys: KeyPath) -> TextPlace | None:
        """Return where a value stands (its key, if it has one); None if it does not exist."""
        ...

    def span(self, keys: KeyPath) -> tuple[int, int] | None:
        """Return where a value begins and ends; None if it is not written in one place."""
        ...

    def set(self, keys: KeyPath, value: Any) -> Edit:
        """Return the edit that adds a value, or replaces it; objects around it are made if absent.

        The last key may be the length of a list, to append to it. What is written has the
        indentation, the quotes and the line ends of the text around it.

        Raises:
            UneditableDocument: it cannot be done by one edit.
        """
        ...

    def remove(self, keys: KeyPath) -> Edit:
        """Return the edit that removes a value with its key, and comments that belong to it.

        Raises:
            UneditableDocument: there is no such value, or it cannot be removed by one edit.
        """
        ...


def open_document(text: str, format: FileFormat) -> Document:
    """Return a text as a document.

    A text of `json` may have comments and trailing commas all the same: programs other than
    the host may have written them.

    Raises:
        UnreadableDocument: it does not fit its format.
    """
    if format == "toml":
        from accord_tools.hosts.documents.toml_document import TomlDocument

        return TomlDocument(text)
    if format == "yaml":
        from accord_tools.hosts.documents.yaml_document import YamlDocument

        return YamlDocument(text)
    from accord_tools.hosts.documents.json_document import JsonDocument

    return JsonDocument(text)

"""A text with values in it, its lines, and edits that change one span of it."""

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

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


def render_snippet(keys: KeyPath, value: Any, format: FileFormat) -> str:
    """Return a document with one value in it, to paste into a file.

    Args:
        keys: the path of the value; an index of a list becomes that of its only item.
        value: to show.
        format: of the file.

    Raises:
        HostsError: the format has no such value.
    """
    first = tuple(0 if isinstance(key, int) else key for key in keys)
    return open_document("", format).set(first, value).apply("")


# -- the bytes of a text file, decoded so that they can be given back as they were


_MOST_BYTES: Final = 64 * 1024 * 1024
_OTHERS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class TextFile(NamedTuple):
    """The text of a file, with the line ends that it has.

    Attributes:
        text: without the byte order mark.
        has_mark: whether the file begins with a byte order mark.
    """

    text: str
    has_mark: bool = False

    def encode(self, text: str) -> bytes:
        """Return the bytes of a changed text, with the mark if the file has one.

        Raises:
            HostsError: it has half of a surrogate pair, which UTF-8 cannot express.
        """
        try:
            written = text.encode()
        except UnicodeEncodeError as error:
            sign = ord(text[error.start])
            raise HostsError(
                f"the character U+{sign:04X} is half of a pair, which a file cannot have"
            ) from None
        return codecs.BOM_UTF8 + written if self.has_mark else written


def read_text_file(data: bytes) -> TextFile:
    """Return the text of a file.

    Raises:
        HostsError: it is not UTF-8; says at which byte.
    """
    if len(data) > _MOST_BYTES:
        raise HostsError(f"the file has {len(data)} bytes; a configuration is never that large")
    for mark, name in _OTHERS.items():
        if data.startswith(mark):
            raise HostsError(f"the file is {name} (byte 0 begins its mark); save it as UTF-8")
    has_mark = data.startswith(codecs.BOM_UTF8)
    start = len(codecs.BOM_UTF8) if has_mark else 0
    try:
        text = data[start:].decode()
    except UnicodeDecodeError as error:
        raise HostsError(
            f"byte {start + error.start} is not UTF-8 (0x{error.object[error.start]:02x}); "
            "save the file as UTF-8"
        ) from None
    if (at := data.find(b"\0")) >= 0:
        raise HostsError(f"byte {at} is 0, as in UTF-16 or a binary file; save the file as UTF-8")
    return TextFile(text, has_mark)


# -- the content of a file as a document


class FileDocument(NamedTuple):
    """A document, and how its text is encoded in the file."""

    encoding: TextFile
    document: Document


def open_content(path: Path, content: bytes | None, format: FileFormat) -> FileDocument:
    """Return the content of a file as a document.

    Args:
        path: named in errors.
        content: None if the file does not exist, which is an empty text.
        format: of the file.

    Raises:
        UnreadableDocument: it does not fit its format.
        HostsError: it is not a text.
    """
    try:
        encoding = read_text_file(content or b"")
        return FileDocument(encoding, open_document(encoding.text, format))
    except UnreadableDocument as error:
        raise error.in_file(path) from None
    except HostsError as error:
        raise HostsError(f"{path}: {error}") from None


# -- lines, line ends and indentation of a text, whichever line ends it has


MOST_LEVELS: Final = 200
"""How deep values may be nested; deeper ones are refused, before anything recurses too deep."""

_BREAK: Final = re.compile(r"\r\n|\n|\r")
_INDENT: Final = re.compile(r"[ \t]*")


def find_place(text: str, at: int) -> TextPlace:
    """Return line and column of a place in a text."""
    starts = _line_starts(text)
    line = bisect_right(starts, at)
    return TextPlace(line, at - starts[line - 1] + 1)


@lru_cache(maxsize=4)
def _line_starts(text: str) -> list[int]:
    """Return where each line begins; thousands of places are looked up in one text."""
    return [0, *(found.end() for found in _BREAK.finditer(text))]


def line_start(text: str, at: int) -> int:
    """Return where the line of a place begins."""
    start = text.rfind("\n", 0, at) + 1
    return max(start, text.rfind("\r", start, at) + 1)


def line_end(text: str, at: int) -> int:
    """Return where the line of a place ends, before its line end."""
    found = _BREAK.search(text, at)
    return len(text) if found is None else found.start()


def next_line(text: str, at: int) -> int:
    """Return where the line after that of a place begins."""
    found = _BREAK.search(text, at)
    return len(text) if found is None else found.end()


def break_before(text: str, start: int) -> int:
    """Return where the line end before a line begins; the line itself begins at `start`."""
    if start == 0:
        return 0
    return start - 2 if text[start - 2 : start] == "\r\n" else start - 1


def line_break(text: str, at: int) -> str:
    """Return the line end that is usual at a place: that of its line, or of the one before."""
    found = _BREAK.search(text, at)
    if found is not None:
        return found[0]
    start = line_start(text, at)
    return text[break_before(text, start) : start] or "\n"


def indentation(text: str, at: int) -> str:
    """Return the blanks that the line of a place begins with."""
    found = _INDENT.match(text, line_start(text, at))
    assert found is not None  # it matches everything
    return found[0]


def begins_line(text: str, at: int) -> bool:
    """Return whether only blanks stand before a place in its line."""
    return not text[line_start(text, at) : at].strip(" \t")


def is_one_line(text: str, start: int, end: int) -> bool:
    """Return whether a span has no line end."""
    return _BREAK.search(text, start, end) is None


def has_blank_line(text: str, start: int) -> bool:
    """Return whether the line that begins at a place has only blanks, and is not the end."""
    end = line_end(text, start)
    return end < len(text) and not text[start:end].strip(" \t")


def remove_lines(text: str, start: int, stop: int, least: int = 0) -> Edit:
    """Return the edit that removes lines, and the blank lines that would be too many then.

    Args:
        text: of the file.
        start: where the first of the lines begins.
        stop: where the last one ends, before its line end.
        least: before which nothing is removed.
    """
    after = next_line(text, stop)
    rest = text[after:].strip()
    if not text[:start].strip():
        while rest and has_blank_line(text, after):
            after = next_line(text, after)
        return Edit(start, after, "")
    begin = break_before(text, start)
    if not rest or has_blank_line(text, after):
        while begin and not text[(above := line_start(text, begin)) : begin].strip(" \t"):
            if (begin_above := break_before(text, above)) < least:
                break
            begin = begin_above
    return Edit(begin, stop, "")


def join_edits(text: str, edits: Iterable[Edit]) -> Edit:
    """Return one edit that does what several do; the text between them is repeated as it is.

    Args:
        text: that all of them are for.
        edits: that do not overlap.
    """
    # Those at one place stay in their order.
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    if not ordered:
        return Edit(0, 0, "")
    parts: list[str] = []
    at = ordered[0].start
    for edit in ordered:
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return Edit(ordered[0].start, at, "".join(parts))

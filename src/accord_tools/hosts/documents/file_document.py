"""The content of a file as a document; errors name the file."""

from pathlib import Path
from typing import NamedTuple

from accord_tools.hosts.definition import FileFormat, HostsError
from accord_tools.hosts.documents.document import Document, UnreadableDocument, open_document
from accord_tools.hosts.documents.text_file import TextFile, read_text_file


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

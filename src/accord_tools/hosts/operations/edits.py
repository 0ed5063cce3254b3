"""Edits of one entry in the file of a host, proved before they are written."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

from accord_tools.hosts.definition import ConfigFile, HostsError, KeyPath
from accord_tools.hosts.documents.document import (
    Document,
    FileDocument,
    UneditableDocument,
    open_content,
    open_document,
)
from accord_tools.hosts.documents.values import find_value
from accord_tools.hosts.documents.verification import ABSENT, verify_edit
from accord_tools.hosts.entries.shaping import ShapedEntry, entries_in
from accord_tools.hosts.writing.destination import find_target
from accord_tools.hosts.writing.journal import Journal, digest_of

Compute: TypeAlias = Callable[[bytes | None], bytes | None]
_INPUTS: Final = "inputs"


def set_entry(file: ConfigFile, name: str, shaped: ShapedEntry) -> Compute:
    """Return the function that writes an entry into a file; the rest stays as it is."""

    def compute(before: bytes | None) -> bytes:
        encoding, document = _open(file, before)
        keys = find_entry(file, document, name) or _new_keys(file, document, name)
        with _name_file_in_errors(file):
            text = _set(file, document, keys, shaped.value)
            for each in shaped.inputs:
                text = _add_input(file, text, each)
        return encoding.encode(text)

    return compute


def remove_entry(file: ConfigFile, name: str, journal: Journal | None = None) -> Compute:
    """Return the function that removes an entry from a file.

    Args:
        file: the file.
        name: of the entry.
        journal: earlier changes; an addition that is in it is taken back byte for byte.
    """

    def compute(before: bytes | None) -> bytes | None:
        encoding, document = _open(file, before)
        keys = find_entry(file, document, name)
        if keys is None:
            raise HostsError(f"{file.path} has no server {name!r}")
        if journal is not None:
            for each in _additions_to(file, journal, digest_of(before)):
                if _is_removal(file, document, keys, each):
                    return each
        with _name_file_in_errors(file):
            text = document.remove(keys).apply(document.text)
            verify_edit(document.text, text, file.format, {keys: ABSENT})
        if journal is not None:
            for each in _find_originals(file, journal, text):
                return each
        return encoding.encode(text)

    return compute


def _additions_to(
    file: ConfigFile, journal: Journal, after: str | None = None
) -> Iterator[bytes | None]:
    """Yield what a file contained before accord added servers to it, the newest first.

    Args:
        file: the file.
        journal: of the additions.
        after: the hash of the content that an addition has led to; None for any.
    """
    target = str(find_target(file.path))
    for entry in journal.entries():
        is_addition = entry.target == target and entry.action in ("add", "sync")
        if is_addition and after in (None, entry.after):
            with suppress(HostsError):  # it is no longer kept
                yield None if entry.before is None else journal.backup(entry.before)


def find_entry(file: ConfigFile, document: Document, name: str) -> KeyPath | None:
    """Return where an entry is in a file; None if it is not there."""
    found = entries_in(document.data, file).get(name)
    return None if found is None else found[0]


def _open(file: ConfigFile, content: bytes | None) -> FileDocument:
    opened = open_content(file.path, content, file.format)
    _check_container(file, opened.document)
    return opened


@contextmanager
def _name_file_in_errors(file: ConfigFile) -> Iterator[None]:
    """Name the file in errors of edits."""
    try:
        yield
    except UneditableDocument as error:
        raise UneditableDocument(f"{file.path}: {error}") from None


def _check_container(file: ConfigFile, document: Document) -> None:
    """Refuse a file that has something else where the servers belong."""
    value = document.data
    expected: type = dict
    for depth, key in enumerate(file.key, 1):
        if value is None:
            return
        if not isinstance(value, dict):
            break
        value = value.get(key)
        if depth == len(file.key) and file.host.container == "list":
            expected = list
    if value is not None and not isinstance(value, expected):
        where = ".".join(file.key)
        raise HostsError(
            f"{file.path}: {where} is not {'a list' if expected is list else 'an object'} of "
            "servers; mend the file by hand"
        )


def _new_keys(file: ConfigFile, document: Document, name: str) -> KeyPath:
    if file.host.container == "map":
        return (*file.key, name)
    value: Any = document.data
    for key in file.key:
        value = value.get(key) if isinstance(value, dict) else None
    return (*file.key, len(value or ()))


def _set(file: ConfigFile, document: Document, keys: KeyPath, value: Any) -> str:
    text = document.set(keys, value).apply(document.text)
    verify_edit(document.text, text, file.format, {keys: value})
    return text


def _add_input(file: ConfigFile, text: str, wanted: dict[str, Any]) -> str:
    """Add a question of the host to its list, unless it is there."""
    document = open_document(text, file.format)
    known = document.data.get(_INPUTS)
    listed = known if isinstance(known, list) else []
    if any(isinstance(each, dict) and each.get("id") == wanted["id"] for each in listed):
        return text
    return _set(file, document, (_INPUTS, len(listed)), wanted)


def _is_removal(file: ConfigFile, document: Document, keys: KeyPath, earlier: bytes | None) -> bool:
    """Return whether the bytes of before are this file without the entry, and nothing else."""
    name = next(
        (each for each, found in entries_in(document.data, file).items() if found[0] == keys), None
    )
    if earlier is None:
        return set(entries_in(document.data, file)) == {name}
    try:
        before = _open(file, earlier).document
    except HostsError:
        return False
    now = {each: value for each, (_, value) in entries_in(document.data, file).items()}
    then = {each: value for each, (_, value) in entries_in(before.data, file).items()}
    now.pop(name or "", None)
    return now == then and _without_servers(document, file) == _without_servers(before, file)


def _find_originals(file: ConfigFile, journal: Journal, text: str) -> Iterator[bytes | None]:
    """Yield the bytes from before accord added the first server, once the last one is removed.

    The object around servers may have been made by accord. The rest of the file must be the same,
    but for blanks: a comment that was written since is not lost.
    """
    document = open_document(text, file.format)
    if entries_in(document.data, file):
        return
    rest = text
    for depth in range(len(file.key), 0, -1):
        opened = open_document(rest, file.format)
        if find_value(opened.data, file.key[:depth]) not in (None, {}, []):
            break
        with suppress(UneditableDocument):
            rest = opened.remove(file.key[:depth]).apply(rest)
    squeezed = {"".join(each.split()) for each in (text, rest)}
    for before in _additions_to(file, journal):
        if before is None and not squeezed.isdisjoint(("", "{}")):
            yield None
        if before is not None and _is_same_but_blanks(file, before, squeezed, document):
            yield before


def _is_same_but_blanks(
    file: ConfigFile, before: bytes, squeezed: Collection[str], document: Document
) -> bool:
    try:
        encoding, earlier = open_content(file.path, before, file.format)
    except HostsError:
        return False
    return (
        "".join(encoding.text.split()) in squeezed
        and not entries_in(earlier.data, file)
        and _without_servers(earlier, file) == _without_servers(document, file)
    )


def _without_servers(document: Document, file: ConfigFile) -> Any:
    """Return the rest of a document; objects that are empty without servers count as absent."""

    def strip(value: Any, keys: Sequence[str]) -> Any:
        if not isinstance(value, dict):
            return value
        if not keys:
            return None
        rest = {key: each for key, each in value.items() if key not in (keys[0], _INPUTS)}
        inner = strip(value.get(keys[0]), keys[1:]) if len(keys) > 1 else None
        return {**rest, keys[0]: inner} if inner else rest

    return strip(document.data or {}, file.key)


def verify_rest(file: ConfigFile, before: bytes, after: bytes, names: Collection[str]) -> None:
    """Raise an error unless two contents of a file differ in these servers alone.

    Raises:
        UneditableDocument: another server, or another setting, differs.
    """
    old, new = (_open(file, each).document for each in (before, after))
    kept = [
        {
            name: value
            for name, (_, value) in entries_in(each.data, file).items()
            if name not in names
        }
        for each in (old, new)
    ]
    if kept[0] != kept[1] or _without_servers(old, file) != _without_servers(new, file):
        raise UneditableDocument(f"other settings than {', '.join(names)} would change")

"""Changes taken back: exactly if the file stayed as it was left, else only our part of it."""

import shlex
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.change import FileChange
from accord_tools.hosts.writing.destination import find_target, read_file
from accord_tools.hosts.writing.journal import Journal, JournalEntry, digest_of
from accord_tools.hosts.writing.spans import reverse_spans


class Reversal(Enum):
    """Says that a change cannot be taken back without a guess."""

    NOT_POSSIBLE = "not possible"


NOT_POSSIBLE: Final = Reversal.NOT_POSSIBLE

# Raises HostsError if the second content is not the first one without the change.
Verification: TypeAlias = Callable[[JournalEntry, bytes, bytes], None]


def undo(
    journal: Journal, number: int | None = None, *, verify: Verification | None = None
) -> list[FileChange]:
    """Return the changes that take back earlier ones; `write_changes` makes them.

    A file that is as accord left it gets exactly the bytes that it had before. If another program
    changed it since, only the part that accord wrote is taken back.

    Args:
        journal: with the earlier changes.
        number: of one of them, which is taken back with all that were made together with it; None
            is the newest that was not taken back yet. The number of an undo makes the change again.
        verify: looks at the result if the file was changed since: it raises an error if other
            values than those of the entry differ. It gets the change and both contents.

    Raises:
        HostsError: there is no such change.
    """
    happened = [each for each in journal.entries() if _has_happened(each)]
    if not happened:
        raise HostsError(f"there is nothing to undo: the journal {journal.path} has no changes")
    chosen = _newest_in_force(happened) if number is None else _entry_with(number, happened)
    return [
        FileChange(
            path=Path(each.file),
            host=each.host,
            name=each.name,
            action="undo",
            compute=partial(_take_back, journal, each, verify),
            mode=each.mode,
            undoes=each.id,
        )
        for each in happened
        if each.group == chosen.group
    ]


def reversal(
    journal: Journal, path: Path, name: str, current: bytes
) -> bytes | Literal[Reversal.NOT_POSSIBLE] | None:
    """Return a file without an entry that accord added: the bytes that it had before.

    The caller compares the values before it writes the result.

    Args:
        journal: with the change that added it.
        path: of the file.
        name: of the entry.
        current: what the file contains.

    Returns:
        None if accord made the file, and it contains nothing else; NOT_POSSIBLE if accord did not
        add the entry, or other programs changed it since.
    """
    if journal.original(path, name) is None:
        return NOT_POSSIBLE
    content: bytes | None = current
    for entry in journal.entries_of(path, name):
        try:
            found = _reverse(journal, entry, content)
        except HostsError:
            return NOT_POSSIBLE  # the backup is no longer kept
        if found is NOT_POSSIBLE:
            return NOT_POSSIBLE
        content = found
    return content


def _newest_in_force(entries: list[JournalEntry]) -> JournalEntry:
    """Return the newest change that was not taken back, so that a second undo goes further."""
    taken_back: set[int] = set()
    for each in entries:
        if each.id in taken_back:
            continue
        if each.undoes is None:
            return each
        taken_back.add(each.undoes)
    raise HostsError(
        "there is nothing left to undo; the number of an undo makes its change again (see accord "
        "hosts undo --list)"
    )


def _entry_with(number: int, entries: list[JournalEntry]) -> JournalEntry:
    for each in entries:
        if each.id == number:
            return each
    known = f"{entries[-1].id} to {entries[0].id}"
    raise HostsError(
        f"there is no change {number} to undo; the journal has {known} (see accord hosts undo "
        "--list)"
    )


def _has_happened(entry: JournalEntry) -> bool:
    if entry.state != "pending":
        return entry.state == "done"
    # Interrupted before its end was written down: the file says whether it happened.
    try:
        return digest_of(read_file(find_target(Path(entry.file)))) == entry.after
    except HostsError:
        return False


def _take_back(
    journal: Journal, entry: JournalEntry, verify: Verification | None, current: bytes | None
) -> bytes | None:
    found = _reverse(journal, entry, current)
    if found is NOT_POSSIBLE:
        raise HostsError(_explain(journal, entry))
    is_exact = digest_of(current) == entry.after or found == current
    if verify is not None and not is_exact and current is not None and found is not None:
        try:
            verify(entry, current, found)
        except HostsError as error:
            raise HostsError(f"{_explain(journal, entry)} ({error})") from error
    return found


def _reverse(
    journal: Journal, entry: JournalEntry, current: bytes | None
) -> bytes | Literal[Reversal.NOT_POSSIBLE] | None:
    """Return a content without one change."""
    now = digest_of(current)
    if now == entry.before:
        return current
    if now == entry.after:
        return None if entry.before is None else journal.backup(entry.before)
    if current is None or entry.before is None or entry.after is None or not entry.spans:
        return NOT_POSSIBLE
    before, after = journal.backup(entry.before), journal.backup(entry.after)
    found = reverse_spans(before, after, entry.spans, current)
    return NOT_POSSIBLE if found is None else found


def _explain(journal: Journal, entry: JournalEntry) -> str:
    changed = f"{entry.file} was changed since accord wrote {entry.name} (change {entry.id})"
    if entry.before is None:
        return (
            f"{changed}, and is left alone, though accord made it; to take out the entry alone: "
            f"accord remove {shlex.quote(entry.name)}"
        )
    backup = journal.backup_path(entry.before)
    return (
        f"{changed}, and that part is not found in it any more; the file is left alone. As it was "
        f"before: {backup} (compare: diff {shlex.quote(str(backup))} {shlex.quote(entry.file)})"
    )

"""Changes of files, several as one: all are made, or those already made are taken back.

What was written earlier is taken back here, too.
"""

import contextlib
import os
import random
import shlex
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.destination import (
    check_writable,
    find_target,
    leftovers,
    make_folders,
    read_file,
    remove_folders,
)
from accord_tools.hosts.writing.journal import ChangeAction, Journal, JournalEntry, digest_of
from accord_tools.hosts.writing.lock import hold_lock
from accord_tools.hosts.writing.replacement import change_content

_TRIES: Final = 20


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a file that is to be made.

    Attributes:
        path: of the file; a link stays a link, and its target is changed.
        host: the id of the host whose file it is.
        name: of the entry that changes.
        action: the command that changes it.
        compute: returns the new content for an old one. It is called again if another program
            wrote the file meanwhile. None stands for a file that does not exist, or shall not.
        mode: the permissions of a file that did not exist; the user's mask takes away from them.
        undoes: the number of the change that this one takes back.
    """

    path: Path
    host: str
    name: str
    action: ChangeAction
    compute: Callable[[bytes | None], bytes | None]
    mode: int = 0o600
    undoes: int | None = None


class WrittenChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a file that was made.

    Attributes:
        path: as it was given.
        before: the content before; None if the file did not exist.
        after: the content after; None if the file was removed.
        id: its number in the journal; None if the content stayed the same.
        remark: how the file was written if not as usual, a sentence.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    id: int | None = None
    remark: str = ""


def write_changes(changes: Sequence[FileChange], journal: Journal) -> list[WrittenChange]:
    """Make changes of files, one after the other; if one fails, take the earlier ones back.

    Returns:
        What was written for each, in the same order.

    Raises:
        HostsError: a file cannot be read or written, or other programs kept changing it; the
            message says so if an earlier change could not be taken back. Errors of `compute` are
            raised as they are.
    """
    targets = [find_target(each.path) for each in changes]
    made: list[tuple[WrittenChange, JournalEntry | None]] = []
    with hold_lock(journal.lock, ", ".join(str(each.path) for each in changes)):
        try:
            for change, target in zip(changes, targets, strict=True):
                for path in leftovers(target):
                    with contextlib.suppress(OSError):  # of another user
                        path.unlink()
                made.append(_write(change, target, journal))
            numbered = iter(journal.record([entry for _, entry in made if entry is not None]))
        except BaseException as error:
            if left := _take_back(made):
                raise HostsError(
                    f"{error}; these files were changed before that, then by another program, and "
                    f"keep both changes: {', '.join(left)}"
                ) from error
            raise
    return [
        written if entry is None else replace(written, id=next(numbered).id)
        for written, entry in made
    ]


def _write(
    change: FileChange, target: Path, journal: Journal
) -> tuple[WrittenChange, JournalEntry | None]:
    for count in range(_TRIES):
        if count:
            # At different times, so that two programs do not meet again and again.
            time.sleep(random.uniform(0.005, 0.05))  # noqa: S311
        before = read_file(target)
        # Programs that write in several steps leave an empty file, or half of one, for a moment.
        if before == b"" and _changes_now(target, before):
            continue
        try:
            after = change.compute(before)
        except Exception:
            if count < _TRIES - 1 and _changes_now(target, before):
                continue
            raise
        if after == before:
            return WrittenChange(path=change.path, before=before, after=after), None
        written = _try_to_write(change, target, before, after, journal)
        if written is not None:
            return written
    raise HostsError(
        f"{change.path} is being changed by another program again and again; nothing was changed: "
        "close the program, and try again"
    )


def _try_to_write(
    change: FileChange, target: Path, before: bytes | None, after: bytes | None, journal: Journal
) -> tuple[WrittenChange, JournalEntry] | None:
    """Change a file from the content that was read; None if another program wrote it first."""
    check_writable(target)
    mode = _mode_of(change, target)
    folders = make_folders(target.parent) if before is None else []
    is_done = False
    try:
        entry = JournalEntry(
            host=change.host,
            name=change.name,
            action=change.action,
            file=str(change.path.absolute()),
            target=str(target),
            before=journal.keep(before),
            after=journal.keep(after),
            folders=tuple(map(str, folders)),
            mode=mode,
            undoes=change.undoes,
        )
        is_done, remark = change_content(target, before, after, mode=mode)
    finally:
        if not is_done:
            remove_folders(folders)
    if not is_done:
        return None
    if after is None:
        _remove_made_folders(target, journal)
    return WrittenChange(path=change.path, before=before, after=after, remark=remark), entry


def _mode_of(change: FileChange, target: Path) -> int:
    """Return the permissions that a file has, or will have."""
    with contextlib.suppress(OSError):
        return target.stat().st_mode & 0o7777
    if change.undoes is not None:
        return change.mode
    # The user's mask takes away rights; it can be read only by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return change.mode & ~mask


def _changes_now(target: Path, before: bytes | None) -> bool:
    """Return whether a file changed since it was read, or does so in the next moment."""
    for pause in (0.0, 0.05):
        time.sleep(pause)
        if read_file(target) != before:
            return True
        if before is None or time.time() - target.stat().st_mtime > 1:
            return False
    return False


def _remove_made_folders(target: Path, journal: Journal) -> None:
    """Remove the folders that accord made for a file, if nothing else is in them."""
    made = {
        Path(folder)
        for each in journal.entries()
        if each.target == str(target)
        for folder in each.folders
    }
    remove_folders(list(made))


def _take_back(made: Sequence[tuple[WrittenChange, JournalEntry | None]]) -> list[str]:
    """Take changes back, the last one first; return the files that changed since."""
    left = []
    for written, entry in reversed(made):
        if entry is None:
            continue
        target = Path(entry.target)
        is_done = False
        with contextlib.suppress(HostsError):
            if written.after is None:
                make_folders(target.parent)  # they went with the file
            is_done, _ = change_content(target, written.after, written.before, mode=entry.mode)
        if is_done:
            remove_folders([Path(folder) for folder in entry.folders])
        else:
            left.append(entry.file)
    return left


# -- changes taken back: exactly if the file stayed as it was left, else only our part of it


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
    happened = journal.entries()
    if not happened:
        raise HostsError(f"there is nothing to undo: the journal {journal.path} has no changes")
    chosen = _newest_in_force(happened) if number is None else _entry_with(number, happened)
    return [
        FileChange(
            path=Path(each.file),
            host=each.host,
            name=each.name,
            action="undo",
            compute=partial(_reverse, journal, each, verify),
            mode=each.mode,
            undoes=each.id,
        )
        for each in happened
        if each.group == chosen.group
    ]


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


def _reverse(
    journal: Journal, entry: JournalEntry, verify: Verification | None, current: bytes | None
) -> bytes | None:
    """Return a content without one change."""
    now = digest_of(current)
    if now == entry.before:
        return current
    before = None if entry.before is None else journal.backup(entry.before)
    if now == entry.after:
        return before
    found = None
    if current is not None and before is not None and entry.after is not None:
        found = _reverse_part(before, journal.backup(entry.after), current)
    if current is None or found is None:
        raise HostsError(_explain(journal, entry))
    if verify is not None:
        try:
            verify(entry, current, found)
        except HostsError as error:
            raise HostsError(f"{_explain(journal, entry)} ({error})") from error
    return found


def _reverse_part(before: bytes, after: bytes, current: bytes) -> bytes | None:
    """Return a content without the span in which two others differ; None if it is not found."""
    start = _count_same(before, after)
    rest = _count_same(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - rest], after[start : len(after) - rest]
    # By as little around it as it takes to find it: the rest may have changed.
    least = max(0, (16 - len(new) + 1) // 2)
    for around in (least, least + 8, least + 32, least + 128, least + 512):
        left, right = after[max(0, start - around) : start], after[len(after) - rest :][:around]
        if (count := current.count(left + new + right)) < 2:
            break
    if count != 1:
        return None
    return current.replace(left + new + right, left + old + right)


def _count_same(one: bytes, other: bytes) -> int:
    """Return how many bytes two contents have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


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

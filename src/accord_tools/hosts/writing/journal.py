"""What accord changed in files of hosts, with the contents before and after, to take it back.

The journal has a line for each change, and one for its end; the contents are files of their own,
named by their hash. A change whose end is missing was interrupted.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from accord.version import __version__
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.destination import (
    find_target,
    leftovers,
    read_file,
    replace_file,
)
from accord_tools.hosts.writing.lock import hold_lock, make_private_folder

ChangeAction: TypeAlias = Literal["add", "change", "remove", "repair", "sync", "undo"]
# `failed` changes did not happen, `reverted` ones were taken back because a later one failed.
ChangeState: TypeAlias = Literal["pending", "done", "failed", "reverted"]

_STATES: Final = get_args(ChangeState)
_KEPT_CHANGES: Final = 200
_KEPT_BYTES: Final = 64 * 1024 * 1024
# The journal is made shorter when it has so many lines more than needed.
_SLACK: Final = 40


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a file.

    Attributes:
        id: its number.
        group: the number of the first of the changes that were made together.
        time: when, in UTC.
        version: of accord.
        host: the id of the host whose file it is.
        name: of the entry in the file.
        action: the command that made it.
        file: the path that was given.
        target: the file, with links followed.
        before: the hash of the content before, None if there was no file.
        after: the hash of the content after, None if the file was removed.
        folders: those that were made for the file.
        mode: the permissions of the file.
        undoes: the change that this one took back.
        state: whether the file was changed.
    """

    id: int = 0
    group: int
    time: str = ""
    version: str = ""
    host: str
    name: str
    action: ChangeAction
    file: str
    target: str
    before: str | None = None
    after: str | None = None
    folders: tuple[str, ...] = ()
    mode: int = 0o600
    undoes: int | None = None
    state: ChangeState = "pending"


class Journal:
    """The journal of this user.

    Args:
        folder: where it is kept; None is the folder of this user.
        kept_changes: how many of the newest changes are kept.
        kept_bytes: how many bytes their contents may take.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        kept_changes: int = _KEPT_CHANGES,
        kept_bytes: int = _KEPT_BYTES,
    ) -> None:
        if folder is None:
            from accord.private_files import user_folder

            folder = user_folder() / "hosts"
        self.folder = folder
        self.path = folder / "journal.jsonl"
        self.locks = folder / "locks"
        self._backups = folder / "backups"
        self._kept_changes = kept_changes
        self._kept_bytes = kept_bytes

    def entries(self) -> list[JournalEntry]:
        """Return the changes that were made, or begun and not ended, newest first."""
        found = sorted(self._read().values(), key=lambda entry: entry.id, reverse=True)
        return [each for each in found if each.state in ("done", "pending")]

    def entries_of(self, path: Path, name: str) -> list[JournalEntry]:
        """Return the changes of an entry of a file that still count, newest first.

        Changes that were taken back are left out, and so is what was before the entry was added.
        """
        target = str(find_target(path))
        undone: set[int] = set()
        counting = []
        for each in self.entries():
            if each.state != "done" or each.id in undone:
                continue
            if each.action == "undo":
                if each.undoes is not None:
                    undone.add(each.undoes)
                continue
            if (each.target, each.name) != (target, name):
                continue
            if each.action == "remove":
                break
            counting.append(each)
            if each.action == "add":
                break
        return counting

    def original(self, path: Path, name: str) -> JournalEntry | None:
        """Return the change that added an entry to a file; None if accord did not add it."""
        found = self.entries_of(path, name)
        return found[-1] if found and found[-1].action in ("add", "sync") else None

    def backup_path(self, digest: str) -> Path:
        """Return the file with a content that was before or after a change."""
        return self._backups / digest

    def backup(self, digest: str) -> bytes:
        """Return a content that was before or after a change.

        Raises:
            HostsError: it is no longer kept, or damaged.
        """
        path = self.backup_path(digest)
        data = read_file(path)
        if data is None:
            raise HostsError(f"the backup {path} is no longer kept")
        if digest_of(data) != digest:
            raise HostsError(f"the backup {path} is damaged: its content does not fit its name")
        return data

    def begin(self, entry: JournalEntry, before: bytes | None, after: bytes | None) -> JournalEntry:
        """Write down a change that is about to be made, and keep both contents.

        Args:
            entry: the change; numbers and hashes are filled in. A `group` of 0 is a new one.
            before: the content before, None if there is no file.
            after: the content after, None if the file will be removed.

        Raises:
            HostsError: the journal cannot be written.
        """
        try:
            make_private_folder(self.folder)
            make_private_folder(self._backups)
            with self._lock():
                lines = list(self._lines())
                known = _fold(lines)
                number = max((each["id"] for each in lines), default=0) + 1
                entry = msgspec.structs.replace(
                    entry,
                    id=number,
                    group=entry.group or number,
                    time=datetime.now(UTC).isoformat(timespec="seconds"),
                    version=__version__,
                    before=self._keep(before),
                    after=self._keep(after),
                )
                self._append(msgspec.json.encode(entry))
                self._drop_old({**known, number: entry}, entry.group)
        except OSError as error:
            raise HostsError(
                f"the journal {self.path} cannot be written: {error.strerror}; the file "
                f"{entry.file} is left as it is, because the change could not be taken back"
            ) from None
        return entry

    def end(self, entry: JournalEntry, state: ChangeState) -> JournalEntry:
        """Write down how a change ended.

        If that fails, the change seems to be interrupted, and the file says how it ended.
        """
        with contextlib.suppress(OSError, HostsError), self._lock():
            self._append(msgspec.json.encode({"id": entry.id, "state": state}))
        return msgspec.structs.replace(entry, state=state)

    def settle(self, target: Path) -> None:
        """End the changes of a file that were interrupted, and remove what they left beside it.

        The caller holds the lock of the file.
        """
        pending = [
            each
            for each in self._read().values()
            if each.state == "pending" and each.target == str(target)
        ]
        if not pending:
            return
        for path in leftovers(target):
            path.unlink(missing_ok=True)
        current = digest_of(read_file(target))
        for each in pending:
            self.end(each, "done" if each.after == current else "failed")

    def _lock(self) -> Any:
        return hold_lock(self.locks / "journal.lock", str(self.path))

    def _keep(self, data: bytes | None) -> str | None:
        if data is None:
            return None
        digest = sha256(data).hexdigest()
        path = self.backup_path(digest)
        if not path.exists():
            replace_file(path, data, mode=0o600)
        return digest

    def _append(self, line: bytes) -> None:
        handle = os.open(
            self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600
        )
        with os.fdopen(handle, "rb+", buffering=0) as file:
            # A line that was cut off by a crash must not swallow this one.
            size = file.seek(0, os.SEEK_END)
            is_torn = size > 0 and file.seek(size - 1) >= 0 and file.read(1) != b"\n"
            file.write((b"\n" if is_torn else b"") + line + b"\n")
            os.fsync(file.fileno())

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise HostsError(f"the journal {self.path} cannot be read: {error.strerror}") from None
        for line in lines:
            # Lines that were cut off by a crash are left out.
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                read = msgspec.json.decode(line, type=dict[str, Any])
                if isinstance(read.get("id"), int):
                    yield read

    def _read(self) -> dict[int, JournalEntry]:
        return _fold(self._lines())

    def _drop_old(self, known: dict[int, JournalEntry], group: int) -> None:
        """Forget the oldest changes if there are too many of them, or too large ones."""
        sizes = {each.name: each.stat().st_size for each in os.scandir(self._backups)}
        if len(known) <= self._kept_changes + _SLACK and sum(sizes.values()) <= self._kept_bytes:
            return
        kept: dict[int, JournalEntry] = {}
        digests: set[str] = set()
        for members in _by_group(known.values()):
            used = digests.union(*(_digests(each) for each in members))
            size = sum(sizes.get(each, 0) for each in used)
            is_too_much = len(kept) + len(members) > self._kept_changes or size > self._kept_bytes
            if is_too_much and members[0].group != group:
                break
            kept.update((each.id, each) for each in members)
            digests = used
        lines = [msgspec.json.encode(kept[number]) + b"\n" for number in sorted(kept)]
        replace_file(self.path, b"".join(lines))
        for name in sizes.keys() - digests:
            (self._backups / name).unlink(missing_ok=True)


def _fold(lines: Iterable[dict[str, Any]]) -> dict[int, JournalEntry]:
    """Return the changes by their number, each with its last state."""
    found: dict[int, JournalEntry] = {}
    for line in lines:
        number = line["id"]
        if "file" in line:
            # Those that a later version wrote may have other members.
            with contextlib.suppress(msgspec.ValidationError):
                found[number] = msgspec.convert(line, JournalEntry)
        elif number in found and line.get("state") in _STATES:
            found[number] = msgspec.structs.replace(found[number], state=line["state"])
    return found


def _by_group(entries: Iterable[JournalEntry]) -> list[list[JournalEntry]]:
    """Return the changes that happened, those made together in one list, newest first."""
    groups: dict[int, list[JournalEntry]] = {}
    for each in entries:
        if each.state in ("done", "pending"):
            groups.setdefault(each.group, []).append(each)
    return [groups[number] for number in sorted(groups, reverse=True)]


def _digests(entry: JournalEntry) -> set[str]:
    return {each for each in (entry.before, entry.after) if each is not None}


def digest_of(data: bytes | None) -> str | None:
    """Return the hash that names a content; None for a file that does not exist."""
    return None if data is None else sha256(data).hexdigest()

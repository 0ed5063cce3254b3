"""What accord changed in files of hosts, with the contents before and after, to take it back.

The journal has a line for each change that was made; the contents are files of their own, named by
their hash.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from accord.version import __version__
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.destination import read_file, replace_file
from accord_tools.hosts.writing.lock import make_private_folder

ChangeAction: TypeAlias = Literal["add", "change", "remove", "repair", "sync", "undo"]

_KEPT_CHANGES: Final = 200
_KEPT_BYTES: Final = 64 * 1024 * 1024


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
    """

    id: int = 0
    group: int = 0
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
        self.lock = folder / "changes.lock"
        self._backups = folder / "backups"
        self._kept_changes = kept_changes
        self._kept_bytes = kept_bytes

    def entries(self) -> list[JournalEntry]:
        """Return the changes that were made, newest first.

        Raises:
            HostsError: the journal cannot be read.
        """
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise HostsError(f"the journal {self.path} cannot be read: {error.strerror}") from None
        found: dict[int, JournalEntry] = {}
        for line in lines:
            # Damaged lines are left out; those of a later version may have other members.
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                read = msgspec.json.decode(line, type=dict[str, Any])
                if "file" in read:
                    entry = msgspec.convert(read, JournalEntry)
                    found[entry.id] = entry
                elif read.get("state") in ("failed", "reverted"):  # written by earlier versions
                    found.pop(msgspec.convert(read.get("id"), int), None)
        return [found[number] for number in sorted(found, reverse=True)]

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

    def keep(self, data: bytes | None) -> str | None:
        """Keep a content before a file is changed; return its hash.

        Raises:
            HostsError: it cannot be written.
        """
        if data is None:
            return None
        digest = sha256(data).hexdigest()
        try:
            make_private_folder(self.folder)
            make_private_folder(self._backups)
            if not self.backup_path(digest).exists():
                replace_file(self.backup_path(digest), data)
        except OSError as error:
            raise self._refuse(error) from None
        return digest

    def record(self, made: Sequence[JournalEntry]) -> list[JournalEntry]:
        """Write down changes that were made together; returns them with their numbers.

        The caller holds the lock.

        Raises:
            HostsError: the journal cannot be written.
        """
        known = self.entries()
        number = known[0].id + 1 if known else 1
        entries = [
            msgspec.structs.replace(
                each,
                id=number + place,
                group=number,
                time=datetime.now(UTC).isoformat(timespec="seconds"),
                version=__version__,
            )
            for place, each in enumerate(made)
        ]
        try:
            self._write([*reversed(entries), *known])
        except OSError as error:
            raise self._refuse(error) from None
        return entries

    def _refuse(self, error: OSError) -> HostsError:
        return HostsError(
            f"the journal {self.path} cannot be written: {error.strerror}; no file is changed, "
            "because the change could not be taken back"
        )

    def _write(self, entries: Sequence[JournalEntry]) -> None:
        """Write the newest changes, and forget older ones if they are too many, or too large."""
        sizes = {each.name: each.stat().st_size for each in os.scandir(self._backups)}
        kept: list[JournalEntry] = []
        digests: set[str] = set()
        for members in _by_group(entries):
            used = digests.union(*(_digests(each) for each in members))
            size = sum(sizes.get(each, 0) for each in used)
            is_too_much = len(kept) + len(members) > self._kept_changes or size > self._kept_bytes
            if is_too_much and kept:
                break
            kept += members
            digests = used
        lines = [msgspec.json.encode(each) + b"\n" for each in reversed(kept)]
        replace_file(self.path, b"".join(lines))
        for name in sizes.keys() - digests:
            (self._backups / name).unlink(missing_ok=True)


def _by_group(entries: Iterable[JournalEntry]) -> list[list[JournalEntry]]:
    """Return changes that are given newest first, those made together in one list."""
    groups: dict[int, list[JournalEntry]] = {}
    for each in entries:
        groups.setdefault(each.group, []).append(each)
    return list(groups.values())


def _digests(entry: JournalEntry) -> set[str]:
    return {each for each in (entry.before, entry.after) if each is not None}


def digest_of(data: bytes | None) -> str | None:
    """Return the hash that names a content; None for a file that does not exist."""
    return None if data is None else sha256(data).hexdigest()

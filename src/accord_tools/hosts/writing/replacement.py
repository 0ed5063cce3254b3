"""A file changed as a whole, only if it still has the content that the change was made from.

Other programs write the same files at any time, and know nothing of our locks: the content is
compared right before the new file takes the place of the old one.
"""

import contextlib
import errno
import os
import shutil
import sys
from pathlib import Path
from typing import Final, NamedTuple

from accord.private_files import write_beside
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.destination import may_write, read_file

# The name cannot be replaced: a file that is mounted on its own.
_MOUNTED: Final = frozenset({errno.EBUSY, errno.EXDEV})
# Temporary files cannot be made in the folder.
_CLOSED_FOLDER: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class ReplacementOutcome(NamedTuple):
    """Whether a file was changed; not, if another program changed it first.

    `remark` is a sentence if it was written in another way than usual.
    """

    is_done: bool
    remark: str = ""


_CONFLICT: Final = ReplacementOutcome(is_done=False)
_DONE: Final = ReplacementOutcome(is_done=True)


def change_content(
    target: Path, before: bytes | None, after: bytes | None, *, mode: int = 0o600
) -> ReplacementOutcome:
    """Change a file from one content to another; do nothing if it has a third content.

    Args:
        target: the file; not a link.
        before: what it contains; None if it does not exist.
        after: what it shall contain; None to remove it.
        mode: the permissions of a new file. One that exists keeps its own, and its owner.

    Raises:
        HostsError: it cannot be written; it is as it was.
    """
    try:
        if after is not None:
            return _write(target, before, after, mode)
        if read_file(target) != before:
            return _CONFLICT
        os.unlink(target)
        _flush_folder(target.parent)
    except FileNotFoundError:
        return _CONFLICT
    except OSError as error:
        raise HostsError(
            f"{target} could not be written and is as it was: {error.strerror}"
        ) from None
    return _DONE


def _write(target: Path, before: bytes | None, after: bytes, mode: int) -> ReplacementOutcome:
    if before is not None and os.stat(target).st_nlink > 1:
        return _overwrite(target, before, after, "it has several names (hard links)")
    try:
        with write_beside(target, after) as name:
            if before is None:
                os.chmod(name, mode)
            elif not _copy_owner_and_mode(target, name):
                return _overwrite(target, before, after, "it belongs to another user")
            if read_file(target) != before:
                return _CONFLICT
            os.replace(name, target)
    except OSError as error:
        if before is not None and error.errno in _MOUNTED:
            return _overwrite(target, before, after, "it is mounted on its own")
        is_closed = error.errno in _CLOSED_FOLDER and not may_write(target.parent)
        if before is not None and is_closed:
            return _overwrite(target, before, after, "its folder is read-only")
        if sys.platform == "win32" and isinstance(error, PermissionError):
            return _CONFLICT  # it is open in another program, often for a moment
        raise
    _flush_folder(target.parent)
    return _DONE


def _overwrite(target: Path, before: bytes, after: bytes, reason: str) -> ReplacementOutcome:
    """Write into a file whose name cannot be replaced without harm."""
    if read_file(target) != before:
        return _CONFLICT
    with open(target, "rb+", buffering=0) as file:
        try:
            _write_all(file.fileno(), after)
        except BaseException:
            _write_all(file.fileno(), before)
            raise
    return ReplacementOutcome(
        is_done=True, remark=f"{target} was written in place, because {reason}"
    )


def _write_all(handle: int, data: bytes) -> None:
    os.lseek(handle, 0, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
    os.ftruncate(handle, len(data))
    os.fsync(handle)


def _copy_owner_and_mode(target: Path, name: str) -> bool:
    """Return whether a file now has the owner, the mode and the attributes of another."""
    wanted, given = os.stat(target), os.stat(name)
    if sys.platform != "win32" and (wanted.st_uid, wanted.st_gid) != (given.st_uid, given.st_gid):
        try:
            os.chown(name, wanted.st_uid, wanted.st_gid)
        except PermissionError:
            return False
    shutil.copystat(target, name)
    os.utime(name)  # it was written now
    return True


def _flush_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, where that is possible."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

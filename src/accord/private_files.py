"""Files of this user: their folder, those with secrets, files written whole, and locks.

Imported by what has to start fast.
"""

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from accord.errors import StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path


# The errors of a lock that is taken; any other error means that locking is not supported.
_TAKEN: Final = frozenset({errno.EAGAIN, errno.EACCES, errno.EDEADLK, errno.EWOULDBLOCK})
# Windows forbids to read a locked byte; what is written in front of it stays readable.
_LOCKED_BYTE: Final = 1 << 20


def find_exposure(path: str, found: os.stat_result) -> str | None:
    """Return why a file may be known to other users, and the remedy; None if it is private.

    Args:
        path: named in the text.
        found: what the system says of it.
    """
    if sys.platform == "win32":
        return None
    if found.st_mode & 0o077:
        return (
            f"other users can read {path} (mode {stat.S_IMODE(found.st_mode):04o}), so it is not "
            f"used; take that right away: chmod 600 {path}"
        )
    user = os.geteuid()
    if user != 0 and found.st_uid not in (user, 0):
        return f"{path} belongs to another user (id {found.st_uid}), so it is not used"
    return None


def make_file(path: str) -> None:
    """Make the file if it does not exist: values may be private, and sqlite3 lets all read it.

    A file that exists is not opened here. To close it would end the locks of other connections of
    this process.

    Raises:
        StoreUnavailable: it cannot be made, or is not private.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        _check_file(path)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be made: {error.strerror}") from error


def _check_file(path: str) -> None:
    """Refuse a file that other users may know, or have put in place of ours."""
    try:
        found = os.lstat(path)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be used: {error.strerror}") from error
    if stat.S_ISLNK(found.st_mode):
        raise StoreUnavailable(
            f"{path} is a link, so it is not used: name the file that it leads to"
        )
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnavailable(f"{path} cannot be used: it is not a file")
    exposure = find_exposure(path, found)
    if exposure is not None:
        raise StoreUnavailable(exposure)


def user_folder(environ: Mapping[str, str] | None = None) -> "Path":
    """Return the folder in which accord keeps files of this user; it may not exist yet.

    Args:
        environ: the variables that may name it; those of this process by default.
    """
    from pathlib import Path

    environ = os.environ if environ is None else environ
    if sys.platform == "win32":
        base = environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Application Support")
    else:
        base = environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "accord"


@contextlib.contextmanager
def write_beside(target: "Path", data: bytes) -> Iterator[str]:
    """Yield the name of a new file beside another, which this user alone may read.

    It is on the disk, to be renamed to the other; it is removed at the end, unless it was.

    Raises:
        OSError: it cannot be written.
    """
    import tempfile

    handle, name = tempfile.mkstemp(prefix=beside_prefix(target), dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield name
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def beside_prefix(target: "Path") -> str:
    """Return what the names of files begin with that `write_beside` makes."""
    # Names of files have a limit, too.
    return f".{target.name[:40]}.accord-"


def try_to_lock(handle: int) -> bool:
    """Return whether an open file is locked for its opener now; False if another has it.

    Raises:
        OSError: locking is not supported there.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        return False
    return True


def unlock(handle: int) -> None:
    """Give back the lock of an open file."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_UN)

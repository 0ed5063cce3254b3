"""A file changed in one step, only if it still has the content that the change was made from.

Other programs write the same files at any time, and know nothing of our locks. Therefore the new
file takes the place of the old one by an exchange: what comes out is looked at, and if it is not
what was expected, it goes back at once. A program that has the old file open still writes to it;
so it is looked at until not one program has it open for writing.
"""

import contextlib
import errno
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.destination import may_write, open_file, read_all, read_file

# -- calls of the system that Python lacks: exchange two files, ask for other writers


_AT_FDCWD: Final = -100
# The flags of renameat2 (Linux) and renamex_np (macOS).
_NO_REPLACE: Final = 1 if sys.platform == "linux" else 4
_EXCHANGE: Final = 2
# The file system, the kernel or a filter of system calls does not offer it.
_NOT_OFFERED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM})


class NotOffered(Exception):
    """The system or the file system has no such call."""


def exchange_names(one: str, other: str) -> None:
    """Exchange the files of two names, as one step.

    Raises:
        NotOffered: the system or the file system cannot do that.
        OSError: one of them does not exist, for example.
    """
    _rename(one, other, _EXCHANGE)


def rename_without_replacing(old: str, new: str) -> None:
    """Rename a file as one step, unless the new name exists.

    Raises:
        NotOffered: the system or the file system cannot do that.
        FileExistsError: the new name exists.
    """
    _rename(old, new, _NO_REPLACE)


def _rename(old: str, new: str, flag: int) -> None:
    call = _find_call()
    if call is None:
        raise NotOffered
    import ctypes

    names = os.fsencode(old), os.fsencode(new)
    if sys.platform == "linux":
        failed = call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], flag)
    else:
        failed = call(*names, flag)
    if not failed:
        return
    number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        raise NotOffered
    raise OSError(number, os.strerror(number), old, None, new)


@cache
def _find_call() -> Any:
    name = {"linux": "renameat2", "darwin": "renamex_np"}.get(sys.platform)
    if name is None:
        return None
    import ctypes

    try:
        call = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError):
        return None
    text, number, flags = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint
    call.argtypes = (
        (number, text, number, text, flags) if sys.platform == "linux" else (text, text, flags)
    )
    return call


def has_writer(handle: int) -> bool | None:
    """Return whether any program has a file open for writing; None if the system cannot say.

    Args:
        handle: a descriptor of the file, opened to read it.
    """
    if sys.platform != "linux":
        return None
    import fcntl
    import signal

    # The kernel grants a lease to read only if not one program has the file open for writing.
    try:
        # A program that opens the file in this moment causes a signal: one that is ignored.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def copy_attributes(source: str, target: str) -> None:
    """Copy access lists and extended attributes of a file, as far as that is allowed."""
    if sys.platform == "linux":
        try:
            names = os.listxattr(source)
        except OSError:
            return
        for name in names:
            try:
                os.setxattr(target, name, os.getxattr(source, name))
            except OSError:
                continue
    elif sys.platform == "darwin":
        import ctypes

        lists_and_attributes = 1 | 4
        try:
            copy = ctypes.CDLL(None).copyfile
        except (AttributeError, OSError):
            return
        copy.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint32)
        copy(os.fsencode(source), os.fsencode(target), None, lists_and_attributes)


def flush_folder(folder: str) -> None:
    """Write the names in a folder to the disk, where that is possible."""
    if sys.platform != "win32":
        flush_file(folder)


def flush_file(name: str) -> None:
    """Write what a file contains to the disk, where that is possible."""
    try:
        handle = os.open(name, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)


# -- the exchange


# How often a file is looked at that a program is writing: about three seconds in all.
_LOOKS: Final = 60
# Where the system cannot say whether a program writes: a file is left to rest for these seconds.
_REST: Final = 0.1
# How often a file that other programs put in place is exchanged back.
_EXCHANGES: Final = 100
# The name cannot be replaced: a file that is mounted on its own.
_MOUNTED: Final = frozenset({errno.EBUSY, errno.EXDEV})
# Temporary files cannot be made in the folder.
_CLOSED_FOLDER: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class ExchangeOutcome(NamedTuple):
    """Whether a file was changed; not, if another program changed it first.

    `remark` is a sentence if it was written in another way than usual.
    """

    is_done: bool
    remark: str = ""


_CONFLICT: Final = ExchangeOutcome(is_done=False)
_DONE: Final = ExchangeOutcome(is_done=True)


def exchange_file(
    target: Path,
    before: bytes | None,
    after: bytes | None,
    *,
    mode: int = 0o600,
    is_urgent: bool = False,
) -> ExchangeOutcome:
    """Change a file from one content to another; do nothing if it has a third content.

    Args:
        target: the file; not a link.
        before: what it contains; None if it does not exist.
        after: what it shall contain; None to remove it.
        mode: the permissions of a new file. One that exists keeps its own, and its owner.
        is_urgent: whether to write to the disk after the exchange, not before it. It takes less
            time in which other programs could write; a loss of power could harm the file.

    Raises:
        HostsError: it cannot be written; it is as it was.
    """
    try:
        if before is None:
            return _CONFLICT if after is None else _create(target, after, mode)
        if after is None:
            return _remove(target, before)
        if os.stat(target).st_nlink > 1:
            return _write_in_place(target, before, after, "it has several names (hard links)")
        return _replace(target, before, after, is_urgent=is_urgent)
    except FileNotFoundError:
        return _CONFLICT
    except OSError as error:
        if sys.platform == "win32" and isinstance(error, PermissionError):
            raise HostsError(
                f"{target} is open in another program, which lets no other write it; close the "
                "program, and try again"
            ) from None
        raise HostsError(
            f"{target} could not be written and is as it was: {error.strerror}"
        ) from None


def read_quiet_file(target: Path) -> bytes | None:
    """Return what a file contains once not one program is writing it; None if it does not exist.

    Raises:
        HostsError: it cannot be read, or a program has had it open for writing for seconds.
    """
    for look in range(_LOOKS):
        handle = open_file(target)
        if handle is None:
            return None
        try:
            found = _read_quiet(handle, target, looks=1)
        finally:
            os.close(handle)
        if found is not None:
            return found
        _pause(look)
    raise HostsError(
        f"{target} is being changed by another program, which keeps it open for writing; close "
        "the program, and try again"
    )


def leftovers(target: Path) -> Iterator[Path]:
    """Yield temporary files that were left beside a file when accord was ended by force."""
    prefix = _prefix(target)
    with contextlib.suppress(OSError), os.scandir(target.parent) as found:
        yield from [Path(each.path) for each in found if each.name.startswith(prefix)]


def _prefix(target: Path) -> str:
    # Names of files have a limit, too.
    return f".{target.name[:40]}.accord-"


def _create(target: Path, after: bytes, mode: int) -> ExchangeOutcome:
    temporary = _write_temporary(target, after)
    try:
        os.chmod(temporary, mode)
        _rename_to_new_name(temporary, target)
    except FileExistsError:
        return _CONFLICT
    finally:
        _unlink(temporary)
    flush_folder(str(target.parent))
    return _DONE


def _rename_to_new_name(temporary: str, target: Path) -> None:
    """Give a file its name, unless the name exists.

    Raises:
        FileExistsError: the name exists.
    """
    if sys.platform == "win32":
        os.rename(temporary, target)
        return
    try:
        rename_without_replacing(temporary, str(target))
    except NotOffered:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:
            # Neither exists on this file system: at least no file is overwritten.
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(temporary, "rb") as source, os.fdopen(handle, "wb") as file:
                file.write(source.read())
            os.chmod(target, os.stat(temporary).st_mode & 0o7777)
        _unlink(temporary)


def _remove(target: Path, before: bytes) -> ExchangeOutcome:
    if read_file(target) != before:
        return _CONFLICT
    temporary = _temporary_name(target)
    _retry_if_locked(lambda: os.rename(target, temporary))
    if _read_exchanged(temporary, target) == (before, True):
        os.unlink(temporary)
        flush_folder(str(target.parent))
        return _DONE
    with contextlib.suppress(FileExistsError):
        _rename_to_new_name(temporary, target)
    # The other program has written a newer file by now, if the name exists.
    _unlink(temporary)
    return _CONFLICT


def _replace(target: Path, before: bytes, after: bytes, *, is_urgent: bool) -> ExchangeOutcome:
    try:
        temporary = _write_temporary(target, after, is_flushed=not is_urgent)
    except OSError as error:
        if error.errno in _CLOSED_FOLDER and not may_write(target.parent):
            return _write_in_place(target, before, after, "its folder is read-only")
        raise
    try:
        if not _copy_owner_and_mode(target, temporary):
            _unlink(temporary)
            return _write_in_place(target, before, after, "it belongs to another user")
        if read_file(target) != before:
            _unlink(temporary)
            return _CONFLICT
        try:
            exchange_names(str(target), temporary)
        except NotOffered:
            return _replace_compared(target, temporary, before, after)
    except OSError as error:
        _unlink(temporary)
        if error.errno in _MOUNTED:
            return _write_in_place(target, before, after, "it is mounted on its own")
        raise
    except BaseException:
        # It may contain the old file by now: it is left for the next change to look at.
        if read_file(Path(temporary)) == after:
            _unlink(temporary)
        raise
    return _look_at_exchanged(target, temporary, before, after)


def _look_at_exchanged(
    target: Path, temporary: str, before: bytes, after: bytes
) -> ExchangeOutcome:
    """Look at the file that came out of an exchange, and put it back if it is not the old one."""
    expected, given = before, after
    for count in range(_EXCHANGES):
        found, is_quiet = _read_exchanged(temporary, target)
        if is_quiet and found == expected:
            flush_file(str(target))
            flush_folder(str(target.parent))
            os.unlink(temporary)
            return _DONE if count == 0 else _CONFLICT
        # Another program wrote it after our look. If it writes while its file is put back, that
        # comes out of this exchange, is newer, and goes back in turn.
        try:
            exchange_names(str(target), temporary)
        except FileNotFoundError:
            # The other program has removed the file meanwhile.
            _unlink(temporary)
            return _CONFLICT
        expected, given = given, found
    raise HostsError(
        f"{target} is being changed by another program all the time; one of its contents is in "
        f"{temporary}"
    )


def _read_exchanged(temporary: str, target: Path) -> tuple[bytes, bool]:
    """Read a file that came out; False if a program keeps it open for writing."""
    handle = open_file(Path(temporary))
    if handle is None:
        raise HostsError(f"{temporary}, the former {target}, was removed by another program")
    try:
        found = _read_quiet(handle, target, looks=_LOOKS)
        return (read_all(handle, target), False) if found is None else (found, True)
    finally:
        os.close(handle)


def _read_quiet(handle: int, path: Path, *, looks: int) -> bytes | None:
    """Read an open file; None if a program was writing it at every look."""
    for look in range(looks):
        if look:
            _pause(look)
        is_written = has_writer(handle)
        if is_written is None:
            return _read_rested(handle, path)
        if is_written:
            continue
        changed = os.fstat(handle).st_mtime_ns
        found = read_all(handle, path)
        if not has_writer(handle) and os.fstat(handle).st_mtime_ns == changed:
            return found
    return None


def _pause(look: int) -> None:
    # Most programs write a file within a millisecond.
    time.sleep(min(0.001 * 2**look, 0.05))


def _read_rested(handle: int, path: Path) -> bytes:
    # The system cannot say whether a program writes, but a file that was just changed may be
    # changed further.
    found = read_all(handle, path)
    for _ in range(int(1 / _REST)):
        if not 0 <= time.time() - os.fstat(handle).st_mtime < _REST:
            break
        time.sleep(_REST / 2)
        before, found = found, read_all(handle, path)
        if before == found:
            break
    return found


def _replace_compared(target: Path, temporary: str, before: bytes, after: bytes) -> ExchangeOutcome:
    """Replace a file where the system offers no exchange."""
    # Windows replaces only files that are not open.
    handle = None if sys.platform == "win32" else open_file(target)
    try:
        if (read_file(target) if handle is None else read_all(handle, target)) != before:
            return _CONFLICT
        if handle is not None and has_writer(handle):
            return _CONFLICT
        _retry_if_locked(lambda: os.replace(temporary, target))
        flush_folder(str(target.parent))
        if handle is None:
            return _DONE
        # A program that had the old file open wrote to it, without a name.
        found = _read_quiet(handle, target, looks=_LOOKS)
        if found is None or found == before:
            return _DONE
        temporary = _write_temporary(target, found)
        _copy_owner_and_mode(target, temporary)
        if read_file(target) == after:
            os.replace(temporary, target)
        return _CONFLICT
    finally:
        _unlink(temporary)
        if handle is not None:
            os.close(handle)


def _write_in_place(target: Path, before: bytes, after: bytes, reason: str) -> ExchangeOutcome:
    """Overwrite a file whose name cannot be replaced without harm."""
    handle = os.open(target, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        if read_all(handle, target) != before:
            return _CONFLICT
        try:
            _overwrite(handle, after)
        except BaseException:
            _overwrite(handle, before)
            raise
    finally:
        os.close(handle)
    return ExchangeOutcome(is_done=True, remark=f"{target} was written in place, because {reason}")


def _overwrite(handle: int, data: bytes) -> None:
    os.lseek(handle, 0, os.SEEK_SET)
    _write_all(handle, data)
    os.ftruncate(handle, len(data))
    os.fsync(handle)


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _temporary_name(target: Path) -> str:
    name = f"{_prefix(target)}{os.getpid()}-{secrets.token_hex(4)}"
    return str(target.parent / name)


def _write_temporary(target: Path, data: bytes, *, is_flushed: bool = True) -> str:
    """Write a file that only this user may read, beside another one; return its path."""
    name = _temporary_name(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(name, flags, 0o600)
    try:
        try:
            _write_all(handle, data)
            if is_flushed:
                os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        _unlink(name)
        raise
    return name


def _copy_owner_and_mode(target: Path, temporary: str) -> bool:
    """Return whether a file now has the owner, the mode and the access lists of another."""
    wanted, given = os.stat(target), os.stat(temporary)
    if sys.platform != "win32" and (wanted.st_uid, wanted.st_gid) != (given.st_uid, given.st_gid):
        try:
            os.chown(temporary, wanted.st_uid, wanted.st_gid)
        except PermissionError:
            return False
    os.chmod(temporary, wanted.st_mode & 0o7777)
    copy_attributes(str(target), temporary)
    return True


def _retry_if_locked(action: Callable[[], None]) -> None:
    """Run an action again that fails because a program of Windows keeps the file open."""
    for _ in range(0 if sys.platform != "win32" else 20):
        try:
            return action()
        except PermissionError:
            time.sleep(_REST)
    return action()


def _unlink(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)

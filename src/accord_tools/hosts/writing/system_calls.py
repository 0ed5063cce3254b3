"""Calls of the operating system that Python lacks: exchange two files, ask for other writers."""

import errno
import os
import sys
from functools import cache
from typing import Any, Final

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

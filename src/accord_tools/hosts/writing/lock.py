"""A lock between processes of accord, so that they change files one after the other.

Other programs do not know it; `replacement` compares what they leave.
"""

import contextlib
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from accord.private_files import try_to_lock, unlock
from accord_tools.hosts.definition import HostsError

_SECONDS: Final = 30.0


@contextlib.contextmanager
def hold_lock(lock: Path, what: str, *, seconds: float = _SECONDS) -> Iterator[None]:
    """Hold a lock while files are changed.

    Args:
        lock: the file of the lock; its folder is made if it does not exist.
        what: is changed, for messages.
        seconds: how long to wait for other processes of accord.

    Raises:
        HostsError: another process of accord held the lock all the time.
    """
    try:
        make_private_folder(lock.parent)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise HostsError(f"the lock {lock} cannot be made: {error.strerror}") from None
    try:
        _wait_for_lock(handle, what, seconds)
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, str(os.getpid()).encode())
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
            with contextlib.suppress(OSError):
                unlock(handle)
    finally:
        os.close(handle)


def make_private_folder(folder: Path) -> None:
    """Make a folder that only this user may enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sys.platform != "win32" and folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def _wait_for_lock(handle: int, what: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while _is_taken(handle):
        if time.monotonic() > until:
            os.lseek(handle, 0, os.SEEK_SET)
            holder = os.read(handle, 20).decode("ascii", "replace")
            raise HostsError(
                f"another process of accord{f' ({holder})' if holder else ''} has been changing "
                f"{what} for {seconds:g} seconds; wait for it or end it, and try again"
            )
        # At different times, so that processes do not meet again and again.
        time.sleep(random.uniform(0.002, 0.03))  # noqa: S311


def _is_taken(handle: int) -> bool:
    try:
        return not try_to_lock(handle)
    except OSError:
        return False  # a file system without locks; `replacement` still compares

"""Locks between processes of accord, so that they change a file one after the other.

Other programs do not know these locks; `replacement` compares what they leave.
"""

import contextlib
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from accord_tools.hosts.definition import HostsError

_SECONDS: Final = 30.0
# Windows forbids to read a locked byte; the process id in front of it stays readable.
_LOCKED_BYTE: Final = 1 << 20


@contextlib.contextmanager
def lock_files(paths: Iterable[Path], folder: Path, *, seconds: float = _SECONDS) -> Iterator[None]:
    """Hold the locks of files while they are changed.

    Args:
        paths: of the files, with links followed.
        folder: where the locks are kept; it is made if it does not exist.
        seconds: how long to wait for other processes of accord.

    Raises:
        HostsError: another process of accord held a lock all the time.
    """
    # All processes take them in one order, so that two never wait for each other.
    names = {os.path.normcase(path): path for path in paths}
    with contextlib.ExitStack() as held:
        for name in sorted(names):
            lock = folder / f"{sha256(os.fsencode(name)).hexdigest()[:32]}.lock"
            held.enter_context(hold_lock(lock, str(names[name]), seconds=seconds))
        yield


@contextlib.contextmanager
def hold_lock(lock: Path, what: str, *, seconds: float = _SECONDS) -> Iterator[None]:
    """Hold one lock; `what` names in messages what it stands for."""
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
            _unlock(handle)
    finally:
        os.close(handle)


def make_private_folder(folder: Path) -> None:
    """Make a folder that only this user may enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sys.platform != "win32" and folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def _wait_for_lock(handle: int, what: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not _try_to_lock(handle):
        if time.monotonic() > until:
            os.lseek(handle, 0, os.SEEK_SET)
            holder = os.read(handle, 20).decode("ascii", "replace")
            raise HostsError(
                f"another process of accord{f' ({holder})' if holder else ''} has been changing "
                f"{what} for {seconds:g} seconds; wait for it or end it, and try again"
            )
        # At different times, so that processes do not meet again and again.
        time.sleep(random.uniform(0.002, 0.03))  # noqa: S311


def _try_to_lock(handle: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks; `replacement` still compares
    return True


def _unlock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)

"""Files with recorded traffic: for their owner alone, and never written over by a launch."""

import errno
import os
from itertools import count
from os import PathLike
from pathlib import Path
from stat import S_ISREG
from typing import IO, Final

_PRIVATE: Final = 0o600
# Windows translates line ends otherwise.
_BINARY: Final = getattr(os, "O_BINARY", 0)
# More launches than a folder holds; each costs a look at the names before it.
_MOST: Final = 10_000


def open_private(path: str | PathLike[str]) -> IO[bytes]:
    """Open a file for writing; one that is new can be read by its owner alone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY
    return os.fdopen(os.open(path, flags, _PRIVATE), "wb")


def create_next(path: Path) -> tuple[Path, IO[bytes]]:
    """Create the file, or where it exists the first of `name-2`, `name-3` ... that does not.

    Creation is atomic, so two processes that begin at once get a file each. A device or a pipe is
    written to as it is.

    Returns:
        the path of the file, and the file, open for writing and private.

    Raises:
        OSError: it cannot be created.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
    for number in count(1):
        chosen = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            return chosen, os.fdopen(os.open(chosen, flags, _PRIVATE), "wb")
        except FileExistsError:
            if number == 1 and _is_special(path):
                return path, path.open("wb")
        if number == _MOST:
            break
    raise OSError(errno.EEXIST, f"there are {_MOST} recordings already", str(path))


def _is_special(path: Path) -> bool:
    try:
        return not S_ISREG(path.stat().st_mode) and not path.is_dir()
    except OSError:  # a link to nowhere
        return False

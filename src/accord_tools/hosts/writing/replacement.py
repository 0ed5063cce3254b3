"""Files written as a whole or not at all."""

import contextlib
import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes, *, mode: int = 0o600, is_flushed: bool = True) -> None:
    """Write a file as a whole or not at all; one that exists keeps its permissions.

    Args:
        path: of the file; a link stays a link.
        data: what it shall contain.
        mode: the permissions of a new file.
        is_flushed: whether to wait until the data is on the disk.

    Raises:
        OSError: it cannot be written.
    """
    target = path.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if is_flushed:
                os.fsync(file.fileno())
        os.chmod(name, target.stat().st_mode & 0o7777 if target.exists() else mode)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise

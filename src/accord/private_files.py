"""Files with secrets, which only their owner may use. Imported by what has to start fast."""

import os
import stat
import sys


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

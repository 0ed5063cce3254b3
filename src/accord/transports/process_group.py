"""Signals to a child and everything it started, and whether any of it still lives.

Children are named by number here: the methods of a process object look first whether it has
ended, and so take the exit status away from who waits for it in a thread.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["group_is_alive", "signal_group"]


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a child that leads a process group, and to all that stayed in it."""
    if sys.platform == "win32":
        # There are no groups of this kind; the tree is ended by its root.
        command = ["taskkill", "/T", "/F", "/PID", str(leader)]
        subprocess.run(command, capture_output=True, timeout=5, check=False)  # noqa: S603
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def group_is_alive(group: int) -> bool:
    """Tell whether a process of this group still runs."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return not _are_all_zombies(group)


def _are_all_zombies(group: int) -> bool:
    """Look closer where the system allows: in containers dead orphans may stay unburied."""
    found = False
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold anything, so the fields count from its end.
            state, _, of_group = stat.read_bytes().rpartition(b")")[2].split()[:3]
            if int(of_group) == group:
                found = True
                if state not in (b"Z", b"X"):
                    return False
    return found

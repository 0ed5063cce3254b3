"""Which user of this machine is at the other end of a connection on loopback.

The key is in the address, and the address in the arguments of a browser that is launched. On Linux
every user can read the arguments of all processes. So connections of other users are refused, where
the system says whose they are.
"""

import os
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

_TABLES: Final = {4: "/proc/net/tcp", 6: "/proc/net/tcp6"}
_ROOT: Final = 0
# Columns of a table: number, local address, remote address, state, ..., user, ..., inode.
_LOCAL, _REMOTE, _STATE, _USER, _INODE = 1, 2, 3, 7, 9
_ESTABLISHED: Final = "01"
# A socket that its process has closed; the table says that root has it.
_CLOSED_INODE: Final = "0"
GONE: Final = -1
"""In place of a user: the other end has closed already, and nothing says whose it was."""


def allowed_users(environ: Mapping[str, str] | None = None) -> frozenset[int] | None:
    """Return the users that may connect; None where the system does not say whose a connection is.

    The user that called `sudo` is among them, and root, which may do anything.

    Args:
        environ: the variables of this process by default.
    """
    environ = os.environ if environ is None else environ
    if sys.platform != "linux" or not os.access(_TABLES[4], os.R_OK):
        return None
    called = environ.get("SUDO_UID", "")
    return frozenset({_ROOT, os.getuid(), *([int(called)] if called.isdecimal() else [])})


def find_user(theirs: tuple[str, int], ours: tuple[str, int]) -> int | None:
    """Return the user at the other end of a connection.

    None stands for an end on another machine, such as that of a virtual machine's owner. A user may
    send a request and close at once, which hides whose it is: then it is `GONE`.

    Args:
        theirs: address and port of the other end.
        ours: those of this end.
    """
    family = ip_address(theirs[0]).version
    wanted = _format_address(*theirs), _format_address(*ours)
    is_open = False
    try:
        with open(_TABLES[family]) as table:
            next(table)
            for line in table:
                columns = line.split()
                ends = columns[_LOCAL], columns[_REMOTE]
                if ends == wanted:
                    return GONE if columns[_INODE] == _CLOSED_INODE else int(columns[_USER])
                if ends == wanted[::-1]:
                    is_open = columns[_STATE] == _ESTABLISHED
    except (OSError, ValueError, IndexError):
        return None
    return None if is_open else GONE


def _format_address(host: str, port: int) -> str:
    """Return an address as the tables have it: words of 32 bits in the order of the machine."""
    packed = ip_address(host).packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    ordered = [each[::-1] if sys.byteorder == "little" else each for each in words]
    return f"{b''.join(ordered).hex().upper()}:{port:04X}"

"""The file that a path stands for: links are followed, and what cannot be written is refused.

A file is replaced by one that is written beside it: no reader ever sees half of it.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

from accord.private_files import beside_prefix, write_beside
from accord_tools.hosts.definition import HostsError

# A configuration of a host has some kilobytes; the largest that are known have a few megabytes.
_LARGEST: Final = 32 * 1024 * 1024
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def find_target(path: Path) -> Path:
    """Return the file that a path leads to, with all links followed; it may not exist yet.

    Raises:
        HostsError: the links lead in a circle, or the path leads to something else than a file.
    """
    absolute = path.absolute()
    try:
        found = os.stat(absolute)
    except FileNotFoundError:
        # The target of a link that leads to nothing is the file to make.
        return Path(os.path.realpath(absolute))
    except NotADirectoryError:
        raise HostsError(f"{path}: a part of this path is a file, not a folder") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise HostsError(
                f"{path}: its symbolic links lead in a circle; remove the link"
            ) from None
        raise HostsError(f"{path} cannot be looked at: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise HostsError(f"{path} is {kind}, not a file")
    return Path(os.path.realpath(absolute))


def find_link_target(path: Path, folder: Path) -> Path | None:
    """Return the file that a path leads to; None if there is no link below the folder.

    Args:
        path: of a file.
        folder: links on the way to it are as the user made them; ignored if it is not above.
    """
    absolute = Path(os.path.abspath(path))
    base = folder if absolute.is_relative_to(folder) else absolute.parent
    target = find_target(absolute)
    return None if target == Path(os.path.realpath(base), absolute.relative_to(base)) else target


def read_file(path: Path) -> bytes | None:
    """Return what a file contains; None if it does not exist.

    Raises:
        HostsError: it cannot be read, is not a file, or is larger than 32 MB.
    """
    # Not to wait for a writer, should the path be a named pipe by now.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise HostsError(f"{path} is not a file")
            if found.st_size > _LARGEST:
                raise HostsError(f"{path} is larger than {_LARGEST >> 20} MB, and is left alone")
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostsError(f"{path} cannot be read: {error.strerror}") from None


def make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; return the ones that did not exist, outermost first."""
    missing: list[Path] = []
    above = folder
    while not above.exists():
        missing.insert(0, above)
        above = above.parent
    for each in missing:
        try:
            each.mkdir(exist_ok=True)
        except OSError as error:
            remove_folders(missing)
            raise HostsError(f"the folder {each} cannot be made: {error.strerror}") from None
    return missing


def remove_folders(folders: list[Path]) -> None:
    """Remove folders that are empty, innermost first."""
    for each in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        try:
            each.rmdir()
        except OSError:
            continue


def check_writable(target: Path) -> None:
    """Raise an error if the user may not write a file, though its folder would allow it.

    Raises:
        HostsError: the file, or the folder of a file to make, is read-only.
    """
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        if target.parent.is_dir() and not may_write(target.parent):
            raise HostsError(
                f"{target} cannot be made: you may not write in the folder {target.parent}"
            ) from None
        return
    # Root may write it, but its owner took all rights to do so away on purpose.
    if not mode & 0o222 or not may_write(target):
        raise HostsError(
            f"{target} is read-only (mode {stat.S_IMODE(mode):04o}), and is left alone; "
            "allow writing it first, or change the file that it is generated from"
        )


def may_write(path: Path) -> bool:
    """Return whether this process may write a file, or make files in a folder."""
    asked = os.W_OK | (os.X_OK if path.is_dir() else 0)
    return os.access(path, asked, effective_ids=os.access in os.supports_effective_ids)


# -- files written as a whole or not at all


def leftovers(target: Path) -> list[Path]:
    """Return the files of `write_beside` that were left when accord was ended by force."""
    with contextlib.suppress(OSError), os.scandir(target.parent) as found:
        return [Path(each.path) for each in found if each.name.startswith(beside_prefix(target))]
    return []


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file as a whole or not at all; one that exists keeps its permissions.

    Args:
        path: of the file; a link stays a link.
        data: what it shall contain.
        mode: the permissions of a new file.

    Raises:
        OSError: it cannot be written.
    """
    target = path.resolve()
    with write_beside(target, data) as name:
        os.chmod(name, target.stat().st_mode & 0o7777 if target.exists() else mode)
        os.replace(name, target)

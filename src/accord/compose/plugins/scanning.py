"""Looking for plugins in a folder, and for what has changed in them."""

import os
import time
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypeAlias

Stamp: TypeAlias = tuple[int, int, int] | None
"""Time of change, size and number of a file; None for one that is not there."""

# How long files must stay as they are: editors write in several steps.
_SETTLED: Final = 0.05
# A file that is written all the time is loaded all the same.
_LOOKS_MOST: Final = 40


def read_stamp(path: Path) -> Stamp:
    """Return what changes when a file changes."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def find_plugins(folder: Path, pattern: str) -> list[Path]:
    """Return the files and packages that are plugins, in order of their names.

    Raises:
        OSError: the folder cannot be read.
    """
    found = []
    with os.scandir(folder) as entries:
        for each in entries:
            if each.name.startswith((".", "_")):
                continue
            path = folder / each.name
            try:
                is_folder = each.is_dir()
            except OSError:  # a link that leads in a circle
                is_folder = False
            if is_folder and not (path / "__init__.py").is_file():
                continue
            if fnmatchcase(f"{each.name}.py" if is_folder else each.name, pattern):
                found.append(path)
    return sorted(found)


def read_stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """Return the stamps of files."""
    return {path: read_stamp(path) for path in paths}


def main_file(path: Path) -> Path:
    """Return the file that a plugin begins with."""
    return path / "__init__.py" if path.is_dir() else path


def wait_until_settled(folder: Path, pattern: str, files: Iterable[Path]) -> list[Path]:
    """Return the plugins of a folder once no file in it changes any more."""
    known = frozenset(files)
    before: object = None
    plugins: list[Path] = []
    for _ in range(_LOOKS_MOST):
        plugins = find_plugins(folder, pattern)
        now = read_stamps(known | {main_file(each) for each in plugins})
        if now == before:
            break
        before = now
        time.sleep(_SETTLED)
    return plugins

"""The Python files below some folders: noticed when they change, and checked for syntax errors."""

import os
import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

from accord.errors import ConfigurationError

# Path, time of change, size and number of each Python file.
SourceFiles: TypeAlias = dict[str, tuple[int, int, int]]

INTERVAL: Final = 0.25
"""Seconds between two looks at the files."""
SHARE: Final = 0.1
"""The scan of a large folder takes no more than this part of the time."""
# How long a file must stay as it is: editors write in several steps.
_SETTLED: Final = 0.05
_FILES_MOST: Final = 20_000
_SKIPPED: Final = ("__pycache__", "node_modules", "site-packages")
_ENVIRONMENT: Final = "pyvenv.cfg"
_NAMED: Final = 3
_LONGEST_LINE: Final = 80
_OURS: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
_STANDARD_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep


class TooManyFiles(ConfigurationError):
    """There are more files than can be watched."""


def scan_files(folders: Iterable[str]) -> SourceFiles:
    """Return the Python files below some folders, without environments and hidden folders.

    Raises:
        TooManyFiles: the folders hold more than can be watched.
    """
    found: SourceFiles = {}
    waiting = list(folders)
    count = 0
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            inside = list(entries)
            count += len(inside)
            if count > _FILES_MOST:
                raise TooManyFiles(f"there are more than {_FILES_MOST} files to watch in {folder}")
            if any(each.name == _ENVIRONMENT for each in inside):
                continue
            for each in inside:
                if each.name.startswith(".") or each.name in _SKIPPED:
                    continue
                if each.is_dir(follow_symlinks=False):
                    waiting.append(each.path)
                elif each.name.endswith(".py"):
                    state = each.stat()
                    found[each.path] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found


def wait_until_settled(folders: Iterable[str], files: SourceFiles) -> SourceFiles:
    """Wait until the files stay as they are; return their states then."""
    watched = list(folders)
    while True:
        time.sleep(_SETTLED)
        now = scan_files(watched)
        if now == files:
            return now
        files = now


def changed_files(before: SourceFiles, after: SourceFiles) -> list[str]:
    """Return the files that are new, gone or different."""
    return sorted({path for path, _ in before.items() ^ after.items()})


def name_files(paths: Sequence[str]) -> str:
    """Return the names of some files for a message."""
    names = ", ".join(shorten_path(each) for each in paths[:_NAMED])
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{names}{more}"


def find_syntax_error(paths: Iterable[str]) -> str:
    """Return the first syntax error in some files, with its place and line; empty without one."""
    for path in paths:
        with suppress(OSError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = Path(path).read_bytes()
            try:
                compile(source, path, "exec", dont_inherit=True)
            except SyntaxError as error:
                return describe_syntax_error(error, path)
            except ValueError as error:  # null bytes
                return f"{shorten_path(path)}: {error}"
    return ""


def describe_syntax_error(error: SyntaxError, path: str) -> str:
    """Return a syntax error in one line, with its place and its line."""
    file = shorten_path(error.filename or path)
    line = " ".join((error.text or "").split())[:_LONGEST_LINE]
    return f"{file}:{error.lineno or 1}: {error.msg}" + (f": {line}" if line else "")


def drop_bytecode(paths: Iterable[str]) -> None:
    """Remove cached bytecode: Python takes it for that of a file of equal size and second."""
    from importlib.util import cache_from_source

    for path in paths:
        with suppress(OSError, NotImplementedError):
            os.unlink(cache_from_source(path))


def shorten_path(file: str) -> str:
    """Return a path relative to the current folder if it is below it."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith("..") else relative


def trim_traceback(
    error: BaseException,
) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Return an exception as `exc_info` of a log record, with a traceback that begins in user code.

    What called the user's function says nothing of the mistake. Without user code all is kept.
    """
    found = error.__traceback__
    while found is not None and not _is_user_code(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return type(error), error, error.__traceback__ if found is None else found


def _is_user_code(file: str) -> bool:
    is_installed = f"{os.sep}site-packages{os.sep}" in file
    is_standard = file.startswith(_STANDARD_LIBRARY) and not is_installed
    return not (file.startswith((_OURS, "<")) or is_standard)

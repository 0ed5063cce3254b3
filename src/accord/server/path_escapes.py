"""Values of template variables that would lead out of the path they are put into.

Readers make file names and other paths of variables. `%2F`, `%2E%2E` and `%00` in a URI are decoded
before, so a reader would have to look for what they mean; here they are refused instead.
"""

import re
from typing import Final

__all__ = ["path_escape"]

_SEPARATOR: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]")


def path_escape(value: str, *, spans_segments: bool, may_be_absolute: bool = False) -> str | None:
    """Say how a value leads out of a path; None where it does not.

    Args:
        value: the value of a variable, decoded; of a list, one of its parts.
        spans_segments: whether its expression lets it hold slashes, as `{+path}` does.
        may_be_absolute: whether it stands where a path begins anyway.

    >>> path_escape("../etc", spans_segments=True)
    'has a segment ".."'
    """
    if "\0" in value:
        return "holds a NUL character"
    if ".." in _SEPARATOR.split(value):
        return 'has a segment ".."'
    if not spans_segments:
        return "holds a slash or backslash" if _SEPARATOR.search(value) else None
    if may_be_absolute or not (_SEPARATOR.match(value) or _DRIVE.match(value)):
        return None
    return "is an absolute path"

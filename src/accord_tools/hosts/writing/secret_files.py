r"""Files with variables for the environment of a server, which only their owner may read.

A file has a line KEY="value" for each variable, with \n, \r, \t, \\, \" and \uXXXX in the value.
Read are also KEY=value and KEY='value', which are taken literally, `export` in front, empty lines
and comments. `accord exec` reads them for every start of a server: nothing slow is imported here.
"""

import os
import re
import stat
import sys
from typing import TYPE_CHECKING, NoReturn

from accord.private_files import find_exposure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LARGEST = 1024 * 1024
_LINE = re.compile(r"\s*(?:export\s+)?([^\s=#\"']+)\s*=\s*(.*)", re.DOTALL)
_QUOTED = re.compile(r"(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)')\s*(?:#.*)?", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t"}
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_KEY = re.compile(r"[^\s=#\"'\x00-\x1f\x7f]+")


def secret_file(name: str, folder: "Path | None" = None) -> "Path":
    """Return the file for the variables of a server; it may not exist yet.

    Args:
        name: of the server; two names never share a file.
        folder: where such files are kept; None is the folder of this user.
    """
    if folder is None:
        from accord.private_files import user_folder

        folder = user_folder() / "secrets"
    plain = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")[:60]
    # Windows reads some names as devices, whatever follows the dot.
    if plain != name or re.fullmatch(r"con|prn|aux|nul|com\d|lpt\d", plain):
        from hashlib import sha256

        digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        plain = f"{plain or 'server'}-{digest[:8]}"
    return folder / f"{plain}.env"


def write_env_file(path: "Path | str", variables: "Mapping[str, str]") -> None:
    """Write variables to a file that only this user may read, as a whole or not at all.

    Raises:
        HostsError: a name or a value cannot be a variable, or the file cannot be written.
    """
    data = format_env_file(variables)
    from pathlib import Path

    from accord_tools.hosts.writing.lock import make_private_folder

    path = Path(path)
    try:
        if not path.parent.exists():
            make_private_folder(path.parent)
        if path.exists() and sys.platform != "win32":
            path.chmod(0o600)
        from accord_tools.hosts.writing.destination import replace_file

        replace_file(path, data, mode=0o600)
    except OSError as error:
        _refuse(f"{path} cannot be written: {error.strerror}")


def format_env_file(variables: "Mapping[str, str]") -> bytes:
    """Return the content of a file with variables.

    Raises:
        HostsError: a name or a value cannot be a variable.
    """
    lines = []
    for key, value in variables.items():
        if not _KEY.fullmatch(key):
            _refuse(f"{key!r} is not the name of a variable")
        if "\0" in value:
            _refuse(f"the value of {key} has a NUL character, which no variable may have")
        lines.append(f'{key}="{"".join(map(_escape, value))}"\n')
    text = "# Written by accord; accord exec --env-file reads it.\n" + "".join(lines)
    return text.encode("utf-8", "surrogateescape")


def read_env_file(path: "Path | str") -> dict[str, str]:
    """Return the variables of a file; the last value counts if a name is there twice.

    Raises:
        HostsError: it cannot be read, other users can read it, or a line does not fit.
    """
    return parse_env_file(_read_private(str(path)), str(path))


def parse_env_file(data: bytes, path: str) -> dict[str, str]:
    """Return the variables in the content of a file.

    Args:
        data: what the file contains.
        path: named in messages.

    Raises:
        HostsError: a line does not fit.
    """
    if b"\0" in data:
        _refuse(f"{path} is not a text in UTF-8: it has NUL characters")
    # Values may have bytes that are not UTF-8, as variables may.
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    variables = {}
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            # The line itself may be a secret: it is not shown.
            _refuse(f'{path}, line {number}: expected KEY="value" or a comment that begins with #')
        variables[found[1]] = _read_value(found[2].strip(), f"{path}, line {number}: {found[1]}")
    return variables


def _read_private(path: str) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        _refuse(f"{path} cannot be read: {error.strerror}")
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            _refuse(f"{path} is not a file")
        exposure = find_exposure(path, found)
        if exposure is not None:
            _refuse(exposure)
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        _refuse(f"{path} is larger than 1 MB: it is not a file of variables")
    return data


def _read_value(text: str, place: str) -> str:
    if text[:1] not in ('"', "'"):
        # A comment begins with a blank before it; a # within a value belongs to it.
        return re.split(r"\s+#|^#", text, maxsplit=1)[0]
    found = _QUOTED.fullmatch(text)
    if found is None:
        _refuse(f"{place} has a quoted value that does not end with the quote on the same line")
    if found[1] is None:
        return found[2]
    return _ESCAPE.sub(_unescape, found[1])


def _unescape(found: "re.Match[str]") -> str:
    escape = found[1]
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _CHARACTERS.get(escape, escape)


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    # Some are ends of lines for other readers.
    is_control = ord(character) < 32 or 127 <= ord(character) < 160
    if is_control or character in "\u2028\u2029":
        return f"\\u{ord(character):04x}"
    return character


def _refuse(message: str) -> NoReturn:
    # Imported for errors alone: it takes longer than all the rest.
    from accord_tools.hosts.definition import HostsError

    raise HostsError(message) from None

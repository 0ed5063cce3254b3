"""Files of TOML or YAML that users write: loaded, with the line in every message."""

import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

from accord.errors import AccordError

# More than any file that people write; a program that reads more may exhaust the memory.
_LARGEST: Final = 64 * 1024 * 1024


def read_data_file(path: Path) -> bytes:
    """Return what a file contains; a pipe or device, which may never end, is refused.

    Raises:
        OSError: it cannot be read, is not a regular file, or has more than 64 MB.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        with open(handle, "rb", closefd=False) as file:
            found = file.read(_LARGEST + 1)
    finally:
        os.close(handle)
    if len(found) > _LARGEST:
        raise OSError(errno.EFBIG, "it has more than 64 MB", str(path))
    return found


def parse_toml(path: Path, text: str, fault: type[AccordError]) -> object:
    """Return what a text of TOML contains.

    Args:
        path: named in messages.
        text: what the file contains.
        fault: the error to raise for a text that is not TOML.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise fault(f"{path}: is nested too deeply") from None
    except ValueError as error:
        where = re.search(r"line (\d+)", str(error))
        said = re.sub(r" \(at .*\)$", "", str(error))
        if twice := re.fullmatch(r"Cannot (?:declare|mutate) \((.*)\) twice", said):
            keys = re.findall(r"'((?:[^'\\]|\\.)*)'", twice[1])
            said = f"the table [{'.'.join(keys)}] appears twice: keep one of them"
        place = f":{where[1]}" if where else ""
        raise fault(f"{path}{place}: {said[:1].lower()}{said[1:]}") from None


def parse_yaml(path: Path, text: str, fault: type[AccordError]) -> object:
    """Return what a text of YAML contains, or raise `fault`, as without PyYAML.

    Args:
        path: named in messages.
        text: what the file contains.
        fault: the error to raise for a text that is not YAML.
    """
    try:
        import yaml
    except ImportError:
        raise fault(f"{path}: YAML needs PyYAML: pip install pyyaml; or write TOML") from None
    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise fault(f"{path}: is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark is not None else ""
        raise fault(f"{path}{place}: {getattr(error, 'problem', None) or error}") from None

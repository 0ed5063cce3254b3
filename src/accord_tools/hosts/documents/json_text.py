"""Values written as JSON, readable and without invisible characters."""

import json
import re
from typing import Any, Final

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.values import to_plain

_WIDTH: Final = 100
# Line ends and tabs are the layout: in texts they are escaped already.
_UNUSUAL: Final = re.compile(r"[^\n\t -~]")


def format_json(value: Any, step: str | None = "  ", *, is_dense: bool = False) -> str:
    """Return a value in several lines, or in one.

    Args:
        value: objects, lists, texts, numbers, true, false and null.
        step: the indentation of each level; None for one line.
        is_dense: leaves out the blanks after commas and colons, in one line.

    Raises:
        HostsError: JSON has no such value.
    """
    dense = (",", ":") if is_dense else None
    try:
        plain = to_plain(value)
        if step is None:
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=dense)
        else:
            text = _write(plain, step, "\n")
    except (TypeError, ValueError) as error:
        raise HostsError(f"JSON cannot express the value: {error}") from None
    except RecursionError:
        raise HostsError("the value is nested too deeply") from None
    return _UNUSUAL.sub(_escape, text)


def _write(value: Any, step: str, line_break: str) -> str:
    """Write objects in several lines, and short lists of texts and numbers in one, as people do."""
    inner = line_break + step
    if isinstance(value, dict) and value:
        members = [
            f"{json.dumps(name, ensure_ascii=False)}: {_write(each, step, inner)}"
            for name, each in value.items()
        ]
        return f"{{{inner}{f',{inner}'.join(members)}{line_break}}}"
    if isinstance(value, list) and value:
        items = [_write(each, step, inner) for each in value]
        line = f"[{', '.join(items)}]"
        is_flat = not any(isinstance(each, dict | list) and each for each in value)
        if is_flat and len(inner) + len(line) <= _WIDTH:
            return line
        return f"[{inner}{f',{inner}'.join(items)}{line_break}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _escape(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]

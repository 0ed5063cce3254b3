"""Values written as JSON, readable and without invisible characters."""

import json
import re
from typing import Any, Final

from accord.hosts.definition import HostsError
from accord.hosts.documents.values import to_plain

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
    separators = (",", ":") if is_dense and step is None else None
    try:
        text = json.dumps(
            to_plain(value),
            indent=step,
            ensure_ascii=False,
            allow_nan=False,
            separators=separators,
        )
    except (TypeError, ValueError) as error:
        raise HostsError(f"JSON cannot express the value: {error}") from None
    except RecursionError:
        raise HostsError("the value is nested too deeply") from None
    return _UNUSUAL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]

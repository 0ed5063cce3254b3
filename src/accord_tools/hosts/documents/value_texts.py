"""Values as texts of JSON, TOML and YAML."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Final

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.values import to_plain

# -- texts in double quotes, as TOML and YAML write them


def quote_text(text: str, escapes: Mapping[str, str], language: str) -> str:
    """Return a text in double quotes.

    Args:
        text: any text.
        escapes: how some characters are written.
        language: named in errors.

    Raises:
        HostsError: it has half of a surrogate pair, which the language cannot express.
    """
    return f'"{"".join(_escape_sign(each, escapes, language) for each in text)}"'


def _escape_sign(sign: str, escapes: Mapping[str, str], language: str) -> str:
    if sign in escapes:
        return escapes[sign]
    if sign.isprintable():
        return sign
    code = ord(sign)
    if 0xD800 <= code <= 0xDFFF:
        raise HostsError(
            f"the character U+{code:04X} is half of a pair, which {language} cannot express"
        )
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


# -- JSON: readable and without invisible characters


_JSON_WIDTH: Final = 100
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
    return _UNUSUAL.sub(_escape_unusual, text)


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
        if is_flat and len(inner) + len(line) <= _JSON_WIDTH:
            return line
        return f"[{inner}{f',{inner}'.join(items)}{line_break}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _escape_unusual(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


# -- TOML: whatever characters a value contains


_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_TOML_WIDTH: Final = 100
_TOML_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def format_key(key: str) -> str:
    """Return a key, quoted where it has to be."""
    return key if _BARE.fullmatch(key) else format_text(key)


def format_text(text: str) -> str:
    r"""Return a text in quotes; invisible characters are escaped.

    >>> print(format_text('a "b" \x1b'))
    "a \"b\" \u001b"

    Raises:
        HostsError: it has half of a surrogate pair, which TOML cannot express.
    """
    return quote_text(text, _TOML_ESCAPES, "TOML")


def format_value(value: Any) -> str:
    """Return a value in one line.

    Raises:
        HostsError: TOML has no such value.
    """
    if isinstance(value, str):
        return format_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{format_key(key)} = {format_value(each)}" for key, each in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    raise HostsError(f"TOML has no value for {type(value).__name__}")


def without_nulls(value: Any) -> Any:
    """Return a value without members that are null, which TOML cannot express."""
    if isinstance(value, Mapping):
        return {str(key): without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(each) for each in value if each is not None]
    return value


def format_pair(key: str, value: Any) -> str:
    """Return `key = value`; a long list has one item in each line."""
    line = f"{format_key(key)} = {format_value(value)}"
    if len(line) <= _TOML_WIDTH or not isinstance(value, list | tuple):
        return line
    items = "".join(f"  {format_value(each)},\n" for each in value)
    return f"{format_key(key)} = [\n{items}]"


def format_table(keys: Iterable[str], members: Mapping[str, Any]) -> str:
    """Return a table with its header.

    >>> print(format_table(["server", "a b"], {"time": 5}))
    [server."a b"]
    time = 5
    """
    lines = [f"[{'.'.join(map(format_key, keys))}]"]
    lines += [format_pair(key, value) for key, value in members.items()]
    return "\n".join(lines)


def format_comment(text: str) -> str:
    """Return a text as comments, a line each, with control characters escaped."""
    shown = [
        "".join(each if each.isprintable() else f"\\u{ord(each):04X}" for each in line)
        for line in re.split(r"\r\n|[\r\n]", text)
    ]
    return "\n".join(f"# {line}".rstrip() for line in shown)


# -- YAML: readers of 1.1 and 1.2 agree on it


# Texts of letters that do not need quotes; a digit or a sign first could make another value.
_SAFE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+~%=-]*(?:[ :][A-Za-z0-9_./@+~%=-]+)*")
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"})
_YAML_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def format_scalar(value: Any, *, in_flow: bool = False) -> str:
    """Return a text, a number, true, false or null; texts have quotes where they might need them.

    Raises:
        HostsError: YAML has no such value.
    """
    if isinstance(value, str):
        is_safe = _SAFE.fullmatch(value) and value.lower() not in _WORDS
        return (
            value
            if is_safe and not (in_flow and ":" in value)
            else quote_text(value, _YAML_ESCAPES, "YAML")
        )
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        # Without a point it would be a text in YAML 1.1.
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    raise HostsError(f"YAML has no value for {type(value).__name__}")


def format_flow(value: Any) -> str:
    """Return a value in one line, with brackets."""
    if isinstance(value, dict):
        pairs = [
            f"{format_scalar(key, in_flow=True)}: {format_flow(each)}"
            for key, each in value.items()
        ]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(format_flow, value))}]"
    return format_scalar(value, in_flow=True)


class BlockStyle:
    """How a file is indented.

    Args:
        step: the blanks by which an object within an object is indented.
        list_step: the blanks by which a list within an object is indented.
    """

    def __init__(self, step: int = 2, list_step: int = 2) -> None:
        self.step = step
        self.list_step = list_step

    def lines(self, value: Any) -> list[str]:
        """Return the lines of an object or a list that is not empty."""
        if isinstance(value, dict):
            return [line for key, each in value.items() for line in self.member(key, each)]
        return [line for each in value for line in self.item(each)]

    def member(self, key: str, value: Any) -> list[str]:
        """Return the lines of a member of an object."""
        name = format_scalar(key)
        if not value or not isinstance(value, dict | list):
            return [f"{name}: {format_flow(value) if value == {} else self._inline(value)}"]
        step = self.step if isinstance(value, dict) else self.list_step
        return [f"{name}:", *(" " * step + line for line in self.lines(value))]

    def item(self, value: Any) -> list[str]:
        """Return the lines of an item of a list."""
        if not value or not isinstance(value, dict):
            return [f"- {self._inline(value)}"]
        first, *others = self.lines(value)
        return [f"- {first}", *(f"  {line}" for line in others)]

    def _inline(self, value: Any) -> str:
        return format_flow(value) if isinstance(value, dict | list) else format_scalar(value)

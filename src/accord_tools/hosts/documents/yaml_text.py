"""Values written as YAML, so that readers of YAML 1.1 and 1.2 agree on them."""

import math
import re
from typing import Any, Final

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.quoting import quote_text
from accord_tools.hosts.documents.values import to_plain

# Texts of letters that do not need quotes; a digit or a sign first could make another value.
_SAFE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+~%=-]*(?:[ :][A-Za-z0-9_./@+~%=-]+)*")
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"})
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


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
            else quote_text(value, _ESCAPES, "YAML")
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


def format_yaml(value: Any) -> str:
    """Return a value, in lines if it has members or items.

    Raises:
        HostsError: YAML has no such value.
    """
    plain = to_plain(value)
    if plain and isinstance(plain, dict | list):
        return "\n".join(BlockStyle().lines(plain))
    return BlockStyle().item(plain)[0].removeprefix("- ")

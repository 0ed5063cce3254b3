"""The steps that every client in Python plays with servers that run tools as tasks."""

from typing import Any, Final

SLOW: Final = {"text": "on"}
SCENARIO: Final[list[tuple[str, str, tuple[Any, ...]]]] = [
    ("opened", "opened", ()),
    ("support", "support", ()),
    ("result", "result", ("slow", SLOW)),
    ("failure", "result", ("slow_fail", {})),
    ("question", "result", ("slow_ask", {"question": "who?"})),
    ("cancel", "cancel", ("slow_wait",)),
    ("list", "list", ()),
    ("without", "call", ("slow", SLOW)),
]

"""What a tool did before it asked, which it does once more in each round.

Code cannot show whether doing something twice does harm. What can be seen: the tool is not said to
be read-only or idempotent, keeps nothing by `ctx.once`, and has calls or changes of objects above
its first question. One warning for each tool says so.
"""

import ast
import inspect
import logging
from collections.abc import Iterator
from functools import lru_cache
from textwrap import dedent
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from accord.types import ToolAnnotations

if TYPE_CHECKING:
    from accord.server.entries.entry import Entry
    from accord.server.session import Session

log = logging.getLogger("accord.server")

_QUESTIONS: Final = frozenset({"elicit", "elicit_url", "sample", "roots"})
# What does no harm twice: messages of the context, and functions that change nothing.
_OF_CONTEXT: Final = frozenset(
    {"progress", "debug", "info", "warning", "error", "log", "once", "wait"}
)
# What waits for questions, and calls nothing by itself.
_OF_WAITING: Final = frozenset({"gather", "TaskGroup", "create_task", "timeout", "wait_for"})
_OF_VALUES: Final = frozenset(
    {"len", "str", "int", "float", "bool", "list", "dict", "set", "tuple", "min", "max", "sum"}
    | {"abs", "round", "sorted", "range", "enumerate", "zip", "any", "all", "isinstance", "get"}
    | {name for name in dir(str) if not name.startswith("_")}
)
_NESTED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def warn_of_repetition(session: "Session", name: str) -> None:
    """Warn once of a tool that did something before the question that it asks now."""
    server = session.server
    entry = server.tool_entries.get(name)
    if entry is None or name in server.repeated_tools or _may_repeat(entry):
        return
    function = entry.function
    code = None if function is None else getattr(inspect.unwrap(function), "__code__", None)
    if code is None or (deed := _find_deed(code, _line_of_question(code))) is None:
        return
    server.repeated_tools.add(name)
    line, text = deed
    log.warning(
        "tool %s (%s:%d) ran again with the answer to its question, and so did `%s` before it: "
        "ask first, or keep the result with `await ctx.once(key, function)`; "
        'annotations={"idempotentHint": True} says that it does no harm',
        name,
        code.co_filename,
        line,
        text,
    )


def _may_repeat(entry: "Entry") -> bool:
    if entry.facts.idempotent:
        return True
    said = entry.item.annotations
    return isinstance(said, ToolAnnotations) and bool(said.read_only_hint or said.idempotent_hint)


@lru_cache(maxsize=256)
def _find_deed(code: CodeType, asked: int | None) -> tuple[int, str] | None:
    """Return the first thing that a function does before a question: its line and its text.

    Args:
        code: of the function.
        asked: the line of the question; None for the first that there is.
    """
    try:
        source = dedent(inspect.getsource(code))
        function = ast.parse(source).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None  # it cannot be seen
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    offset = code.co_firstlineno - 1
    nodes = [node for statement in function.body for node in _within(statement)]
    if asked is None:
        lines = [node.lineno for node in nodes if _name_of_call(node) in _QUESTIONS]
        asked = min(lines, default=0) + offset
    deeds = [node for node in nodes if node.lineno + offset < asked and _changes_something(node)]
    if not deeds:
        return None
    first = min(deeds, key=lambda node: (node.lineno, node.col_offset))
    text = (ast.get_source_segment(source, first) or "").split("\n", 1)[0]
    return first.lineno + offset, text[:80]


def _line_of_question(code: CodeType) -> int | None:
    """Return the line at which a function waits for us; None if it asks in a thread or a task."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return None if frame is None else frame.f_lineno


def _within(node: ast.AST) -> Iterator[Any]:
    """Yield what runs with a statement, in no order; functions within it run later."""
    if isinstance(node, _NESTED):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _within(child)


def _name_of_call(node: ast.AST) -> str | None:
    """Return the last name of what is called; empty where it has none."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _changes_something(node: ast.AST) -> bool:
    name = _name_of_call(node)
    if name is not None:
        return name not in _OF_CONTEXT | _OF_WAITING | _OF_VALUES | _QUESTIONS
    if not isinstance(node, ast.Attribute | ast.Subscript):
        return False
    return isinstance(node.ctx, ast.Store | ast.Del)

"""What the design promises about the source as a whole."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import accord
from accord.types import REVISION_IDS

ROOT = Path(accord.__file__).parent
MODULES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}

MODULE_LINES, FUNCTION_LINES = 500, 60

# Where revisions are described; all other code asks for features.
DESCRIBES_REVISIONS = ("types/", "protocol/revisions.py", "protocol/methods.py")
RULES = "protocol/rules/"
MARKS = ("Lifetime", "since", "until")


def free(name: str) -> bool:
    return name.startswith(DESCRIBES_REVISIONS)


def inside_marks(tree: ast.AST) -> set[int]:
    """The literals that are arguments of a lifetime."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) in MARKS:
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            found |= {id(value) for value in values}
    return found


def docstrings(tree: ast.AST) -> set[int]:
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def revision_literals(name: str, tree: ast.AST) -> Iterator[str]:
    allowed = docstrings(tree) | (inside_marks(tree) if name.startswith(RULES) else set())
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and node.value in REVISION_IDS
            and id(node) not in allowed
        ):
            yield f"{name}:{node.lineno} {node.value}"


def is_revision_id(node: ast.AST) -> bool:
    """`revision.id`, `row.id` and the like, or a name that says it holds one."""
    if isinstance(node, ast.Attribute) and node.attr == "id":
        holder = node.value
        text = getattr(holder, "attr", None) or getattr(holder, "id", None) or ""
        return any(word in text for word in ("revision", "row", "current"))
    return isinstance(node, ast.Name) and "revision_id" in node.id


def orderings(name: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            ordered = any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
            if ordered and any(map(is_revision_id, operands)):
                yield f"{name}:{node.lineno} {ast.unparse(node)}"
        elif _sorts(node) and any(is_revision_id(each) for each in ast.walk(node)):
            yield f"{name}:{node.lineno} {ast.unparse(node)}"


def _sorts(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("max", "min", "sorted")


def test_no_code_names_a_revision_outside_the_tables():
    named = [
        each
        for name, tree in TREES.items()
        if not free(name)
        for each in revision_literals(name, tree)
    ]
    assert named == []


def test_no_code_orders_revisions_outside_the_tables():
    ordered = [
        each for name, tree in TREES.items() if not free(name) for each in orderings(name, tree)
    ]
    assert ordered == []


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("x = '2025-06-18'", 1),
        ("'''2025-06-18'''", 0),
        ("Lifetime(since='2025-06-18')", 1),
        ("f(x)['2024-11-05']", 1),
    ],
)
def test_a_revision_literal_is_noticed(source, faults):
    assert len(list(revision_literals("server/x.py", ast.parse(source)))) == faults


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("Lifetime(since='2025-06-18')", 0),
        ("until('2025-06-18')", 0),
        ("x == '2025-06-18'", 1),
        ("f(since='2025-06-18')", 1),
    ],
)
def test_rules_name_revisions_in_lifetimes_only(source, faults):
    assert len(list(revision_literals("protocol/rules/x.py", ast.parse(source)))) == faults


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("revision.id < other", 1),
        ("a <= self.revision.id", 1),
        ("max(row.id for row in rows)", 1),
        ("revision.id == other", 0),
        ("message.id < 5", 0),
        ("revision_id >= x", 1),
    ],
)
def test_an_ordering_of_revisions_is_noticed(source, faults):
    assert len(list(orderings("server/x.py", ast.parse(source)))) == faults


def test_modules_are_of_readable_length():
    lengths = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    assert {name: length for name, length in lengths.items() if length > MODULE_LINES} == {}


def test_functions_are_of_readable_length():
    long = {
        f"{name}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    }
    assert long == {}


HEAVY = (
    "accord.check",
    "accord.cli",
    "accord.protocol.catalogue",
    "accord.protocol.monitor",
    "aiohttp",
    "asyncio",
    "h11",
    "httptools",
    "jsonschema_rs",
    "jwt",
    "opentelemetry",
    "pydantic",
    "redis",
    "rich",
    "tomllib",
    "uvicorn",
    "uvloop",
)


def loaded_by(statement: str) -> set[str]:
    # What is there before is not ours: a measurement of coverage brings its own.
    code = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("name", ["accord", "accord.types", "accord.protocol.endpoint"])
def test_an_import_loads_nothing_that_is_optional_or_slow(name):
    assert loaded_by(f"import {name}") & set(HEAVY) == set()

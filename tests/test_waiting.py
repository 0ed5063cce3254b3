"""Tests wait for conditions. One that waits for the clock says why, beside the line."""

import ast
from collections.abc import Iterator
from pathlib import Path

from support.tables import cases

TESTS = Path(__file__).parent
REASON = "# clock: "
# Times pass at once under the virtual clock; what misbehaves on purpose is slow on purpose.
VIRTUAL = ("virtual", "support.shared", "fast_clock")
LOOPS = (ast.While, ast.For, ast.AsyncFor)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# How tests call the function that holds their steps.
STEPS = ("main", "scenario", "use", "talk")


def fixed_sleeps(source: str) -> Iterator[int]:
    """Yield the lines on which the steps of a test sleep for a fixed time without a reason."""
    tree = ast.parse(source)
    lines = source.splitlines()
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        is_waited_for = isinstance(parents.get(node), ast.Expr | ast.Await)
        if (
            is_waited_for
            and is_sleep(node)
            and is_step(node, parents)
            and REASON not in near(lines, node.lineno)
        ):
            yield node.lineno


def is_sleep(node: ast.AST) -> bool:
    """Return whether a call sleeps for a number of seconds, not only for a turn of the loop."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    seconds = node.args[0]
    is_constant = isinstance(seconds, ast.Constant) and seconds.value != 0
    return is_constant and getattr(node.func, "attr", None) == "sleep"


def is_step(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return whether a call is a step of a test: not in a loop, a handler or a peer."""
    while node in parents:
        node = parents[node]
        if isinstance(node, LOOPS):
            return False
        if isinstance(node, FUNCTIONS):
            name = getattr(node, "name", "lambda")
            if name.startswith("test_"):
                return True
            if name not in STEPS:
                return False
    return False


def near(lines: list[str], number: int) -> str:
    """Return a line and the one above."""
    return "\n".join(lines[max(0, number - 2) : number])


def test_tests_wait_for_conditions_or_say_why_for_the_clock():
    found = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("test_*.py"))
        if not any(word in (source := path.read_text(encoding="utf-8")) for word in VIRTUAL)
        for line in fixed_sleeps(source)
    ]
    assert found == []


@cases(
    ("source", "lines"),
    [
        ("async def test_it():\n    await asyncio.sleep(0.1)", [2]),
        ("def test_it():\n    async def main():\n        await asyncio.sleep(0.1)", [3]),
        ("def test_it():\n    time.sleep(1)  # clock: leases end", []),
        ("def test_it():\n    # clock: leases end\n    time.sleep(1)", []),
        ("async def test_it():\n    await asyncio.sleep(0)", []),
        ("async def test_it():\n    while not ready:\n        await asyncio.sleep(0.1)", []),
        ("async def test_it():\n    async def slow():\n        await asyncio.sleep(9)", []),
    ],
)
def test_a_fixed_sleep_is_found(source, lines):
    assert list(fixed_sleeps(source)) == lines

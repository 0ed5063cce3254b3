"""docs/design.md is a map of the code as it is now."""

import ast
import importlib.util
import re
from pathlib import Path

from support.tables import cases

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "design.md").read_text()
WALKS = re.findall(r"### (.+?)\n\n```mermaid\n(.*?)```", PAGE, re.DOTALL)
DIAGRAMS = re.findall(r"```mermaid\nsequenceDiagram\n(.*?)```", PAGE, re.DOTALL)


def diagrams():
    spec = importlib.util.spec_from_file_location("diagrams", ROOT / "tools" / "diagrams.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions_in(path):
    folder = ROOT / "src" / ("" if path.startswith("accord_tools/") else "accord")
    tree = ast.parse((folder / path).read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def test_generated_parts_are_up_to_date():
    assert diagrams().render(PAGE) == PAGE, "run tools/diagrams.py"


def test_there_are_five_walks():
    assert len(WALKS) == 5


@cases("walk", DIAGRAMS)
def test_a_walk_names_functions_that_exist(walk):
    files = dict(re.findall(r"participant (\w+) as (\S+)", walk))
    steps = re.findall(r"\w+-+>>(\w+): (\w+)", walk)
    assert steps
    missing = [
        f"{files[file]} {name}" for file, name in steps if name not in functions_in(files[file])
    ]
    assert missing == []

"""What the design promises about the source as a whole."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import accord
from accord.protocol.revisions import Revision
from accord.types import REVISION_IDS
from support.tables import cases

SOURCE = Path(accord.__file__).parents[1]
# Modules of the library by their path in it, such as `types/content.py`; those of the tools by
# theirs with the name of the package.
MODULES = {
    path.relative_to(SOURCE).as_posix().removeprefix("accord/"): path
    for path in sorted(SOURCE.glob("accord*/**/*.py"))
}
TEXTS = {name: path.read_text() for name, path in MODULES.items()}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}

MODULE_LINES, FUNCTION_LINES = 800, 60
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# Where revisions are described; all other code asks for features.
DESCRIBES_REVISIONS = ("types/", "protocol/revisions.py")
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


def is_revision(node: ast.AST) -> bool:
    """`revision`, `self.revision`, `row`, `REVISIONS[...]` and the like."""
    if isinstance(node, ast.Subscript):
        node = node.value
    text = getattr(node, "attr", None) or getattr(node, "id", None) or ""
    return any(word in text.lower() for word in ("revision", "row", "current"))


def is_revision_id(node: ast.AST) -> bool:
    """`revision.id`, `row.id` and the like, or a name that says it holds one."""
    if isinstance(node, ast.Attribute) and node.attr == "id":
        return is_revision(node.value)
    return isinstance(node, ast.Name) and "revision_id" in node.id


def orderings(name: str, tree: ast.AST) -> Iterator[str]:
    yield from sorted_revisions(name, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            ordered = any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops)
            if ordered and any(map(is_revision_id, operands)):
                yield f"{name}:{node.lineno} {ast.unparse(node)}"


def sorted_revisions(name: str, tree: ast.AST) -> Iterator[str]:
    """The calls that sort revisions, by what they name or by the types of what they name."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            continue
        nodes = own_nodes(function)
        holders = set(hold_revisions(nodes))
        for node in nodes:
            if isinstance(node, ast.Call) and (ordered := ordered_by(node)):
                text = ast.unparse(ordered[0]).lower()
                names = {each.id for each in ast.walk(ordered[0]) if isinstance(each, ast.Name)}
                if "revision" in text or names & holders or has_id(node):
                    yield f"{name}:{node.lineno} {ast.unparse(node)}"


def has_id(node: ast.AST) -> bool:
    return any(is_revision_id(each) for each in ast.walk(node))


def own_nodes(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function or module without those of the functions in it."""
    found = [function]
    for node in found:
        found.extend(
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        )
    return found[1:]


def hold_revisions(nodes: list[ast.AST]) -> Iterator[str]:
    """The parameters and variables that are annotated as collections of revision ids."""
    for node in nodes:
        if isinstance(node, ast.arg) and node.annotation is not None:
            name, annotation = node.arg, node.annotation
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, annotation = node.target.id, node.annotation
        else:
            continue
        if re.search(r"\[RevisionId\b", ast.unparse(annotation)):
            yield name


def ordered_by(call: ast.Call) -> list[ast.expr]:
    """The arguments that a call puts in order; none where it orders nothing."""
    if getattr(call.func, "id", None) in ("max", "min", "sorted"):
        is_keyed = any(
            keyword.arg == "key" and not has_id(keyword.value) for keyword in call.keywords
        )
        return [] if is_keyed else call.args[:1]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "sort" and not call.keywords:
        return [call.func.value]
    return []


FLAGS = [flag for flag in Revision.__struct_fields__ if flag not in ("id", "methods")]


def flags_read(tree: ast.AST) -> set[str]:
    """The flags of revisions that code looks at."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in FLAGS and is_revision(node.value)
    }


def test_code_outside_the_tables_reads_every_flag_of_a_revision():
    trees = (tree for name, tree in TREES.items() if name != "protocol/revisions.py")
    assert set(FLAGS) - set().union(*map(flags_read, trees)) == set()


@cases(
    ("source", "is_read"),
    [
        ("revision.batching", True),
        ("self.revision.batching", True),
        ("REVISIONS[id].batching", True),
        ("batching = True", False),
        ("server.batching", False),
    ],
)
def test_a_flag_is_read_from_a_revision_alone(source, is_read):
    assert flags_read(ast.parse(source)) == ({"batching"} if is_read else set())


def test_no_code_names_a_revision_outside_the_tables():
    named = [
        each
        for name, tree in TREES.items()
        if not free(name) and any(each in TEXTS[name] for each in REVISION_IDS)
        for each in revision_literals(name, tree)
    ]
    assert named == []


def test_no_code_orders_revisions_outside_the_tables():
    ordered = [
        each for name, tree in TREES.items() if not free(name) for each in orderings(name, tree)
    ]
    assert ordered == []


@cases(
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


@cases(
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


@cases(
    ("source", "faults"),
    [
        ("revision.id < other", 1),
        ("a <= self.revision.id", 1),
        ("max(row.id for row in rows)", 1),
        ("revision.id == other", 0),
        ("message.id < 5", 0),
        ("revision_id >= x", 1),
        ("sorted(plan.revisions, reverse=True)", 1),
        ("sorted(name for name in named if name in REVISIONS)", 1),
        ("plan.revisions.sort()", 1),
        ("def f(found: Mapping[RevisionId, int]): return max(found)", 1),
        ("def f(found: Mapping[str, int]): return max(found)", 0),
        ("min(by_revision.values(), key=rank)", 0),
        ("max(rows, key=lambda row: row.id)", 1),
    ],
)
def test_an_ordering_of_revisions_is_noticed(source, faults):
    assert len(list(orderings("server/x.py", ast.parse(source)))) == faults


def test_modules_are_of_readable_length():
    lengths = {name: len(text.splitlines()) for name, text in TEXTS.items()}
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
    "accord_tools.check",
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


def private_methods(node: ast.ClassDef) -> set[str]:
    functions = (each for each in node.body if isinstance(each, FUNCTIONS))
    return {each.name for each in functions if re.fullmatch(r"_[^_].*|__.*[^_]", each.name)}


def base_names(node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        named = base.value if isinstance(base, ast.Subscript) else base
        yield getattr(named, "id", getattr(named, "attr", ""))


def foreign_overrides(trees: dict[str, ast.AST]) -> list[str]:
    """The private methods that a class overrides of a class in another file.

    A base is found by its name: in the same file, or else wherever that file has it from.
    """
    defined: dict[str, dict[str, ast.ClassDef]] = {}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                defined.setdefault(node.name, {})[name] = node

    def bases(name: str, node: ast.ClassDef, seen: set[int]) -> Iterator[tuple[str, ast.ClassDef]]:
        for base in base_names(node):
            homes = defined.get(base, {})
            for home in [name] if name in homes else homes:
                if id(homes[home]) not in seen:
                    seen.add(id(homes[home]))
                    yield home, homes[home]
                    yield from bases(home, homes[home], seen)

    return [
        f"{name}: {node.name}.{method} overrides that of {base.name} in {home}"
        for classes in defined.values()
        for name, node in classes.items()
        for home, base in bases(name, node, {id(node)})
        if home != name
        for method in sorted(private_methods(node) & private_methods(base))
    ]


def test_no_class_overrides_a_private_method_of_another_file():
    assert foreign_overrides(TREES) == []


@cases(
    ("derived", "count"),
    [
        ("from a import A\nclass B(A):\n    def _run(self): ...", 1),
        ("from a import A\nclass B(A[int]):\n    async def _run(self): ...", 1),
        ("import a\nclass B(a.A):\n    def _run(self): ...", 1),
        ("from a import A\nclass B(A): ...\nclass C(B):\n    def _run(self): ...", 1),
        ("from a import A\nclass B(A):\n    def run(self): ...\n    def __init__(self): ...", 0),
        ("class A:\n    def _run(self): ...\nclass B(A):\n    def _run(self): ...", 0),
    ],
)
def test_an_override_of_a_private_method_is_noticed(derived, count):
    base = "class A:\n    def __init__(self): ...\n    def _run(self): ...\n    def run(self): ..."
    assert len(foreign_overrides({"a.py": ast.parse(base), "b.py": ast.parse(derived)})) == count


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


@cases("words", ["--help", "add --help", "hosts --help", "run --help"])
def test_help_loads_none_of_what_the_command_needs(words):
    # Modules are listed on standard error while they are imported.
    command = [sys.executable, "-X", "importtime", "-m", "accord", *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "accord.cli.commands" in loaded
    slow = {f"accord.{each}" for each in ("client", "compose", "server", "testing")}
    slow |= {"accord_tools.reports.report", "accord_tools.fleet.fleet_runner", "aiohttp", "yaml"}
    slow |= {"accord_tools.hosts.targets", "accord_tools.hosts.table", "rich"}
    assert loaded & slow == set()


SERVED = """
from accord import Context, Server

server = Server("desk")

@server.tool
async def add(ctx: Context, a: int, b: int = 1, tags: list[str] | None = None) -> dict[str, int]:
    \"""Add two numbers and more.\"""
    return {"sum": a + b}

server.run()
"""
# What a server with plain tools does without until a client lists or calls them.
FOR_OTHERS = {
    "accord.http.rules.headers",
    "accord.client",
    "accord.json_schema",
    "accord.protocol.envelope",
    "accord.protocol.verdict",
    "accord.protocol.rules.places",
    "accord.protocol.unknown",
    "accord.protocol.uri_template",
    "accord.server.entries.completion",
    "accord.server.sources.entries",
    "accord.server.sources.sessions",
    "accord.server.sources.views",
    "accord.server.injection",
    "accord.server.entries.prompts",
    "accord.server.entries.resources",
    "accord.server.schema.arguments",
    "accord.server.schema.conversion",
    "accord.server.schema.docstrings",
    "accord.server.schema.msgspec_types",
    "accord.server.schema.typed_results",
    "accord.server.thread_calls",
    "accord.http",
    "bisect",
    "fnmatch",
    "json",
}


def unmeasured():
    """Return the environment without what measures coverage, which imports modules."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def test_a_server_starts_without_what_it_does_not_need():
    opening = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}\n'
    )
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", SERVED],
        input=opening,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=unmeasured(),
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert '"result"' in done.stdout
    assert "accord.server.entries.tools" in loaded
    assert loaded & FOR_OTHERS == set()


def test_an_import_leaves_the_garbage_collector_as_it_was():
    code = (
        "import gc; from accord import Server; assert gc.isenabled() and not gc.get_freeze_count();"
        "gc.disable(); gc.freeze(); count = gc.get_freeze_count(); from accord import Client;"
        "assert not gc.isenabled() and gc.get_freeze_count() == count;"
        "gc.enable(); from accord import connect; assert gc.isenabled()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env=unmeasured())


def private_imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "accord":
            for each in node.names:
                path = f"{node.module}.{each.name}"
                if any(part.startswith("_") for part in path.split(".")):
                    yield path


def test_the_tools_import_nothing_of_the_library_with_an_underscore():
    found = {
        f"{name}: {path}"
        for name, tree in TREES.items()
        if name.startswith("accord_tools/")
        for path in private_imports(tree)
        if not path.endswith("__")
    }
    assert found == set()


def test_every_folder_of_tests_is_in_a_group_of_the_makefile():
    root = Path(__file__).parent
    lines = (root.parent / "Makefile").read_text().splitlines()
    groups = " ".join(line for line in lines if re.match(r"[A-Z]+ := ", line))
    folders = {path.relative_to(root).parts[0] for path in root.glob("*/**/test_*.py")}
    assert {each for each in folders if not re.search(rf"\b{each}\b", groups)} == set()

"""What packages and modules say they export is there, once, in order."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import pytest

import accord
import accord_tools
from accord.errors import MissingExtra
from support.tables import cases


def _modules() -> dict[str, ModuleType]:
    found = {"accord": accord, "accord_tools": accord_tools}
    both = (
        *walk_packages(accord.__path__, "accord."),
        *walk_packages(accord_tools.__path__, "accord_tools."),
    )
    for info in both:
        if info.name.endswith("__main__"):
            continue
        try:
            found[info.name] = import_module(info.name)
        except MissingExtra:
            continue
    return found


MODULES = _modules()
ROOT = Path(__file__).parents[1]
# What is said there is about the inside of accord, or about the past.
INTERNAL_PAGES = re.compile(r"decisions\.md|design\.md|changes-.*")
# Its public name is accord.Principal.
INTERNAL_MODULES = {"accord.principal"}
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _public_rows() -> list[tuple[list[str], list[str]]]:
    """Read the public modules and their pages, row by row, from the page on compatibility."""
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    table = page.partition("| for | modules | pages |")[2].partition("\n\n")[0]
    return [
        (re.findall(r"`(accord[.\w]*)`", modules), re.findall(r"\]\(([\w-]+\.md)\)", pages))
        for modules, pages in re.findall(r"^\| \w+ \| (.*) \| (.*) \|$", table, re.MULTILINE)
    ]


def _public_modules() -> list[str]:
    return [name for modules, _ in _public_rows() for name in modules]


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def _sources() -> Iterator[tuple[str, str]]:
    """Yield what users are shown: blocks of the documentation, and examples, with their place."""
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            yield page.name, block[1]
    for example in (ROOT / "examples").rglob("*.py"):
        yield example.name, example.read_text(encoding="utf-8")


def _imports(source: str) -> Iterator[tuple[str, str | None]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, None) for each in node.names)


EXPORTING = [name for name, module in MODULES.items() if hasattr(module, "__all__")]


def in_order(name: str) -> tuple[int, str]:
    """Constants first, then classes, then functions: the order that the formatter keeps."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)


@cases("name", EXPORTING)
def test_exports_exist_and_are_listed_once_in_order(name):
    module = MODULES[name]
    listed = list(module.__all__)
    assert len(set(listed)) == len(listed)
    assert [each for each in listed if not hasattr(module, each)] == []
    if name != "accord.types":  # which joins the lists of its modules, each in order
        assert listed == sorted(listed, key=in_order)


def test_every_public_module_lists_its_names():
    public = _public_modules()
    assert len(public) > 10
    assert len(set(public)) == len(public)
    assert [name for name in public if not getattr(MODULES.get(name), "__all__", None)] == []


def test_every_module_directly_below_accord_that_lists_names_is_public():
    public = {*_public_modules(), *INTERNAL_MODULES}
    assert [name for name in EXPORTING if name.count(".") < 2 and name not in public] == []


def test_every_module_with_exports_that_the_documentation_names_is_public():
    public = _public_modules()
    # accord.compose.openapi is a function and the package that it comes from.
    exported = {f"{name}.{each}" for name in public for each in MODULES[name].__all__}
    internal = {*EXPORTING} - {*public} - exported
    pages = [page for page in (ROOT / "docs").glob("*.md") if not INTERNAL_PAGES.match(page.name)]
    named = {
        f"{page.name}: {name}"
        for page in pages
        for name in re.findall(
            r"(?<![\w.\"])accord(?:\.[a-z]\w*)+", page.read_text(encoding="utf-8")
        )
        if name in internal
    }
    assert named == set()


def test_every_public_module_is_named_on_a_page_of_its_row():
    missing = [
        name
        for modules, pages in _public_rows()
        for name in modules
        if not any(
            re.search(rf"(?<![\w.]){re.escape(name)}(?!\.?\w)", _page(page)) for page in pages
        )
    ]
    assert missing == []


@pytest.mark.parametrize("module", ["accord.compose", "accord.middleware"])
def test_the_names_of_a_package_are_listed_with_their_pages(module):
    row = re.search(rf"^\| `{module}` \| (.*) \| (.*) \|$", _page("compatibility.md"), re.MULTILINE)
    names = re.findall(r"`(\w+)`", row[1])
    assert sorted(names, key=str.lower) == names
    assert sorted(names) == sorted(MODULES[module].__all__)
    pages = "".join(map(_page, re.findall(r"\]\(([\w-]+\.md)\)", row[2])))
    functions = [name for name in names if name.islower()]
    assert [name for name in functions if not re.search(rf"\b{name}\(", pages)] == []


def test_documentation_and_examples_import_only_what_is_public():
    public = set(_public_modules())
    hidden = sorted(
        f"{place}: {module} {name or ''}"
        for place, source in _sources()
        for module, name in _imports(source)
        if module.partition(".")[0] == "accord"
        and f"{module}.{name}" not in public
        and (module not in public or (name is not None and name not in MODULES[module].__all__))
    )
    assert hidden == []


def test_the_page_on_servers_imports_each_name_from_where_it_is():
    page = (ROOT / "docs" / "servers.md").read_text(encoding="utf-8")
    table = page.partition("Where names are:")[2].partition("\nRun it")[0]
    rows = re.findall(r"^\| `(accord[.\w]*)` \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) >= 5
    for module, names in rows:
        assert set(re.findall(r"`(\w+)`", names)) <= set(MODULES[module].__all__)


def test_no_export_is_private():
    private = [
        f"{name}.{each}"
        for name in EXPORTING
        for each in MODULES[name].__all__
        if each.startswith("_") and each != "__version__"
    ]
    assert private == []


def test_the_top_level_exports_what_it_lists():
    assert accord.__all__
    for name in accord.__all__:
        assert getattr(accord, name) is not None
    # What is imported on demand is found as well.
    assert set(accord.__all__) <= set(dir(accord))


@cases(
    ("name", "hint"),
    [
        ("ElicitationRefused", "from accord.errors import ElicitationRefused"),
        ("ToolAnnotations", "from accord.types import ToolAnnotations"),
        ("Image", "from accord.server import Image"),
        ("openapi", "from accord.compose import openapi"),
        ("TaskSettings", "from accord.server.tasks import TaskSettings"),
        ("FastMCP", "from accord import Server"),
    ],
)
def test_a_name_that_is_elsewhere_is_imported_with_a_hint(name, hint):
    with pytest.raises(ImportError, match=f"write: {hint}$"):
        exec(f"from accord import {name}")  # as users write it


def test_a_name_that_is_nowhere_is_missing_as_in_any_module():
    assert not hasattr(accord, "Sever")
    with pytest.raises(ImportError, match="cannot import name 'Sever'"):
        exec("from accord import Sever")  # as users write it


def test_nothing_of_ours_is_public_at_the_top_without_being_listed():
    ours = {
        name
        for name, value in vars(accord).items()
        if not name.startswith("_")
        and (getattr(value, "__module__", None) or "").startswith("accord")
    }
    assert ours <= set(accord.__all__)


def test_every_folder_of_the_source_is_a_package():
    root = Path(accord.__file__).parent
    folders = {path.parent for path in root.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_every_module_says_what_it_is():
    undocumented = [name for name, module in MODULES.items() if not (module.__doc__ or "").strip()]
    assert undocumented == []

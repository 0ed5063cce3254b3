"""What packages and modules say they export is there, once, in order."""

from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import pytest

import accord
from accord.errors import MissingExtra


def _modules() -> dict[str, ModuleType]:
    found = {"accord": accord}
    for info in walk_packages(accord.__path__, "accord."):
        if info.name.endswith("__main__"):
            continue
        try:
            found[info.name] = import_module(info.name)
        except MissingExtra:
            continue
    return found


MODULES = _modules()
EXPORTING = [name for name, module in MODULES.items() if hasattr(module, "__all__")]


def in_order(name: str) -> tuple[int, str]:
    """Constants first, then classes, then functions: the order that the formatter keeps."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2, name)


@pytest.mark.parametrize("name", EXPORTING)
def test_exports_exist_and_are_listed_once_in_order(name):
    module = MODULES[name]
    listed = list(module.__all__)
    assert len(set(listed)) == len(listed)
    assert [each for each in listed if not hasattr(module, each)] == []
    if name != "accord.types":  # which joins the lists of its modules, each in order
        assert listed == sorted(listed, key=in_order)


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

"""The files that a Python file imports, found by reading it; nothing is imported.

All servers of a fleet may import the same packages, so what a file contains is kept: under its
size and time, because this process may outlive a version of it.
"""

import ast
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

# The attributes of statements that have statements inside, where an import may be.
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
_KEPT: Final = 20_000


def imported_files(path: Path, search: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that a Python file imports from some folders, or from its own.

    Args:
        path: the file; one that cannot be read or parsed imports nothing.
        search: the folders, the first with a module wins.
    """
    try:
        facts = path.stat()
    except OSError:
        return
    folders = [os.fspath(each) for each in (path.parent, *search)]
    for module in _imports(os.fspath(path), facts.st_size, facts.st_mtime_ns):
        yield from map(Path, _module_files(module, folders))


@lru_cache(_KEPT)
def _imports(path: str, _size: int, _changed: int) -> tuple[str, ...]:
    """Return the modules that a file imports anywhere; relative ones begin with dots."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (SyntaxError, ValueError, RecursionError, OSError):
        return ()
    found: list[str] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            joint = "" if base.endswith(".") else "."
            found += [base, *(f"{base}{joint}{each.name}" for each in node.names)]
        else:
            for block in _BLOCKS:
                inner = getattr(node, block, None)
                waiting += inner if isinstance(inner, list) else ()
    return tuple(dict.fromkeys(found))


def _module_files(module: str, folders: Sequence[str]) -> list[str]:
    """Return the file of a module, and those of the packages around it, which run first."""
    name = module.lstrip(".")
    if dots := len(module) - len(name):
        folder = folders[0]
        for _ in range(dots - 1):
            folder = os.path.dirname(folder)
        folders = [folder]
    parts = [each for each in name.split(".") if each]
    for folder in folders:
        if parts and _names(folder).isdisjoint((parts[0], f"{parts[0]}.py")):
            continue
        path = os.path.join(folder, *parts)
        candidates = [os.path.join(path, "__init__.py"), *([f"{path}.py"] if parts else [])]
        known = [each for each in candidates if os.path.isfile(each)]
        if known:
            depths = [os.path.join(folder, *parts[:depth]) for depth in range(1, len(parts))]
            around = [os.path.join(each, "__init__.py") for each in depths]
            return [*known, *filter(os.path.isfile, around)]
    return []


def _names(folder: str) -> frozenset[str]:
    try:
        return _listing(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(_KEPT)
def _listing(folder: str, _changed: int) -> frozenset[str]:
    return frozenset(os.listdir(folder))

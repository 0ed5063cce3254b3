"""Importing plugins: each version of a file is a module of its own, with its own helpers.

A version lives in a package that exists for it alone, whose folder is that of the plugins. So two
folders may have files of the same name, and the helper modules that a plugin imports are loaded
with it: those of an older version stay as they were for the calls that still run there.
"""

import importlib.machinery
import importlib.util
import itertools
import linecache
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from accord.compose.plugins.scanning import main_file

_PREFIX: Final = "accord_plugin_"
_numbers: Final = itertools.count(1)
# One plugin is imported at a time: the names of helper modules are those of the folder meanwhile.
_importing: Final = threading.RLock()


class _FreshLoader(importlib.machinery.SourceFileLoader):
    """Compiles a file each time: cached bytecode may be that of an older file of equal size."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        linecache.checkcache(path)  # for tracebacks
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def _find_spec(name: str, folders: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    """Return how the Python file of a module is loaded, if one of the folders has it."""
    stem = name.rpartition(".")[2]
    for folder in map(Path, folders):
        package = folder / stem
        for file, places in (
            (package / "__init__.py", [str(package)]),
            (folder / f"{stem}.py", None),
        ):
            if file.is_file():
                return importlib.util.spec_from_file_location(
                    name,
                    file,
                    loader=_FreshLoader(name, str(file)),
                    submodule_search_locations=places,
                )
    return None


class _VersionFinder:
    """Finds the modules below the packages of versions, also when a handler imports them later."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if path is None or not name.startswith(_PREFIX):
            return None
        return _find_spec(name, path)


class _HelperFinder:
    """Finds modules of the folder by their plain names, while a plugin of it is imported.

    Args:
        folder: that of the plugins.
        found: the names that were found so; those below them are found in the same place.
        finds_below: whether it finds those below alone, and the other finder the first ones.
    """

    def __init__(self, folder: Path, found: set[str], *, finds_below: bool) -> None:
        self._folders = [str(folder)]
        self._thread = threading.get_ident()
        self._found = found
        self._finds_below = finds_below

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if threading.get_ident() != self._thread or self._finds_below is (path is None):
            return None
        if path is not None and name.partition(".")[0] not in self._found:
            return None
        spec = _find_spec(name, self._folders if path is None else path)
        if spec is not None:
            self._found.add(name)
        return spec


_versions: Final = _VersionFinder()


class PluginModule:
    """One version of a plugin, imported.

    Args:
        path: its file, or the folder of its package.

    Attributes:
        files: all files of the folder that were imported for it, its own among them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._package = f"{_PREFIX}{next(_numbers)}"
        self.files: frozenset[Path] = frozenset([main_file(path)])

    def load(self) -> ModuleType:
        """Import it.

        Raises:
            BaseException: what its code raises.
        """
        folder = self.path.parent
        name = f"{self._package}.{self.path.stem.replace('.', '_')}"
        package = ModuleType(self._package)
        package.__path__ = [str(folder)]
        with _importing:
            if _versions not in sys.meta_path:
                sys.meta_path.insert(0, _versions)
            sys.modules[self._package] = package
            try:
                with self._helpers(folder):
                    return self._import(name)
            finally:
                self.files = frozenset([main_file(self.path), *self._find_files()])

    def _import(self, name: str) -> ModuleType:
        main = str(main_file(self.path))
        spec = importlib.util.spec_from_file_location(
            name,
            main,
            loader=_FreshLoader(name, main),
            submodule_search_locations=[str(self.path)] if self.path.is_dir() else None,
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # modules that it imports may import it back
        spec.loader.exec_module(module)
        return module

    @contextmanager
    def _helpers(self, folder: Path) -> Iterator[None]:
        """Let the plugin import modules of its folder by their plain names.

        Afterwards they are known by names within the package of the version, so that the next
        version, and a plugin of another folder, get their own.
        """
        found: set[str] = set()
        first = _HelperFinder(folder, found, finds_below=True)
        last = _HelperFinder(folder, found, finds_below=False)  # installed modules come first
        sys.meta_path.insert(0, first)
        sys.meta_path.append(last)
        try:
            yield
        finally:
            sys.meta_path.remove(first)
            sys.meta_path.remove(last)
            for name in found:
                module = sys.modules.pop(name, None)
                if module is not None:
                    sys.modules.setdefault(f"{self._package}.{name}", module)

    def _find_files(self) -> Iterator[Path]:
        for name in self._module_names():
            file = getattr(sys.modules.get(name), "__file__", None)
            if file is not None:
                yield Path(file)

    def _module_names(self) -> list[str]:
        within = f"{self._package}."
        return [name for name in list(sys.modules) if name.startswith(within)]

    def unload(self) -> None:
        """Forget its modules."""
        for name in (*self._module_names(), self._package):
            sys.modules.pop(name, None)

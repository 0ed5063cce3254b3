"""The files of a server that belong into a bundle, and the packages that it imports."""

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.version import __version__
from accord_tools.hosts.bundles.archive import is_private
from accord_tools.hosts.definition import HostsError

_FOLDERS_LEFT_OUT: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache"),
        *(".pytest_cache", ".hypothesis", ".tox", ".nox", ".idea", ".vscode", "node_modules"),
        *(".ssh", ".aws", ".cache", "htmlcov"),
    )
)
_FILES_LEFT_OUT: Final = (
    *("*.py[co]", "*.log", ".DS_Store", "Thumbs.db", "*.mcpb", "*.dxt", "*.swp", "*~"),
    *(".gitignore", ".gitattributes", ".mcpbignore", ".coverage*", "*.egg-info"),
)
_MOST_FILES: Final = 20_000
_MOST_BYTES: Final = 400 * 1024 * 1024
_SCRIPT_BLOCK: Final = re.compile(r"(?m)^# /// script$\s(?P<lines>(?:^#(?:| .*)$\s)+)^# ///$")
_GIT_TIMEOUT: Final = 30.0


class ServerSource(msgspec.Struct, frozen=True, kw_only=True):
    """The code of a server.

    Attributes:
        root: the folder that its modules are imported from.
        file: the file with the server.
        object: the name of the server in it; may be empty.
        project: the folder of its `pyproject.toml`, if it has one that names a project.
        settings: what `pyproject.toml` says about the project.
    """

    root: Path
    file: Path
    object: str = ""
    project: Path | None = None
    settings: Mapping[str, Any] = {}


class PackedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What is packed.

    Attributes:
        files: by their path below the root, with slashes.
        imports: the packages that are imported and are not among the files.
        left_out: files that may be private, and are not packed.
    """

    files: Mapping[str, Path]
    imports: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()


def find_source(file: Path, object: str = "") -> ServerSource:
    """Return the code of a server, given its file."""
    file = file.absolute()
    root = file.parent
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        root = root.parent
    for folder in (root, *root.parents):
        settings = _read_project(folder / "pyproject.toml")
        if settings:
            return ServerSource(
                root=root, file=file, object=object, project=folder, settings=settings
            )
        if (folder / ".git").exists() or folder == Path.home():
            break
    return ServerSource(root=root, file=file, object=object)


def _read_project(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise HostsError(f"{path} cannot be read: {error}") from None
    project = data.get("project")
    return project if isinstance(project, dict) else {}


def read_requirements(source: ServerSource) -> list[str] | None:
    """Return the requirements that a project or a script declares; None if it does not."""
    found = source.settings.get("dependencies")
    if isinstance(found, list):
        return [each for each in found if isinstance(each, str)]
    if source.project is not None and "dependencies" not in source.settings.get("dynamic", []):
        return []
    block = _SCRIPT_BLOCK.search(source.file.read_text(encoding="utf-8", errors="replace"))
    if block is None:
        return None
    import tomllib

    lines = [line[2:] if line.startswith("# ") else "" for line in block["lines"].splitlines()]
    try:
        declared = tomllib.loads("\n".join(lines)).get("dependencies", [])
    except ValueError as error:
        raise HostsError(f"{source.file}: its block `script` is not TOML: {error}") from None
    return [each for each in declared if isinstance(each, str)]


# -- the code that is imported


def collect_modules(source: ServerSource, include: Sequence[str] = ()) -> PackedFiles:
    """Return the file of a server and what it imports from its own folder.

    Of a package all files are taken, also those that are not code; beside single files only what
    they import, and the patterns in `include`.

    Raises:
        HostsError: a file is not Python, or a pattern matches nothing.
    """
    found = _Modules(source.root)
    found.add(source.file)
    for pattern in include:
        matches = [each for each in sorted(source.root.glob(pattern)) if each.is_file()]
        if not matches:
            raise HostsError(f"--include {pattern} matches no file in {source.root}")
        for each in matches:
            found.files[each.relative_to(source.root).as_posix()] = each
    files, left_out = _without_private(found.files)
    _check_size(files)
    return PackedFiles(files=files, imports=frozenset(found.imports), left_out=left_out)


class _Modules:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: set[Path] = set()
        self.files: dict[str, Path] = {}
        self.imports: set[str] = set()

    def add(self, file: Path) -> None:
        """Add a file, the package that it is in, and what these import."""
        waiting = [file]
        while waiting:
            each = waiting.pop()
            if each in self._seen:
                continue
            self._seen.add(each)
            parts = each.relative_to(self._root).parts
            if len(parts) > 1:
                waiting += self._add_package(self._root / parts[0])
            self.files[each.relative_to(self._root).as_posix()] = each
            if each.suffix == ".py":
                waiting += self._follow(each)

    def _add_package(self, package: Path) -> Iterator[Path]:
        for name, path in walk_files(package):
            self.files.setdefault(f"{package.name}/{name}", path)
            if path.suffix == ".py" and path not in self._seen:
                yield path

    def _follow(self, file: Path) -> Iterator[Path]:
        for name in _imported_names(file):
            local = [self._root / f"{name}.py", self._root / name / "__init__.py"]
            found = next((each for each in local if each.is_file()), None)
            if found is not None:
                yield found
            elif (self._root / name).is_dir() and next((self._root / name).glob("*.py"), None):
                yield from self._add_package(self._root / name)
            elif name not in sys.stdlib_module_names:
                self.imports.add(name)


def _imported_names(file: Path) -> set[str]:
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise HostsError(f"{file} is not Python: {error}") from None
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


# -- a whole project


def collect_project(source: ServerSource) -> PackedFiles:
    """Return all files of a project that are part of it: those that git does not ignore.

    Raises:
        HostsError: there are too many.
    """
    assert source.project is not None
    ignored = _read_ignored(source.project)
    listed = _ask_git(source.project)
    found = {}
    for name, path in walk_files(source.project):
        is_ignored = any(_matches(name, each) for each in ignored)
        if not is_ignored and (listed is None or name in listed):
            found[name] = path
    files, left_out = _without_private(found)
    _check_size(files)
    return PackedFiles(files=files, left_out=left_out)


def _read_ignored(project: Path) -> list[str]:
    try:
        lines = (project / ".mcpbignore").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _matches(name: str, pattern: str) -> bool:
    plain = pattern.strip("/")
    parts = name.split("/")
    if "/" in plain:
        return fnmatch(name, plain) or name.startswith(f"{plain}/")
    return any(fnmatch(each, plain) for each in parts)


def _ask_git(project: Path) -> set[str] | None:
    listed = ask_git(project, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:
        return None
    return {os.fsdecode(each) for each in listed.split(b"\0") if each}


def ask_git(folder: Path, *words: str) -> bytes | None:
    """Return what a command of git prints in a folder; None if there is no git, or it fails."""
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603  # whichever git the user has
            ["git", *words],  # noqa: S607
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def walk_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder with their path there, without caches and environments."""
    top = folder.resolve()
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            each
            for each in folders
            if each not in _FOLDERS_LEFT_OUT
            and not each.endswith(".egg-info")
            and not (Path(place, each) / "pyvenv.cfg").exists()
            and not Path(place, each).is_symlink()
        )
        for name in sorted(files):
            path = Path(place, name)
            is_left_out = any(fnmatch(name, each) for each in _FILES_LEFT_OUT)
            is_inside = path.resolve().is_relative_to(top)
            if path.is_file() and is_inside and not is_left_out:
                yield path.relative_to(folder).as_posix(), path


def _without_private(files: Mapping[str, Path]) -> tuple[dict[str, Path], tuple[str, ...]]:
    left_out = tuple(name for name in files if is_private(name))
    return {name: path for name, path in files.items() if name not in left_out}, left_out


def _check_size(files: Mapping[str, Path]) -> None:
    size = sum(each.stat().st_size for each in files.values())
    if len(files) > _MOST_FILES or size > _MOST_BYTES:
        raise HostsError(
            f"the bundle would have {len(files)} files with {size} bytes; the most are "
            f"{_MOST_FILES} files with {_MOST_BYTES} bytes: name what to leave out in .mcpbignore"
        )


# -- packages that a server needs, as they are installed here


_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_COMPILED: Final = (".so", ".pyd", ".dylib", ".dll")
_ANY_VERSION: Final = re.compile(r".*\.abi3\.\w+")


class CopiedPackages(msgspec.Struct, frozen=True, kw_only=True):
    """The files of packages.

    Attributes:
        files: by their path in the folder of packages.
        names: name and version of each, such as `msgspec 0.21`.
        is_compiled: whether some work on this system alone.
        is_versioned: whether some work with this version of Python alone.
    """

    files: Mapping[str, Path]
    names: tuple[str, ...] = ()
    is_compiled: bool = False
    is_versioned: bool = False


def requirements_of(imports: Iterable[str]) -> list[str]:
    """Return the installed packages that modules belong to, with their versions.

    Raises:
        HostsError: a module is not installed.
    """
    from importlib.metadata import packages_distributions

    known = packages_distributions()
    found = {f"accord=={__version__}"}
    for name in sorted(imports):
        if name == "accord":
            continue
        if name not in known:
            if find_spec(name) is None:
                continue  # imported if it is there, or on another system
            raise HostsError(f"the module {name} does not belong to an installed package")
        found |= {f"{each}=={distribution(each).version}" for each in known[name]}
    return sorted(found)


def copy_packages(requirements: Iterable[str]) -> CopiedPackages:
    """Return the files of packages and of all that they need, as they are installed here.

    Raises:
        HostsError: one is not installed.
    """
    files: dict[str, Path] = {}
    names = []
    for each in sorted(_closure(requirements), key=str.lower):
        found = dict(_files_of(each))
        if not found:
            raise HostsError(f"the files of the package {each} were not found; install it again")
        files |= found
        names.append(f"{each} {_version(each)}")
    compiled = [name for name in files if name.endswith(_COMPILED)]
    return CopiedPackages(
        files=files,
        names=tuple(names),
        is_compiled=bool(compiled),
        is_versioned=any(not _ANY_VERSION.fullmatch(name) for name in compiled),
    )


def _version(name: str) -> str:
    return __version__ if name == "accord" else distribution(name).version


def _closure(requirements: Iterable[str]) -> set[str]:
    waiting = [(each, True) for each in ("accord", *requirements)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        text, is_direct = waiting.pop()
        found = _REQUIREMENT.fullmatch(text)
        if found is None:
            raise HostsError(f"the requirement {text!r} cannot be read")
        name = re.sub(r"[-_.]+", "-", found[1]).lower()
        extras = {each.strip() for each in (found[2] or "").split(",")} | {""}
        try:
            needed = _requires(name)
        except PackageNotFoundError:
            if is_direct and not found[4]:
                raise HostsError(
                    f"the package {name} is not installed here: install it, so that it can be "
                    "packed"
                ) from None
            continue  # needed on another system, or by another version of Python
        for extra in extras - {one for known, one in seen if known == name}:
            seen.add((name, extra))
            waiting += [(each, False) for each in needed if _extra_of(each) == extra]
    return {name for name, _ in seen}


def _requires(name: str) -> list[str]:
    try:
        return list(distribution(name).requires or ())
    except PackageNotFoundError:
        if name == "accord":  # a checkout that is not installed
            return ["msgspec"]
        raise


def _extra_of(requirement: str) -> str:
    found = _EXTRA.search(requirement)
    return found[1] if found else ""


def _files_of(name: str) -> Iterator[tuple[str, Path]]:
    if name == "accord":
        # The code that runs, which may be another than the installed one.
        yield from _module_files("accord")
        return
    package = distribution(name)
    found = {}
    for each in package.files or ():
        is_inside = ".." not in each.parts and not each.is_absolute()
        is_link = each.suffix == ".pth" or each.name.startswith("__editable__")
        if is_inside and not is_link and each.suffix != ".pyc":
            found[each.as_posix()] = Path(str(package.locate_file(each)))
    has_code = any(not each.split("/")[0].endswith(".dist-info") for each in found)
    if not has_code:  # installed as a link to its source
        for module in _top_modules(package):
            found |= dict(_module_files(module))
    for path, file in found.items():
        if file.is_file() and not path.endswith(("/RECORD", "/INSTALLER", "/direct_url.json")):
            yield path, file


def _top_modules(package: Distribution) -> list[str]:
    listed = package.read_text("top_level.txt")
    return listed.split() if listed else [package.metadata["Name"].replace("-", "_")]


def _module_files(module: str) -> Iterator[tuple[str, Path]]:
    spec = find_spec(module)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin is not None:
            yield Path(spec.origin).name, Path(spec.origin)
        return
    for place in spec.submodule_search_locations:
        for name, path in walk_files(Path(place)):
            yield f"{module}/{name}", path

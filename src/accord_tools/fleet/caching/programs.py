"""Digests of programs: the file that runs, what it imports, and the packages beside it."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from accord.errors import AccordError
from accord_tools.fleet.caching.imported_files import imported_files
from accord_tools.fleet.definition import ResolvedServer

# A larger program is known by its size and time.
_LARGEST: Final = 50_000_000
_MOST_FILES: Final = 5_000
_PYTHON: Final = re.compile(r"(python|pypy)[\d.]*(w?\.exe)?", re.IGNORECASE)
_NODE: Final = re.compile(r"(node|bun|deno)(\.exe)?", re.IGNORECASE)
_SHELLS: Final = frozenset(
    {
        *("sh", "bash", "dash", "zsh", "fish", "cmd"),
        *("powershell", "pwsh", "env", "make", "just", "task"),
    }
)
# Programs that fetch what they run: the version has to be part of the name.
_FETCHERS: Final = frozenset(
    {
        *("npx", "uvx", "bunx", "pnpm", "pnpx", "yarn"),
        *("pipx", "uv", "docker", "podman", "nerdctl", "dnx", "npm"),
    }
)
_EXACT: Final = re.compile(r"[^@\s]@v?\d[\w.+-]*$|==[\w.!+-]+$|@sha256:[0-9a-f]{64}$")
# Options of Python that take a value.
_WITH_VALUE: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_NODE_CODE: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".json")
_PYTHON_FILE: Final = re.compile(r"\.py(:[\w.]+)?$")
_SHEBANG: Final = re.compile(rb"#!\s*(\S+)(?:\s+(\S+))?")
_IMPORT: Final = re.compile(r"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.MULTILINE)


class NotCacheable(AccordError):
    """A result cannot be kept for later runs; the message says why."""


def digest_program(resolved: ResolvedServer, environ: Mapping[str, str]) -> Any:
    """Return the digests of everything that a command runs, as far as files show it.

    Raises:
        NotCacheable: the files do not show it.
    """
    program, *words = resolved.command
    path = Path(program)
    name = path.name.lower().removesuffix(".exe").removesuffix(".cmd")
    folder = Path(resolved.cwd or Path.cwd())
    if name in _SHELLS:
        raise NotCacheable(f"{name} may run anything")
    if name in _FETCHERS:
        return _digest_fetched(name, words)
    found: dict[str, Any] = {"program": _digest_program_file(path)}
    found["files"] = _digest_arguments(words, folder)
    paths = {**environ, **resolved.env}.get("PYTHONPATH", "").split(os.pathsep)
    search = [folder, *(folder / each for each in paths if each)]
    if _PYTHON.fullmatch(path.name):
        found |= _digest_python(path, words, search)
    elif _NODE.fullmatch(path.name):
        found |= _digest_node(words, folder)
    elif (interpreter := _interpreter_of(path)) is not None:
        if not _PYTHON.fullmatch(interpreter.name):
            raise NotCacheable(f"{path.name} is a script of {interpreter.name}")
        found |= _digest_script(path, interpreter, words, search)
    return found


def _digest_fetched(name: str, words: Sequence[str]) -> Any:
    if not any(_EXACT.search(each) for each in words):
        raise NotCacheable(f"{name} runs whichever version is the newest: name an exact version")
    return {"fetched by": name}


def _digest_program_file(path: Path) -> Any:
    try:
        facts = path.stat()
        if facts.st_size > _LARGEST:
            return [str(path), facts.st_size, facts.st_mtime_ns]
        return [str(path), sha256(path.read_bytes()).hexdigest()]
    except OSError as error:
        raise NotCacheable(f"{path} cannot be read: {error.strerror}") from None


def _digest_arguments(words: Sequence[str], folder: Path) -> Any:
    """Return the digests of files that arguments name, also as `--config=FILE`."""
    found = {}
    for word in words:
        path = folder / word.partition("=")[2] if word.startswith("-") else folder / word
        if "\0" not in word and _is_file(path):
            found[str(path)] = _digest_content(path)
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False


def _digest_content(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            facts = path.stat()
            return f"{facts.st_size} {facts.st_mtime_ns}"
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise NotCacheable(f"{path} cannot be read: {error.strerror}") from None


# -- Python


def _digest_python(program: Path, words: Sequence[str], search: Sequence[Path]) -> dict[str, Any]:
    module, script = _entry_of(words)
    site = _site_packages(program)
    found: dict[str, Any] = {"packages": _digest_packages(site)}
    if script is not None:
        path = search[0] / script
        if path.is_dir():
            found["code"] = _digest_tree([path], (".py",))
        else:
            found["code"] = _digest_modules([path], [path.parent, *search])
        words = [each for each in words if each != script]
    elif module is not None:
        found["code"] = _digest_named_module(module, search, site)
    else:
        raise NotCacheable("python -c and code from standard input are not kept")
    # A runner such as `accord run server.py` names the file in an argument.
    found["named"] = _digest_named_files(words, search)
    return found


def _digest_named_files(words: Sequence[str], search: Sequence[Path]) -> dict[str, str]:
    """Digest the Python files that arguments name, as in `accord run server.py:app`."""
    names = [_PYTHON_FILE.sub(".py", each) for each in words if _PYTHON_FILE.search(each)]
    files = [each for each in (search[0] / name for name in names) if _is_file(each)]
    return _digest_modules(files, [*(each.parent for each in files), *search])


def _entry_of(words: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the module or the script that Python runs."""
    rest = iter(words)
    for word in rest:
        if word == "-m":
            return next(rest, None), None
        if word.startswith("-m"):
            return word[2:], None
        if word in ("-c", "-"):
            return None, None
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return None, word
    return None, None


def _digest_named_module(module: str, search: Sequence[Path], site: Sequence[Path]) -> Any:
    top = module.partition(".")[0]
    for folder in search:
        if (folder / top).is_dir():
            return _digest_tree([folder / top], (".py",))
        if (folder / f"{top}.py").is_file():
            return _digest_modules([folder / f"{top}.py"], [folder, *search])
    for folder in site:
        if (folder / top).is_dir():
            return _digest_facts([folder / top])
    return {}  # an editable package: its folder is among those of `_digest_packages`


def _digest_modules(scripts: Iterable[Path], search: Sequence[Path]) -> dict[str, str]:
    """Return the digests of Python files and of all that they import from these folders."""
    found: dict[str, str] = {}
    waiting = list(scripts)
    while waiting:
        path = waiting.pop()
        key = str(path)
        if key in found:
            continue
        if len(found) >= _MOST_FILES:
            raise NotCacheable(f"it imports more than {_MOST_FILES} files")
        found[key] = _digest_content(path)
        if path.suffix == ".py":
            waiting += imported_files(path, search)
    return found


def _site_packages(program: Path) -> list[Path]:
    """Return the folders of packages of an interpreter."""
    home = program.parent.parent
    folders = [*home.glob("lib/python3*/site-packages"), home / "Lib" / "site-packages"]
    found = [each for each in folders if each.is_dir()]
    if not found:
        real = Path(os.path.realpath(program)).parent.parent
        found = [
            each
            for pattern in ("lib/python3*/site-packages", "lib/python3*/dist-packages")
            for each in real.glob(pattern)
        ]
    return sorted(found)


def _digest_packages(site: Sequence[Path]) -> Any:
    """Return names with versions of all packages, and the files of those that are editable."""
    names: list[str] = []
    editable: list[Path] = []
    for folder in site:
        for each in sorted(os.listdir(folder)):
            if each.endswith((".dist-info", ".egg-info")):
                names.append(each)
            elif each.endswith(".pth"):
                editable += _paths_in(folder / each)
    return {"names": names, "editable": _digest_facts(editable)}


def _paths_in(file: Path) -> Iterator[Path]:
    try:
        lines = file.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        if line and not line.startswith(("#", "import ")) and Path(line).is_dir():
            yield Path(line)


def _digest_script(
    path: Path, interpreter: Path, words: Sequence[str], search: Sequence[Path]
) -> dict[str, Any]:
    """Digest a command of a Python package: a short script that imports the package."""
    site = _site_packages(interpreter)
    text = path.read_text("utf-8", errors="replace")
    known = [folder / each for each in _IMPORT.findall(text) for folder in site]
    found = {
        "packages": _digest_packages(site),
        "code": _digest_facts([each for each in known if each.is_dir()]),
    }
    found["named"] = _digest_named_files(words, search)
    return found


def _interpreter_of(path: Path) -> Path | None:
    """Return the interpreter of a script; None for a program that the system runs by itself."""
    try:
        with path.open("rb") as file:
            first = file.readline(300)
    except OSError:
        return None
    found = _SHEBANG.match(first)
    if found is None:
        return None
    program = os.fsdecode(found[1])
    if program.endswith("/env") and found[2] is not None:
        raise NotCacheable(f"{path.name} runs whichever {os.fsdecode(found[2])} is found first")
    return Path(program)


# -- Node.js


def _digest_node(words: Sequence[str], folder: Path) -> dict[str, Any]:
    script = next((folder / each for each in words if _is_file(folder / each)), None)
    if script is None:
        raise NotCacheable("the arguments name no script")
    home = next(
        (each for each in script.resolve().parents if (each / "package.json").is_file()),
        script.resolve().parent,
    )
    lock = home / "node_modules" / ".package-lock.json"
    return {
        "code": _digest_tree([home], _NODE_CODE),
        "packages": _digest_content(lock) if lock.is_file() else "",
    }


# -- folders

_SKIPPED: Final = frozenset(
    {
        *(".git", ".hg", ".svn", ".venv", "venv"),
        *("node_modules", "__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache"),
    }
)


def _files_below(folders: Iterable[Path], endings: tuple[str, ...] | None) -> Iterator[Path]:
    count = 0
    for top in folders:
        for folder, inner, files in os.walk(top):
            inner[:] = sorted(each for each in inner if each not in _SKIPPED)
            for name in sorted(files):
                if endings is None or name.endswith(endings):
                    count += 1
                    if count > _MOST_FILES:
                        raise NotCacheable(f"{top} has more than {_MOST_FILES} files")
                    yield Path(folder) / name


def _digest_tree(folders: Iterable[Path], endings: tuple[str, ...]) -> dict[str, str]:
    """Return the digests of all files with these endings."""
    return {str(each): _digest_content(each) for each in _files_below(folders, endings)}


def _digest_facts(folders: Iterable[Path]) -> str:
    """Return one digest over names, sizes and times of Python files: they are many."""
    total = sha256()
    for each in _files_below(folders, (".py", ".so", ".pyd")):
        facts = each.stat()
        total.update(f"{each}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode(errors="replace"))
    return total.hexdigest()

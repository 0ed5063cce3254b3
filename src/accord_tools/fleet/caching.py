"""When an earlier result may be reused: nothing that a server consists of has changed.

Equal keys mean that a check would find the same again. A key covers accord, the rules, what is
asked of the server, the program with its files and packages, arguments and variables. Values of
variables enter it only as keyed digests, because the history may be published. The catalog is
compared apart, after each start.
"""

import ast
import hmac
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.client.server_spec import ServerSpec
from accord.errors import AccordError
from accord.private_files import user_folder
from accord.version import __version__
from accord_tools.contract.data_files import read_data_file
from accord_tools.contract.expectations import snapshot_file
from accord_tools.fleet.definition import FleetError, FleetServer
from accord_tools.fleet.results import RuleSetStamp

# -- the files that a Python file imports, found by reading it
# All servers of a fleet may import the same packages, so what a file contains is kept: under its
# size and time, because this process may outlive a version of it.

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


# -- programs: the file that runs, what it imports, and the packages beside it

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


def digest_program(resolved: ServerSpec, environ: Mapping[str, str]) -> Any:
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
        if not any(map(_EXACT.search, words)):
            raise NotCacheable(
                f"{name} runs whichever version is the newest: name an exact version"
            )
        return {"fetched by": name}
    found: dict[str, Any] = {
        "program": [str(path), _digest_content(path)],
        "files": _digest_arguments(words, folder),
    }
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


def _digest_arguments(words: Sequence[str], folder: Path) -> dict[str, str]:
    """Return the digests of files that arguments name, also as `--config=FILE`."""
    named = [word.partition("=")[2] if word.startswith("-") else word for word in words]
    paths = [folder / name for name in named if "\0" not in name]
    return {str(path): _digest_content(path) for path in paths if _is_file(path)}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False


def _digest_content(path: Path) -> str:
    try:
        facts = path.stat()
        if facts.st_size > _LARGEST:
            return f"{facts.st_size} {facts.st_mtime_ns}"
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise NotCacheable(f"{path} cannot be read: {error.strerror}") from None


# -- Python


def _digest_python(program: Path, words: Sequence[str], search: Sequence[Path]) -> dict[str, Any]:
    module, script = _entry_of(words)
    site = _site_packages(program)
    code: Any
    if script is not None:
        path = search[0] / script
        code = (
            _digest_tree([path], (".py",))
            if path.is_dir()
            else _digest_modules([path], [path.parent, *search])
        )
        words = [each for each in words if each != script]
    elif module is not None:
        code = _digest_named_module(module, search, site)
    else:
        raise NotCacheable("python -c and code from standard input are not kept")
    return _join_digests(site, code, words, search)


def _join_digests(
    site: Sequence[Path], code: Any, words: Sequence[str], search: Sequence[Path]
) -> dict[str, Any]:
    # A runner such as `accord run server.py` names the file in an argument.
    named = _digest_named_files(words, search)
    return {"packages": _digest_packages(site), "code": code, "named": named}


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
    real = Path(os.path.realpath(program))
    own = ("lib/python3*/site-packages", "Lib/site-packages")
    for each, patterns in (program, own), (real, (own[0], "lib/python3*/dist-packages")):
        found = [
            folder
            for pattern in patterns
            for folder in each.parent.parent.glob(pattern)
            if folder.is_dir()
        ]
        if found:
            return sorted(found)
    return []


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
    code = _digest_facts([each for each in known if each.is_dir()])
    return _join_digests(site, code, words, search)


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


# -- the key

SECRET_VARIABLE: Final = "ACCORD_FLEET_KEY"  # noqa: S105  # the name of a variable
"""Has the key for digests of values, in jobs of CI."""
_SECRET_FILE: Final = "fleet-key"  # noqa: S105  # the name of a file
_SECRET_BYTES: Final = 32


class CacheKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a result, or why it has no key."""

    key: str = ""
    why_not: str = ""


def make_key(
    server: FleetServer,
    resolved: ServerSpec,
    rules: RuleSetStamp,
    *,
    version: str = "",
    environ: Mapping[str, str] | None = None,
) -> CacheKey:
    """Return the key under which the result of a server is kept.

    Args:
        server: what is asked of it.
        resolved: how it is launched.
        rules: the set of rules.
        version: as found where the fleet file says.
        environ: the variables of this process.
    """
    environ = os.environ if environ is None else environ
    try:
        launch: Any = resolved.url or digest_program(resolved, environ)
        cases = [_digest_cases(each) for each in server.cases]
        secret = _user_secret(environ)
    except NotCacheable as error:
        return CacheKey(why_not=str(error))
    parts = {
        "accord": __version__,
        "rules": rules.digest,
        "plan": [
            *(server.revisions, server.only, sorted(server.tools), server.allow_writes),
            *(server.calls, server.contract, server.patience, server.one_at_a_time),
        ],
        "cases": cases,
        "launch": launch,
        "args": [_digest_value(secret, each) for each in resolved.command[1:]],
        "cwd": resolved.cwd,
        "transport": "stdio" if resolved.command else resolved.transport,
        "env": {name: _digest_value(secret, each) for name, each in resolved.env.items()},
        "headers": {name: _digest_value(secret, each) for name, each in resolved.headers.items()},
        "auth": _digest_value(secret, resolved.auth or ""),
        "version": version,
    }
    text = msgspec.json.encode(parts, order="sorted")
    return CacheKey(key=sha256(text).hexdigest())


def _digest_value(secret: bytes, value: str) -> str:
    return hmac.new(secret, value.encode(errors="surrogateescape"), sha256).hexdigest()


def _digest_cases(path: Path) -> list[str]:
    """Return the digests of a case file, and of the results that are kept beside it."""
    kept = snapshot_file(path)
    return [_digest_file(path), _digest_file(kept) if kept.exists() else ""]


def _digest_file(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise NotCacheable(f"{path.name} cannot be read: {error.strerror}") from None


def _user_secret(environ: Mapping[str, str]) -> bytes:
    """Return the key for digests of values: of this user, or given to a job of CI."""
    given = environ.get(SECRET_VARIABLE)
    if given:
        return given.encode()
    path = user_folder(environ) / _SECRET_FILE
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise NotCacheable(f"{path} cannot be read: {error.strerror}") from None
    secret = os.urandom(_SECRET_BYTES)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only one of two runs that start at once may write it.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    except OSError as error:
        raise NotCacheable(
            f"{path} cannot be written: {error.strerror}; set {SECRET_VARIABLE} instead"
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(secret)
    return secret


def read_version(server: FleetServer, resolved: ServerSpec, folder: Path) -> str:
    """Return the version of a server from where the fleet file says; empty if it says nothing.

    Raises:
        FleetError: it cannot be found there.
    """
    source = server.version
    if source is None:
        return ""

    if source.file is not None:
        return version_in_file(source.file)
    if source.command:
        return version_of_command(source.command, folder)
    if source.package is None:
        raise FleetError(f"server {server.name!r}: version needs package, command or file")
    return version_of_package(source.package, resolved)


# -- the version of a server, from its package, a command or a file

_SECONDS: Final = 20.0
_LONGEST: Final = 200
_SEPARATORS: Final = re.compile(r"[-_.]+")
# Any file can be named, and reports show what is found, so other texts are not taken for one.
_VERSION: Final = re.compile(r"[vV]?\d[\w.+!-]{0,63}")


def version_in_file(path: Path) -> str:
    """Return the version that a project file or a text file names.

    Raises:
        FleetError: there is no such file, or no version in it.
    """
    try:
        text = read_data_file(path).decode("utf-8-sig")
        if path.suffix == ".toml":
            found: Any = tomllib.loads(text)
            found = found.get("project", found.get("package", found)).get("version")
        elif path.suffix == ".json":
            found = json.loads(text).get("version")
        else:
            found = text.strip().partition("\n")[0]
    except OSError as error:
        raise FleetError(f"version: {path}: {error.strerror}") from None
    except (ValueError, AttributeError, RecursionError) as error:
        raise FleetError(f"version: {path} cannot be read: {error}") from None
    if not isinstance(found, str) or not _VERSION.fullmatch(found.strip()):
        raise FleetError(f"version: {path} names no version, which begins with a digit")
    return found.strip()


def version_of_command(command: Sequence[str], folder: Path) -> str:
    """Return the first line that a command prints.

    Raises:
        FleetError: it fails, or prints nothing.
    """
    try:
        done = subprocess.run(  # noqa: S603  # of the fleet file, which the user confirmed
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or f"no answer within {_SECONDS:g} s"
        raise FleetError(f"version: {command[0]}: {why}") from None
    lines = done.stdout.split("\n")
    if done.returncode or not lines[0].strip():
        raise FleetError(f"version: {command[0]} ended with {done.returncode} and no version")
    return lines[0].strip()[:_LONGEST]


def version_of_package(named: str, resolved: ServerSpec) -> str:
    """Return the version of an installed package, as "pypi:NAME" or "npm:NAME" names it.

    Raises:
        FleetError: it is not installed beside the program.
    """
    kind, _, name = named.partition(":")
    if kind == "npm":
        top = Path(resolved.cwd or Path.cwd())
        words = [top / each for each in resolved.command]
        for folder in [top, *(each.parent for each in words)]:
            for around in (folder, *folder.parents):
                manifest = around / "node_modules" / name / "package.json"
                if manifest.is_file():
                    return version_in_file(manifest)
    elif kind == "pypi" and resolved.command:
        home = Path(resolved.command[0]).parent.parent
        wanted = _SEPARATORS.sub("-", name).lower()
        for each in home.glob("lib/python3*/site-packages/*.dist-info"):
            found, _, version = each.name.removesuffix(".dist-info").rpartition("-")
            if _SEPARATORS.sub("-", found).lower() == wanted:
                return version
    raise FleetError(f"version: the package {named!r} is not installed where the server runs")

"""Servers in a repository, found by reading files: nothing is imported or launched."""

import ast
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from accord_tools.contract.data_files import read_data_file
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.file.document import read_document
from accord_tools.fleet.sources.host_files import (
    move_entry,
    project_files,
    read_host_file,
    relative_path,
)
from accord_tools.fleet.sources.insertion import hide_literals, is_writable, make_unique
from accord_tools.hosts.sources.entry_forms import (
    FoundServer,
    is_server_json,
    plain_name,
    read_server_json,
)

_SKIPPED: Final = frozenset(
    "node_modules site-packages __pycache__ dist build target vendor venv env".split()  # noqa: SIM905
)
_TEST_FOLDERS: Final = frozenset({"test", "tests", "testing", "__tests__", "spec", "fixtures"})
_MOST_FILES: Final = 50_000
_LARGEST: Final = 1_000_000
# Names that say nothing about the server.
_USUAL_STEMS: Final = ("server", "main", "app", "__main__", "__init__", "mcp_server", "index")
# Modules whose function `run` serves nothing by itself.
_OTHER_RUNS: Final = frozenset({"asyncio", "anyio", "trio", "subprocess", "uvicorn"})
_HTTP: Final = frozenset({"http", "streamable-http", "sse"})
# Options of node with a value of their own have it after "=".
_NODE_START: Final = re.compile(r"\s*node(?:\s+-\S+)*\s+([^-\s]\S*\.[cm]?js)\b")
_SDK: Final = ("@modelcontextprotocol/sdk", "@modelcontextprotocol/server", "fastmcp")


def find_servers(
    folder: Path, *, base: Path | None = None, has_tests: bool = False
) -> list[FoundServer]:
    """Return the servers of a repository, with placeholders for secrets.

    Args:
        folder: of the repository.
        base: the folder of the fleet file, which paths are relative to; None is the same.
        has_tests: whether to look into folders of tests too.
    """
    base = base or folder
    found = [each for path in _project_files(folder) for each in _from_host_file(path, base)]
    named = {path for each in found for path in _named_files(each, base)}
    for path in _walk(folder, has_tests=has_tests):
        if path.resolve() in named:
            continue  # an entry of a host launches it already
        if path.suffix == ".py":
            found += _from_python(path, base)
        elif path.name == "package.json":
            found += _from_package(path, base, named)
        else:
            found += _from_registry(path, base)
    return make_unique(filter(is_writable, hide_literals(found)))


def _named_files(found: FoundServer, base: Path) -> Iterator[Path]:
    """Yield the files that an entry names in its arguments."""
    folder = base / str(found.entry.get("cwd", ""))
    for word in found.entry.get("args", ()):
        if isinstance(word, str) and "\0" not in word and (folder / word).is_file():
            yield (folder / word).resolve()


def _project_files(folder: Path) -> list[Path]:
    return [path for name in project_files() if (path := folder / name).is_file()]


def _walk(folder: Path, *, has_tests: bool) -> Iterator[Path]:
    """Yield the files that may have a server, without those of installed packages."""
    count = 0
    for place, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(
            each
            for each in folders
            if not each.startswith(".")
            and each not in _SKIPPED
            and (has_tests or each not in _TEST_FOLDERS)
        )
        for name in sorted(files):
            count += 1
            if count > _MOST_FILES:
                return
            is_test = name.startswith("test_") or name == "conftest.py"
            if name in ("package.json", "server.json") or (
                name.endswith(".py") and (has_tests or not is_test)
            ):
                yield Path(place, name)


def _read(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        return read_data_file(path).decode()
    except (OSError, UnicodeDecodeError):
        return ""


def _from_host_file(path: Path, folder: Path) -> list[FoundServer]:
    try:
        found = read_host_file(path, relative_path(path, folder))
    except FleetError:
        return []  # settings of a host without servers, or a file that it cannot read either
    return [move_entry(each, path, folder) for each in found]


def _data_of(path: Path) -> Mapping[str, Any]:
    try:
        return read_document(path).data
    except FleetError:
        return {}


def _from_registry(path: Path, folder: Path) -> list[FoundServer]:
    data = _data_of(path)
    return read_server_json(data, relative_path(path, folder)) if is_server_json(data) else []


# -- packages of Node.js


def _from_package(path: Path, folder: Path, named: set[Path]) -> list[FoundServer]:
    data = _data_of(path)
    needed: set[str] = set()
    for member in ("dependencies", "devDependencies", "peerDependencies"):
        if isinstance(data.get(member), dict):
            needed |= set(data[member])
    if not needed & set(_SDK):
        return []
    own = str(data.get("name") or path.parent.name)
    bins: Any = data.get("bin") or _started_script(data)
    if isinstance(bins, str):
        bins = {own: bins}
    found = []
    for name, file in bins.items() if isinstance(bins, dict) else ():
        script = path.parent / str(file)
        if script.resolve() in named:
            continue
        remark = () if script.is_file() else ("its program is not built yet: npm run build",)
        found.append(
            FoundServer(
                name=plain_name(str(name)),
                entry={"command": "node", "args": [relative_path(script, folder)]},
                source=relative_path(path, folder),
                remarks=remark,
            )
        )
    return found


def _started_script(data: Mapping[str, Any]) -> str | None:
    """Return the script that `npm start` runs with node; else `main`, if there is a start."""
    scripts = data.get("scripts")
    start = scripts.get("start") if isinstance(scripts, dict) else None
    if not isinstance(start, str):
        return None  # a library
    found = _NODE_START.match(start)
    main = data.get("main")
    return found[1] if found else main if isinstance(main, str) else None


# -- Python


def _from_python(path: Path, folder: Path) -> list[FoundServer]:
    text = _read(path)
    if not ("accord" in text or "mcp" in text):
        return []
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    imports = _imported_names(tree)
    own = [name for name, origin in imports.items() if origin in ("accord.Server", "accord")]
    servers = _assigned_servers(tree, own, imports)
    run = _find_run(tree, imports)
    source = relative_path(path, folder)
    if servers:
        if run == "stdio" and len(servers) == 1:
            name = servers[0][1] or _file_name(path)
            return [FoundServer(name=name, entry=_python_entry(path, folder, tree), source=source)]
        return [
            FoundServer(
                name=name or _file_name(path),
                entry={
                    "command": _python(),
                    "args": ["-m", "accord", "run", f"{source}:{variable}"],
                },
                source=source,
            )
            for variable, name in servers
        ]
    if run and any(_is_other_library(origin) for origin in imports.values()):
        name = _other_name(tree, imports) or _file_name(path)
        entry = _python_entry(path, folder, tree)
        remarks = ("it serves HTTP: launch it, and write its url instead",) if run == "http" else ()
        return [FoundServer(name=name, entry=entry, source=source, remarks=remarks)]
    return []


def _python() -> str:
    return "python" if shutil.which("python") or not shutil.which("python3") else "python3"


def _is_other_library(origin: str) -> bool:
    return origin in ("fastmcp", "fastmcp.FastMCP") or (
        origin.startswith("mcp.server")
        and origin.rpartition(".")[2] in ("FastMCP", "MCPServer", "Server", "stdio_server", "stdio")
    )


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Return the names that a module imports, with where each comes from."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return names


def _assigned_servers(
    tree: ast.Module, own: list[str], imports: dict[str, str]
) -> list[tuple[str, str]]:
    """Return the variables at the top level that hold a server of accord, and its name."""
    found = []
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Call) and _is_server_call(value.func, own, imports):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[attr-defined]  # one of the two
            names = [each.id for each in targets if isinstance(each, ast.Name)]
            found += [(name, _first_text(value)) for name in names]
    return found


def _is_server_call(function: ast.expr, own: list[str], imports: dict[str, str]) -> bool:
    if isinstance(function, ast.Subscript):  # Server[State]("name")
        function = function.value
    if isinstance(function, ast.Name):
        return function.id in own and imports[function.id] == "accord.Server"
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "Server"
        and isinstance(function.value, ast.Name)
        and imports.get(function.value.id) == "accord"
    )


def _first_text(call: ast.Call) -> str:
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "name")]
    for each in given:
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.strip():
            return plain_name(each.value)
    return ""


def _other_name(tree: ast.Module, imports: dict[str, str]) -> str:
    """Return the name that a server of another library is given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            origin = imports.get(node.func.id, "")
            if origin.endswith((".FastMCP", ".Server", ".MCPServer")):
                return _first_text(node)
    return ""


def _find_run(tree: ast.Module, imports: dict[str, str]) -> str:
    """Return how a module serves when it is run as a program: "stdio", "http", or not at all."""
    found = ""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "stdio_server":
            return "stdio"
        if not isinstance(function, ast.Attribute) or function.attr not in ("run", "run_async"):
            continue
        owner = function.value
        if isinstance(owner, ast.Name) and imports.get(owner.id) in _OTHER_RUNS:
            continue
        given = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "transport")]
        if not any(isinstance(each, ast.Constant) and each.value in _HTTP for each in given):
            return "stdio"
        found = "http"
    return found


def _file_name(path: Path) -> str:
    stem = path.parent.name if path.stem.lower() in _USUAL_STEMS else path.stem
    return plain_name(stem or path.stem)


def _python_entry(path: Path, folder: Path, tree: ast.Module) -> dict[str, Any]:
    """Return how to launch a module: as a file, or by its name if it imports its neighbours."""
    is_inner = path.stem == "__main__" or any(
        isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree)
    )
    if not is_inner:
        return {"command": _python(), "args": [relative_path(path, folder)]}
    top = path.parent
    parts = [] if path.stem == "__main__" else [path.stem]
    while (top / "__init__.py").is_file() and top != top.parent:
        parts.insert(0, top.name)
        top = top.parent
    if path.stem == "__main__" and not parts:
        return {"command": _python(), "args": [relative_path(path, folder)]}
    entry: dict[str, Any] = {"command": _python(), "args": ["-m", ".".join(parts)]}
    cwd = relative_path(top, folder)
    return entry if cwd == "." else {**entry, "cwd": cwd}

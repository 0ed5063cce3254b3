"""Targets of commands: a Python file or module with a `Server`, a command line, or a URL.

Every error message is one line with the cause and what to do.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accord.cli.commands import load_extension
from accord.cli.options import UsageError, did_you_mean
from accord.runtime.source_files import describe_syntax_error, shorten_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from accord.client.server_spec import ServerSpec
    from accord.server import Server


_USUAL_NAMES: Final = ("server", "mcp", "app")
_OBJECT: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_LOCAL: Final = r"localhost|127(?:\.\d{1,3}){3}|\[::1\]"
# host:port, or a host with the path that servers usually have; a module has neither.
_ADDRESS: Final = re.compile(
    rf"(?:{_LOCAL}|[\w-]+(?:\.[\w-]+)+)(?::\d{{1,5}}(?:/\S*)?|/(?:mcp|sse)/?)|(?:{_LOCAL})",
    re.IGNORECASE,
)
# Files with servers, or with one; #NAME says which.
_FILES: Final = (".json", ".jsonc", ".toml", ".yaml", ".yml", ".mcpb", ".dxt")
_PLUGIN_FILES: Final = ("plugin.json", "mcp.json")
_PACKAGE: Final = re.compile(r"(?:npm|pypi):|@[a-z0-9~][\w.~-]*/")
# -P: a file in the current folder must not hide a module of the same name.
RUN_WORDS: Final = ("-P", "-m", "accord.cli.main", "run", "--stdio")
"""What follows the path of Python, before the target, in the command that serves it."""
# Names in a list of suggestions.
_SHOWN: Final = 5
_LONGEST_LINE: Final = 80


class ServerPlace(NamedTuple):
    """The file or module of a server, and the name of the object in it, if given."""

    shown: str
    file: Path | None
    module: str
    object: str

    @property
    def target(self) -> str:
        """The target that names this place from any folder."""
        where = self.module if self.file is None else str(self.file.absolute())
        return f"{where}:{self.object}" if self.object else where


def names_entry(options: "argparse.Namespace") -> bool:
    """Return whether TARGET is the name of a server in a configuration."""
    return bool(options.config or host_of(options))


def host_of(options: "argparse.Namespace") -> str:
    """Return the host of `--host`, which says in `accord proxy` where to listen; empty without."""
    return "" if getattr(options, "listens_at_host", False) else options.host or ""


def names_file(target: str) -> bool:
    """Return whether TARGET is a file that says how a server is reached, or a package."""
    where = Path(target.partition("#")[0])
    if where.is_dir():
        return all((where / each).is_file() for each in _PLUGIN_FILES)
    return _PACKAGE.match(target) is not None or where.suffix.lower() in _FILES


def is_placed(options: "argparse.Namespace") -> bool:
    """Return whether TARGET is a Python file or module, which `locate` finds."""
    given = options.command or names_entry(options) or is_url(options.target)
    return not given and not names_file(options.target)


def read_target(options: "argparse.Namespace", *, keeps_placeholders: bool = False) -> "ServerSpec":
    """Return the server that the command line names, with the values of options.

    It is read once: its user may be asked whether it may be launched.

    Raises:
        UsageError: it cannot be found.
    """
    if getattr(options, "spec", None) is None:
        options.spec = _read_target(options, keeps_placeholders=keeps_placeholders)
    spec: ServerSpec = options.spec
    return spec


def _read_target(options: "argparse.Namespace", *, keeps_placeholders: bool) -> "ServerSpec":
    from accord.client.server_spec import ServerSpec

    headers = dict(options.header)
    if not names_entry(options) and (options.command or not names_file(options.target)):
        given = {"env": dict(options.env), "cwd": options.cwd, "headers": headers}
        found = command_of(options)
        if isinstance(found, str):
            demand_url(found)
            return ServerSpec(name=found, url=found, headers=headers)
        return ServerSpec(name=options.target, command=tuple(found), **given)
    if names_entry(options) and options.command:
        raise UsageError("with --config or --host the TARGET is the name of a server in it")
    if options.config and host_of(options):
        raise UsageError("either --config or --host, not both")
    read: Callable[..., ServerSpec] | None = load_extension("accord.targets", "read")
    if read is None:
        option = "--config and --host need" if names_entry(options) else f"{options.target} needs"
        raise UsageError(f"{option} an installation of accord with its tools")
    options.launches = getattr(options, "launches", True)
    return read(options, options.target, keeps_placeholders=keeps_placeholders)


def demand_target(options: "argparse.Namespace", command: str) -> None:
    """Check that the command line names one server."""
    if not options.target and not options.command and not names_entry(options):
        raise UsageError(
            f"{command} needs a TARGET: a URL, a Python file, a module, or -- and a command"
        )
    if options.target and options.command and not names_entry(options):
        raise UsageError(f"either {options.target} or the command after --, not both")
    if options.rest:
        # A command line without -- is the more likely mistake; `locate` reports it.
        if is_placed(options):
            locate(options.target, options.rest)
        raise UsageError(f"{command} takes one TARGET; unexpected {' '.join(options.rest)}")
    if names_entry(options):
        read_target(options)


# -- finding


def is_url(target: str) -> bool:
    """Tell whether a target is a URL of a server."""
    return _URL.match(target) is not None


def demand_url(url: str) -> None:
    """Refuse a URL that a server cannot have."""
    from urllib.parse import urlsplit

    if not is_url(url):
        raise UsageError(f"{url[:200]}: the URL of a server begins with http:// or https://")
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise UsageError(f"{url[:200]} is not the URL of a server, http(s)://host/path")


def command_of(options: "argparse.Namespace") -> list[str] | str:
    """Return the target for `connect`: the command that launches a server, or a URL."""
    if options.command:
        return list(options.command)
    if is_url(options.target):
        return str(options.target)
    place = locate(options.target, options.rest)
    return [sys.executable, *RUN_WORDS, place.target]


def locate(target: str, following: Sequence[str] = ()) -> ServerPlace:
    """Find the file or module that a target names, without importing it."""
    if "://" in target:
        demand_url(target)
    where, name = _split(target)
    path = Path(where)
    if path.is_dir() and not (name and (path / "__init__.py").is_file()):
        raise UsageError(f"{where} is a folder; name the file in it{_list_files(path)}")
    if path.is_file() and path.suffix == ".py":
        return ServerPlace(shorten_path(where), path, _module_name(path), name)
    if path.suffix == ".py" and not _is_command_line(where):
        raise UsageError(f"there is no file {where}{_suggest_files(path)}")
    if _OBJECT.fullmatch(where) and _is_module(where):
        return ServerPlace(where, None, where, name)
    raise UsageError(_explain_missing(where, path, following))


def _split(target: str) -> tuple[str, str]:
    where, colon, name = target.rpartition(":")
    if colon and where and _OBJECT.fullmatch(name):
        return where, name
    if colon and where and not name:
        raise UsageError(
            f"{target} lacks the name of an object after the colon, as in {where}:server"
        )
    return target, ""


def _is_module(name: str) -> bool:
    """Whether there is a module; only its top package is looked for, since more would import it."""
    from importlib.machinery import PathFinder

    top = name.partition(".")[0]
    return top in sys.modules or PathFinder.find_spec(top, [os.getcwd(), *sys.path]) is not None


def suggest_url(target: str) -> str:
    """Return the URL for a host and port; empty if the target is not like one."""
    if not _ADDRESS.fullmatch(target):
        return ""
    scheme = "http" if re.match(_LOCAL, target, re.IGNORECASE) else "https"
    return f"{scheme}://{target}{'' if '/' in target else '/mcp'}"


def _explain_missing(where: str, path: Path, following: Sequence[str]) -> str:
    if not path.exists() and (url := suggest_url(where)):
        return f"{where} is an address; a URL begins with http:// or https://: {url}"
    if _is_command_line(where):
        return f"{where!r} is a command line; write it after --: -- {where}"
    if path.is_file():
        known = path.suffix in (".js", ".mjs", ".cjs", ".ts")
        runner = "node " if known else "" if os.access(path, os.X_OK) else "COMMAND "
        return f"{where} is not a Python file; write a command after --: -- {runner}{where}"
    if _is_command(where):
        from shlex import join

        line = join([where, *following])
        return f"{where} is a command; write it after --: -- {line}"
    if os.sep in where or path.suffix:
        return f"there is no file {where}{_suggest_files(path)}"
    python = path.with_name(f"{path.name}.py")
    if python.is_file():
        return f"there is no module {where}; did you mean {python}?"
    known_names = [each.stem for each in Path.cwd().glob("*.py")]
    hint = did_you_mean(where, known_names)
    return f"there is no module {where} in {Path.cwd()} or among the installed packages{hint}"


def _is_command_line(text: str) -> bool:
    first, space, _ = text.partition(" ")
    return bool(space) and _is_command(first)


def _is_command(name: str) -> bool:
    # Imported late, because only mistakes need it: hosts wait for `accord run`.
    from shutil import which

    return which(name) is not None


def _suggest_files(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f": there is no folder {folder}"
    stems = sorted(each.stem for each in folder.glob("*.py"))
    hint = did_you_mean(path.stem, stems, lambda stem: str(folder / f"{stem}.py"))
    if hint:
        return hint
    here = "here" if str(folder) == "." else f"in {folder}"
    files = _join_some(f"{stem}.py" for stem in stems)
    return f"; {here} are {files}" if files else f": there are no Python files {here}"


def _list_files(folder: Path) -> str:
    files = sorted(folder.glob("*.py"))
    with_server = [each for each in files if b"Server(" in each.read_bytes()]
    shown = with_server or files
    return f": {_join_some(map(str, shown))}" if shown else ", such as server.py"


def _did_you_mean_module(name: str) -> str:
    package, _, last = name.rpartition(".")
    folders = getattr(sys.modules.get(package), "__path__", ())
    known = [each.stem for folder in folders for each in Path(folder).glob("[!_]*.py")]
    return did_you_mean(last, known)


def _join_some(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# -- importing the module


def load(place: ServerPlace) -> "Server[Any]":
    """Import the user's code and return its one server."""
    sys.argv = [place.shown]
    try:
        module = _import(place)
    except SyntaxError as error:
        raise UsageError(describe_syntax_error(error, place.shown)) from None
    except SystemExit as error:
        where = _describe_frame(error.__traceback__)
        raise UsageError(
            f"{place.shown} ended the process while it was imported ({where}): "
            'put that under if __name__ == "__main__":'
        ) from None
    except Exception as error:
        raise UsageError(_describe_import_error(error, place)) from None
    return _find_object(module, place) if place.object else _find_server(module, place)


def _import(place: ServerPlace) -> ModuleType:
    packages = place.module.count(".")
    folder = Path.cwd() if place.file is None else place.file.absolute().parents[packages]
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if place.file is None or packages:
        return import_module(place.module)
    spec = importlib.util.spec_from_file_location(place.module, place.file.absolute())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Modules that the file imports may import it back.
    sys.modules[place.module] = module
    spec.loader.exec_module(module)
    return module


def _module_name(path: Path) -> str:
    """Return the module name of a file, with its packages; one that is not loaded already."""
    path = path.absolute()
    parts = [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    name = ".".join(parts)
    return name if len(parts) > 1 or name not in sys.modules else f"accord_target_{path.stem}"


# -- errors in the user's code


def _describe_import_error(error: Exception, place: ServerPlace) -> str:
    where = _describe_frame(error.__traceback__) or place.shown
    if isinstance(error, ModuleNotFoundError) and error.name:
        if f"{place.module}.".startswith(f"{error.name}."):
            return f"there is no module {error.name}{_did_you_mean_module(error.name)}"
        return (
            f"{where}: the module {error.name} is not installed for {sys.executable}: "
            f"install it there, or run accord with the Python that has it"
        )
    said = " ".join(str(error).split())
    return f"{where}: {type(error).__name__}" + (f": {said}" if said else "")


def _describe_frame(traceback: TracebackType | None) -> str:
    """Return file and line of the last frame in the user's own code."""
    import linecache
    from sysconfig import get_paths
    from traceback import walk_tb

    import accord

    own = os.path.dirname(accord.__file__)
    installed = tuple({os.path.realpath(each) + os.sep for each in get_paths().values()})
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in walk_tb(traceback)
        if not frame.f_code.co_filename.startswith((own, "<"))
    ]
    users = [each for each in frames if not os.path.realpath(each[0]).startswith(installed)]
    if not frames:
        return ""
    file, line = (users or frames)[-1]
    source = linecache.getline(file, line).strip()[:_LONGEST_LINE]
    return f"{shorten_path(file)}:{line}" + (f" `{source}`" if source else "")


# -- the server in the module


def _find_object(module: ModuleType, place: ServerPlace) -> "Server[Any]":
    from accord.server import Server

    found: Any = module
    for part in place.object.split("."):
        if not hasattr(found, part):
            known = did_you_mean(part, (name for name in vars(found) if not name.startswith("_")))
            known = known or _suggest_names(_servers(module), place)
            raise UsageError(f"{place.shown} has no {place.object}{known}")
        found = getattr(found, part)
    if not isinstance(found, Server) and callable(found):
        found = _call_factory(found, place)
    if not isinstance(found, Server):
        raise UsageError(
            f"{place.shown}:{place.object} is a {type(found).__name__}, expected a Server or a "
            "function that returns one"
        )
    return found


def _call_factory(factory: Any, place: ServerPlace) -> Any:
    try:
        return factory()
    except Exception as error:
        where = _describe_frame(error.__traceback__) or place.shown
        raise UsageError(
            f"{where}: {place.object}() failed: {type(error).__name__}: {error}"
        ) from None


def _find_server(module: ModuleType, place: ServerPlace) -> "Server[Any]":
    from accord.server import Server

    for name in _USUAL_NAMES:
        found = getattr(module, name, None)
        if isinstance(found, Server):
            return found
    servers = _servers(module)
    if len({id(each) for each in servers.values()}) == 1:
        return next(iter(servers.values()))
    if servers:
        raise UsageError(
            f"{place.shown} has {len(servers)} servers{_suggest_names(servers, place)}"
        )
    raise UsageError(f"{place.shown} has no Server object{_explain_no_server(module, place)}")


def _servers(module: ModuleType) -> "dict[str, Server[Any]]":
    from accord.server import Server

    return {name: each for name, each in vars(module).items() if isinstance(each, Server)}


def _suggest_names(servers: Iterable[str], place: ServerPlace) -> str:
    names = list(servers)
    if not names:
        return ""
    return f": {_join_some(names)}; say which, as in {place.shown}:{names[0]}"


def _explain_no_server(module: ModuleType, place: ServerPlace) -> str:
    """Suggest what to change when a module has no server at its top level."""
    own = {
        name: each
        for name, each in vars(module).items()
        if getattr(each, "__module__", None) == module.__name__
    }
    for name, each in own.items():
        if callable(each) and "Server" in str(getattr(each, "__annotations__", {}).get("return")):
            return f", but the function {name} makes one: say {place.shown}:{name}"
    for name, each in vars(module).items():
        kind = type(each)
        if kind.__name__ in ("FastMCP", "Server", "MCPServer") and not isinstance(each, type):
            return (
                f": {name} is a {kind.__name__} of another library ({kind.__module__}); "
                f"a command works with any: -- python {place.shown}"
            )
    return (
        ' at its top level; write server = Server("name") there, outside of functions and of '
        "`if __name__ ...`"
    )

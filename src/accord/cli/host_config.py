"""The entry for a server in a host's configuration; it works from any folder and without PATH."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final

from accord.cli.options import UsageError
from accord.cli.target import ServerPlace

# Hosts on this machine cannot connect to the address that means all addresses.
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}  # noqa: S104
_LISTING_TIMEOUT: Final = 30.0


def launch_config(place: ServerPlace, options: Sequence[str]) -> str:
    """Return the configuration, as JSON, for hosts that launch a server over stdio.

    The interpreter and the file are named by their full paths: hosts have neither the PATH of a
    virtual environment nor the current folder. Some accept well-known commands only, so the
    interpreter is launched and not the script `accord`.

    Args:
        place: the file or module that has the server.
        options: further options of `accord run`.
    """
    if not sys.executable:
        raise UsageError("the path of this Python is unknown; write the configuration by hand")
    target = place.target if place.file is not None else _module_target(place)
    # -P: a file in the host's folder must not hide a module of the standard library.
    args = ["-P", "-m", "accord", "run", target, *options]
    entry: dict[str, Any] = {"command": os.path.abspath(sys.executable), "args": args}
    folders = _import_folders(place)
    if folders:
        entry["env"] = {"PYTHONPATH": os.pathsep.join(folders)}
    return _as_json(place, entry)


def url_config(place: ServerPlace, host: str, port: int, path: str = "/mcp") -> str:
    """Return the configuration, as JSON, for hosts that connect to a server over HTTP."""
    if port == 0:
        raise UsageError("--print-config needs the port that hosts connect to: --port 8000")
    name = _ANY_ADDRESS.get(host) or (f"[{host}]" if ":" in host else host)
    return _as_json(place, {"type": "http", "url": f"http://{name}:{port}{path}"})


def _as_json(place: ServerPlace, entry: dict[str, Any]) -> str:
    name = place.file.stem if place.file is not None else place.module.rpartition(".")[2]
    return json.dumps({"mcpServers": {name: entry}}, indent=2) + "\n"


def _module_target(place: ServerPlace) -> str:
    return f"{place.module}:{place.object}" if place.object else place.module


def _import_folders(place: ServerPlace) -> list[str]:
    """Return the folders for PYTHONPATH: hosts do not pass our environment on."""
    wanted = [Path(__file__).parents[2]]
    if place.file is None:
        wanted += _find_folders(place.module.partition(".")[0])
    wanted += [Path(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    known = _default_folders()
    folders = [str(each.absolute()) for each in wanted]
    return list(dict.fromkeys(each for each in folders if os.path.realpath(each) not in known))


def _find_folders(package: str) -> list[Path]:
    """Return the folder that a module or package is imported from, without importing it."""
    spec = PathFinder.find_spec(package, [os.getcwd(), *sys.path])
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(each).parent for each in spec.submodule_search_locations]
    return [] if spec.origin is None else [Path(spec.origin).parent]


def _default_folders() -> set[str]:
    """Return the import path of this Python in an empty environment."""
    code = "import json, sys; print(json.dumps(sys.path))"
    try:
        done = subprocess.run(  # noqa: S603  # the interpreter that runs this
            [sys.executable, "-P", "-c", code],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LISTING_TIMEOUT,
            check=True,
        )
        return {os.path.realpath(each) for each in json.loads(done.stdout) if each}
    except (OSError, ValueError, subprocess.SubprocessError):
        return set()  # then all folders are named, which does no harm

"""`accord run`: serve a server over stdin and stdout, or over HTTP."""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from accord.cli.options import Commands, UsageError, add_command
from accord.cli.target import ServerPlace, load, locate
from accord.cli.terminal import complain, say

_HELP = """\
usage: accord run [options] TARGET

Serve a server over stdin and stdout, as hosts launch it, or over HTTP.

TARGET is a Python file or a module with a Server in it: server.py, server.py:name, package.module,
package.module:name. Without a name the objects server, mcp and app are tried first, then any
Server; a function is called, and its result is served. What the code prints goes to stderr, not to
stdout.

--print-config prints what a host's configuration needs to launch this server, or to connect to it
with --http: full paths, so that it works from any folder and without PATH.

Exit code: 0 the input ended or a signal arrived, 1 the server failed, 2 it could not be started.

examples:
  accord run server.py
  accord run server.py --print-config
  accord run package.servers:make_desk --grace 10
  accord run server.py --http --port 8000
"""


_GRACE: Final = 1.5
# Hosts on this machine cannot connect to the address that means all addresses.
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}  # noqa: S104
_LISTING_TIMEOUT: Final = 30.0
_OPTIONS = f"""\
target? TARGET  what to serve
rest* WORD
--grace S       seconds for running calls to finish after the input has ended (default: {_GRACE})
--http          serve over HTTP, at /mcp
--host H        where to listen (default: 127.0.0.1)
--port P        0 takes any free port (default: 8000)
--sse           with --http: serve the older form too, at /sse and /messages
--print-config  print the entry for a host's configuration, with full paths, and serve nothing
"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "run", run, _HELP, _OPTIONS, grace=_GRACE, host="127.0.0.1", port=8000)


def run(options: argparse.Namespace) -> int:
    """Serve until the input ends."""
    if options.command:
        raise UsageError(
            "run serves a Python file or module, not a command; start the command itself"
        )
    if not options.target:
        raise UsageError("run needs a TARGET: a Python file or module with a Server")
    _refuse_command([options.target, *options.rest])
    place = locate(options.target, options.rest)
    if options.rest:
        raise UsageError(f"run takes one TARGET; unexpected {' '.join(options.rest)}")
    if options.print_config:
        say(_host_config(place, options))
        return 0
    if options.http:
        server = load(place)
        if not server.was_run:
            server.run(
                "http", grace=options.grace, host=options.host, port=options.port, sse=options.sse
            )
        return 0
    is_watched = sys.stdin is not None and sys.stdin.isatty()
    _claim()
    server = load(place)
    if server.was_run:
        # The file called run() on import; its input has ended.
        return 0
    if is_watched:
        complain(f"serving {server.info.name} on stdin and stdout, one message a line; Ctrl-C ends")
    server.run(grace=options.grace)
    return 0


def _refuse_command(words: list[str]) -> None:
    """Refuse a whole command line, such as `python server.py`."""
    files = [word for word in words[1:] if word.endswith(".py")]
    if files and not words[0].endswith(".py"):
        raise UsageError(f"run takes only the file, without {words[0]}: accord run {files[0]}")


def _claim() -> None:
    """Claim stdout before any code of the user can print to it."""
    from accord.transports.stdio import claim

    # The number of a closed descriptor may belong to another file by now.
    if sys.stdin is None or sys.stdout is None:
        raise UsageError("stdin or stdout is closed; a server needs both")
    claim()


# -- the entry for a host's configuration; it works from any folder and without PATH


def _host_config(place: ServerPlace, options: argparse.Namespace) -> str:
    import json

    entry = _url_entry(options) if options.http else _launch_entry(place, options)
    name = place.file.stem if place.file is not None else place.module.rpartition(".")[2]
    return json.dumps({"mcpServers": {name: entry}}, indent=2) + "\n"


def _url_entry(options: argparse.Namespace) -> dict[str, object]:
    if options.port == 0:
        raise UsageError("--print-config needs the port that hosts connect to: --port 8000")
    host = options.host
    name = _ANY_ADDRESS.get(host) or (f"[{host}]" if ":" in host else host)
    return {"type": "http", "url": f"http://{name}:{options.port}/mcp"}


def _launch_entry(place: ServerPlace, options: argparse.Namespace) -> dict[str, object]:
    """Return the entry for hosts that launch a server over stdio.

    The interpreter and the file are named by their full paths: hosts have neither the PATH of a
    virtual environment nor the current folder. Some accept well-known commands only, so the
    interpreter is launched and not the script `accord`.
    """
    if not sys.executable:
        raise UsageError("the path of this Python is unknown; write the configuration by hand")
    grace = [] if options.grace == _GRACE else ["--grace", f"{options.grace:g}"]
    # -P: a file in the host's folder must not hide a module of the standard library.
    args = ["-P", "-m", "accord", "run", place.target, *grace]
    entry: dict[str, object] = {"command": os.path.abspath(sys.executable), "args": args}
    folders = _import_folders(place)
    if folders:
        entry["env"] = {"PYTHONPATH": os.pathsep.join(folders)}
    return entry


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
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(package, [os.getcwd(), *sys.path])
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(each).parent for each in spec.submodule_search_locations]
    return [] if spec.origin is None else [Path(spec.origin).parent]


def _default_folders() -> set[str]:
    """Return the import path of this Python in an empty environment."""
    import json
    import subprocess

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

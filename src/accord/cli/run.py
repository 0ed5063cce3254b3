"""`accord run`: serve a server over stdin and stdout, or over HTTP."""

import argparse
import os
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import Commands, UsageError, add_command
from accord.cli.run_settings import (
    DEFAULTS,
    RunSettings,
    find_address,
    http_settings,
    option_lines,
    read_settings,
)
from accord.cli.target import ServerPlace, is_url, load, locate, names_file
from accord.cli.terminal import complain, say
from accord.errors import AccordError, ConfigurationError
from accord.runtime import GRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from socket import socket

    from accord.http.server.app import HttpApp
    from accord.server import Server
    from accord.sharing.serving.worker_processes import WorkerEnd

_HELP = """\
usage: accord run [options] TARGET

Serve a server over stdin and stdout, as hosts launch it, or over HTTP.

TARGET is a Python file or a module with a Server in it: server.py, server.py:name, package.module,
package.module:name. Without a name the objects server, mcp and app are tried first, then any
Server; a function is called, and its result is served. What the code prints goes to stderr, not to
stdout.

Or TARGET is the configuration of a host, such as mcp.json: all servers that it names are served as
one. With several servers, each name is prefixed with that of its server. A server that does not
start is logged, and its entries appear once it can be reached.

Over HTTP, only requests to localhost are served unless --public-url or --allowed-host names the
host that clients use.

--print-config prints what a host's configuration needs to launch this server, or to connect to it
with --http: full paths, so that it works from any folder and without PATH.

With --workers, several processes serve on the same port, and any of them serves any session. They
share what they need to in a SQLite file that is removed at the end, or in the store that --store
names, which servers on several machines can share. SIGHUP replaces the workers one by one, with the
code as it is then; calls go on meanwhile.

An option that is not given is read from its variable: lists with commas, switches as 1 or 0.
ACCORD_TRANSPORT is http or stdio. The password of an encrypted key is read from
ACCORD_KEY_PASSWORD, the keys of a store from ACCORD_STORE_KEYS (with commas).

Exit code: 0 the input ended or a signal arrived, 1 the server failed, 2 it could not be started.

examples:
  accord run server.py
  accord run server.py --print-config
  accord run mcp.json --http
  accord run package.servers:make_desk --grace 10
  accord run server.py --http --port 8000 --reload
  accord run server.py --http --host 0.0.0.0 --public-url https://example.com/mcp
  accord run server.py --http --listen unix:/run/desk/mcp.sock --public-url https://example.com/mcp
  accord run server.py --http --listen :8443 --certificate c.pem --key k.pem --allowed-host desk
  accord run server.py --http --host 0.0.0.0 --allowed-host 192.168.1.5 --access-log=json
  accord run server.py --http --workers auto
  accord run server.py --http --workers 4 --store redis://10.0.0.9:6379/0 --store-keys-file keys.txt
  ACCORD_TRANSPORT=http ACCORD_HOST=0.0.0.0 ACCORD_ALLOWED_HOSTS=desk,desk.lan accord run server.py
"""


# Hosts on this machine cannot connect to the address that means all addresses.
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}  # noqa: S104
_ADVICE: Final = (
    "name the host that clients use with --public-url or --allowed-host "
    "(or in ACCORD_PUBLIC_URL or ACCORD_ALLOWED_HOSTS)"
)
_OPTIONS = f"""\
target? TARGET  what to serve
rest* WORD
--stdio         serve over stdin and stdout, also if ACCORD_TRANSPORT is http
--http          serve over HTTP
{option_lines()}\
--reload-dir D  with --reload: the folder to watch (default: that of the target); may be repeated
--print-config  print the entry for a host's configuration, with full paths, and serve nothing
--child J
--stateless
"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "run", run, _HELP, _OPTIONS, handles_signals=lambda _: True)


def run(options: argparse.Namespace) -> int:
    """Serve until the input ends."""
    if options.command:
        raise UsageError(
            "run serves a Python file or module, not a command; start the command itself"
        )
    settings = DEFAULTS if options.child else read_settings(options)
    if not options.target:
        raise UsageError("run needs a TARGET: a Python file or module with a Server")
    if options.target.endswith((".json", ".jsonc")):
        return _run_configuration(options, settings)
    _refuse_command([options.target, *options.rest])
    if is_url(options.target) or names_file(options.target):
        raise UsageError(
            "run serves a Python file, a module or all servers of a configuration; another server "
            f"is served by: accord proxy {options.target}"
        )
    place = locate(options.target, options.rest)
    if options.rest:
        raise UsageError(f"run takes one TARGET; unexpected {' '.join(options.rest)}")
    if options.print_config:
        say(_host_config(place, settings))
        return 0
    if options.child:
        from accord.cli.reloading import adopt

        settings, sockets = adopt(options.child)
        with _log_to_stderr(settings):
            server = load(place)
        return _serve_http(server, settings, sockets)
    if settings["reload"]:
        from accord.cli.reloading import supervise

        return supervise(place, settings, options.reload_dir or _import_roots(place))
    return serve(partial(load, place), settings)


def serve(build: "Callable[[], Server[Any]]", settings: RunSettings) -> int:
    """Serve a server that is made here; stdout is claimed before, where it carries messages."""
    if settings["transport"] == "http":
        count = _count_workers(settings)
        if count > 1:
            return _serve_in_workers(build, settings, count)
        with _log_to_stderr(settings):
            server = build()
        return _serve_http(server, settings)
    is_watched = sys.stdin is not None and sys.stdin.isatty()
    _claim()
    with _log_to_stderr(settings):
        server = build()
    return _serve_stdio(server, settings, is_watched=is_watched)


def _serve_http(
    server: "Server[Any]", settings: RunSettings, sockets: "list[socket] | None" = None
) -> int:
    if server._core.was_run:
        return 0
    from accord.server.serving import log_in_background, run_http

    place = find_address(settings)
    app = _build_app(server, http_settings(settings))
    with log_in_background():
        run_http(server._core, app, place, sockets=sockets, advice=_ADVICE)
    return 0


def _build_app(server: "Server[Any]", options: Any) -> "HttpApp":
    from accord.server.serving import build_app

    try:
        return build_app(server._core, options)
    except ConfigurationError:  # says more than a wrong value
        raise
    except ValueError as error:
        raise UsageError(str(error)) from None


def _count_workers(settings: RunSettings) -> int:
    if settings["workers"] == 1:
        return 1
    from accord.server.serving import count_workers

    return count_workers({"workers": settings["workers"]})


def _serve_in_workers(build: "Callable[[], Server[Any]]", settings: RunSettings, count: int) -> int:
    """Serve in several processes, each of which loads the target for itself.

    So a worker that takes the place of another has the code as it is then, and connections and
    threads that the code opens are not copies of those of this process.
    """
    from accord.server.serving import log_in_background, run_http
    from accord.sharing.serving.worker_processes import provide_store, supervise

    place, options = find_address(settings), http_settings(settings)
    place.load_tls()  # a certificate that cannot be used is reported once
    import accord.server.server  # noqa: F401  # once for all workers, which share its memory

    with provide_store(options) as store, _log_to_stderr(settings):

        def work(worker: "WorkerEnd") -> int:
            try:
                _forget_handlers()
                with _log_to_stderr(settings):
                    server = build()
                app = _build_app(server, options)
                with log_in_background(), store.removed_by_orphans():
                    run_http(server._core, app, place, advice=_ADVICE, worker=worker)
            except AccordError as error:
                complain(str(error))
                return 2
            return 0

        return supervise(work, place, grace=settings["grace"], count=count)


def _serve_stdio(server: "Server[Any]", settings: RunSettings, *, is_watched: bool) -> int:
    if server._core.was_run:
        # The file called run() on import; its input has ended.
        return 0
    if is_watched:
        complain(f"serving {server.info.name} on stdin and stdout, one message a line; Ctrl-C ends")
    server.run(grace=settings["grace"])
    return 0


@contextmanager
def _log_to_stderr(settings: RunSettings) -> "Iterator[None]":
    """Log to stderr from now on, unless the code that is loaded configures logging."""
    if settings["log_level"] is None:
        yield
        return
    import logging

    from accord.http.server.access_log import LineFormatter

    logger, handler = logging.getLogger("accord"), logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logger.setLevel(settings["log_level"].upper())
    logger.addHandler(handler)
    yield
    if logging.getLogger().handlers or logger.handlers != [handler]:
        logger.removeHandler(handler)


def _forget_handlers() -> None:
    """Remove the handlers of the process that this one is a copy of."""
    import logging

    logging.getLogger("accord").handlers.clear()


def _refuse_command(words: list[str]) -> None:
    """Refuse a whole command line, such as `python server.py`."""
    files = [word for word in words[1:] if word.endswith(".py")]
    if files and not words[0].endswith(".py"):
        raise UsageError(f"run takes only the file, without {words[0]}: accord run {files[0]}")


def _claim() -> None:
    """Claim stdout before any code of the user can print to it."""
    from accord.stdio.server import claim

    # The number of a closed descriptor may belong to another file by now.
    if sys.stdin is None or sys.stdout is None:
        raise UsageError("stdin or stdout is closed; a server needs both")
    claim()


# -- the entry for a host's configuration; it works from any folder and without PATH


def _host_config(place: ServerPlace, settings: RunSettings) -> str:
    import json

    is_http = settings["transport"] == "http"
    entry = _url_entry(settings) if is_http else _launch_entry(place, settings)
    name = place.file.stem if place.file is not None else place.module.rpartition(".")[2]
    return json.dumps({"mcpServers": {name: entry}}, indent=2) + "\n"


def _url_entry(settings: RunSettings) -> dict[str, object]:
    from urllib.parse import urlsplit

    public = settings["public_url"]
    if public is not None:
        is_bare = urlsplit(public).path in ("", "/")
        return {"type": "http", "url": public.rstrip("/") + settings["path"] if is_bare else public}
    host, port = _first_address(settings)
    if port == 0:
        raise UsageError("--print-config needs the port that hosts connect to: --port 8000")
    name = _ANY_ADDRESS.get(host) or (f"[{host}]" if ":" in host else host)
    scheme = "http" if settings["certificate"] is None else "https"
    return {"type": "http", "url": f"{scheme}://{name}:{port}{settings['path']}"}


def _first_address(settings: RunSettings) -> tuple[str, int]:
    """Return the first host and port that hosts can connect to; port 0 without one."""
    if not settings["listen"]:
        return settings["host"], settings["port"]
    from accord.http.server.sockets import split_address

    found = [split_address(each) for each in settings["listen"]]
    return next(((host, port) for kind, host, port in found if kind == "tcp"), ("", 0))


def _run_configuration(options: argparse.Namespace, settings: RunSettings) -> int:
    """Serve the servers of a host's configuration as one."""
    if options.rest:
        raise UsageError(f"run takes one TARGET; unexpected {' '.join(options.rest)}")
    if settings["reload"]:
        raise UsageError("--reload is for Python files, not for a configuration")
    if settings["workers"] != 1:
        why = "each worker would launch the servers of a configuration anew"
        raise UsageError(f"--workers is for Python files: {why}")
    path = Path(options.target)
    if not path.is_file():
        raise UsageError(f"there is no file {options.target}")
    if options.print_config:
        place = ServerPlace(options.target, path, path.stem, "")
        say(_host_config(place, settings))
        return 0
    from accord.compose.servers import configuration_server

    return serve(partial(configuration_server, path, stderr="forward"), settings)


def _launch_entry(place: ServerPlace, settings: RunSettings) -> dict[str, object]:
    """Return the entry for hosts that launch a server over stdio.

    The interpreter and the file are named by their full paths: hosts have neither the PATH of a
    virtual environment nor the current folder. Some accept well-known commands only, so the
    interpreter is launched and not the script `accord`.
    """
    if not sys.executable:
        raise UsageError("the path of this Python is unknown; write the configuration by hand")
    from accord.cli.installation import import_folders, python_words

    more = [] if settings["grace"] == GRACE else ["--grace", f"{settings['grace']:g}"]
    if settings["log_level"] is not None:
        more += ["--log-level", settings["log_level"]]
    command, *words = python_words()
    entry: dict[str, object] = {"command": command, "args": [*words, "run", place.target, *more]}
    folders = import_folders("" if place.file is not None else place.module)
    if folders:
        entry["env"] = {"PYTHONPATH": os.pathsep.join(folders)}
    return entry


def _import_roots(place: ServerPlace) -> list[Path]:
    """Return the folders that hold the code of a target."""
    if place.file is not None:
        return [place.file.absolute().parents[place.module.count(".")]]
    from importlib.machinery import PathFinder

    package = place.module.partition(".")[0]
    spec = PathFinder.find_spec(package, [os.getcwd(), *sys.path])
    if spec is None or spec.submodule_search_locations is None:
        from accord.cli.installation import find_folders

        return find_folders(package)
    return [Path(each) for each in spec.submodule_search_locations]

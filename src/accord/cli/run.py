"""`accord run`: serve a server over stdin and stdout, or over HTTP."""

import argparse
import sys
from typing import Any, Final

from accord.cli.options import UsageError, port, seconds
from accord.cli.target import ServerPlace, load, locate
from accord.cli.terminal import complain, say

_ABOUT = """\
Serve a server over stdin and stdout, as hosts launch it, or over HTTP.

TARGET is a Python file or a module with a Server in it: server.py, server.py:name, package.module,
package.module:name. Without a name the objects called server, mcp and app are looked for first,
then any Server; a function is called, and its result is served. Nothing that the code prints
reaches stdout: it goes to stderr.

--print-config prints what a host's configuration needs to launch this server, or to connect to it
with --http: full paths, so that it works from any folder and without PATH.

Exit code: 0 the input ended or a signal came, 1 the server failed, 2 it could not be started.
"""
_GRACE: Final = 1.5
_EXAMPLES = """\
examples:
  accord run server.py
  accord run server.py --print-config
  accord run package.servers:make_desk --grace 10
  accord run server.py --http --port 8000
"""


def register(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "run",
        help="serve a server over stdin and stdout, or over HTTP",
        usage="%(prog)s [options] TARGET",
        description=_ABOUT,
        epilog=_EXAMPLES,
    )
    parser.add_argument("target", metavar="TARGET", nargs="?", default="", help="what to serve")
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--grace",
        metavar="S",
        type=seconds,
        default=_GRACE,
        help=f"seconds that running calls get to finish once the end has come (default: {_GRACE})",
    )
    parser.add_argument("--http", action="store_true", help="serve over HTTP, at /mcp")
    parser.add_argument(
        "--host", metavar="H", default="127.0.0.1", help="where to listen (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port", metavar="P", type=port, default=8000, help="0 takes any free one (default: 8000)"
    )
    parser.add_argument(
        "--sse",
        action="store_true",
        help="with --http: serve the older form too, at /sse and /messages",
    )
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print the entry for a host's configuration, with full paths, and serve nothing",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until the input ends."""
    if options.command:
        raise UsageError("run serves a Python file or module; a command needs no accord to run")
    if not options.target:
        raise UsageError("run needs a TARGET: a Python file or module with a Server")
    _refuse_command([options.target, *options.rest])
    place = locate(options.target, options.rest)
    if options.rest:
        raise UsageError(f"run takes one TARGET; {' '.join(options.rest)} is too much")
    if options.print_config:
        say(_host_config(place, options))
        return 0
    if options.http:
        server = load(place)
        if not server.was_run:
            server.run(
                "http",
                grace=options.grace,
                host=options.host,
                port=options.port,
                sse=options.sse,
            )
        return 0
    is_watched = sys.stdin is not None and sys.stdin.isatty()
    _claim()
    server = load(place)
    if server.was_run:
        # The file called run() itself, without a guard; its input has ended.
        return 0
    if is_watched:
        complain(f"serving {server.info.name} on stdin and stdout, one message a line; Ctrl-C ends")
    server.run(grace=options.grace)
    return 0


def _host_config(place: ServerPlace, options: argparse.Namespace) -> str:
    from accord.cli.host_config import launch_config, url_config

    if options.http:
        return url_config(place, options.host, options.port)
    further = [] if options.grace == _GRACE else ["--grace", f"{options.grace:g}"]
    return launch_config(place, further)


def _refuse_command(words: list[str]) -> None:
    """Refuse a whole command line, such as `python server.py`."""
    files = [word for word in words[1:] if word.endswith(".py")]
    if files and not words[0].endswith(".py"):
        raise UsageError(f"run takes the file alone, without {words[0]}: accord run {files[0]}")


def _claim() -> None:
    """Take the wire before any code of the user's can print on it."""
    from accord.transports.stdio import claim

    # A closed descriptor may have been given to some other file since the start.
    if sys.stdin is None or sys.stdout is None:
        raise UsageError("stdin or stdout is closed; a server needs both")
    claim()

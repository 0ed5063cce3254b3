"""`accord run`: serve a server over stdin and stdout, or over HTTP."""

import argparse
import sys
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
        raise UsageError(f"run takes only the file, without {words[0]}: accord run {files[0]}")


def _claim() -> None:
    """Claim stdout before any code of the user can print to it."""
    from accord.transports.stdio import claim

    # The number of a closed descriptor may belong to another file by now.
    if sys.stdin is None or sys.stdout is None:
        raise UsageError("stdin or stdout is closed; a server needs both")
    claim()

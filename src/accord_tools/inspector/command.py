"""`accord inspect`: a page on this machine to explore and debug servers."""

import argparse
import asyncio
import os
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from accord.cli.connection import advise_in_options, target_options
from accord.cli.options import Commands, UsageError, add_command, headers_of
from accord.cli.terminal import end_by_signals, note, say
from accord.errors import MissingExtra, TransportError
from accord_tools.inspector.command_targets import read_targets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from accord.client.server_spec import ServerSpec
    from accord_tools.inspector.definition import InspectOptions
    from accord_tools.inspector.inspection import Inspection
    from accord_tools.inspector.session import InspectedSession
    from accord_tools.inspector.web.serving import PageSockets

_HELP: Final = """\
usage: accord inspect [options] TARGET ...
       accord inspect [options] -- COMMAND ...
       accord inspect [options] --config FILE NAME ...
       accord inspect [options] --trace FILE
       accord inspect [options] --watch -- COMMAND ...
       accord inspect [options] --watch --listen PORT URL

Open a page to explore and debug servers: call tools, read resources, get prompts, answer what the
server asks, and see every message with the requirements that it keeps or breaks. The page is served
by this command to this machine alone, and needs nothing else.

TARGET is a URL, a Python file or module with a Server, the name of a server in the configuration of
a host, or a command line after --. Several targets are shown side by side. A server in a Python
file is launched anew when its code changes. With --trace the page shows a recording, and with
--watch the traffic of another client, which connects through this command.

A server of a project's file, which others may have written, is launched by its name after a
question, which says what it launches, contacts and gets. With --yes in its place, the variables
that its entry names are those of --env, and no others.

The address has a key that is made anew at each launch. Only a page with the key can do something,
and no page can choose what is launched.

Exit code: 0 ended by Ctrl-C or a signal, 2 the page could not be served, or a target not be found;
with --watch and a command, that of the command.

examples:
  accord inspect server.py
  accord inspect https://example.com/mcp --oauth
  accord inspect --env API_KEY=... -- npx some-server --flag
  accord inspect github --host cursor
  accord inspect --config .vscode/mcp.json files
  accord inspect --trace session.jsonl
  accord inspect --output report.html server.py
  accord inspect --watch --listen 9000 https://example.com/mcp
"""
_OPTIONS: Final = f"""\
--trace FILE   show a recording; may be repeated
--watch        show the traffic between another client and the server
--listen PORT  with --watch and a URL: the port that the client connects to (default: any free)
--no-open      do not open a browser
--port N       the port of the page (default: any free port)
--json         print the address of the page to stdout as JSON
--no-reload    do not launch a Python server anew when its code changes
--transport T  http or sse; without it, the form of a URL is found out
--record FILE  write all messages as a trace, secrets masked
--output FILE  write a report of each session at the end, as an HTML page, secrets masked
--keep MB      megabytes of messages to keep for each server (default: 200)
--no-secrets   never show masked values, even on request
--no-history   forget calls at the end; otherwise they are kept, secrets masked
--bind ADDRESS  with --public-url: listen on another address than loopback
--public-url URL  where browsers find the page, through a proxy or directly
{target_options("words* TARGET  the servers, as for accord list, or names of servers of a host")}"""
_MEGABYTE: Final = 1024 * 1024


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "inspect",
        run,
        _HELP,
        _OPTIONS,
        keep=200,
        # Between a host and a server, signals are passed on to the server.
        handles_signals=lambda options: bool(options.watch and options.command),
    )


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or a signal."""
    _check(options)
    targets = read_targets(options)
    if options.watch:
        _check_watch(options, targets)
        if targets[0].command:
            return _watch_command(options, targets[0])
    sockets = _open_sockets(options, options.port or 0)
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_serve(options, targets, sockets))
    return 0


def _open_sockets(options: argparse.Namespace, port: int) -> "PageSockets":
    try:
        from accord_tools.inspector.web.serving import PageSockets
    except ImportError:
        raise MissingExtra("http", needed_for="the page of accord inspect") from None
    return PageSockets(port, bind=options.bind or "", public_url=options.public_url or "")


def _check(options: argparse.Namespace) -> None:
    if options.bind and not options.public_url:
        raise UsageError("--bind needs --public-url, the only address that browsers may use")
    if options.public_url and urlsplit(options.public_url).path not in ("", "/"):
        raise UsageError("--public-url has a path; the page has to be at the root of its host")
    if options.listen is not None and not options.watch:
        raise UsageError("--listen needs --watch")
    for path in options.trace:
        if not path.is_file():
            raise UsageError(f"--trace: there is no file {path}")
    if options.output is not None:
        from accord_tools.reports.delivery import demand_forms

        demand_forms(["html"])
    if options.record is not None:
        _check_record(options.record)


def _check_record(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"--record: {path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"--record: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--record: the folder {path.parent} cannot be written to")


def _check_watch(options: argparse.Namespace, targets: "list[ServerSpec]") -> None:
    if len(targets) != 1:
        raise UsageError("--watch needs one server: a URL, or a command after --")
    if not targets[0].command:
        return
    if options.listen is not None:
        raise UsageError("--listen is for the URL of a server; a command is watched over stdio")
    if options.json:
        raise UsageError("--json prints to stdout, which belongs to the client of the command")
    if targets[0].cwd is not None:
        raise UsageError("--watch launches the command in the current folder; leave --cwd out")


async def _serve(
    options: argparse.Namespace, targets: "list[ServerSpec]", sockets: "PageSockets"
) -> None:
    """Serve the page until a signal arrives."""
    end_by_signals()
    async with _serve_page(options, sockets) as (inspection, url):
        _announce(options, url, sockets)
        if options.watch:
            await _watch_url(options, inspection.add(targets[0], "watch"))
        else:
            await inspection.add_all(targets)
        for path in options.trace:
            _open_recording(inspection, path)
        await asyncio.Event().wait()


@asynccontextmanager
async def _serve_page(
    options: argparse.Namespace, sockets: "PageSockets"
) -> "AsyncIterator[tuple[Inspection, str]]":
    """Serve the page within a block, and write the reports at its end."""
    from accord_tools.inspector.inspection import Inspection
    from accord_tools.inspector.web.serving import serve_inspection

    inspection = Inspection(_read_options(options))
    try:
        async with serve_inspection(inspection, sockets) as url:
            yield inspection, url
    finally:
        if options.output is not None:
            _write_reports(inspection, options.output)


def _write_reports(inspection: "Inspection", path: Path) -> None:
    from accord_tools.inspector.exports.session_files import write_reports

    try:
        written = write_reports(inspection.sessions, path)
    except OSError as error:
        note(f"accord inspect: the report could not be written: {error}")
        return
    for each in written:
        note(f"accord inspect: wrote {each}")
    if not written:
        note("accord inspect: no report, because no message was seen")


async def _watch_url(options: argparse.Namespace, session: "InspectedSession") -> None:
    from accord_tools.inspector.log.watched import watch_http

    target = session.target
    headers = {**target.headers, **headers_of(options)}
    port = await watch_http(session, target.url, options.listen or 0, headers)
    path = urlsplit(target.url).path
    note(f"accord inspect: point the client to http://127.0.0.1:{port}{path}")


def _watch_command(options: argparse.Namespace, target: "ServerSpec") -> int:
    """Relay between the client that launched this process and the command, with a page beside."""
    from accord_tools.inspector.log.watched import TrafficBuffer, WatchedTraffic, watch_stdio
    from accord_tools.watch.command import exit_like

    async def serve(buffer: TrafficBuffer) -> None:
        try:
            sockets = _open_sockets(options, options.port or 0)
        except TransportError as error:
            # The same client may have launched the same command twice.
            note(f"accord inspect: {error}; the page is at another port")
            sockets = _open_sockets(options, 0)
        async with _serve_page(options, sockets) as (inspection, url):
            inspection.add(target, "watch").part(WatchedTraffic).attach(buffer)
            _announce(options, url, sockets)
            await asyncio.Event().wait()

    return exit_like(watch_stdio(target.command, target.env, serve, title=target.name))


def _read_options(options: argparse.Namespace) -> "InspectOptions":
    from accord_tools.inspector.definition import InspectOptions
    from accord_tools.inspector.history.store import default_history_file

    return InspectOptions(
        keep_bytes=options.keep * _MEGABYTE,
        shows_secrets=not options.no_secrets,
        history=None if options.no_history else default_history_file(),
        record=options.record,
        reloads=not options.no_reload,
        advise=advise_in_options,
    )


def _open_recording(inspection: "Inspection", path: Path) -> None:
    from accord.client.server_spec import ServerSpec
    from accord_tools.inspector.log.trace_session import open_trace

    session = inspection.add(ServerSpec(name=path.name, shown=f"--trace {path}"), "trace")
    session.spawn(open_trace(session, path))


# -- telling where the page is


def _announce(options: argparse.Namespace, url: str, sockets: "PageSockets") -> None:
    """Print the address, and open it in a browser where there is one."""
    if options.json:
        say(f'{{"url": "{url}"}}\n')  # on one line: programs read it while the page is served
    note(f"accord inspect: {url}")
    if options.bind:
        note(
            f"accord inspect: WARNING: the page listens on {options.bind}, for other machines too; "
            "every browser with the key can use the servers"
        )
    if os.environ.get("SSH_CONNECTION") and not options.public_url:
        port = sockets.port
        note(f"accord inspect: from your own machine: ssh -L {port}:127.0.0.1:{port} HOST")
    note("accord inspect: Ctrl-C ends")
    if not options.no_open and not options.json and _has_display():
        _open_browser(url)


def _has_display() -> bool:
    """Return whether a browser that is opened here is seen by the user."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    if sys.platform in ("win32", "darwin"):
        return True
    return any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))


def _open_browser(url: str) -> None:
    import threading
    import webbrowser

    # Some browsers stay in the foreground.
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

"""`accord watch`: judge and record the traffic between a real client and a real server."""

import argparse
import asyncio
import contextlib
import os
import select
import signal
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from accord.cli.connection import target_options
from accord.cli.options import (
    CREDENTIALS,
    Commands,
    UsageError,
    add_command,
    given_filter,
    given_secrets,
    headers_of,
)
from accord.cli.target import demand_target, read_target
from accord.cli.terminal import complain, end_by_signals, escape_controls, note
from accord.errors import ConnectFailed, MissingExtra, TransportError
from accord.http.server.sockets import listen
from accord.protocol.violation import Violation
from accord.secrets.filter import display_target
from accord_tools.reports import delivery

if TYPE_CHECKING:
    from accord.client.server_spec import ServerSpec
    from accord_tools.watch.watcher import Watcher


_HELP: Final = """\
usage: accord watch [options] -- COMMAND ...
       accord watch [options] --listen PORT URL

Run between a client and a server: pass everything on unchanged, judge both sides while they talk,
and record the conversation if asked to. Breaches are printed to stderr as they happen.

Over stdio, write `accord watch --` before the command in the host's configuration. Over HTTP, start
`accord watch --listen PORT URL` and point the client to http://127.0.0.1:PORT with the same path.

Exit code: over stdio that of the server, as the host expects it; over HTTP 0 if no requirement
failed, 1 if one did; 2 if the watch could not begin.

examples:
  accord watch -- python server.py
  accord watch --record session.jsonl --log watch.log -- npx some-server
  accord watch --listen 9000 https://example.com/mcp --record session.jsonl
  accord check trace session.jsonl
"""


_OPTIONS: Final = f"""\
--listen PORT  the port that clients connect to; 0 takes any free port
--record FILE  write a trace, secrets masked; if FILE exists, write FILE-2 and so on
--log FILE     write breaches there instead of to stderr
{target_options(timeout="", revision=False, auth=CREDENTIALS)}\
{delivery.OPTIONS}"""
# Bytes that a pipe takes at once when it is ready for writing.
_LONGEST: Final = 2_000
# Milliseconds to wait for the reader of stderr.
_PATIENCE: Final = 1_000


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "watch",
        run,
        _HELP,
        _OPTIONS,
        # Signals are passed on to the server.
        handles_signals=lambda options: options.listen is None,
    )


def run(options: argparse.Namespace) -> int:
    """Watch until the conversation ends."""
    form = delivery.report_format(options)
    if options.target or options.command:
        demand_target(options, "watch")
    spec = read_target(options) if options.target or options.command else None
    if spec is None or (spec.url and options.listen is None):
        raise UsageError("watch needs a command after --, or --listen PORT and a URL")
    if spec.command and options.listen is not None:
        raise UsageError("watch takes a command after --, or --listen PORT with a URL, not both")
    try:
        with _Log(options.log) as log:
            return _watch(spec, options, form, log)
    except (ConnectFailed, MissingExtra, TransportError) as error:
        complain(str(error))
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}")
    return 2


class _Log:
    """The log of breaches: stderr, or a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._is_stuck = False

    def __enter__(self) -> Self:
        if self._path is not None:
            self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def write(self, line: str) -> None:
        # A full disk, or a host that does not read stderr, must not stop the traffic.
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.write(f"{escape_controls(line)}\n")
                self._file.flush()
            elif self._is_read():
                note(f"accord watch: {line}"[:_LONGEST])

    def _is_read(self) -> bool:
        """Whether the reader of stderr is ready, so that a line does not block the traffic."""
        if sys.stderr is None or not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(sys.stderr.fileno(), select.POLLOUT)
        ready = poll.poll(0 if self._is_stuck else _PATIENCE)
        self._is_stuck = not ready
        return bool(ready)

    def add(self, violation: Violation) -> None:
        where = "" if violation.number is None else f" (message {violation.number})"
        severity = (violation.severity or "fail").upper()
        self.write(f"{severity} {violation.requirement}{where}: {violation.party} {violation.why}")


# Signals that end a process without a core dump.
_PLAIN_SIGNALS: Final = tuple(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGKILL", "SIGPIPE", "SIGTERM", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)


def _watch(spec: "ServerSpec", options: argparse.Namespace, form: str, log: _Log) -> int:
    from accord_tools.watch.watcher import Watcher

    shown = spec.shown.removeprefix("-- ") or " ".join(options.command) or options.target
    given = given_filter(options)
    target = given.hide(display_target(spec.url) or shown, may_be_cut=False)
    watcher = Watcher(target, given=given_secrets(options), found=log.add, recording=options.record)
    try:
        if spec.command:
            from accord_tools.watch.stdio_relay import watch_command

            code = watch_command(spec.command, watcher, env=spec.env, cwd=spec.cwd)
        else:
            _serve(spec, options, watcher, log)
            code = None
    finally:
        watcher.close()
    failed = _conclude(options, form, watcher, log)
    return failed if code is None else exit_like(code)


def exit_like(code: int) -> int:
    """End by the signal that ended the server, if it dumps no core; else return an exit code."""
    if code < 0 and -code in _PLAIN_SIGNALS:
        with contextlib.suppress(OSError, ValueError):
            if -code != signal.SIGKILL:
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
    return 128 - code if code < 0 else code


def _serve(spec: "ServerSpec", options: argparse.Namespace, watcher: "Watcher", log: _Log) -> None:
    parts = urlsplit(spec.url)
    sockets = listen("127.0.0.1", options.listen)

    async def serve() -> None:
        from accord_tools.watch.http_proxy import serve_proxy

        end_by_signals()
        headers = {**spec.headers, **headers_of(options)}
        async with serve_proxy(spec.url, sockets, watcher, headers=headers):
            port = sockets[0].getsockname()[1]
            shown = display_target(spec.url)
            log.write(f"{shown} is watched at http://127.0.0.1:{port}{parts.path}; Ctrl-C ends")
            await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(serve())


def _conclude(options: argparse.Namespace, form: str, watcher: "Watcher", log: _Log) -> int:
    from accord_tools.reports.wording import summary
    from accord_tools.watch.watcher import merge_reports

    if watcher.trouble:
        log.write(watcher.trouble)
    if watcher.dropped:
        log.write(
            f"{watcher.dropped} messages arrived too fast, were too long or could not be read; "
            "from the first of them on, the conversation is not judged"
        )
    others = [each for each in watcher.recordings if each != options.record]
    if others:
        log.write(f"recorded in {', '.join(map(str, others))}")
    reports = watcher.reports()
    if not reports:
        log.write("no messages were exchanged")
        return 0
    report = merge_reports(reports)
    # Not to stdout, which belongs to the host.
    if not delivery.write_report(report, form, options, is_private=True):
        return 2
    log.write(summary(report))
    return 1 if report.has_failed else 0

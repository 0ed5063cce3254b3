"""`accord check`: check servers, clients and recordings against the protocol."""

import argparse
import asyncio
import os
import sys
from contextlib import nullcontext
from functools import partial
from shlex import join, quote
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from accord.cli.connection import advise_in_options, auth_of, auth_options, oauth_of, target_options
from accord.cli.options import (
    CALLS,
    Commands,
    UsageError,
    add_command,
    given_filter,
    headers_of,
    known_revision,
    one_of,
    without_secrets,
)
from accord.cli.target import demand_target, is_placed, locate, read_target
from accord.cli.terminal import complain, note, progress
from accord.errors import ConnectFailed, MissingExtra, TraceError
from accord.secrets.filter import display_target
from accord.types import REVISION_IDS
from accord_tools.reports import delivery
from accord_tools.reports.delivery import announce_plan, plan_form, show_plan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from accord.types import RevisionId
    from accord_tools.check.client_check import ClientPlan
    from accord_tools.check.probing.target import ServerTarget
    from accord_tools.check.server_check import CheckProgress, ServerPlan
    from accord_tools.reports.report import Report, Setting
    from accord_tools.reports.tool_calls import CallPlan


_T = TypeVar("_T")
_SERVER_TRANSPORTS: Final = ("stdio", "http", "sse")
_CLIENT_TRANSPORTS: Final = ("http", "sse")
# Records of a recording between two updates of the progress bar.
_RECORDS_PER_STEP: Final = 500
_HELP: Final = """\
Check a server, a client or a recording against every requirement of the protocol.

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed, 2 the check could
not run.
"""
_EXAMPLES: Final = """\
examples:
  accord check server server.py
  accord check server https://example.com/mcp --bearer "$TOKEN"
  accord check client -- python client.py {url}
  accord check trace session.jsonl
"""
_SERVER_HELP: Final = """\
usage: accord check server [options] TARGET
       accord check server [options] -- COMMAND ...

Check a server against every requirement that can be tried, under each revision that it speaks.

TARGET is a URL, a Python file or module with a Server, or a command line after --. The server's own
tools, resources and prompts are used with plain valid arguments. A tool is called only
if it says that it reads (readOnlyHint: true); or, without annotations and not behind a URL, if its
name begins with a word such as get, list, read or search and no other word may mean a change.
The plan of calls is shown before the first call; --plan shows it and calls none.

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed,
2 the server could not be reached.

examples:
  accord check server server.py
  accord check server -- npx some-server --flag
  accord check server https://example.com/mcp --bearer "$TOKEN"
  accord check server https://example.com/mcp --plan
  accord check server server.py --only tools.list --revision 2025-06-18
  accord check server server.py --output report.html --output report.sarif
"""
_TARGET_OPTIONS: Final = target_options(
    timeout="seconds to wait for each answer (default: 5)",
    revision=False,
    auth=auth_options("for this check only"),
)
_SERVER_OPTIONS: Final = f"""\
--revision R   check under this revision; may be repeated (default: all that the server speaks)
--only ID      check only this requirement or area; may be repeated
--transport T  how to reach it: {", ".join(_SERVER_TRANSPORTS)}
               (default: what the URL speaks, else stdio)
{CALLS.format("150")}
{_TARGET_OPTIONS}
--other-bearer TOKEN    a token of another user, who must not reach the sessions of the first
--foreign-bearer TOKEN  a token of the same issuer for another server, which must be refused
--allow-token-in-query  also try the token of --bearer in the query of the URL, where logs keep it
connection:
--one-at-a-time  never run two copies of the server: for one that owns a port or a lock
                 (chosen automatically if a second copy does not start)
{delivery.OPTIONS}"""
_CLIENT_HELP: Final = """\
usage: accord check client [options] -- COMMAND ... {url}
       accord check client [options] -- COMMAND ... {server}

Run a client against many servers, some that follow the protocol and some that break it, and judge
it by every requirement that binds a client.

The command must run the client once and end by itself. The more the client does, the more can be
judged: list, call, read, get, listen, answer questions, cancel requests that take too long. It is
run some fifty times for clients of one era, a hundred for clients of both, three at a time. {url}
in it is replaced by the URL of the server, {server} by a command line that the client launches as
its server: several words if {server} is a word of its own, one quoted text within a larger word. A
client that does not end is stopped, and still judged.

The server offers the tools `echo` and `add`, a resource `play://note` and a prompt `greet`. Some
servers want a token: for clients that open a browser, the variable BROWSER is set to a program that
signs in and agrees. {client_id} in the command is replaced by an id that their authorization
servers know, for clients that are given one in advance.

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed,
2 the client could not be run, or never connected.

examples:
  accord check client -- python client.py {url}
  accord check client -- node client.js --stdio {server}
  accord check client --transport sse -- python client.py {url}
  accord check client --only session --format html --output report.html -- ./client {url}
"""
_CLIENT_OPTIONS: Final = f"""\
rest* WORD
--revision R   speak this revision, also 2026-07-28; may be repeated
               (default: what the client asks for, then all five)
--only ID      check only this requirement or area; may be repeated
--transport T  what {{url}} speaks: http (default) or sse
--env K=V      a variable for the client, in addition to those of this shell; may be repeated
--timeout S    seconds that one run of the client may take once it has connected (default: 30)
{delivery.OPTIONS}"""
_TRACE_HELP: Final = """\
usage: accord check trace [options] FILE

Judge a recorded session: one JSON object per line, such as accord watch --record writes.

  {"from": "client", "t": 0.02, "transport": "stdio", "message": {"jsonrpc": "2.0", ...}}

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed,
2 the recording cannot be read or holds no message.

examples:
  accord check trace session.jsonl
  accord check trace session.jsonl --only tools --only jsonrpc.request.id-unique
  accord check trace session.jsonl --format junit --output report.xml
  accord check trace session.jsonl --format markdown >> "$GITHUB_STEP_SUMMARY"
  some-recorder | accord check trace - --revision 2025-06-18 --format json
"""
_TRACE_OPTIONS: Final = f"""\
file FILE      the recording; - reads standard input
--revision R   judge by this revision instead of the one agreed on in the recording:
               {", ".join(REVISION_IDS)}
--only ID      report on one requirement or area; may be repeated
{delivery.OPTIONS}"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("check", description=_HELP, epilog=_EXAMPLES)
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    add_command(
        kinds,
        "server",
        _run_server_check,
        _SERVER_HELP,
        _SERVER_OPTIONS,
        help="check a server against every requirement",
        timeout=5.0,
    )
    add_command(
        kinds,
        "client",
        _run_client_check,
        _CLIENT_HELP,
        _CLIENT_OPTIONS,
        help="check a client against every requirement",
        transport="http",
        timeout=30.0,
    )
    add_command(
        kinds,
        "trace",
        _run_trace_check,
        _TRACE_HELP,
        _TRACE_OPTIONS,
        help="judge a recorded session",
    )


def _revisions(options: argparse.Namespace) -> "list[RevisionId]":
    return [known_revision(each) for each in options.revision]


# -- servers


def _run_server_check(options: argparse.Namespace) -> int:
    demand_target(options, "check server")
    form = plan_form(options.format) if options.plan else delivery.report_format(options)
    plan = _plan_server(options)
    try:
        if options.plan:
            show_plan(
                asyncio.run(_run_with_target(options, partial(_plan_calls, plan))),
                form,
                _display_name(options),
            )
            return 0
        report = asyncio.run(_check(options, plan))
    except ConnectFailed as error:
        complain(advise_in_options(str(error)))
        if read_target(options).url:
            asyncio.run(_show_obstacles(options))
        return 2
    return delivery.deliver(report, form, options)


async def _show_obstacles(options: argparse.Namespace) -> None:
    """Print the steps to a server that are not ok, as `accord doctor` does."""
    try:
        from accord.auth import MemoryStore, OAuth
        from accord_tools.diagnosis.discovery import find_obstacles
    except ImportError:
        return  # they need an extra
    from accord_tools.check.probing.target import is_older_form
    from accord_tools.diagnosis.facts import AuthorizationFacts
    from accord_tools.diagnosis.steps import format_step

    facts = AuthorizationFacts(
        url=options.target,
        headers=headers_of(options),
        settings=OAuth(store=MemoryStore()),
        client_name="accord check",
        is_older_form=is_older_form,
        obtains_token=False,
        seconds=options.timeout,
    )
    for step in await find_obstacles(facts):
        note(format_step(step, lambda _style, text: text).rstrip())


def _plan_server(options: argparse.Namespace) -> "ServerPlan":
    from accord_tools.check.probing.server_facts import CheckRules
    from accord_tools.check.probing.tool_calls import DEFAULT_CALLS
    from accord_tools.check.server_check import ServerPlan
    from accord_tools.check.verdicts import demand_requirements

    plan = ServerPlan(
        revisions=_revisions(options),
        only=options.only,
        rules=CheckRules(
            allow_writes=options.allow_writes,
            tools=frozenset(options.tool),
            calls=DEFAULT_CALLS if options.calls is None else options.calls,
        ),
    )
    demand_requirements(options.only)
    return plan


async def _plan_calls(plan: "ServerPlan", subject: "ServerTarget") -> "CallPlan":
    from accord_tools.check.probing.server_facts import plan_calls
    from accord_tools.check.server_check import spoken_revisions

    return await plan_calls(subject, plan.rules, plan.revisions or await spoken_revisions(subject))


async def _check(options: argparse.Namespace, plan: "ServerPlan") -> "Report":
    from accord_tools.check.server_check import check_server

    with progress("checking", 1000, quiet=options.quiet) as done:

        def step(stage: "CheckProgress") -> None:
            place = stage.revisions.index(stage.revision) + 1
            now = f"{stage.revision} ({place} of {len(stage.revisions)}) {stage.scenario}"
            done(round(1000 * stage.share), now)

        callbacks: dict[str, Any] = {
            "step": step,
            "setting": _describe_setting(options, _display_name(options)),
        }
        if not options.quiet:
            callbacks["tell_plan"] = announce_plan
        return await _run_with_target(
            options, lambda subject: check_server(subject, plan, **callbacks)
        )


def _display_name(options: argparse.Namespace) -> str:
    shown = display_target(options.target) or " ".join(options.command)
    return given_filter(options).hide(shown, may_be_cut=False)


async def _run_with_target(
    options: argparse.Namespace, work: "Callable[[ServerTarget], Awaitable[_T]]"
) -> _T:
    """Find out how to reach the server, serve it if necessary, and do the work."""
    from accord_tools.check.probing.target import ServerTarget, serve_target, with_form

    spec = read_target(options)
    transport: Any = _transport(options, is_url=bool(spec.url)) or spec.transport
    auth_of(options)  # refuses options that contradict each other
    headers = {**spec.headers, **headers_of(options)}
    spec = replace(spec, name=_display_name(options), headers=headers, transport=transport)
    settings: dict[str, Any] = {"patience": options.timeout}
    if options.one_at_a_time:
        settings |= {"one_at_a_time": True, "at_once": 1}
    if spec.url:
        subject = await with_form(ServerTarget(spec=spec, **settings))
        return await work(await _authorize(subject, options))
    if transport == "stdio":
        return await work(ServerTarget(spec=replace(spec, transport=None), **settings))
    if not is_placed(options):
        raise UsageError(f"a command is reached over stdio, not {transport}")
    place = locate(options.target, options.rest).target
    async with serve_target(place, transport, spec.env) as url:
        spec = replace(spec, command=(), url=url)
        subject = ServerTarget(spec=spec, is_launched=True, **settings)
        return await work(await _authorize(subject, options))


async def _authorize(subject: "ServerTarget", options: argparse.Namespace) -> "ServerTarget":
    """Add the tokens that were given on the command line, or obtain one."""
    subject = replace(
        subject,
        other_token=options.other_bearer,
        foreign_token=options.foreign_bearer,
        allow_token_in_query=options.allow_token_in_query,
    )
    if not options.oauth:
        return subject
    from accord_tools.check.probing.authorization import obtain

    # With a stored token the steps that obtain one would not be checked.
    granted = await obtain(subject, oauth_of(options, name="accord check", is_kept=False))
    if granted is None:
        return subject
    headers = {**subject.spec.headers, "authorization": f"Bearer {granted.token}"}
    return replace(subject.reached_with(headers=headers), granted=granted)


def _transport(options: argparse.Namespace, *, is_url: bool) -> Any:
    if options.transport is None:
        return None if is_url else "stdio"
    transport = one_of(options.transport, _SERVER_TRANSPORTS, "transport")
    if is_url and transport == "stdio":
        raise UsageError("a URL is reached over http or sse, not stdio")
    return transport


def _describe_setting(options: argparse.Namespace, target: str) -> "Setting":
    """Describe this check for the report, with the names of secrets but not their values."""
    from accord_tools.reports.report import Setting

    words = ["accord check server", *([quote(target)] if options.target else [])]
    words += without_secrets(
        options,
        *(
            "config",
            "host",
            "transport",
            "cwd",
            "tool",
            "allow_writes",
            "calls",
            "one_at_a_time",
            "header",
            "bearer",
        ),
        *("oauth", "client_id", "issuer", "redirect_uri", "assume_pkce", "scope"),
        *("grant", "other_bearer"),
        *("foreign_bearer", "allow_token_in_query", "env"),
    )
    return Setting(
        command=" ".join(words),
        command_end=f" -- {join(options.command)}" if options.command else "",
        artifact=delivery.artifact_file(target),
    )


# -- clients


def _run_client_check(options: argparse.Namespace) -> int:
    from accord_tools.check.client_check import check_client

    plan = _plan_client(options)
    try:
        with progress("checking", 1000, quiet=options.quiet) as done:

            def step(name: str, count: int, total: int) -> None:
                done(round(1000 * count / max(total, 1)), name)

            report = asyncio.run(check_client(plan, step=step))
    except (ConnectFailed, MissingExtra) as error:
        complain(str(error))
        return 2
    return delivery.deliver(report, delivery.report_format(options), options)


def _plan_client(options: argparse.Namespace) -> "ClientPlan":
    from accord_tools.check.client_check import ClientPlan
    from accord_tools.check.verdicts import demand_requirements

    if options.rest:
        raise UsageError(f"write the client's command after --: -- {' '.join(options.rest)}")
    if not options.command:
        raise UsageError("check client needs the client's command after --, with {url} or {server}")
    if not any("{url}" in word or "{server}" in word for word in options.command):
        raise UsageError("the client's command needs {url} or {server} in the place of the server")
    plan = ClientPlan(
        command=options.command,
        transport=one_of(options.transport, _CLIENT_TRANSPORTS, "transport"),
        revisions=_revisions(options),
        only=options.only,
        timeout=options.timeout,
        env=dict(options.env),
    )
    demand_requirements(options.only)
    return plan


# -- recordings


def _run_trace_check(options: argparse.Namespace) -> int:
    from accord_tools.check.verdicts import demand_requirements

    form = delivery.report_format(options)
    demand_requirements(options.only)
    try:
        report = _judge(options)
    except TraceError as error:
        complain(f"{options.file}: {error}")
        return 2
    return delivery.deliver(report, form, options)


def _judge(options: argparse.Namespace) -> "Report":
    from accord.trace import read
    from accord_tools.check.trace_check import replay
    from accord_tools.reports.report import Setting

    revision = options.revision and one_of(options.revision, REVISION_IDS, "revision")
    is_piped = options.file == "-"
    with _open_trace(options.file) as file:
        # A pipe has neither a length nor a position.
        is_measured = file.seekable() and not is_piped
        total = os.fstat(file.fileno()).st_size if is_measured else None
        with progress("judging", total, quiet=options.quiet) as done:

            def step(count: int) -> None:
                if count % _RECORDS_PER_STEP == 0:
                    done(file.tell() if is_measured else count)

            return replay(
                read(file),
                target="standard input" if is_piped else options.file,
                revision=revision,
                only=options.only,
                setting=Setting(
                    command=None if is_piped else f"accord check trace {quote(options.file)}",
                    artifact=None if is_piped else delivery.own_artifact(options.file),
                ),
                seen=step,
            )


def _open_trace(name: str) -> "nullcontext[IO[bytes]] | IO[bytes]":
    if name == "-":
        if sys.stdin is None:
            raise TraceError("standard input is closed")
        return nullcontext(sys.stdin.buffer)
    try:
        return open(name, "rb")
    except (OSError, ValueError) as error:
        raise TraceError(getattr(error, "strerror", None) or str(error)) from error

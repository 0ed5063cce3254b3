"""`accord check server`: check a server against every requirement."""

import argparse
import asyncio
from functools import partial
from shlex import join, quote
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from accord.cli import reporting
from accord.cli.connection import advise_in_options, auth_of, auth_options, oauth_of
from accord.cli.options import (
    ONLY,
    TARGET,
    TARGET_USAGE,
    Commands,
    Option,
    UsageError,
    add_command,
    bearer_token,
    call_options,
    env_option,
    one_of,
    seconds,
)
from accord.cli.reporting import announce_plan, plan_form, show_plan
from accord.cli.target import command_of, demand_target, locate
from accord.cli.terminal import complain, progress
from accord.errors import ConnectFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from accord.check.probing.target import ServerTarget
    from accord.check.probing.tool_calls import CallPlan
    from accord.check.report import Report, Setting
    from accord.check.server_check import CheckProgress, ServerPlan
    from accord.cli.terminal import Advance


_T = TypeVar("_T")
_TRANSPORTS: Final = ("stdio", "http", "sse")
_ABOUT: Final = """\
Check a server against every requirement that can be tried, under each revision that it speaks.

TARGET is a URL, a Python file or module with a Server, or a command line after --. The server's own
tools, resources and prompts are used with plain valid arguments. A tool is called only
if it says that it reads (readOnlyHint: true); or, without annotations and not behind a URL, if its
name begins with a word such as get, list, read or search and no other word may mean a change.
The plan of calls is shown before the first call; --plan shows it and calls none.

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed,
2 the server could not be reached.
"""
_EXAMPLES: Final = """\
examples:
  accord check server server.py
  accord check server -- npx some-server --flag
  accord check server https://example.com/mcp --bearer "$TOKEN"
  accord check server https://example.com/mcp --plan
  accord check server server.py --only tools.list --revision 2025-06-18
  accord check server server.py --output report.html --output report.sarif
"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    options = (
        *TARGET,
        Option(
            "--revision",
            "R",
            "check under this revision; may be repeated (default: all that the server speaks)",
            is_repeated=True,
        ),
        ONLY,
        Option(
            "--transport",
            "T",
            f"how to reach it: {', '.join(_TRANSPORTS)} (default: http for URLs, else stdio)",
        ),
        *call_options("100"),
        *auth_options("for this check only"),
        Option(
            "--other-bearer",
            "TOKEN",
            "a token of another user, who must not reach the sessions of the first",
        ),
        Option(
            "--foreign-bearer",
            "TOKEN",
            "a token of the same issuer for another server, which must be refused",
        ),
        Option(
            "--allow-token-in-query",
            None,
            "also try the token of --bearer in the query of the URL, where logs keep it",
        ),
        env_option("server"),
        Option(
            "--one-at-a-time",
            None,
            "never run two copies of the server: for one that owns a port or a lock"
            " (chosen automatically if a second copy does not start)",
        ),
        Option("--cwd", "DIR", "the folder the server runs in"),
        Option("--timeout", "S", "seconds to wait for each answer (default: 5)", seconds, 5.0),
        *reporting.REPORT_OPTIONS,
    )
    add_command(
        commands,
        "server",
        run,
        options,
        help="check a server against every requirement",
        usage=TARGET_USAGE,
        about=_ABOUT,
        examples=_EXAMPLES,
    )


def run(options: argparse.Namespace) -> int:
    """Check a server and print the report."""
    demand_target(options, "check server")
    form = plan_form(options.format) if options.plan else reporting.report_format(options)
    plan = _plan(options)
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
        return 2
    return reporting.deliver(report, form, options)


def _plan(options: argparse.Namespace) -> "ServerPlan":
    from accord.check.probing.server_facts import CheckRules
    from accord.check.probing.tool_calls import DEFAULT_CALLS
    from accord.check.server_check import ServerPlan

    plan = ServerPlan(
        revisions=reporting.checked_revisions(options.revision),
        only=options.only,
        rules=CheckRules(
            allow_writes=options.allow_writes,
            tools=frozenset(options.tool),
            calls=DEFAULT_CALLS if options.calls is None else options.calls,
        ),
    )
    reporting.demand_requirements(options.only)
    return plan


async def _plan_calls(plan: "ServerPlan", subject: "ServerTarget") -> "CallPlan":
    from accord.check.probing.server_facts import plan_calls
    from accord.check.revision_probe import spoken_revisions

    return await plan_calls(subject, plan.rules, plan.revisions or await spoken_revisions(subject))


async def _check(options: argparse.Namespace, plan: "ServerPlan") -> "Report":
    from accord.check.server_check import check_server

    with progress("checking", 1000) as done:
        callbacks: dict[str, Any] = {
            "step": _progress_callback(done),
            "setting": _describe_setting(options, _display_name(options)),
        }
        if not options.quiet:
            callbacks["tell_plan"] = announce_plan
        return await _run_with_target(
            options, lambda subject: check_server(subject, plan, **callbacks)
        )


def _display_name(options: argparse.Namespace) -> str:
    return reporting.display_target(options.target) or " ".join(options.command)


async def _run_with_target(
    options: argparse.Namespace, work: "Callable[[ServerTarget], Awaitable[_T]]"
) -> _T:
    """Find out how to reach the server, serve it if necessary, and do the work."""
    from accord.check.probing.target import ServerTarget, serve_target

    found = command_of(options.target, options.rest, options.command)
    transport = _transport(options, is_url=isinstance(found, str))
    headers = dict(options.header)
    auth_of(options)  # refuses options that contradict each other
    token = bearer_token(options)
    if token:
        headers["authorization"] = f"Bearer {token}"
    settings: dict[str, Any] = {
        "name": _display_name(options),
        "headers": headers,
        "env": dict(options.env),
        "cwd": options.cwd,
        "patience": options.timeout,
        **({"one_at_a_time": True, "at_once": 1} if options.one_at_a_time else {}),
    }
    if isinstance(found, str):
        subject = ServerTarget(url=found, form=transport, **settings)
        return await work(await _authorize(subject, options))
    if transport == "stdio":
        return await work(ServerTarget(command=found, **settings))
    if options.command:
        raise UsageError(f"a command is reached over stdio, not {transport}")
    place = locate(options.target, options.rest).target
    async with serve_target(place, transport, settings["env"]) as url:
        subject = ServerTarget(url=url, form=transport, is_launched=True, **settings)
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
    from accord.check.probing.authorization import obtain

    # With a stored token the steps that obtain one would not be checked.
    granted = await obtain(subject, oauth_of(options, name="accord check", is_kept=False))
    if granted is None:
        return subject
    headers = {**subject.headers, "authorization": f"Bearer {granted.token}"}
    return replace(subject, headers=headers, granted=granted)


def _transport(options: argparse.Namespace, *, is_url: bool) -> Any:
    if options.transport is None:
        return "http" if is_url else "stdio"
    transport = one_of(options.transport, _TRANSPORTS, "transport")
    if is_url and transport == "stdio":
        raise UsageError("a URL is reached over http or sse, not stdio")
    return transport


def _describe_setting(options: argparse.Namespace, target: str) -> "Setting":
    """Describe this check for the report, with the names of secrets but not their values."""
    from accord.check.report import Setting

    words = ["accord check server", *([quote(target)] if options.target else [])]
    chosen = {"transport": options.transport, "cwd": options.cwd}
    words += [f"--{name} {quote(value)}" for name, value in chosen.items() if value is not None]
    words += [f"--tool {quote(tool)}" for tool in options.tool]
    words += ["--allow-writes"] * options.allow_writes
    words += [f"--calls {options.calls}"] * (options.calls is not None)
    words += ["--one-at-a-time"] * options.one_at_a_time
    words += [f"--header {quote(f'{header}: ...')}" for header, _ in options.header]
    words += ['--bearer "$TOKEN"'] * bool(options.bearer)
    words += ["--oauth"] * options.oauth
    named = {
        "client-id": options.client_id,
        "issuer": options.issuer,
        "redirect-uri": options.redirect_uri,
    }
    words += [f"--{name} {quote(value)}" for name, value in named.items() if value is not None]
    words += [f"--scope {quote(scope)}" for scope in options.scope or ()]
    words += [f"--grant {quote(options.grant)}"] if options.grant else []
    words += ['--other-bearer "$OTHER"'] * bool(options.other_bearer)
    words += ['--foreign-bearer "$FOREIGN"'] * bool(options.foreign_bearer)
    words += ["--allow-token-in-query"] * options.allow_token_in_query
    words += [f"--env {quote(variable)}=..." for variable, _ in options.env]
    return Setting(
        command=" ".join(words),
        command_end=f" -- {join(options.command)}" if options.command else "",
        artifact=reporting.artifact_file(target),
    )


def _progress_callback(done: "Advance") -> "Callable[[CheckProgress], None]":
    """Return a callback that shows the progress of the check: revision and scenario."""

    def step(stage: "CheckProgress") -> None:
        place = stage.revisions.index(stage.revision) + 1
        now = f"{stage.revision} ({place} of {len(stage.revisions)}) {stage.scenario}"
        done(round(1000 * stage.share), now)

    return step

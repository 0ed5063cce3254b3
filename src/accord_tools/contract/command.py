"""`accord test`: contract tests generated from a server's schemas, and cases from a file."""

import argparse
import asyncio
from contextlib import contextmanager
from shlex import join, quote
from typing import TYPE_CHECKING, Any, Final

from accord.cli.connection import run_with_target, target_options
from accord.cli.options import (
    CALLS,
    Commands,
    UsageError,
    add_command,
    given_filter,
    headers_of,
    one_of,
    without_secrets,
)
from accord.cli.target import demand_target, is_placed, names_entry
from accord.cli.terminal import interruptible, painter, progress, say
from accord.errors import ConnectFailed
from accord.secrets.filter import display_target
from accord_tools.reports.delivery import announce_plan, plan_form, say_form, show_plan, write_forms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accord_tools.check.probing.tool_calls import CallLimit
    from accord_tools.contract.cases import CaseFile
    from accord_tools.contract.runner import TestRun
    from accord_tools.contract.tested_server import CallCommand, ContractRules, Test, TestedServer
    from accord_tools.reports.tool_calls import CallPlan


_FORMS: Final = ("text", "json", "junit")
_TRANSPORTS: Final = ("stdio", "memory", "http", "sse")
_HELP: Final = """\
usage: accord test [options] TARGET
       accord test [options] -- COMMAND ...

Test a server against what it declares. Each tool that may be called gets generated valid arguments,
arguments at their limits, and arguments that its schema forbids; results are checked against its
output schema. Resources are read, prompts and completions requested. A failing input is reduced to
a small one and shown as the command that repeats it. The same run gives the same outcome.

TARGET is a URL, a Python file or module with a Server, or a command line after --. A tool is
called only if it says that it reads (readOnlyHint: true); or, without annotations and not behind a
URL, if its name begins with a word such as get, list, read or search and no other word may mean a
change. The plan of calls is shown before the first call; --plan shows it and calls none.

--cases adds your own: a TOML (or YAML) file with [[case]] tables; see the page on testing.

Exit code: 0 all tests that ran passed, 1 a test failed, 2 the tests could not run.

examples:
  accord test server.py
  accord test server.py --tool add --examples 200 --seed 7
  accord test server.py --cases cases.toml --output results.xml
  accord test https://example.com/mcp --bearer "$TOKEN"
  accord test -- npx some-server --flag
"""


_OPTIONS: Final = f"""\
--cases FILE   your own cases; may name the target, too
--only-cases   generate no tests from what the server declares
--update-snapshots  keep the results of cases with snapshot, in place of the earlier ones
--case TEXT    run only cases whose names contain this, and no generated tests; may be repeated
{CALLS.format("150, or 4 times --examples")}
--examples N   generated arguments per tool (default: 25)
--seed N       another seed generates other arguments (default: 0)
--transport T  how to reach it: {", ".join(_TRANSPORTS)} (default: what the URL speaks, else
               stdio); memory runs a Python file in this process
output:
--format F     {", ".join(_FORMS)} (default: text)
--output FILE  write the report to a file, .xml JUnit, .json JSON, else text; may be repeated
--quiet        text: only what failed
{target_options()}"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "test", run, _HELP, _OPTIONS)


def run(options: argparse.Namespace) -> int:
    """Test a server and print the report."""
    from accord_tools.contract.cases import CaseFile, read_cases

    form = one_of(options.format, _FORMS, "format") if options.format else None
    if options.plan:
        form = plan_form(form)
    file = CaseFile() if options.cases is None else read_cases(options.cases)
    _fill_in_options(options, file)
    if options.only_cases and options.cases is None:
        raise UsageError("--only-cases needs --cases FILE")
    if options.case:
        file = _choose_cases(file, options.case)
    demand_target(options, "test")

    def work(found: Any, settings: Any) -> int:
        from accord_tools.contract.runner import temporary_hypothesis_home
        from accord_tools.contract.tested_server import TestedServer

        patience = file.timeout if options.timeout is None else options.timeout
        target = _target_over(options, found, settings)
        contacting = TestedServer(
            target, settings, patience=patience, command=_call_options(options)
        )
        contacting.updates_snapshots = options.update_snapshots
        with temporary_hypothesis_home(), _naming_form(options, found), contacting as contact:
            tests, plan = _plan_tests(contact, options, file)
            if options.plan:
                show_plan(plan, plan_form(form), _target(options))
                return 0
            if not options.quiet:
                announce_plan(plan)
            ran = _run_tests(contact, tests, quiet=options.quiet)
        return _deliver(options, ran, form, contact.limit)

    return run_with_target(options, work)


@contextmanager
def _naming_form(options: argparse.Namespace, found: Any) -> "Iterator[None]":
    """Say which form of HTTP a URL speaks if another one was chosen."""
    try:
        yield
    except ConnectFailed as error:
        if options.transport is None or not isinstance(found, str):
            raise
        from accord.client.server_spec import ServerSpec
        from accord_tools.check.probing.target import ServerTarget, name_form

        headers = headers_of(options)
        spec = ServerSpec(name=found, url=found, transport=options.transport, headers=headers)
        target = ServerTarget(spec=spec)
        raise asyncio.run(name_form(target, error)) from None


def _fill_in_options(options: argparse.Namespace, file: "CaseFile") -> None:
    """Take target, transport and revision from the file if the command line has none."""
    if not options.target and not options.command and not names_entry(options):
        from accord_tools.contract.cases import resolve_target

        options.command = tuple(file.command)
        options.target = "" if file.target is None else resolve_target(file.target, options.cases)
    options.transport = options.transport or file.transport
    options.revision = options.revision or file.revision


def _target_over(options: argparse.Namespace, found: Any, settings: Any) -> Any:
    if options.transport is None:
        return found
    transport = one_of(options.transport, _TRANSPORTS, "transport")
    if isinstance(found, str):
        if transport not in ("http", "sse"):
            raise UsageError(f"a URL is reached over http or sse, not {transport}")
        settings["transport"] = transport
        return found
    if transport in ("http", "sse"):
        raise UsageError(f"only a URL is reached over {transport}; accord run --http serves a file")
    if transport == "stdio":
        return found
    if not is_placed(options):
        raise UsageError("a command is reached over stdio, not in memory")
    from accord.cli.target import load, locate

    return load(locate(options.target, options.rest))


def _call_options(options: argparse.Namespace) -> "CallCommand":
    """Return the options with which `accord call` reaches the same server, without secrets."""
    from accord_tools.contract.tested_server import CallCommand

    chosen = without_secrets(
        options, "config", "host", "env", "header", "bearer", "oauth", "cwd", "revision"
    )
    words = "".join(f" {each}" for each in chosen)
    if options.command:
        return CallCommand(after=f"{words} -- {join(options.command)}")
    return CallCommand(before=f"{quote(display_target(options.target))} ", after=words)


def _choose_cases(file: "CaseFile", texts: "Sequence[str]") -> "CaseFile":
    """Return the file with only those cases whose names contain one of the texts."""
    from msgspec.structs import replace

    chosen = [each for each in file.case if any(text in each.name for text in texts)]
    if not chosen:
        known = ", ".join(repr(each.name) for each in file.case) or "the file has none"
        raise UsageError(f"no name of a case contains {' or '.join(map(repr, texts))}: {known}")
    return replace(file, case=chosen, contract=False)


def _rules(options: argparse.Namespace, file: "CaseFile") -> "ContractRules | None":
    from accord_tools.contract.cases import rules_of
    from accord_tools.contract.tested_server import ContractRules

    own = rules_of(file)
    if own is None or options.only_cases:
        return None
    return ContractRules(
        tools=frozenset(options.tool) or own.tools,
        allow_writes=options.allow_writes or own.allow_writes,
        examples=own.examples if options.examples is None else options.examples,
        seed=own.seed if options.seed is None else options.seed,
        calls=own.calls if options.calls is None else options.calls,
    )


def _plan_tests(
    contact: "TestedServer", options: argparse.Namespace, file: "CaseFile"
) -> "tuple[list[Test], CallPlan]":
    from accord_tools.contract.runner import plan_tests

    calls = file.calls if options.calls is None else options.calls
    with interruptible():
        try:
            return plan_tests(contact, _rules(options, file), file.case, calls=calls)
        except ValueError as error:
            raise UsageError(str(error)) from None


def _run_tests(contact: "TestedServer", tests: "list[Test]", *, quiet: bool) -> "list[TestRun]":
    from accord_tools.contract.runner import run_tests

    with interruptible(), progress("testing", len(tests), quiet=quiet) as done:
        return run_tests(contact, tests, step=done)


def _target(options: argparse.Namespace) -> str:
    shown = display_target(options.target) or join(options.command)
    return given_filter(options).hide(shown, may_be_cut=False)


def _deliver(
    options: argparse.Namespace, ran: "Sequence[TestRun]", form: str | None, limit: "CallLimit"
) -> int:
    from accord_tools.contract import runner

    def render(form: str, **more: Any) -> str:
        form = form if form in runner.FORMS else "text"
        if form == "text":
            more["quiet"] = options.quiet
        text = runner.FORMS[form](_target(options), ran, limit, **more)
        return given_filter(options).hide(text, may_be_cut=False)

    if not write_forms(options.output, form if len(options.output) == 1 else None, render):
        return 2
    if options.output:
        say(f"{runner.summary(ran)}\n")
    elif form is None or form == "text":
        say(render("text", paint=painter()))
    else:
        say_form(form, render(form))
    return 1 if runner.has_failed(ran) else 0

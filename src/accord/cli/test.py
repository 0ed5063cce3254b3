"""`accord test`: contract tests generated from a server's schemas, and cases from a file."""

import argparse
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any, Final

from accord.cli.connection import connection_options, run_with_target
from accord.cli.options import (
    TARGET,
    TARGET_USAGE,
    Commands,
    Option,
    UsageError,
    add_command,
    call_options,
    one_of,
    output_file,
)
from accord.cli.reporting import announce_plan, display_target, plan_form, show_plan
from accord.cli.target import demand_target
from accord.cli.terminal import complain, interruptible, painter, progress, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accord.check.contract.cases import CaseFile
    from accord.check.contract.declared_tests import ContractRules
    from accord.check.contract.runner import TestRun
    from accord.check.contract.tested_server import CallCommand, Test, TestedServer
    from accord.check.probing.tool_calls import CallLimit, CallPlan


_FORMS: Final = ("text", "json", "junit")
_ENDINGS: Final = {".json": "json", ".xml": "junit"}
_TRANSPORTS: Final = ("stdio", "memory", "http", "sse")
_ABOUT: Final = """\
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
"""
_EXAMPLES: Final = """\
examples:
  accord test server.py
  accord test server.py --tool add --examples 200 --seed 7
  accord test server.py --cases cases.toml --output results.xml
  accord test https://example.com/mcp --bearer "$TOKEN"
  accord test -- npx some-server --flag
"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    options = (
        *TARGET,
        Option("--cases", "FILE", "your own cases; may name the target, too", Path),
        Option("--only-cases", None, "generate no tests from what the server declares"),
        *call_options("100, or 4 times --examples"),
        Option("--examples", "N", "generated arguments per tool (default: 25)", _count),
        Option("--seed", "N", "another seed generates other arguments (default: 0)", int),
        Option(
            "--transport",
            "T",
            f"how to reach it: {', '.join(_TRANSPORTS)} (default: http for URLs, else stdio);"
            " memory runs a Python file in this process",
        ),
        Option("--format", "F", f"{', '.join(_FORMS)} (default: text)"),
        Option(
            "--output",
            "FILE",
            "write the report to a file, .xml JUnit, .json JSON, else text; may be repeated",
            output_file,
            is_repeated=True,
        ),
        Option("--quiet", None, "text: only what failed"),
        *connection_options(),
    )
    add_command(
        commands,
        "test",
        run,
        options,
        help="test a server against its own schemas, and your cases",
        usage=TARGET_USAGE,
        about=_ABOUT,
        examples=_EXAMPLES,
    )


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of examples, expected 1 or more"
        )
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Test a server and print the report."""
    from accord.check.contract.cases import CaseFile, read_cases

    form = one_of(options.format, _FORMS, "format") if options.format else None
    if options.plan:
        form = plan_form(form)
    file = CaseFile() if options.cases is None else read_cases(options.cases)
    _fill_in_options(options, file)
    if options.only_cases and options.cases is None:
        raise UsageError("--only-cases needs --cases FILE")
    demand_target(options, "test")
    ran: list[TestRun] = []
    limits: list[CallLimit] = []

    def work(found: Any, settings: Any) -> int:
        from accord.check.contract.tested_server import TestedServer

        patience = file.timeout if options.timeout is None else options.timeout
        target = _target_over(options, found, settings)
        contacting = TestedServer(
            target, settings, patience=patience, command=_call_options(options)
        )
        with _temporary_hypothesis_home(), contacting as contact:
            tests, plan = _plan_tests(contact, options, file)
            if options.plan:
                show_plan(plan, plan_form(form), _target(options))
                return 0
            if not options.quiet:
                announce_plan(plan)
            ran.extend(_run_tests(contact, tests))
            limits.append(contact.limit)
        return 0

    code = run_with_target(options, options.target, options.rest, work)
    if code or options.plan:
        return code
    return _deliver(options, ran, form, limits[0])


@contextmanager
def _temporary_hypothesis_home() -> "Iterator[None]":
    """Give hypothesis a temporary folder; otherwise it would leave one behind."""
    from tempfile import TemporaryDirectory

    try:
        from hypothesis.configuration import set_hypothesis_home_dir
    except ImportError:  # the generator reports it when it is needed
        yield
        return
    with TemporaryDirectory(prefix="accord-test-") as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)


def _fill_in_options(options: argparse.Namespace, file: "CaseFile") -> None:
    """Take target, transport and revision from the file if the command line has none."""
    if not options.target and not options.command:
        from accord.check.contract.cases import resolve_target

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
    if options.command:
        raise UsageError("a command is reached over stdio, not in memory")
    from accord.cli.target import load, locate

    return load(locate(options.target, options.rest))


def _call_options(options: argparse.Namespace) -> "CallCommand":
    """Return the options with which `accord call` reaches the same server, without secrets."""
    from accord.check.contract.tested_server import CallCommand

    words = [f" --env {quote(name)}=..." for name, _ in options.env]
    words += [f" --header {quote(f'{name}: ...')}" for name, _ in options.header]
    words += [' --bearer "$TOKEN"'] * (options.bearer is not None)
    words += [" --oauth"] * options.oauth
    words += [f" --cwd {quote(str(options.cwd))}"] * (options.cwd is not None)
    words += [f" --revision {options.revision}"] * (options.revision is not None)
    if options.command:
        return CallCommand(after=f"{''.join(words)} -- {join(options.command)}")
    return CallCommand(before=f"{quote(display_target(options.target))} ", after="".join(words))


def _rules(options: argparse.Namespace, file: "CaseFile") -> "ContractRules | None":
    from accord.check.contract.cases import rules_of
    from accord.check.contract.declared_tests import ContractRules

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
    from accord.check.contract.runner import plan_tests

    calls = file.calls if options.calls is None else options.calls
    with interruptible():
        try:
            return plan_tests(contact, _rules(options, file), file.case, calls=calls)
        except ValueError as error:
            raise UsageError(str(error)) from None


def _run_tests(contact: "TestedServer", tests: "list[Test]") -> "list[TestRun]":
    from accord.check.contract.runner import run_tests

    with interruptible(), progress("testing", len(tests)) as done:
        return run_tests(contact, tests, step=done)


def _target(options: argparse.Namespace) -> str:
    return display_target(options.target) or join(options.command)


def _deliver(
    options: argparse.Namespace, ran: "Sequence[TestRun]", form: str | None, limit: "CallLimit"
) -> int:
    from accord.check.contract import runner

    target = _target(options)
    for path in options.output:
        chosen = form if form and len(options.output) == 1 else _ENDINGS.get(path.suffix, "text")
        try:
            path.write_text(_render(chosen, target, ran, limit, quiet=options.quiet), "utf-8")
        except OSError as error:
            complain(f"{path}: {error.strerror or error}")
            return 2
    if options.output:
        say(f"{runner.summary(ran)}\n")
    elif form in (None, "text"):
        say(runner.as_text(target, ran, limit, quiet=options.quiet, paint=painter()))
    else:
        assert form is not None
        say(_render(form, target, ran, limit, quiet=options.quiet))
    return 1 if runner.has_failed(ran) else 0


def _render(
    form: str, target: str, ran: "Sequence[TestRun]", limit: "CallLimit", *, quiet: bool
) -> str:
    render = import_module("accord.check.contract.runner").FORMS[form]
    more = {"quiet": quiet} if form == "text" else {}
    text: str = render(target, ran, limit, **more)
    return text

"""`accord test`: contract tests made from what a server declares, and cases of its author's."""

import argparse
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any, Final

from accord.cli.connection import add_options, reach
from accord.cli.options import UsageError, add_tools, one_of, output_file
from accord.cli.reporting import announce_plan, display_target, plan_form, show_plan
from accord.cli.target import add_target, demand_target
from accord.cli.terminal import complain, interruptible, painter, progress, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from accord.check.contract.cases import CaseFile
    from accord.check.contract.contact import Contact, Way
    from accord.check.contract.model import Test
    from accord.check.contract.running import Ran
    from accord.check.contract.tools import Rules
    from accord.check.probing.calls import CallLimit, CallPlan


_FORMS: Final = ("text", "json", "junit")
_ENDINGS: Final = {".json": "json", ".xml": "junit"}
_TRANSPORTS: Final = ("stdio", "memory", "http", "sse")
_ABOUT: Final = """\
Test a server against what it declares. Each tool that may be called gets generated valid arguments,
arguments at their limits, and arguments that its schema forbids; what comes back is held against
its output schema. Resources are read, prompts got, completions asked. A failing input is made as
small as possible and shown as the command that repeats it. The same run gives the same outcome.

TARGET is a URL, a Python file or module with a Server, or a command line after --. A tool is
called only if it says that it reads (readOnlyHint: true); or, without annotations and not behind a
URL, if its name begins with a word such as get, list, read or search and no other word may mean a
change. The plan of calls is shown before the first call; --plan shows it and calls none.

--cases adds your own: a TOML (or YAML) file with [[case]] tables; see the page on testing.

Exit code: 0 all that ran passed, 1 something failed, 2 it could not be done.
"""
_EXAMPLES: Final = """\
examples:
  accord test server.py
  accord test server.py --tool add --examples 200 --seed 7
  accord test server.py --cases cases.toml --output results.xml
  accord test https://example.com/mcp --bearer "$TOKEN"
  accord test -- npx some-server --flag
"""


def register(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "test",
        help="test a server against its own schemas, and your cases",
        description=_ABOUT,
        epilog=_EXAMPLES,
    )
    add_target(parser)
    parser.add_argument(
        "--cases", metavar="FILE", type=Path, help="your own cases; may name the target, too"
    )
    parser.add_argument(
        "--only-cases", action="store_true", help="make no tests from what the server declares"
    )
    add_tools(parser, "100, or 4 times --examples")
    parser.add_argument(
        "--examples", metavar="N", type=_count, help="generated arguments per tool (default: 25)"
    )
    parser.add_argument("--seed", metavar="N", type=int, help="for other arguments (default: 0)")
    parser.add_argument(
        "--transport",
        metavar="T",
        help=f"how to reach it: {', '.join(_TRANSPORTS)} (default: http for URLs, else stdio);"
        " memory runs a Python file in this process",
    )
    parser.add_argument("--format", metavar="F", help=f"{', '.join(_FORMS)} (default: text)")
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=output_file,
        action="append",
        default=[],
        help="write the report to a file, .xml JUnit, .json JSON, else text; may be repeated",
    )
    parser.add_argument("--quiet", action="store_true", help="text: only what failed")
    add_options(parser)
    parser.set_defaults(run=run)


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
    _adopt(options, file)
    if options.only_cases and options.cases is None:
        raise UsageError("--only-cases needs --cases FILE")
    demand_target(options, "test")
    ran: list[Ran] = []
    limits: list[CallLimit] = []

    def work(found: Any, settings: Any) -> int:
        from accord.check.contract.contact import Contact

        patience = file.timeout if options.timeout is None else options.timeout
        target = _target_over(options, found, settings)
        contacting = Contact(target, settings, patience=patience, way=_way(options))
        with _nothing_kept(), contacting as contact:
            tests, plan = _plan_tests(contact, options, file)
            if options.plan:
                show_plan(plan, plan_form(form), _target(options))
                return 0
            if not options.quiet:
                announce_plan(plan)
            ran.extend(_run_tests(contact, tests))
            limits.append(contact.limit)
        return 0

    code = reach(options, options.target, options.rest, work)
    if code or options.plan:
        return code
    return _deliver(options, ran, form, limits[0])


@contextmanager
def _nothing_kept() -> "Iterator[None]":
    """Give hypothesis a folder that goes away, for it would leave one of its own behind."""
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


def _adopt(options: argparse.Namespace, file: "CaseFile") -> None:
    """Take from the file what the command line leaves open."""
    if not options.target and not options.command:
        from accord.check.contract.reaching import beside

        options.command = tuple(file.command)
        options.target = "" if file.target is None else beside(file.target, options.cases)
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


def _way(options: argparse.Namespace) -> "Way":
    """Return how `accord call` reaches the same server; secrets by name, without their values."""
    from accord.check.contract.contact import Way

    words = [f" --env {quote(name)}=..." for name, _ in options.env]
    words += [f" --header {quote(f'{name}: ...')}" for name, _ in options.header]
    words += [' --bearer "$TOKEN"'] * (options.bearer is not None)
    words += [" --oauth"] * options.oauth
    words += [f" --cwd {quote(str(options.cwd))}"] * (options.cwd is not None)
    words += [f" --revision {options.revision}"] * (options.revision is not None)
    if options.command:
        return Way(after=f"{''.join(words)} -- {join(options.command)}")
    return Way(before=f"{quote(display_target(options.target))} ", after="".join(words))


def _rules(options: argparse.Namespace, file: "CaseFile") -> "Rules | None":
    from accord.check.contract.reaching import rules_of
    from accord.check.contract.tools import Rules

    own = rules_of(file)
    if own is None or options.only_cases:
        return None
    return Rules(
        tools=frozenset(options.tool) or own.tools,
        allow_writes=options.allow_writes or own.allow_writes,
        examples=own.examples if options.examples is None else options.examples,
        seed=own.seed if options.seed is None else options.seed,
        calls=own.calls if options.calls is None else options.calls,
    )


def _plan_tests(
    contact: "Contact", options: argparse.Namespace, file: "CaseFile"
) -> "tuple[list[Test], CallPlan]":
    from accord.check.contract.running import planned_tests

    calls = file.calls if options.calls is None else options.calls
    with interruptible():
        try:
            return planned_tests(contact, _rules(options, file), file.case, calls=calls)
        except ValueError as error:
            raise UsageError(str(error)) from None


def _run_tests(contact: "Contact", tests: "list[Test]") -> "list[Ran]":
    from accord.check.contract.running import run_tests

    with interruptible(), progress("testing", len(tests)) as done:
        return run_tests(contact, tests, step=done)


def _target(options: argparse.Namespace) -> str:
    return display_target(options.target) or join(options.command)


def _deliver(
    options: argparse.Namespace, ran: "Sequence[Ran]", form: str | None, limit: "CallLimit"
) -> int:
    from accord.check.contract import rendering

    target = _target(options)
    for path in options.output:
        chosen = form if form and len(options.output) == 1 else _ENDINGS.get(path.suffix, "text")
        try:
            path.write_text(_render(chosen, target, ran, limit, quiet=options.quiet), "utf-8")
        except OSError as error:
            complain(f"{path}: {error.strerror or error}")
            return 2
    if options.output:
        say(f"{rendering.summary(ran)}\n")
    elif form in (None, "text"):
        say(rendering.as_text(target, ran, limit, quiet=options.quiet, paint=painter()))
    else:
        assert form is not None
        say(_render(form, target, ran, limit, quiet=options.quiet))
    return 1 if rendering.has_failed(ran) else 0


def _render(
    form: str, target: str, ran: "Sequence[Ran]", limit: "CallLimit", *, quiet: bool
) -> str:
    render = import_module("accord.check.contract.rendering").FORMS[form]
    more = {"quiet": quiet} if form == "text" else {}
    text: str = render(target, ran, limit, **more)
    return text

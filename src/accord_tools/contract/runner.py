"""Finds, runs and reports the tests of a server: those of its contract, and the user's cases."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from tempfile import TemporaryDirectory
from textwrap import indent
from time import monotonic
from typing import Any, Final

import msgspec

from accord.cli.terminal import escape_unprintable
from accord.errors import (
    ConnectFailed,
    MethodNotFound,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
)
from accord.types import JsonObject
from accord_tools.check.probing.tool_calls import CallLimit, CallRefused
from accord_tools.contract.cases import Case, case_test
from accord_tools.contract.tested_server import (
    ContractRules,
    Failure,
    Test,
    TestedServer,
    TestKind,
    TestOutcome,
    fail,
    prompt_tests,
    resource_tests,
    skip,
    success_test,
    template_tests,
    tool_tests,
)
from accord_tools.reports.machine_readable import JunitCase, calls_cases, format_junit
from accord_tools.reports.text import Painter, no_style
from accord_tools.reports.tool_calls import CallPlan
from accord_tools.reports.wording import count_calls, plural


class TestRun(msgspec.Struct, frozen=True, kw_only=True):
    """A test that was run: its outcome and duration."""

    __test__ = False  # pytest collects classes of this name

    test: Test
    outcome: TestOutcome
    seconds: float = 0.0


class ContractBroken(AssertionError):
    """A server breaks its own contract; the message has every failure."""


def plan_tests(
    server: TestedServer,
    rules: ContractRules | None,
    cases: Iterable[Case] = (),
    *,
    calls: int | None = None,
) -> tuple[list[Test], CallPlan]:
    """Return the tests of what a server declares and those of the cases, and their calls.

    Args:
        server: connected to, and listed.
        rules: which tools may be called; None leaves only the cases.
        cases: the user's own.
        calls: the limit of calls for each tool; None takes it from the rules.

    Raises:
        MissingExtra: the generator of arguments is not installed.
        ValueError: the server does not have a tool that was chosen.
    """
    cases = list(cases)
    requests = (each for case in cases for each in case.requests)
    asked = Counter(each.call for each in requests if each.call is not None)
    if calls is None:
        calls = None if rules is None else rules.calls
    if calls is None:
        # The user wrote each case, so no default limit applies to them.
        calls = (rules or ContractRules()).most_calls + max(asked.values(), default=0)
    limit = CallLimit(calls)
    server.limit = limit
    for name in asked.elements():
        limit.reserve(name)
    made, tools = ([], {}) if rules is None else _declared_tests(server, rules)
    refused = {name: why for name, why in tools.items() if why is not None}
    limit.decide(tools, refused)
    called = tuple(name for name in tools if name not in refused)
    plan = CallPlan(calls=limit.calls, called=called, not_called=refused, cases=dict(asked))
    return [*made, *map(case_test, cases)], plan


def _declared_tests(
    server: TestedServer, rules: ContractRules
) -> tuple[list[Test], dict[str, str | None]]:
    """Return the tests of what a server declares, and why some of its tools are not called."""
    import_module("accord_tools.arguments.generation")
    client = server.client
    tests: list[Test] = []
    decided: dict[str, str | None] = {}
    can = client.capabilities
    if can.tools is not None:
        tools, failed = _list_entries("tool", "tools/list", client.tools())
        names = {str(each["name"]) for each in tools}
        last: list[Test | None] = []
        for missing in () if failed else sorted(rules.tools - names):
            raise ValueError(f"unknown tool {missing}; the server has {', '.join(sorted(names))}")
        for tool in tools:
            why = rules.refusal(tool, is_remote=server.is_remote)
            decided[str(tool["name"])] = decided.get(str(tool["name"])) or why
            tests += tool_tests(tool, rules, why)
            last += [success_test(tool)] if why is None else []
        tests += [each for each in last if each is not None]
        tests += failed

    def add(
        kind: TestKind,
        method: str,
        entries: Iterable[object],
        make: Callable[[JsonObject], list[Test]],
    ) -> None:
        found, failed = _list_entries(kind, method, entries)
        for each in found:
            tests.extend(make(each))
        tests.extend(failed)

    completes = can.completions is not None
    if can.resources is not None:

        def of_resource(resource: JsonObject) -> list[Test]:
            server.known.note_resource(resource)
            return resource_tests(resource)

        add("resource", "resources/list", client.resources(), of_resource)
        of_template = partial(template_tests, completes=completes)
        add("resource", "resources/templates/list", client.resource_templates(), of_template)
    if can.prompts is not None:
        of_prompt = partial(prompt_tests, completes=completes)
        add("prompt", "prompts/list", client.prompts(), of_prompt)
    return tests, decided


def _list_entries(
    kind: TestKind, method: str, entries: Iterable[object]
) -> tuple[list[JsonObject], list[Test]]:
    """Return the entries of a list; if listing fails, also a test that fails for it."""
    found: list[JsonObject] = []
    try:
        for each in entries:
            found.append(msgspec.to_builtins(each))  # noqa: PERF401  # keeps the entries before an error
    except (RequestError, RequestTimeout, RemoteProtocolError) as error:
        failure = Failure(expected="a list", came=str(error), given=method)
        outcome = fail(failure)
        if method == "resources/templates/list" and isinstance(error, MethodNotFound):
            # Many servers with resources do not implement templates.
            outcome = skip(f"the server has no such method: {error}")
        return found, [Test(kind, method, f"{method} answers", lambda _: outcome)]
    return found, []


def run_tests(
    server: TestedServer, tests: Sequence[Test], *, step: Callable[[int, str], object] | None = None
) -> list[TestRun]:
    """Run tests one after the other.

    Args:
        server: the server.
        tests: what to run.
        step: called before each test with the number done and the name of the test.
    """
    done: list[TestRun] = []
    for number, test in enumerate(tests):
        if step is not None:
            step(number, test.name)
        start = monotonic()
        outcome = run_test(server, test)
        done.append(TestRun(test=test, outcome=outcome, seconds=monotonic() - start))
    return done


def run_test(server: TestedServer, test: Test) -> TestOutcome:
    """Run one test; it fails if the server cannot be reached again."""
    try:
        return test.run(server)
    except CallRefused as error:
        return skip(str(error))
    except ConnectFailed as error:
        failure = Failure(expected="a server that can be reached again", came=str(error))
        return fail(failure, calls=0)


def check_contract(
    target: Any,
    *,
    tools: Iterable[str] = (),
    allow_writes: bool = False,
    examples: int = 25,
    seed: int = 0,
    calls: int | None = None,
    timeout: float = 5.0,
    **options: Any,
) -> list[TestRun]:
    """Test a server against what it declares, from a test suite.

    Args:
        target: what `accord.connect` takes: a `Server`, a command, a URL.
        tools: the only tools to call, whatever they do.
        allow_writes: also call tools that change something, unless they destroy it.
        examples: generated arguments for each tool.
        seed: the same seed gives the same arguments.
        calls: the limit of calls for each tool, 150 or four times `examples` by default;
            tests that need more are skipped. 0 calls no tool.
        timeout: seconds to wait for each answer.
        **options: those of `accord.connect`, such as `revision="2025-06-18"`.

    Returns:
        All tests with their outcomes, including skipped ones.

    Raises:
        ContractBroken: at least one test failed; an AssertionError that shows each.
    """
    rules = ContractRules(
        tools=frozenset(tools),
        allow_writes=allow_writes,
        examples=examples,
        seed=seed,
        calls=calls,
    )
    with TestedServer(target, options, patience=timeout) as server:  # type: ignore[arg-type]  # theirs
        ran = run_tests(server, plan_tests(server, rules)[0])
    failures = [
        f"{each.test.name}\n{indent(each.outcome.failure.text(), '  ')}"
        for each in ran
        if each.outcome.failure is not None
    ]
    if failures:
        summary = f"{len(failures)} of {len(ran)} tests failed"
        raise ContractBroken("\n\n".join([summary, *failures]))
    return ran


# -- reports

_SIGNS: Final = {
    "pass": ("green", "ok  "),
    "warn": ("bold yellow", "warn"),
    "fail": ("bold red", "FAIL"),
    "skip": ("dim", "skip"),
}


def has_failed(ran: Sequence[TestRun]) -> bool:
    """Return whether any test failed."""
    return any(each.outcome.verdict == "fail" for each in ran)


def summary(ran: Sequence[TestRun]) -> str:
    """Return the counts in one line."""
    counts = Counter(each.outcome.verdict for each in ran)
    calls = sum(each.outcome.calls for each in ran)
    words = [f"{counts['pass']} passed", f"{counts['fail']} failed", f"{counts['skip']} skipped"]
    warned = sum(bool(each.outcome.warning) for each in ran)
    words += [plural(warned, "warning")] if warned else []
    return f"{', '.join(words)}; {calls} requests"


def as_text(
    target: str,
    ran: Sequence[TestRun],
    limit: CallLimit | None = None,
    *,
    quiet: bool = False,
    paint: Painter = no_style,
) -> str:
    """Return the report as text: each test is a sentence, failures have details.

    Args:
        target: what was tested.
        ran: the tests.
        limit: the limit of calls for each tool.
        quiet: leave out what passed or was skipped.
        paint: styles a text, as (style, text).
    """
    lines = [escape_unprintable(target)]
    for each in ran:
        outcome = each.outcome
        if quiet and outcome.verdict != "fail" and not outcome.warning:
            continue
        style, sign = _SIGNS["warn" if outcome.warning else outcome.verdict]
        told = outcome.why or outcome.warning
        why = f" ({escape_unprintable(told)})" if told else ""
        lines.append(f"  {paint(style, sign)} {escape_unprintable(each.test.name)}{why}")
        if outcome.failure is not None:
            lines += [f"       {line}" for line in outcome.failure.text().splitlines()]
    counted = [] if limit is None or quiet else limit.all_counts()
    lines += [
        f"{escape_unprintable(each.name)}: {count_calls(each)}" for each in counted if each.calls
    ]
    return "\n".join([*lines, summary(ran), ""])


def as_json(target: str, ran: Sequence[TestRun], limit: CallLimit | None = None) -> str:
    """Return the report as JSON."""
    counts = Counter(each.outcome.verdict for each in ran)
    report = {
        "target": target,
        "passed": counts["pass"],
        "failed": counts["fail"],
        "skipped": counts["skip"],
        "calls": None if limit is None else limit.calls,
        "called": {} if limit is None else dict(limit.made),
        "tools": [] if limit is None else msgspec.to_builtins(limit.all_counts()),
        "tests": [_as_object(each) for each in ran],
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _as_object(ran: TestRun) -> JsonObject:
    test, outcome, failure = ran.test, ran.outcome, ran.outcome.failure
    details: JsonObject = {"why": outcome.why, "warning": outcome.warning}
    if failure is not None:
        details |= {
            name: getattr(failure, name) for name in ("given", "expected", "came", "repeat")
        }
    return {
        "name": test.name,
        "kind": test.kind,
        "subject": test.subject,
        "verdict": outcome.verdict,
        "requests": outcome.calls,
        "seconds": round(ran.seconds, 3),
        **{name: text for name, text in details.items() if text},
    }


def as_junit(target: str, ran: Sequence[TestRun], limit: CallLimit | None = None) -> str:
    """Return the report for continuous integration: a suite per kind, a case per test."""
    cases = [_junit_case(each) for each in ran]
    cases += calls_cases([] if limit is None else limit.all_counts())
    return format_junit(target, cases, dict.fromkeys(each.suite for each in cases))


def _junit_case(ran: TestRun) -> JunitCase:
    failure, told = ran.outcome.failure, ran.outcome.why or ran.outcome.warning
    return JunitCase(
        suite=ran.test.kind,
        name=ran.test.name,
        state="warn" if ran.outcome.warning else ran.outcome.verdict,
        message=escape_unprintable(told) if failure is None else failure.summary(),
        details="" if failure is None else failure.text(),
        seconds=ran.seconds,
    )


FORMS: Final[dict[str, Callable[..., str]]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
}


@contextmanager
def temporary_hypothesis_home(shared: str = "") -> Iterator[None]:
    """Give hypothesis a temporary folder; otherwise it would leave one behind.

    Args:
        shared: a folder that several processes use and another one removes: the tables that
            hypothesis makes there take longer than most tests.
    """
    try:
        from hypothesis.configuration import set_hypothesis_home_dir
    except ImportError:  # the generator reports it when it is needed
        yield
        return
    with nullcontext(shared) if shared else TemporaryDirectory(prefix="accord-test-") as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)

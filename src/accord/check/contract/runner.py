"""Finds and runs the tests of a server: those of its contract, and the user's cases."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from textwrap import indent
from time import monotonic
from typing import Any, Final

import msgspec

from accord.check.contract.cases import Case, case_test
from accord.check.contract.declared_tests import (
    ContractRules,
    prompt_tests,
    resource_tests,
    template_tests,
    tool_tests,
)
from accord.check.contract.tested_server import (
    Failure,
    Test,
    TestedServer,
    TestKind,
    TestOutcome,
    fail,
    skip,
)
from accord.check.probing.tool_calls import CallLimit, CallPlan, CallRefused
from accord.errors import (
    ConnectFailed,
    MethodNotFound,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
)
from accord.types import JsonObject

_TEMPLATES: Final = "resources/templates/list"


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
    asked = Counter(case.call for case in cases if case.call is not None)
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
    import_module("accord.check.contract.generation")
    client = server.client
    tests: list[Test] = []
    decided: dict[str, str | None] = {}
    can = client.capabilities
    if can.tools is not None:
        tools, failed = _list_entries("tool", "tools/list", client.tools())
        names = {str(each["name"]) for each in tools}
        for missing in () if failed else sorted(rules.tools - names):
            raise ValueError(f"unknown tool {missing}; the server has {', '.join(sorted(names))}")
        for tool in tools:
            why = rules.refusal(tool, is_remote=server.is_remote)
            decided[str(tool["name"])] = decided.get(str(tool["name"])) or why
            tests += tool_tests(tool, rules, why)
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
        add("resource", "resources/list", client.resources(), resource_tests)
        of_template = partial(template_tests, completes=completes)
        add("resource", _TEMPLATES, client.resource_templates(), of_template)
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
        if method == _TEMPLATES and isinstance(error, MethodNotFound):
            # Many servers with resources do not implement templates.
            outcome = skip(f"the server has no such method: {error}")
        return found, [Test(kind, method, f"{method} answers", lambda _: outcome)]
    return found, []


def run_tests(
    server: TestedServer,
    tests: Sequence[Test],
    *,
    step: Callable[[int, str], object] | None = None,
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
        calls: the limit of calls for each tool, 100 or four times `examples` by default;
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

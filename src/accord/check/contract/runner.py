"""Tests of a server, found and run: a contract made from what it declares, and cases."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from time import monotonic
from typing import Any, Final

import msgspec

from accord.check.contract.case_file import Case
from accord.check.contract.case_tests import case_test
from accord.check.contract.declared_tests import ContractRules, tool_tests
from accord.check.contract.model import Failure, Test, TestKind, TestOutcome, skip
from accord.check.contract.others import prompt_tests, resource_tests, template_tests
from accord.check.contract.tested_server import TestedServer
from accord.check.probing.tool_calls import CallLimit, CallPlan, CallRefused
from accord.errors import (
    ConnectFailed,
    MethodNotFound,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
)

_TEMPLATES: Final = "resources/templates/list"


class TestRun(msgspec.Struct, frozen=True, kw_only=True):
    """A test with its outcome and the seconds it took."""

    test: Test
    outcome: TestOutcome
    seconds: float = 0.0


class ContractBroken(AssertionError):
    """A server does not keep what it declares; the message has every failure."""


def all_tests(
    contact: TestedServer, rules: ContractRules | None, cases: Iterable[Case] = ()
) -> list[Test]:
    """Return the tests that what a server declares gives rise to, and those of the cases.

    Args:
        contact: the server; connected to, and listed.
        rules: what may be called; None makes no tests but those of the cases.
        cases: the user's own.

    Raises:
        MissingExtra: arguments cannot be generated.
        ValueError: a tool was chosen that the server has not.
    """
    return plan_tests(contact, rules, cases)[0]


def plan_tests(
    contact: TestedServer,
    rules: ContractRules | None,
    cases: Iterable[Case] = (),
    *,
    calls: int | None = None,
) -> tuple[list[Test], CallPlan]:
    """Return the tests of `all_tests`, and which tools they will call.

    Args:
        contact: the server; connected to, and listed.
        rules: what may be called; None makes no tests but those of the cases.
        cases: the user's own.
        calls: how many calls each tool gets at most; None leaves it to the rules.
    """
    cases = list(cases)
    asked = Counter(case.call for case in cases if case.call is not None)
    if calls is None:
        calls = None if rules is None else rules.calls
    if calls is None:
        # Cases were asked for one by one: no default cuts them short.
        calls = (rules or ContractRules()).most_calls + max(asked.values(), default=0)
    limit = CallLimit(calls)
    contact.limit = limit
    for name in asked.elements():
        limit.reserve(name)
    made, tools = ([], {}) if rules is None else _declared(contact, rules)
    refused = {name: why for name, why in tools.items() if why is not None}
    limit.decide(tools, refused)
    called = tuple(name for name in tools if name not in refused)
    plan = CallPlan(calls=limit.calls, called=called, not_called=refused, cases=dict(asked))
    return [*made, *map(case_test, cases)], plan


def _declared(
    contact: TestedServer, rules: ContractRules
) -> tuple[list[Test], dict[str, str | None]]:
    """Return the tests of what a server declares; and its tools, with why some are not called."""
    import_module("accord.check.contract.generation")
    client = contact.client
    tests: list[Test] = []
    decided: dict[str, str | None] = {}
    can = client.capabilities
    if can.tools is not None:
        tools, failed = _listed("tool", "tools/list", client.tools())
        names = {str(each["name"]) for each in tools}
        for missing in () if failed else sorted(rules.tools - names):
            raise ValueError(f"there is no tool {missing}; there are {', '.join(sorted(names))}")
        for tool in tools:
            why = rules.refusal(tool, is_remote=contact.is_remote)
            decided[str(tool["name"])] = decided.get(str(tool["name"])) or why
            tests += tool_tests(tool, rules, why)
        tests += failed
    completes = can.completions is not None
    if can.resources is not None:
        resources, failed = _listed("resource", "resources/list", client.resources())
        for resource in resources:
            tests += resource_tests(resource)
        tests += failed
        templates, failed = _listed("resource", _TEMPLATES, client.resource_templates())
        for template in templates:
            tests += template_tests(template, completes=completes)
        tests += failed
    if can.prompts is not None:
        prompts, failed = _listed("prompt", "prompts/list", client.prompts())
        for prompt in prompts:
            tests += prompt_tests(prompt, completes=completes)
        tests += failed
    return tests, decided


def _listed(
    kind: TestKind, method: str, entries: Iterable[Any]
) -> tuple[list[dict[str, Any]], list[Test]]:
    """Return what a list has, and where it fails the test that says so: the others are tested."""
    found: list[dict[str, Any]] = []
    try:
        for each in entries:
            found.append(msgspec.to_builtins(each))  # noqa: PERF401  # what came first is kept
    except (RequestError, RequestTimeout, RemoteProtocolError) as error:
        failure = Failure(expected="a list", came=str(error), given=method)
        outcome = TestOutcome(verdict="fail", failure=failure, calls=1)
        if method == _TEMPLATES and isinstance(error, MethodNotFound):
            # Many servers with plain resources have no templates, and no method for them.
            outcome = skip(f"the server has no such method: {error}")
        test = Test(kind=kind, subject=method, name=f"{method} answers", run=lambda _: outcome)
        return found, [test]
    return found, []


def run_tests(
    contact: TestedServer,
    tests: Sequence[Test],
    *,
    step: Callable[[int, str], object] | None = None,
) -> list[TestRun]:
    """Run tests one after the other.

    Args:
        contact: the server.
        tests: what to run.
        step: told before each test how many are done and what it is called.
    """
    done: list[TestRun] = []
    for number, test in enumerate(tests):
        if step is not None:
            step(number, test.name)
        start = monotonic()
        outcome = run_test(contact, test)
        done.append(TestRun(test=test, outcome=outcome, seconds=monotonic() - start))
    return done


def run_test(contact: TestedServer, test: Test) -> TestOutcome:
    """Run one test; a server that cannot be reached again has failed it."""
    try:
        return test.run(contact)
    except CallRefused as error:
        return skip(str(error))
    except ConnectFailed as error:
        failure = Failure(expected="a server that can be reached again", came=str(error))
        return TestOutcome(verdict="fail", failure=failure)


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
    """Hold a server to what it declares, for tests of one's own.

    Args:
        target: what `accord.connect` takes: a `Server`, a command, a URL.
        tools: those that are called whatever they do, and no others.
        allow_writes: also call tools that change something, short of destroying it.
        examples: generated arguments for each tool.
        seed: the same seed gives the same arguments.
        calls: how many calls each tool gets at most, 100 or four times `examples` by default;
            tests that need more are skipped. 0 calls no tool.
        timeout: seconds to wait for each answer.
        **options: those of `accord.connect`, such as `revision="2025-06-18"`.

    Returns:
        All tests with their outcomes, those that were skipped included.

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
    with TestedServer(target, options, patience=timeout) as contact:  # type: ignore[arg-type]  # theirs
        ran = run_tests(contact, all_tests(contact, rules))
    broken = [each for each in ran if each.outcome.failure is not None]
    if broken:
        texts = [f"{each.test.name}\n{_indented(each.outcome)}" for each in broken]
        raise ContractBroken(f"{len(broken)} of {len(ran)} tests failed\n\n" + "\n\n".join(texts))
    return ran


def _indented(outcome: TestOutcome) -> str:
    assert outcome.failure is not None
    return "\n".join(f"  {line}" for line in outcome.failure.text().splitlines())

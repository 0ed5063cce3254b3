"""Tests of one tool: what its schemas promise, put to the test."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from accord.check.contract.arguments import Invalid, Shape
from accord.check.contract.model import Failure, Test, TestOutcome, pass_, skip
from accord.check.contract.tested_server import ServerAnswer, TestedServer, format_json
from accord.check.probing.tool_calls import DEFAULT_CALLS, CallRefused
from accord.check.probing.tools import refuse_tool
from accord.protocol.json_schema import compile_schema
from accord.protocol.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, PARSE_ERROR

# Nothing that a caller sends in good form may be answered with these.
BAD_CODES: Final = {
    INTERNAL_ERROR: "an internal error",
    METHOD_NOT_FOUND: "method not found",
    PARSE_ERROR: "a parse error",
}
_VALID: Final = "a result, or an error that is no internal one"
_REFUSAL: Final = "a refusal: isError, or error -32602"


class ContractRules(msgspec.Struct, frozen=True, kw_only=True):
    """What may be called and how much is tried.

    Attributes:
        tools: called whatever they do, and no others.
        allow_writes: also call tools that change something, short of destroying it.
        examples: generated arguments for each tool.
        seed: the same seed gives the same arguments.
        calls: how many calls each tool gets at most; 0 calls none. None leaves room for examples.
    """

    tools: frozenset[str] = frozenset()
    allow_writes: bool = False
    examples: int = 25
    seed: int = 0
    calls: int | None = None

    @property
    def most_calls(self) -> int:
        """How many calls each tool gets at most."""
        # Calls at the limits, wrong ones, and the search for a smaller input come on top.
        return max(DEFAULT_CALLS, 4 * self.examples) if self.calls is None else self.calls

    def refusal(self, tool: Mapping[str, Any], *, is_remote: bool) -> str | None:
        """Return why a tool is not called; None where it may be.

        Args:
            tool: as the server lists it.
            is_remote: whether the server was there before the test, behind a URL.
        """
        why = refuse_tool(
            tool, allow_writes=self.allow_writes, chosen=self.tools, is_remote=is_remote
        )
        if why is None and not self.most_calls:
            return "--calls 0 allows no calls"
        return why


def tool_tests(
    tool: Mapping[str, Any], rules: ContractRules, refused: str | None = None
) -> list[Test]:
    """Return the tests of a tool.

    Args:
        tool: as the server lists it.
        rules: how much is tried.
        refused: why it is not called; None where it may be.
    """
    name = str(tool["name"])
    if refused is not None:
        return [_test(name, f"{name} is not called", lambda _: skip(refused))]
    try:
        shape = Shape(tool.get("inputSchema"))
    except ValueError as error:
        reason = f"no arguments can be made: {error}"
        return [_test(name, f"{name} keeps its contract", lambda _: skip(reason))]
    judge = _Judge(name, tool.get("outputSchema"))
    return [
        _test(name, f"{name} answers valid arguments", partial(_generated, judge, shape, rules)),
        _test(name, f"{name} answers arguments at their limits", partial(_limits, judge, shape)),
        *(
            _test(name, f"{name} refuses {way}", partial(_refused, judge, broken))
            for way, broken in shape.invalid()
        ),
    ]


def _test(subject: str, name: str, run: Callable[[TestedServer], TestOutcome]) -> Test:
    return Test(kind="tool", subject=subject, name=name, run=run)


class _Judge:
    """Says what is wrong with an answer of one tool."""

    def __init__(self, name: str, output: Any) -> None:
        self.name = name
        self._misfit = compile_schema(output) if isinstance(output, dict) else None

    def valid(self, answer: ServerAnswer) -> tuple[str, str] | None:
        """Return what was expected of a valid call and what came, None where all is well."""
        if answer.kind == "error" and answer.code in BAD_CODES:
            return _VALID, answer.summary()
        if answer.kind in ("silence", "end", "breach"):
            return _EXPECTED[answer.kind], answer.summary()
        if answer.kind == "error" or answer.result.is_error or self._misfit is None:
            return None
        structured = answer.result.structured_content
        if structured is msgspec.UNSET:
            return "structured content, for there is an output schema", answer.summary()
        why = self._misfit(structured)
        if why is None:
            return None
        return "structured content that fits the output schema", f"{why}: {format_json(structured)}"

    def refused(self, answer: ServerAnswer) -> tuple[str, str] | None:
        """Return what was expected of an invalid call and what came, None where all is well."""
        if answer.kind == "error":
            return (_REFUSAL, answer.summary()) if answer.code in BAD_CODES else None
        if answer.kind in ("silence", "end", "breach"):
            return f"{_REFUSAL}; {_EXPECTED[answer.kind]}", answer.summary()
        if answer.result.is_error:
            return None
        return _REFUSAL, f"accepted: {answer.summary()}"

    def failure(
        self, contact: TestedServer, arguments: Mapping[str, Any], wrong: tuple[str, str]
    ) -> Failure:
        expected, came = wrong
        given = format_json(arguments)
        again = contact.way.call(self.name, arguments)
        return Failure(expected=expected, came=came, given=given, repeat=again)


_EXPECTED: Final = {
    "silence": "an answer in time",
    "end": "a server that stays alive",
    "breach": "an answer that keeps the protocol and the output schema",
}


def _generated(
    judge: _Judge, shape: Shape, rules: ContractRules, contact: TestedServer
) -> TestOutcome:
    # The generator is an extra.
    from accord.check.contract.generation import (
        Enough,
        Found,
        NothingGenerated,
        smallest_failure,
    )

    calls = 0
    # The other tests of the tool shall find calls, too.
    examples = min(rules.examples, (contact.limit.remaining(judge.name) + 1) // 2)
    if not examples:
        return skip(contact.limit.exhausted_text([judge.name]))

    def attempt(arguments: Any) -> Found | None:
        nonlocal calls
        try:
            answer = contact.call(judge.name, arguments)
        except CallRefused:
            raise Enough from None
        calls += 1
        wrong = judge.valid(answer)
        if wrong is None:
            return None
        return Found(answer.kind, judge.failure(contact, arguments, wrong))

    try:
        found = smallest_failure(
            shape.for_generator(),
            attempt,
            is_valid=shape.is_valid,
            examples=examples,
            seed=rules.seed,
        )
    except NothingGenerated as error:
        return skip(f"no arguments can be generated from its schema: {error}")
    if found is not None:
        return TestOutcome(verdict="fail", failure=found.failure, calls=calls)
    return _alive(contact, calls)


def _limits(judge: _Judge, shape: Shape, contact: TestedServer) -> TestOutcome:
    made = shape.boundaries()
    for number, arguments in enumerate(made, 1):
        if not contact.limit.remaining(judge.name):
            return _cut_short(judge, contact, number - 1, len(made))
        wrong = judge.valid(contact.call(judge.name, arguments))
        if wrong is not None:
            failure = judge.failure(contact, arguments, wrong)
            return TestOutcome(verdict="fail", failure=failure, calls=number)
    return _alive(contact, len(made))


def _refused(judge: _Judge, broken: list[Invalid], contact: TestedServer) -> TestOutcome:
    for number, each in enumerate(broken, 1):
        if not contact.limit.remaining(judge.name):
            return _cut_short(judge, contact, number - 1, len(broken))
        wrong = judge.refused(contact.call(judge.name, each.arguments))
        if wrong is not None:
            failure = judge.failure(contact, each.arguments, wrong)
            return TestOutcome(verdict="fail", failure=failure, calls=number)
    return pass_(len(broken))


def _cut_short(judge: _Judge, contact: TestedServer, made: int, wanted: int) -> TestOutcome:
    """Return the outcome of a test that could not make all of its calls."""
    why = (
        f"{contact.limit.exhausted_text([judge.name])} after {made} of {wanted} calls of this test"
    )
    return TestOutcome(verdict="skip", why=why, calls=made)


def _alive(contact: TestedServer, calls: int) -> TestOutcome:
    if contact.is_alive():
        return pass_(calls)
    failure = Failure(expected="a server that stays alive", came="it answers no ping after these")
    return TestOutcome(verdict="fail", failure=failure, calls=calls)

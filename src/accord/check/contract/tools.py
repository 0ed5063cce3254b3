"""Tests of one tool: what its schemas promise, put to the test."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from accord.check.contract.arguments import Invalid, Shape
from accord.check.contract.contact import Answer, Contact, shown
from accord.check.contract.model import Failure, Outcome, Test, pass_, skip
from accord.check.probing.tools import why_not
from accord.protocol.json_schema import compile_schema
from accord.protocol.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, PARSE_ERROR

__all__ = ["BAD_CODES", "Rules", "tool_tests"]

# Nothing that a caller sends in good form may be answered with these.
BAD_CODES: Final = {
    INTERNAL_ERROR: "an internal error",
    METHOD_NOT_FOUND: "method not found",
    PARSE_ERROR: "a parse error",
}
_VALID: Final = "a result, or an error that is no internal one"
_REFUSAL: Final = "a refusal: isError, or error -32602"


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What may be called and how much is tried.

    Attributes:
        tools: called whatever they do, and no others.
        allow_writes: also call tools that change something, short of destroying it.
        examples: generated arguments for each tool.
        seed: the same seed gives the same arguments.
    """

    tools: frozenset[str] = frozenset()
    allow_writes: bool = False
    examples: int = 25
    seed: int = 0


def tool_tests(tool: Mapping[str, Any], rules: Rules) -> list[Test]:
    """Return the tests of a tool as the server lists it."""
    name = str(tool["name"])
    why = why_not(tool, allow_writes=rules.allow_writes, chosen=rules.tools)
    if why is not None:
        return [_test(name, f"{name} is not called", lambda _: skip(why))]
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


def _test(subject: str, name: str, run: Callable[[Contact], Outcome]) -> Test:
    return Test(kind="tool", subject=subject, name=name, run=run)


class _Judge:
    """Says what is wrong with an answer of one tool."""

    def __init__(self, name: str, output: Any) -> None:
        self.name = name
        self._misfit = compile_schema(output) if isinstance(output, dict) else None

    def valid(self, answer: Answer) -> tuple[str, str] | None:
        """Return what was expected of a valid call and what came, None where all is well."""
        if answer.kind == "error" and answer.code in BAD_CODES:
            return _VALID, answer.told()
        if answer.kind in ("silence", "end", "breach"):
            return _EXPECTED[answer.kind], answer.told()
        if answer.kind == "error" or answer.result.is_error or self._misfit is None:
            return None
        structured = answer.result.structured_content
        if structured is msgspec.UNSET:
            return "structured content, for there is an output schema", answer.told()
        why = self._misfit(structured)
        if why is None:
            return None
        return "structured content that fits the output schema", f"{why}: {shown(structured)}"

    def refused(self, answer: Answer) -> tuple[str, str] | None:
        """Return what was expected of an invalid call and what came, None where all is well."""
        if answer.kind == "error":
            return (_REFUSAL, answer.told()) if answer.code in BAD_CODES else None
        if answer.kind in ("silence", "end", "breach"):
            return f"{_REFUSAL}; {_EXPECTED[answer.kind]}", answer.told()
        if answer.result.is_error:
            return None
        return _REFUSAL, f"accepted: {answer.told()}"

    def failure(
        self, contact: Contact, arguments: Mapping[str, Any], wrong: tuple[str, str]
    ) -> Failure:
        expected, came = wrong
        given = shown(arguments)
        again = contact.way.call(self.name, arguments)
        return Failure(expected=expected, came=came, given=given, repeat=again)


_EXPECTED: Final = {
    "silence": "an answer in time",
    "end": "a server that stays alive",
    "breach": "an answer that keeps the protocol and the output schema",
}


def _generated(judge: _Judge, shape: Shape, rules: Rules, contact: Contact) -> Outcome:
    # The generator is an extra.
    from accord.check.contract.generation import Found, NothingGenerated, smallest_failure

    calls = 0

    def attempt(arguments: Any) -> Found | None:
        nonlocal calls
        calls += 1
        answer = contact.call(judge.name, arguments)
        wrong = judge.valid(answer)
        if wrong is None:
            return None
        return Found(answer.kind, judge.failure(contact, arguments, wrong))

    try:
        found = smallest_failure(
            shape.for_generator(),
            attempt,
            is_valid=shape.is_valid,
            examples=rules.examples,
            seed=rules.seed,
        )
    except NothingGenerated as error:
        return skip(f"no arguments can be generated from its schema: {error}")
    if found is not None:
        return Outcome(verdict="fail", failure=found.failure, calls=calls)
    return _alive(contact, calls)


def _limits(judge: _Judge, shape: Shape, contact: Contact) -> Outcome:
    made = shape.boundaries()
    for number, arguments in enumerate(made, 1):
        wrong = judge.valid(contact.call(judge.name, arguments))
        if wrong is not None:
            failure = judge.failure(contact, arguments, wrong)
            return Outcome(verdict="fail", failure=failure, calls=number)
    return _alive(contact, len(made))


def _refused(judge: _Judge, broken: list[Invalid], contact: Contact) -> Outcome:
    for number, each in enumerate(broken, 1):
        wrong = judge.refused(contact.call(judge.name, each.arguments))
        if wrong is not None:
            failure = judge.failure(contact, each.arguments, wrong)
            return Outcome(verdict="fail", failure=failure, calls=number)
    return pass_(len(broken))


def _alive(contact: Contact, calls: int) -> Outcome:
    if contact.is_alive():
        return pass_(calls)
    failure = Failure(expected="a server that stays alive", came="it answers no ping after these")
    return Outcome(verdict="fail", failure=failure, calls=calls)

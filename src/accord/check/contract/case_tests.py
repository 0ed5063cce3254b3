"""Tests of the user's own cases: the request, the answer, and the expectation it breaks."""

import re
from collections.abc import Iterator

import msgspec

from accord.check.contract.case_file import Case, Expectation
from accord.check.contract.model import Failure, Test, TestOutcome, pass_
from accord.check.contract.tested_server import ServerAnswer, TestedServer, format_json
from accord.client import blocking
from accord.types import (
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ReadResourceResult,
    TextContent,
)


def case_test(case: Case) -> Test:
    """Return the test that a case describes."""

    def run(server: TestedServer) -> TestOutcome:
        answer, given, repeat = _send(case, server)
        wrong = next(_mismatches(case.expect, answer), None)
        if wrong is None:
            return pass_()
        expected, came = wrong
        failure = Failure(expected=expected, came=came, given=given, repeat=repeat)
        return TestOutcome(verdict="fail", failure=failure, calls=1)

    subject = case.call or case.read or case.prompt or ""
    return Test(kind="case", subject=subject, name=case.name, run=run)


def _send(case: Case, server: TestedServer) -> tuple[ServerAnswer, str, str]:
    if case.call is not None:
        answer = server.call(case.call, case.arguments, is_reserved=True)
        repeat = server.command.call(case.call, case.arguments)
        return answer, f"{case.call} {format_json(case.arguments)}", repeat
    if case.read is not None:
        answer = server.ask(blocking.Client.read_resource, case.read)
        return answer, case.read, server.command.read(case.read)
    assert case.prompt is not None
    answer = server.ask(blocking.Client.get_prompt, case.prompt, case.arguments or None)
    repeat = server.command.prompt(case.prompt, case.arguments)
    return answer, f"{case.prompt} {format_json(case.arguments)}", repeat


def _mismatches(expect: Expectation, answer: ServerAnswer) -> Iterator[tuple[str, str]]:
    if answer.kind in ("silence", "end", "breach"):
        yield "an answer", answer.summary()
        return
    is_error = answer.kind == "error" or getattr(answer.result, "is_error", False)
    text = answer.text if answer.kind == "error" else _text(answer.result)
    wants_error = expect.error is not False or expect.code is not None
    if is_error != bool(wants_error):
        yield ("an error" if wants_error else "no error"), answer.summary()
        return
    if expect.code is not None and answer.code != expect.code:
        yield f"error {expect.code}", answer.summary()
    if isinstance(expect.error, str) and expect.error not in text:
        yield f"an error that contains {expect.error!r}", answer.summary()
    yield from _text_mismatches(expect, text)
    if answer.kind == "result":
        yield from _structure_mismatches(
            expect, getattr(answer.result, "structured_content", msgspec.UNSET)
        )
    if expect.within is not None and answer.seconds > expect.within:
        yield f"an answer within {expect.within:g} s", f"one after {answer.seconds:.3f} s"


def _text_mismatches(expect: Expectation, text: str) -> Iterator[tuple[str, str]]:
    if expect.text is not None and text != expect.text:
        yield f"the text {format_json(expect.text)}", format_json(text)
    parts = [expect.contains] if isinstance(expect.contains, str) else expect.contains
    for part in parts:
        if part not in text:
            yield f"a text that contains {format_json(part)}", format_json(text)
    if expect.matches is not None and not re.search(expect.matches, text):
        yield f"a text that matches {expect.matches}", format_json(text)


def _structure_mismatches(expect: Expectation, received: object) -> Iterator[tuple[str, str]]:
    shown = "no structured content" if received is msgspec.UNSET else format_json(received)
    if expect.structured is not msgspec.UNSET and not _is_equal(expect.structured, received):
        yield f"the structured content {format_json(expect.structured)}", shown
    if expect.partly is not msgspec.UNSET:
        missing = _first_missing(expect.partly, received, "")
        if missing is not None:
            yield f"structured content with {missing}", shown


def _is_equal(wanted: object, received: object) -> bool:
    if isinstance(wanted, dict) and isinstance(received, dict):
        return wanted.keys() == received.keys() and all(
            _is_equal(wanted[key], received[key]) for key in wanted
        )
    if isinstance(wanted, list) and isinstance(received, list):
        return len(wanted) == len(received) and all(map(_is_equal, wanted, received))
    # In JSON 1 and 1.0 are the same number, and true is not a number.
    return isinstance(wanted, bool) == isinstance(received, bool) and bool(wanted == received)


def _first_missing(wanted: object, received: object, place: str) -> str | None:
    """Return the first member that is missing or different, as text."""
    if not isinstance(wanted, dict):
        is_there = received is not msgspec.UNSET and _is_equal(wanted, received)
        return None if is_there else f"{place or 'the value'} = {format_json(wanted)}"
    if not isinstance(received, dict):
        return f"an object as {place or 'the whole'}"
    for key, value in wanted.items():
        inner = _first_missing(
            value, received.get(key, msgspec.UNSET), f"{place}.{key}" if place else key
        )
        if inner is not None:
            return inner
    return None


def _text(result: object) -> str:
    if isinstance(result, ReadResourceResult):
        return "\n".join(each.text for each in result.contents if each.text is not None)
    blocks: list[object] = []
    if isinstance(result, CallToolResult):
        blocks = list(result.content)
    elif isinstance(result, GetPromptResult):
        blocks = [each.content for each in result.messages]
    return "\n".join(text for text in map(_block_text, blocks) if text is not None)


def _block_text(block: object) -> str | None:
    if isinstance(block, TextContent):
        return block.text
    return block.resource.text if isinstance(block, EmbeddedResource) else None

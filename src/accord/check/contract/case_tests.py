"""Cases, run: what was asked, what came, and which expectation it breaks."""

import re
from collections.abc import Iterator
from typing import Any

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

    def run(contact: TestedServer) -> TestOutcome:
        answer, given, repeat = _asked(case, contact)
        wrong = next(_breaches(case.expect, answer), None)
        if wrong is None:
            return pass_()
        expected, came = wrong
        failure = Failure(expected=expected, came=came, given=given, repeat=repeat)
        return TestOutcome(verdict="fail", failure=failure, calls=1)

    subject = case.call or case.read or case.prompt or ""
    return Test(kind="case", subject=subject, name=case.name, run=run)


def _asked(case: Case, contact: TestedServer) -> tuple[ServerAnswer, str, str]:
    if case.call is not None:
        answer = contact.call(case.call, case.arguments, is_reserved=True)
        repeat = contact.way.call(case.call, case.arguments)
        return answer, f"{case.call} {format_json(case.arguments)}", repeat
    if case.read is not None:
        answer = contact.ask(blocking.Client.read_resource, case.read)
        return answer, case.read, contact.way.read(case.read)
    assert case.prompt is not None
    answer = contact.ask(blocking.Client.get_prompt, case.prompt, case.arguments or None)
    repeat = contact.way.prompt(case.prompt, case.arguments)
    return answer, f"{case.prompt} {format_json(case.arguments)}", repeat


def _breaches(expect: Expectation, answer: ServerAnswer) -> Iterator[tuple[str, str]]:
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
    yield from _of_text(expect, text)
    if answer.kind == "result":
        yield from _of_structure(
            expect, getattr(answer.result, "structured_content", msgspec.UNSET)
        )
    if expect.within is not None and answer.seconds > expect.within:
        yield f"an answer within {expect.within:g} s", f"one after {answer.seconds:.3f} s"


def _of_text(expect: Expectation, text: str) -> Iterator[tuple[str, str]]:
    if expect.text is not None and text != expect.text:
        yield f"the text {format_json(expect.text)}", format_json(text)
    parts = [expect.contains] if isinstance(expect.contains, str) else expect.contains
    for part in parts:
        if part not in text:
            yield f"a text that contains {format_json(part)}", format_json(text)
    if expect.matches is not None and not re.search(expect.matches, text):
        yield f"a text that matches {expect.matches}", format_json(text)


def _of_structure(expect: Expectation, came: Any) -> Iterator[tuple[str, str]]:
    told = "no structured content" if came is msgspec.UNSET else format_json(came)
    if expect.structured is not msgspec.UNSET and not _is_equal(expect.structured, came):
        yield f"the structured content {format_json(expect.structured)}", told
    if expect.partly is not msgspec.UNSET:
        lacking = _lacking(expect.partly, came, "")
        if lacking is not None:
            yield f"structured content with {lacking}", told


def _is_equal(wanted: Any, came: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(came, dict):
        return wanted.keys() == came.keys() and all(
            _is_equal(wanted[key], came[key]) for key in wanted
        )
    if isinstance(wanted, list) and isinstance(came, list):
        return len(wanted) == len(came) and all(map(_is_equal, wanted, came))
    # In JSON 1 and 1.0 are one number, and true is none.
    return isinstance(wanted, bool) == isinstance(came, bool) and bool(wanted == came)


def _lacking(wanted: Any, came: Any, place: str) -> str | None:
    """Name the first member that is missing or different."""
    if not isinstance(wanted, dict):
        is_there = came is not msgspec.UNSET and _is_equal(wanted, came)
        return None if is_there else f"{place or 'the value'} = {format_json(wanted)}"
    if not isinstance(came, dict):
        return f"an object as {place or 'the whole'}"
    for key, value in wanted.items():
        inner = _lacking(value, came.get(key, msgspec.UNSET), f"{place}.{key}" if place else key)
        if inner is not None:
            return inner
    return None


def _text(result: Any) -> str:
    if isinstance(result, ReadResourceResult):
        return "\n".join(each.text for each in result.contents if each.text is not None)
    blocks: list[Any] = []
    if isinstance(result, CallToolResult):
        blocks = list(result.content)
    elif isinstance(result, GetPromptResult):
        blocks = [each.content for each in result.messages]
    return "\n".join(text for text in map(_block_text, blocks) if text is not None)


def _block_text(block: Any) -> str | None:
    if isinstance(block, TextContent):
        return block.text
    return block.resource.text if isinstance(block, EmbeddedResource) else None

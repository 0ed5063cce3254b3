"""What a case expects of an answer: its members by paths, and the result of an earlier run.

Earlier results are kept beside the cases: `desk.accord.toml` has `desk.accord.snapshots.json`.
"""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from difflib import unified_diff
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from accord.errors import AccordError
from accord.types import (
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    JsonObject,
    ReadResourceResult,
    TextContent,
)
from accord_tools.contract.tested_server import ServerAnswer, format_json

ResultPath: TypeAlias = tuple[str | int, ...]
"""Names of members and numbers of items; a star is any member or item."""

_PART: Final = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+|\*)\]")
_ANY: Final = "*"


def parse_path(text: str) -> ResultPath:
    """Return the parts of a path.

    >>> parse_path("content[0].text")
    ('content', 0, 'text')

    Raises:
        ValueError: it is not a path.
    """
    parts: list[str | int] = []
    end = 0
    while found := _PART.match(text, end):
        name, number = found.groups()
        parts.append(int(number) if number and number != _ANY else name or number)
        end = found.end()
    if end != len(text) or not parts:
        raise ValueError(f"{text!r} is not a path; write one such as content[0].text")
    return tuple(parts)


def wire_form(result: object) -> Any:
    """Return a result as the server sent it, without its `_meta`."""
    found = msgspec.to_builtins(result)
    if isinstance(found, dict):
        found.pop("_meta", None)
    return found


def values_at(value: object, path: ResultPath) -> list[object]:
    """Return the values at a path; empty if there is nothing."""
    return [holder[key] for holder, key in _places(value, path)]


def remove_at(value: object, paths: list[ResultPath]) -> Any:
    """Return a copy without what is at these paths."""
    made = deepcopy(value)
    for path in paths:
        # From the end, so that the numbers of other items stay.
        for holder, key in reversed([*_places(made, path)]):
            del holder[key]
    return made


def _places(value: object, path: ResultPath) -> Iterator[tuple[Any, Any]]:
    """Yield the objects and lists that hold what is at a path, each with the name or number."""
    first, *rest = path
    for key in _keys(value, first):
        holder: Any = value
        if rest:
            yield from _places(holder[key], tuple(rest))
        else:
            yield holder, key


def _keys(value: object, part: str | int) -> list[Any]:
    if isinstance(value, dict):
        return [*value] if part == _ANY else [part] if part in value else []
    if isinstance(value, list):
        numbers = range(len(value))
        return [*numbers] if part == _ANY else [part] if part in numbers else []
    return []


# The list that a result consists of.
_CONTENTS: Final = ("content", "contents", "messages")


class Expectation(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"not_": "not"}
):
    """The expected answer; everything that is given has to match.

    Attributes:
        text: the text of all content, line by line.
        contains: a part of the text, or a list of parts.
        matches: a regular expression, found anywhere in the text.
        structured: the whole structured result.
        partly: members of the structured result, at any depth.
        at: values by their paths in the result.
        not_empty: the result has content, or the list or text at this path is not empty.
        not_: expectations that the answer must not meet, each of them.
        error: True for any error, or a part of its text.
        code: of a JSON-RPC error.
        within: seconds.
    """

    text: str | None = None
    contains: str | list[str] = []
    matches: str | None = None
    structured: Any = msgspec.UNSET
    partly: Any = msgspec.UNSET
    at: dict[str, Any] = {}
    not_empty: bool | str = False
    not_: "Expectation | None" = None
    error: bool | str = False
    code: int | None = None
    within: float | None = None


def faults_of(expect: Expectation) -> Iterator[str]:
    """Yield what is wrong with an expectation, whatever the answer."""
    if expect.matches is not None:
        try:
            re.compile(expect.matches)
        except re.error as error:
            yield f"matches is not a regular expression: {error}"
    paths = [*expect.at, *([expect.not_empty] if isinstance(expect.not_empty, str) else [])]
    for path in paths:
        try:
            parse_path(path)
        except ValueError as error:
            yield str(error)
    if expect.not_ is None:
        return
    if expect.not_.not_ or expect.not_.error or expect.not_.code or expect.not_.within:
        yield "not cannot have not, error, code or within"
    yield from faults_of(expect.not_)


def mismatches(expect: Expectation, answer: ServerAnswer) -> Iterator[tuple[str, str]]:
    """Yield each expectation that an answer does not meet, with what came."""
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
    yield from _content_mismatches(expect, answer, text)
    for wanted, each in _split(expect.not_):
        if next(_content_mismatches(each, answer, text), None) is None:
            yield f"not {wanted}", format_json(text) if text else answer.summary()
    if expect.within is not None and answer.seconds > expect.within:
        yield f"an answer within {expect.within:g} s", f"one after {answer.seconds:.3f} s"


def _split(expect: Expectation | None) -> Iterator[tuple[str, Expectation]]:
    """Yield the expectations of one each, with their text."""
    for name, value in () if expect is None else msgspec.structs.asdict(expect).items():
        if name == "contains":
            for part in [value] if isinstance(value, str) else value:
                yield f"a text that contains {format_json(part)}", Expectation(contains=part)
        elif name == "at":
            for path, each in value.items():
                yield f"{path} = {format_json(each)}", Expectation(at={path: each})
        elif value not in (None, False) and value is not msgspec.UNSET:
            yield f"{name} {format_json(value)}", Expectation(**{name: value})


def _content_mismatches(
    expect: Expectation, answer: ServerAnswer, text: str
) -> Iterator[tuple[str, str]]:
    yield from _text_mismatches(expect, text)
    if answer.kind != "result":
        return
    received = getattr(answer.result, "structured_content", msgspec.UNSET)
    yield from _structure_mismatches(expect, received)
    if not expect.at and not expect.not_empty:
        return
    result = wire_form(answer.result)
    for path, wanted in expect.at.items():
        found = values_at(result, parse_path(path))
        if not any(_is_equal(wanted, each) for each in found):
            came = ", ".join(map(format_json, found)) or f"nothing at {path}"
            yield f"{path} = {format_json(wanted)}", came
    if expect.not_empty and not _is_filled(expect.not_empty, result):
        what = "content" if expect.not_empty is True else expect.not_empty
        yield f"{what} that is not empty", format_json(result)


def _is_filled(where: bool | str, result: JsonObject) -> bool:  # noqa: FBT001 - true or a path
    paths = [where] if isinstance(where, str) else [each for each in _CONTENTS if each in result]
    found = [each for path in paths for each in values_at(result, parse_path(path))]
    return any(isinstance(each, list | dict | str) and len(each) > 0 for each in found)


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


_UPDATE: Final = "--update-snapshots writes it"


def snapshot_file(cases: Path) -> Path:
    """Return the file with the results of the cases in a file."""
    return cases.with_suffix(".snapshots.json")


def find_difference(
    origin: tuple[Path, str],
    step: int,
    result: Any,
    without: list[ResultPath],
    *,
    update: bool,
) -> tuple[str, str] | None:
    """Return what was expected and what came; None if the result is the one that was kept.

    Args:
        origin: the file of the case, and the name of the case.
        step: the number of the request in the case.
        result: the result, as JSON.
        without: paths of what may differ.
        update: keep this result in place of the earlier one.

    Raises:
        AccordError: the file with the results cannot be read or written.
    """
    path, case = snapshot_file(origin[0]), origin[1]
    found = remove_at(result, without)
    kept = _read(path)
    name = str(step)
    if update:
        kept.setdefault(case, {})[name] = found
        _write(path, kept)
        return None
    if name not in kept.get(case, {}):
        return f"a result in {path.name}; {_UPDATE}", "no earlier result"
    # What is left out now may have been kept before.
    expected = remove_at(kept[case][name], without)
    if expected == found:
        return None
    changed = unified_diff(_lines(expected), _lines(found), lineterm="", n=0)
    lines = [" ".join(each.split()) for each in [*changed][2:] if not each.startswith("@@")]
    return f"the result in {path.name}; {_UPDATE}", "  ".join(lines)


def _lines(value: object) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).splitlines()


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise AccordError(f"{path}: cannot be read: {error}") from None
    is_right = isinstance(found, dict) and all(isinstance(each, dict) for each in found.values())
    if not is_right:
        raise AccordError(f"{path}: is not a file of snapshots; remove it, and write it again")
    return dict(found)


def _write(path: Path, kept: dict[str, dict[str, Any]]) -> None:
    text = json.dumps(kept, indent=2, sort_keys=True, ensure_ascii=False)
    try:
        path.write_text(f"{text}\n", "utf-8")
    except OSError as error:
        raise AccordError(f"{path}: cannot be written: {error.strerror}") from None

"""Shapes of bodies as rows of a table: the members of an object, and their types.

A shape reads like the official schema: `name: string, title?: string`. `tools[]` means every
element of an array, `*` every member of an object; dots and braces lead into objects:

    tools[].annotations?: {title?: string, readOnlyHint?: boolean}

Only the last name of a path is required. `role: user|assistant` lists the values of a member.
The shape `body: {...}` also judges the body as a whole: absent params count as an empty object,
and a result that is not an object is reported, unless another requirement does so.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

import msgspec

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import RESULT
from accord.protocol.rules._rule import (
    MOST_FINDINGS,
    Breach,
    Finding,
    Judge,
    Messages,
    Outcome,
    breach_at,
    check,
    combine,
)
from accord.protocol.rules.values import (
    Located,
    as_id,
    complete_result,
    describe,
    is_in_force,
    is_integer,
    is_number,
    join_words,
)
from accord.protocol.syntax import scheme_of
from accord.protocol.violation import FAIL
from accord.types._base import JsonObject

Within: TypeAlias = Callable[[Step, Conversation], Iterable[Located]]
_Path: TypeAlias = "tuple[_Path, str, int | None] | None"

_TOKEN: Final = re.compile(r"\s*([^\s:,{}]+|[:,{}])")
_TIME: Final = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    r"T(?:[01]\d|2[0-4]):[0-5]\d(?::[0-6]\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)


# -- types


class MemberType(msgspec.Struct, frozen=True):
    """The type of a member: its name in sentences, and two tests.

    A value of another JSON type always fails; one that is merely invalid has the severity of the
    requirement.
    """

    name: str
    is_json_type: Callable[[object], bool] | None = None
    is_valid: Callable[[object], bool] | None = None


def _is_string(value: object) -> bool:
    return isinstance(value, str)


_TYPES: Final[dict[str, MemberType]] = {
    "any": MemberType("any value"),
    "string": MemberType("a string", _is_string),
    "boolean": MemberType("a boolean", lambda value: isinstance(value, bool)),
    "integer": MemberType("an integer", is_integer),
    "number": MemberType("a number", is_number),
    "object": MemberType("an object", lambda value: isinstance(value, dict)),
    "array": MemberType("an array", lambda value: isinstance(value, list)),
    "id": MemberType("a string or an integer", lambda value: as_id(value) is not None),
    "content": MemberType("an object or an array", lambda value: isinstance(value, dict | list)),
    "time": MemberType(
        "a time in ISO 8601", _is_string, lambda value: _TIME.fullmatch(str(value)) is not None
    ),
    "duration": MemberType(
        "a number of milliseconds or null", lambda value: value is None or is_integer(value)
    ),
    "count": MemberType(
        "a non-negative integer",
        is_valid=lambda value: isinstance(value, int | float) and is_integer(value) and value >= 0,
    ),
    "fraction": MemberType(
        "a number from 0 to 1",
        is_valid=lambda value: (
            isinstance(value, int | float) and is_number(value) and 0 <= value <= 1
        ),
    ),
    "image-uri": MemberType(
        "an http, https or data URI",
        _is_string,
        lambda value: scheme_of(str(value)) in ("http", "https", "data"),
    ),
}


@cache
def _find_type(text: str) -> MemberType:
    if text in _TYPES:
        return _TYPES[text]
    values = text.split("|")
    return MemberType(
        join_words(values, "or"), is_valid=lambda value: isinstance(value, str) and value in values
    )


# -- shapes


class Member(msgspec.Struct, frozen=True):
    """One member; without a `type` it only leads to others."""

    name: str
    type: MemberType | None = None
    is_required: bool = False
    is_array: bool = False
    inside: tuple["Member", ...] = ()


class BodyShape:
    """The members that an object has, each with its type."""

    def __init__(self, text: str) -> None:
        members = _parse(_TOKEN.finditer(text))
        self.is_whole = members[0].name == "body"
        self._members = members[0].inside if self.is_whole else members

    def judge(self, holder: JsonObject, place: str) -> Sequence[Finding]:
        """Judge an object that sentences call by its place."""
        flaws: list[_Flaw] = []
        tested = _judge(self._members, holder, None, flaws)
        if not flaws:
            return _VALID if tested else ()
        return [_describe_flaw(flaw, place, f"sends {place}") for flaw in flaws]

    def judge_body(self, body: JsonObject, step: Step) -> Outcome:
        """Judge the params or the result of a message."""
        flaws: list[_Flaw] = []
        tested = _judge(self._members, body, None, flaws)
        if not flaws:
            return tested or None
        does = f"answers {step.name}" if step.kind == RESULT else f"sends {step.name}"
        return [_describe_flaw(flaw, "", does) for flaw in flaws[:MOST_FINDINGS]]


def _parse(tokens: Iterator[re.Match[str]]) -> tuple[Member, ...]:
    members = []
    while True:
        path, _, kind = next(tokens)[1], next(tokens), next(tokens)[1]
        inside = _parse(tokens) if kind == "{" else ()
        members.append(_make_member(path, "object" if kind == "{" else kind, inside))
        following = next(tokens, None)
        if following is None or following[1] == "}":
            return tuple(members)


def _make_member(path: str, kind: str, inside: tuple[Member, ...]) -> Member:
    *before, last = path.split(".")
    name = last.rstrip("?")
    member = Member(
        name.removesuffix("[]"),
        _find_type(kind),
        is_required=not last.endswith("?"),
        is_array=name.endswith("[]"),
        inside=inside,
    )
    for name in reversed(before):
        is_array = name.endswith("[]")
        member = Member(name.removesuffix("[]"), is_array=is_array, inside=(member,))
    return member


def _judge(
    members: tuple[Member, ...], holder: JsonObject, path: _Path, flaws: list["_Flaw"]
) -> bool:
    """Add what is wrong to `flaws`, and tell whether any member was tested."""
    tested = False
    for member in members:
        name = member.name
        if member.is_array:
            items = holder.get(name)
            for index, item in enumerate(items if isinstance(items, list) else ()):
                tested |= _judge_value(member, item, (path, name, index), flaws)
                if len(flaws) >= MOST_FINDINGS:
                    return tested
        elif name == "*":
            for key, value in holder.items():
                tested |= _judge_value(member, value, (path, key, None), flaws)
        elif name in holder:
            tested |= _judge_value(member, holder[name], (path, name, None), flaws)
        elif member.is_required:
            missing = [each.name for each in members if _is_missing(each, holder)]
            if name == missing[0]:
                flaws.append((path, missing, None))
    return tested


def _is_missing(member: Member, holder: JsonObject) -> bool:
    is_due = member.is_required and not member.is_array
    return is_due and member.name not in holder and member.name != "*"


def _judge_value(member: Member, value: object, path: _Path, flaws: list["_Flaw"]) -> bool:
    expected = member.type
    if expected is not None and not (
        (expected.is_json_type is None or expected.is_json_type(value))
        and (expected.is_valid is None or expected.is_valid(value))
    ):
        flaws.append((path, value, expected))
        return False
    if member.inside and isinstance(value, dict):
        return _judge(member.inside, value, path, flaws) or expected is not None
    return expected is not None


# The path of an invalid value, the value and its type; or of an object, and the names it lacks.
_Flaw: TypeAlias = tuple[_Path, object, MemberType | None]
_VALID: Final = (True,)


def _describe_flaw(flaw: _Flaw, place: str, does: str) -> Breach:
    path, value, expected = flaw
    at = (place, *_names(path))
    where = _render(path)
    if place:
        is_path = place.endswith("]") or "]." in place
        where = f"{place}.{where}" if is_path else f"{where} of {place}"
    if expected is None:
        names = value if isinstance(value, list) else []
        why = f"{f'sends {where}' if path else does} without {join_words(names, 'and')}"
        return Breach(why, at=at)
    why = f"sends {where} as {describe(value)}, expected {expected.name}"
    is_other_type = expected.is_json_type is not None and not expected.is_json_type(value)
    return Breach(why, severity=FAIL if is_other_type else None, at=at)


def _render(path: _Path) -> str:
    if path is None:
        return ""
    before, name, index = path
    text = name[:80] if index is None else f"{name}[{index}]"
    return text if before is None else f"{_render(before)}.{text}"


def _names(path: _Path) -> tuple[str, ...]:
    if path is None:
        return ()
    before, name, index = path
    return (*_names(before), name, *(() if index is None else (f"[{index}]",)))


def judge_member(
    holder: JsonObject, place: str, name: str, type_: str, *, required: bool = True
) -> Finding:
    """Judge one member of an object: absent, of another type, invalid, or right."""
    if name not in holder:
        return breach_at(f"sends {place} without {name}", place) if required else None
    flaws: list[_Flaw] = []
    _judge_value(Member(name, _find_type(type_)), holder[name], (None, name, None), flaws)
    return _describe_flaw(flaws[0], place, "") if flaws else True


# -- rows


def shapes(about: Messages, rows: Mapping[str, str], *, within: Within | None = None) -> None:
    """Bind shapes to requirements of the catalogue, as `check` binds functions.

    Args:
        about: the messages to judge.
        rows: the shape that each requirement asks for.
        within: finds the objects that have the shape; without it, params and complete results.
    """
    for requirement, text in rows.items():
        shape = BodyShape(text)
        judge = _judge_body(shape) if within is None else _judge_within(shape, within)
        check(requirement, about)(judge)


def _judge_body(shape: BodyShape) -> Judge:
    def body_has_its_shape(step: Step, conversation: Conversation) -> Outcome:
        body = complete_result(step) if step.kind == RESULT else step.body
        if not isinstance(body, dict):
            if not shape.is_whole:
                return None
            if step.kind == RESULT:
                return _reject_other_than_object(step)
            if body is not None:
                return None
            body = {}
        return shape.judge_body(body, step)

    return body_has_its_shape


def _judge_within(shape: BodyShape, within: Within) -> Judge:
    def objects_have_their_shape(step: Step, conversation: Conversation) -> Outcome:
        if shape.is_whole and step.kind == RESULT and not isinstance(step.body, dict):
            return _reject_other_than_object(step)
        findings: list[Finding] = []
        for place, holder in within(step, conversation):
            findings += shape.judge(holder, place)
        return combine(findings) if findings else None

    return objects_have_their_shape


def _reject_other_than_object(step: Step) -> Outcome:
    is_task = isinstance(step.body, dict)
    if is_task or is_in_force("jsonrpc.response.result-member", step.revision.id):
        return None
    return breach_at(f"answers {step.name} with {describe(step.body)}, expected an object", "")

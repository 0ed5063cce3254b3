"""Reading bodies member by member: what rules share in judging lists, items and types.

A finding about one item is what a rule returns: None where nothing was put to the test, True, or
what is wrong.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from accord.protocol.catalogue import catalogue
from accord.protocol.exchange import Step
from accord.protocol.rules._rule import Breach, Outcome
from accord.protocol.violation import CLIENT, FAIL
from accord.types._base import RevisionId

Finding: TypeAlias = bool | str | Breach | None
Shape: TypeAlias = Literal["string", "boolean", "integer", "object", "array"]
Placed: TypeAlias = tuple[str, dict[str, Any]]

# A list of a thousand tools with one mistake each is one mistake to whoever reads the report.
_NAMED: Final = 5
_SHOWN: Final = 80


def _is_integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


_IS: Final[dict[Shape, tuple[str, Callable[[Any], bool]]]] = {
    "string": ("a string", lambda value: isinstance(value, str)),
    "boolean": ("a boolean", lambda value: isinstance(value, bool)),
    "integer": ("an integer", _is_integer),
    "object": ("an object", lambda value: isinstance(value, dict)),
    "array": ("an array", lambda value: isinstance(value, list)),
}


def is_a(shape: Shape, value: Any) -> bool:
    """Tell whether a value has this JSON type; 3.0 is an integer, true is not."""
    return _IS[shape][1](value)


def has(item: dict[str, Any], place: str, name: str, shape: Shape) -> Finding:
    """Judge a member that is due: its absence is a plain breach, a wrong type is a failure."""
    return may_have(item, place, name, shape) or f"sends {place} without {name}"


def may_have(item: dict[str, Any], place: str, name: str, shape: Shape) -> Finding:
    """Judge a member that may be absent, but not of another type."""
    if name not in item:
        return None
    if is_a(shape, item[name]):
        return True
    return Breach(f"sends {place} whose {name} is not {_IS[shape][0]}", severity=FAIL)


def each(findings: Iterable[Finding]) -> Outcome:
    """Put findings together: the first few breaches, else True if anything was put to the test."""
    tested = False
    broken: list[str | Breach] = []
    for finding in findings:
        if isinstance(finding, str | Breach):
            broken.append(finding)
            if len(broken) == _NAMED:
                break
        tested = tested or finding is True
    return broken or (tested or None)


def shown(value: Any) -> str:
    """Return a value as it is quoted in a report, cut short."""
    text = repr(value[:_SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}..."


@cache
def in_force(requirement: str, revision: RevisionId) -> bool:
    """Tell whether another requirement, which is more specific, speaks in a revision."""
    return catalogue()[requirement].holds_in(revision)


def object_of(value: Any) -> dict[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def params_of(step: Step) -> dict[str, Any]:
    """Return the params of the request that is answered; empty where they are unknown."""
    return object_of(step.exchange.params if step.exchange else None)


def complete_result(step: Step) -> dict[str, Any] | None:
    """Return the result that the method promises; None where questions or a task came instead."""
    body = step.body
    if not isinstance(body, dict):
        return None
    if step.revision.result_type and body.get("resultType", "complete") != "complete":
        return None
    if "tasks/result" in step.revision.requests[CLIENT]:
        asked_for_task = isinstance(params_of(step).get("task"), dict)
        if asked_for_task and isinstance(body.get("task"), dict):
            return None
    return body


def array_in_result(step: Step, name: str) -> Outcome:
    """Judge that a result has an array of objects under this name."""
    if not isinstance(step.body, dict):
        if in_force("jsonrpc.response.result-member", step.revision.id):
            return None
        return f"answers {step.name} with what is not an object"
    result = complete_result(step)
    if result is None:
        return None
    return each((has(result, f"a result of {step.name}", name, "array"), *_strangers(result, name)))


def _strangers(result: dict[str, Any], name: str) -> Iterable[Finding]:
    items = result.get(name)
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if not isinstance(item, dict):
            yield f"sends {name}[{index}], which is not an object"


def objects(holder: dict[str, Any] | None, name: str, within: str = "") -> list[Placed]:
    """Return the objects of an array, each with its place: `tools[3]`."""
    items = (holder or {}).get(name)
    if not isinstance(items, list):
        return []
    return [
        (f"{within}{name}[{index}]", item)
        for index, item in enumerate(items)
        if isinstance(item, dict)
    ]


def listed(step: Step, name: str) -> list[Placed]:
    """Return the objects of an array of a complete result, each with its place."""
    return objects(complete_result(step), name)


def capability_flag(step: Step, capability: str, flag: str) -> Outcome:
    """Judge that a flag of a server capability is a boolean, where the server names it."""
    declared = object_of(object_of(step.body).get("capabilities")).get(capability)
    return may_have(object_of(declared), f"the capability {capability}", flag, "boolean")


def questions(step: Step) -> list[tuple[str, str, dict[str, Any]]]:
    """Return what a result asks of the client, as place, method and params."""
    asked = object_of(object_of(step.body).get("inputRequests"))
    return [
        (f"inputRequests.{shown(key)}", question["method"], object_of(question.get("params")))
        for key, question in asked.items()
        if isinstance(question, dict) and isinstance(question.get("method"), str)
    ]

"""Spoiling results: the fault of most mutants is one member of the answer to one method."""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypedDict

import msgspec

from check.faults import named
from check.mutants.foundation import Between, Change, Message, interloper, mutant, params_of

Spoil: TypeAlias = Callable[[dict[str, Any]], None]


def spoiling(
    parts: Callable[[Message, Message], Iterable[dict[str, Any]]],
    register: Callable[[Change], Any],
) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils these parts of its messages."""

    def register_spoil(spoil: Spoil) -> Spoil:
        def change(message: Message, request: Message) -> Message:
            for part in parts(message, request):
                spoil(part)
            return message

        change.__name__ = spoil.__name__
        register(change)
        return spoil

    return register_spoil


def results_of(*methods: str) -> Callable[[Message, Message], list[dict[str, Any]]]:
    """Return what finds the result in an answer to one of these methods."""

    def found(message: Message, request: Message) -> list[dict[str, Any]]:
        result = message.get("result")
        return [result] if request.get("method") in methods and isinstance(result, dict) else []

    return found


def answer(id: str, method: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils its results of a method."""
    return spoiling(results_of(method), mutant(id, **settings))


def entry(id: str, method: str, member: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils the first entry of a list in its results of a method."""

    def firsts(message: Message, request: Message) -> list[dict[str, Any]]:
        results = results_of(method)(message, request)
        return [entry for each in results for entry in (each.get(member) or ())[:1]]

    return spoiling(firsts, mutant(id, **settings))


def notice(id: str, method: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils the parameters of a notification or a question."""

    def params(message: Message, request: Message) -> list[dict[str, Any]]:
        return [message.setdefault("params", {})] if message.get("method") == method else []

    return spoiling(params, mutant(id, **settings))


def refusal(id: str, method: str, old: int, new: int = -32603, **settings: Any) -> None:
    """Register a server that refuses with another code."""

    def calls_it_by_another_code(message: Message, request: Message) -> Message:
        error = message.get("error")
        # Without any parameters it is another requirement that is broken.
        if request.get("method") == method and request.get("params") and error:
            error["code"] = new if error["code"] == old else error["code"]
        return message

    mutant(id, **settings)(calls_it_by_another_code)


def undeclared(id: str, *path: str, **settings: Any) -> None:
    """Register a server that does not declare what it has."""

    def does_not_declare_it(result: dict[str, Any]) -> None:
        place = result["capabilities"]
        for name in path[:-1]:
            place = place[name]
        place.pop(path[-1], None)

    answer(id, "initialize", **settings)(does_not_declare_it)


def misdeclared(id: str, capability: str, flag: str, **settings: Any) -> None:
    """Register a server that declares a flag with an invalid value."""

    def declares_it_in_words(result: dict[str, Any]) -> None:
        result["capabilities"][capability][flag] = "yes"

    answer(id, "initialize", **settings)(declares_it_in_words)


# -- one wrong value at a place

ABSENT: Any = object()
"""The value of a member that is left out."""


class Circumstances(TypedDict, total=False):
    """When a value is wrong; always by default.

    Attributes:
        of: the part of a message: "result", "error", or "params" of the server's own messages.
        since: from this message of the kind on, counted on each connection.
        is_later_page: only where the client sent a cursor, or only where it sent none.
        asked: only where the parameters of the request have these members.
        where: only where this holds for the part.
    """

    of: str
    since: int
    is_later_page: bool
    asked: dict[str, Any]
    where: Callable[[dict[str, Any]], bool]


# Circumstances of several areas.
FIRST: Circumstances = {"is_later_page": False}
LATER: Circumstances = {"is_later_page": True}
SECOND: Circumstances = {"since": 2}
NULL = {"lifecycle.capabilities.declared": "null declares nothing"}


def wrong(
    id: str,
    method: str,
    path: str,
    value: Any,
    circumstances: Circumstances | None = None,
    **settings: Any,
) -> None:
    """Register a server with a wrong value at a place in its messages.

    Args:
        id: the requirement that it breaks.
        method: of the request that is answered, or of the message itself.
        path: names and indexes with dots between them; `*` stands for all entries of a list.
        value: what is there; ABSENT leaves the member out, a function gets the right value.
        circumstances: when.
        **settings: those of a mutant.
    """
    when = circumstances or {}

    def hook(wire: Between) -> None:
        seen = 0

        def from_server(message: Message, request: Message) -> Message:
            nonlocal seen
            part = _part(message, request, method, when)
            if part is not None:
                seen += 1
                if seen >= when.get("since", 1):
                    _put(part, path.split("."), value)
            return message

        wire.from_server = from_server

    words = f"{path} is {_in_words(value)} {_in_words(when) if when else ''}"
    interloper(id, **settings)(named(re.sub(r"[^A-Za-z0-9]+", "-", words).strip("-"), hook))


def _part(
    message: Message, request: Message, method: str, when: Circumstances
) -> dict[str, Any] | None:
    """Return the part of a message that is wrong under these circumstances."""
    of = when.get("of", "result")
    if method not in ("*", message.get("method") if of == "params" else request.get("method")):
        return None
    part = message.setdefault("params", {}) if of == "params" else message.get(of)
    asked = params_of(request)
    if when.get("is_later_page", "cursor" in asked) is not ("cursor" in asked):
        return None
    if any(asked.get(name) != wanted for name, wanted in when.get("asked", {}).items()):
        return None
    is_due = isinstance(part, dict) and when.get("where", lambda part: True)(part)
    return part if is_due else None


def put(path: str, value: Any) -> Spoil:
    """Return what puts a value at a place, as `wrong` does."""
    return lambda part: _put(part, path.split("."), value)


def _put(holder: Any, path: list[str], value: Any) -> None:
    name, *rest = path
    if isinstance(holder, list):
        numbers = range(len(holder)) if name == "*" else [int(name)]
        for number in numbers:
            if -len(holder) <= number < len(holder):
                _put_at(holder, number, rest, value)
    elif isinstance(holder, dict):
        _put_at(holder, name, rest, value)


def _put_at(holder: Any, key: Any, rest: list[str], value: Any) -> None:
    if rest:
        _put(holder.setdefault(key, {}) if isinstance(holder, dict) else holder[key], rest, value)
    elif value is not ABSENT:
        is_known = isinstance(holder, list) or key in holder
        if not callable(value) or is_known:
            holder[key] = value(holder[key]) if callable(value) else value
    elif isinstance(holder, dict):
        holder.pop(key, None)
    else:
        del holder[key]


def _in_words(value: Any) -> str:
    if value is ABSENT:
        return "absent"
    if callable(value):
        return str(value.__name__)
    if isinstance(value, dict):
        return " ".join(f"{key} {_in_words(inner)}" for key, inner in value.items())[:60]
    return msgspec.json.encode(value).decode()[:40]

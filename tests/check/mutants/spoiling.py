"""Spoiling results: the fault of most mutants is one member of the answer to one method."""

from collections.abc import Callable
from typing import Any, TypeAlias

from check.mutants.foundation import Message, mutant

Spoil: TypeAlias = Callable[[dict[str, Any]], None]


def answer(id: str, method: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils its results of a method."""

    def register(spoil: Spoil) -> Spoil:
        def change(message: Message, request: Message) -> Message:
            if request.get("method") == method and isinstance(message.get("result"), dict):
                spoil(message["result"])
            return message

        change.__name__ = spoil.__name__
        mutant(id, **settings)(change)
        return spoil

    return register


def entry(id: str, method: str, member: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils the first entry of a list in its results of a method."""

    def register(spoil: Spoil) -> Spoil:
        def first(result: dict[str, Any]) -> None:
            for each in (result.get(member) or ())[:1]:
                spoil(each)

        first.__name__ = spoil.__name__
        answer(id, method, **settings)(first)
        return spoil

    return register


def notice(id: str, method: str, **settings: Any) -> Callable[[Spoil], Spoil]:
    """Register a server that spoils the parameters of a notification or a question."""

    def register(spoil: Spoil) -> Spoil:
        def change(message: Message, request: Message) -> Message:
            if message.get("method") == method:
                spoil(message.setdefault("params", {}))
            return message

        change.__name__ = spoil.__name__
        mutant(id, **settings)(change)
        return spoil

    return register


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

"""What the mutants of clients are registered and written with."""

from collections.abc import Callable
from typing import Any

import msgspec

from check.client.raw import Message, Raw

Change = Callable[[Message], Any]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A client with one fault.

    Attributes:
        id: the requirement that it breaks.
        kind: the client.
        scenarios: where it shows; the server that does everything right is always met.
        over: the transport.
        also: other requirements that this breaks unavoidably, and why.
        revisions: those to check; the one of the client by default.
        is_thorough: whether it is left out of quick test runs.
    """

    id: str
    kind: type[Raw]
    scenarios: tuple[str, ...] = ()
    over: str = "http"
    also: dict[str, str] = {}
    revisions: tuple[str, ...] | None = None
    is_thorough: bool = False


MUTANTS: dict[str, Mutant] = {}
# Requirements that cannot be broken in three different ways, with the reason.
FEW: dict[str, str] = {}


def few(reason: str, *ids: str) -> None:
    """Name requirements that cannot be broken in three different ways, with the reason."""
    for id in ids:
        assert id not in FEW, f"{id} is named twice"
        FEW[id] = reason


def mutant(
    id: str,
    *scenarios: str,
    over: str = "http",
    also: dict[str, str] | None = None,
    revisions: tuple[str, ...] | None = None,
    is_thorough: bool | None = None,
) -> Callable[[type[Any]], type[Any]]:
    """Register a client with a fault; by default the first of a requirement is not thorough."""

    def register(kind: type[Any]) -> type[Any]:
        is_first = all(each.id != id for each in MUTANTS.values())
        name = f"{id}-{kind.__name__}{'' if over == 'http' else f'-{over}'}"
        assert name not in MUTANTS, name
        MUTANTS[name] = Mutant(
            id=id,
            kind=kind,
            scenarios=scenarios,
            over=over,
            also=also or {},
            revisions=revisions,
            is_thorough=not is_first if is_thorough is None else is_thorough,
        )
        return kind

    return register


class Says(Raw):
    """Changes what it says."""

    def changed(self, message: Message) -> Any:
        return message

    async def say(self, message: Any) -> None:
        found = self.changed(dict(message))
        for each in found if isinstance(found, tuple) else (found,):
            if each is not None:
                await super().say(each)


def says(
    id: str,
    *scenarios: str,
    over: str = "http",
    also: dict[str, str] | None = None,
    base: type[Raw] = Says,
    **changes: Change,
) -> None:
    """Register faults in messages: functions that change a message before it is sent."""
    for name, change in changes.items():
        kind = type(name, (base,), {"changed": lambda _, message, do=change: do(message)})
        mutant(id, *scenarios, over=over, also=also)(kind)


def is_result(message: Message, member: str) -> bool:
    result = message.get("result")
    return isinstance(result, dict) and member in result


def on(method: str, change: Change) -> Change:
    """Change only messages with a method."""
    return lambda message: change(message) if message.get("method") == method else message


def second(method: str, change: Change) -> Change:
    """Change only the second message with a method."""
    seen: list[int] = []

    def changed(message: Message) -> Any:
        if message.get("method") != method:
            return message
        seen.append(1)
        return change(message) if len(seen) % 2 == 0 else message

    return changed


def params(change: Callable[[Message], Message]) -> Change:
    return lambda message: {**message, "params": change(dict(message["params"]))}


def without(*names: str) -> Callable[[Message], Message]:
    return lambda given: {k: v for k, v in given.items() if k not in names}


def having(**more: Any) -> Callable[[Message], Message]:
    return lambda given: {**given, **more}


def put(name: str, value: Any) -> Callable[[Message], Message]:
    return lambda given: {**given, name: value}


def answer(member: str, change: Callable[[Message], Any]) -> Callable[[Message], Any]:
    """Change only answers whose result has a member."""
    return lambda m: change(m) if is_result(m, member) else m


def result(change: Callable[[Message], Any]) -> Callable[[Message], Any]:
    return lambda m: {**m, "result": change(dict(m["result"]))}


def error(change: Callable[[Message], Message], code: int | None = None) -> Change:
    """Change only errors, with a code or with any."""

    def changed(message: Message) -> Any:
        if "error" not in message or code not in (None, message["error"]["code"]):
            return message
        return {**message, "error": change(message["error"])}

    return changed


def opening(change: Callable[[Message], Message]) -> Change:
    """Change what a client says in `initialize`."""
    return on("initialize", params(change))

"""Lists: whether their changes are told, and whether what is on them was declared at all."""

from typing import TYPE_CHECKING, Final

from accord.check.probing.probe import list_all
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._calling import call_all, is_listening
from accord.protocol.jsonrpc import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe
    from accord.check.probing.raw_connection import RawConnection

__all__: list[str] = []

_RESPECTED: Final = "lifecycle.capabilities.respected"
_MISSING: Final = "accord-check://no/such/resource"
_LISTS: Final = {
    "tools": "tools/list",
    "resources": "resources/list",
    "prompts": "prompts/list",
}


@scenario(*(f"{name}.list-changed.sent" for name in _LISTS))
async def watches_the_lists_while_tools_are_called(probe: "Probe") -> None:
    wanted = [name for name in _LISTS if probe.facts.declares(f"{name}.listChanged")]
    for name in set(_LISTS).difference(wanted):
        reason = f"the server did not declare {name}.listChanged"
        probe.not_applicable(f"{name}.list-changed.sent", reason)
    if not wanted:
        return
    async with probe.borrow() as line:
        before = {name: await list_all(line, _LISTS[name], name) for name in wanted}
        await call_all(probe, line)
        await line.collect(probe.subject.settling)
        for name in wanted:
            id = f"{name}.list-changed.sent"
            if _is_told(line, name):
                probe.holds(id, condition=True, why="")
                continue
            is_changed = await list_all(line, _LISTS[name], name) != before[name]
            if is_changed:
                await line.collect(probe.subject.settling)
            if is_changed and is_listening(line):
                probe.holds(id, _is_told(line, name), f"does not tell that its {name} changed")
            probe.skip(id, f"the list of {name} did not change during the check")


def _is_told(line: "RawConnection", name: str) -> bool:
    wanted = f"notifications/{name}/list_changed"
    return any(each.get("method") == wanted for each in line.received)


@scenario(_RESPECTED)
async def uses_what_was_declared(probe: "Probe") -> None:
    declared = [name for name in _LISTS if probe.facts.declares(name)]
    asked: list[tuple[str, str, dict[str, str]]] = [(name, _LISTS[name], {}) for name in declared]
    if "resources" in declared:
        asked.append(("resources", "resources/read", {"uri": _MISSING}))
    if not asked:
        return
    async with probe.borrow() as line:
        for name, method, params in asked:
            reply = await line.ask(method, params)
            probe.holds(
                _RESPECTED,
                reply.code != METHOD_NOT_FOUND,
                f"declares {name} and does not know {method}",
            )


@scenario(*(f"{name}.capability.declared" for name in _LISTS))
async def asks_for_lists_that_were_not_declared(probe: "Probe") -> None:
    undeclared = [name for name in _LISTS if not probe.facts.declares(name)]
    if not undeclared:
        return
    # Asking is against the rules, so that only what comes of it can be judged.
    async with probe.borrow(is_judged=False) as line:
        for name in undeclared:
            reply = await line.ask(_LISTS[name])
            if reply.result.get(name):
                probe.fail(f"{name}.capability.declared", f"has {name} that it did not declare")
            else:
                probe.not_applicable(f"{name}.capability.declared", f"the server has no {name}")

"""Lists: pages, cursors, announced changes, and declared capabilities."""

from typing import Any, Final

from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import RawConnection
from accord.check.probing.server_facts import ServerFacts, list_all
from accord.check.scenarios._scenario import bare_scenario, scenario
from accord.check.scenarios.server._requests import LISTS, call_all, is_alive, is_listening
from accord.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND

_RESPECTED: Final = "lifecycle.capabilities.respected"
_MISSING: Final = "accord-check://no/such/resource"


@bare_scenario(
    *(f"{name}.list-changed.sent" for name in LISTS), sends=(*LISTS.values(), "tools/call")
)
async def watches_the_lists_while_tools_are_called(probe: Probe) -> None:
    wanted = [name for name in LISTS if probe.facts.declares(f"{name}.listChanged")]
    for name in set(LISTS).difference(wanted):
        reason = f"the server did not declare {name}.listChanged"
        probe.not_applicable(f"{name}.list-changed.sent", reason)
    if not wanted:
        return
    async with probe.borrow() as connection:
        before = {name: await list_all(connection, LISTS[name], name) for name in wanted}
        await call_all(probe, connection)
        await connection.collect(probe.target.settling)
        for name in wanted:
            id = f"{name}.list-changed.sent"
            if _is_announced(connection, name):
                probe.passes(id)
                continue
            is_changed = await list_all(connection, LISTS[name], name) != before[name]
            if is_changed:
                await connection.collect(probe.target.settling)
            if is_changed and is_listening(connection):
                why = f"sends no notification although its {name} changed"
                probe.holds(id, _is_announced(connection, name), why)
            probe.skip(id, f"the list of {name} did not change during the check")


def _is_announced(connection: RawConnection, name: str) -> bool:
    wanted = f"notifications/{name}/list_changed"
    return any(each.get("method") == wanted for each in connection.received)


@scenario(_RESPECTED, sends=(*LISTS.values(), "resources/read"))
async def calls_declared_methods(probe: Probe, connection: RawConnection) -> None:
    declared = [name for name in LISTS if probe.facts.declares(name)]
    asked: list[tuple[str, str, dict[str, str]]] = [(name, LISTS[name], {}) for name in declared]
    if "resources" in declared:
        asked.append(("resources", "resources/read", {"uri": _MISSING}))
    for name, method, params in asked:
        reply = await connection.ask(method, params)
        why = f"declares {name} and does not know {method}"
        probe.holds(_RESPECTED, reply.code != METHOD_NOT_FOUND, why)


@bare_scenario(*(f"{name}.capability.declared" for name in LISTS))
async def lists_without_the_capability(probe: Probe) -> None:
    undeclared = [name for name in LISTS if not probe.facts.declares(name)]
    if not undeclared:
        return
    # The request itself breaks the rules, so that only the answer is judged.
    async with probe.borrow(is_judged=False) as connection:
        for name in undeclared:
            reply = await connection.ask(LISTS[name])
            if reply.result.get(name):
                probe.fail(f"{name}.capability.declared", f"has {name} that it did not declare")
            else:
                probe.not_applicable(f"{name}.capability.declared", f"the server has no {name}")


_STABLE: Final = "pagination.cursor.stable"
_BAD: Final = "pagination.bad-cursor-32602"
_NEXT: Final = "pagination.next-cursor.optional"
# For each requirement: the capability, the method and the member of the result.
_PAGINATION_LISTS: Final = {
    "pagination.operation.tools-list": ("tools", "tools/list", "tools"),
    "pagination.operation.resources-list": ("resources", "resources/list", "resources"),
    "pagination.operation.resources-templates-list": (
        "resources",
        "resources/templates/list",
        "resourceTemplates",
    ),
    "pagination.operation.prompts-list": ("prompts", "prompts/list", "prompts"),
}
_ONE_PAGE: Final = "all entries are on one page, without a cursor"
_PAGES: Final = 200


def _has_no_lists(facts: ServerFacts) -> str | None:
    return None if any(map(facts.declares, LISTS)) else "the server has no lists"


@scenario(
    *_PAGINATION_LISTS,
    _STABLE,
    _BAD,
    _NEXT,
    when=_has_no_lists,
    sends=(*LISTS.values(), "resources/templates/list"),
)
async def walks_all_pages(probe: Probe, connection: RawConnection) -> None:
    for id, (capability, method, member) in _PAGINATION_LISTS.items():
        if not probe.facts.declares(capability):
            probe.not_applicable(id, f"the server did not declare {capability}")
            continue
        cursor = (await connection.ask(method)).result.get("nextCursor")
        if not isinstance(cursor, str):
            probe.skip(id, _ONE_PAGE)
            continue
        if await _walk(probe, connection, id, method, cursor):
            await _repeat_page(probe, connection, method, member, cursor)
            await _try_unknown_cursor(probe, method)
    probe.skip((_STABLE, _BAD, _NEXT), _ONE_PAGE)


async def _walk(probe: Probe, connection: RawConnection, id: str, method: str, cursor: str) -> bool:
    """Follow cursors; return whether they end."""
    used: list[str] = []
    following: Any = cursor
    while isinstance(following, str):
        used.append(following)
        reply = await connection.ask(method, {"cursor": following})
        if reply.is_error:
            probe.fail(id, f"answers {method} with its own cursor with {reply}")
            return False
        following = reply.result.get("nextCursor")
        if following in used or len(used) > _PAGES:
            probe.fail(id, f"never ends {method}: the cursor {following!r:.80} is repeated")
            return False
    probe.passes(id)
    return True


async def _repeat_page(
    probe: Probe, connection: RawConnection, method: str, member: str, cursor: str
) -> None:
    # Lists may change in between: only a second difference counts.
    for is_last in (False, True):
        one, other = [await connection.ask(method, {"cursor": cursor}) for _ in range(2)]
        is_same = one.result.get(member) == other.result.get(member) and not other.is_error
        if is_same or is_last:
            why = f"answers {method} with the same cursor first {one}, then {other}"
            probe.holds(_STABLE, is_same, why)
            return


async def _try_unknown_cursor(probe: Probe, method: str) -> None:
    async with probe.borrow(is_judged=False) as connection:
        reply = await connection.ask(method, {"cursor": "accord-check-no-such-cursor"})
        probe.expects(_BAD, reply, INVALID_PARAMS, f"{method} with a made-up cursor")
        await is_alive(probe, connection, "a made-up cursor")

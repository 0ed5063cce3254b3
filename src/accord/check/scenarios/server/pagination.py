"""Pages: every one is walked, cursors are used again, and one that nobody gave is tried."""

from typing import TYPE_CHECKING, Any, Final

from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._asking import is_alive
from accord.protocol.jsonrpc import INVALID_PARAMS

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe, ServerFacts
    from accord.check.probing.raw_connection import RawConnection

__all__: list[str] = []

_STABLE: Final = "pagination.cursor.stable"
_BAD: Final = "pagination.bad-cursor-32602"
_NEXT: Final = "pagination.next-cursor.optional"
_LISTS: Final = {
    "pagination.operation.tools-list": ("tools", "tools/list", "tools"),
    "pagination.operation.resources-list": ("resources", "resources/list", "resources"),
    "pagination.operation.resources-templates-list": (
        "resources",
        "resources/templates/list",
        "resourceTemplates",
    ),
    "pagination.operation.prompts-list": ("prompts", "prompts/list", "prompts"),
}
_ONE_PAGE: Final = "all entries stand on one page, without a cursor"
_PAGES: Final = 200


def _has_no_lists(facts: "ServerFacts") -> str | None:
    declared = any(facts.declares(capability) for capability, _, _ in _LISTS.values())
    return None if declared else "the server has no lists"


@scenario(*_LISTS, _STABLE, _BAD, _NEXT, when=_has_no_lists)
async def walks_all_pages(probe: "Probe") -> None:
    async with probe.borrow() as line:
        for id, (capability, method, member) in _LISTS.items():
            if not probe.facts.declares(capability):
                probe.not_applicable(id, f"the server did not declare {capability}")
                continue
            cursor = (await line.ask(method)).result.get("nextCursor")
            if not isinstance(cursor, str):
                probe.skip(id, _ONE_PAGE)
                continue
            if await _walk(probe, line, id, method, cursor):
                await _turn_back(probe, line, method, member, cursor)
                await _make_one_up(probe, method)
        for id in (_STABLE, _BAD, _NEXT):
            probe.skip(id, _ONE_PAGE)


async def _walk(probe: "Probe", line: "RawConnection", id: str, method: str, cursor: str) -> bool:
    """Follow cursors to the end; tells whether there is one."""
    used: list[str] = []
    following: Any = cursor
    while isinstance(following, str):
        used.append(following)
        reply = await line.ask(method, {"cursor": following})
        if reply.is_error:
            probe.fail(id, f"answers {method} with its own cursor with {reply}")
            return False
        following = reply.result.get("nextCursor")
        if following in used or len(used) > _PAGES:
            probe.fail(id, f"never ends {method}: the cursor {following!r:.80} comes again")
            return False
    return probe.holds(id, condition=True, why="")


async def _turn_back(
    probe: "Probe", line: "RawConnection", method: str, member: str, cursor: str
) -> None:
    # Lists may change in between: what is unstable is so twice.
    for is_last in (False, True):
        one, other = [await line.ask(method, {"cursor": cursor}) for _ in range(2)]
        is_same = one.result.get(member) == other.result.get(member) and not other.is_error
        if is_same or is_last:
            probe.holds(
                _STABLE, is_same, f"answers {method} with the same cursor first {one}, then {other}"
            )
            return


async def _make_one_up(probe: "Probe", method: str) -> None:
    async with probe.borrow(is_judged=False) as line:
        reply = await line.ask(method, {"cursor": "accord-check-no-such-cursor"})
        probe.holds(
            _BAD,
            reply.code == INVALID_PARAMS,
            f"answers {method} with a made-up cursor with {reply}, expected error -32602",
        )
        await is_alive(probe, line, "a made-up cursor")

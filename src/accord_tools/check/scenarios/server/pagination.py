"""Pages of lists: cursors that are followed, used again, and made up."""

from typing import Any, Final

from accord.protocol.jsonrpc import INVALID_PARAMS
from accord_tools.check.probing.messages import Reply
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.server_facts import ServerFacts
from accord_tools.check.scenarios._scenario import LISTS, is_alive, scenario

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
        first = await connection.ask(method)
        if not isinstance(first.result.get("nextCursor"), str):
            probe.skip(id, _ONE_PAGE)
            continue
        second = await _walk(probe, connection, id, method, member, first)
        if second is not None:
            await _repeat_page(probe, connection, method, member, first, second)
            await _try_unknown_cursor(probe, method)
    probe.skip((_STABLE, _BAD, _NEXT), _ONE_PAGE)


async def _walk(
    probe: Probe, connection: RawConnection, id: str, method: str, member: str, first: Reply
) -> Reply | None:
    """Follow cursors; return the second page, None if something is wrong."""
    used: list[str] = []
    second: Reply | None = None
    following: Any = first.result["nextCursor"]
    while isinstance(following, str):
        used.append(following)
        reply = await connection.ask(method, {"cursor": following})
        second = second or reply
        if reply.is_error:
            probe.fail(id, f"answers {method} with its own cursor with {reply}")
            return None
        if _entries(reply, member) and _entries(reply, member) == _entries(first, member):
            probe.fail(id, f"answers {method} with its own cursor with the first page again")
            return None
        following = reply.result.get("nextCursor")
        if following in used or len(used) > _PAGES:
            probe.fail(id, f"never ends {method}: the cursor {following!r:.80} is repeated")
            return None
    probe.passes(id)
    return second


async def _repeat_page(
    probe: Probe,
    connection: RawConnection,
    method: str,
    member: str,
    first: Reply,
    before: Reply,
) -> None:
    params = {"cursor": first.result["nextCursor"]}
    was_filled = bool(_entries(before, member))
    # Lists may change in between: only a second difference counts.
    for _ in range(3):
        after = await connection.ask(method, params)
        if after.result.get(member) == before.result.get(member) and not after.is_error:
            break
        before, earlier = after, before
    else:
        why = f"answers {method} with the same cursor first {earlier}, then {after}"
        probe.fail(_STABLE, why)
        return
    # A list that shrank has no more pages.
    is_spent = was_filled and after.result.get(member) == []
    if is_spent:
        is_spent = "nextCursor" in (await connection.ask(method)).result
    why = f"answers {method} with nothing when a cursor is used again"
    probe.holds(_STABLE, not is_spent, why)


def _entries(page: Reply, member: str) -> list[Any]:
    """Return the entries of a page; none if it has no list."""
    entries = page.result.get(member)
    return entries if isinstance(entries, list) else []


async def _try_unknown_cursor(probe: Probe, method: str) -> None:
    async with probe.borrow(is_judged=False) as connection:
        reply = await connection.ask(method, {"cursor": "accord-check-no-such-cursor"})
        probe.expects(_BAD, reply, INVALID_PARAMS, f"{method} with a made-up cursor")
        await is_alive(probe, connection, "a made-up cursor")

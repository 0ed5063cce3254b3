"""Sessions over Streamable HTTP: their ids, what is refused without one, and their end."""

from contextlib import AsyncExitStack
from itertools import combinations
from typing import TYPE_CHECKING, Final

from accord.check.probing.exchange import exchange, post_message
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._posting import PERMISSION, conversing, request

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe

__all__: list[str] = []

_SESSIONS: Final = 3
# Of two unguessable ids nearly all characters differ; of counters and clocks a few do.
_DIFFERENT: Final = 8
_STATELESS: Final = "the server gives no session ids"


@scenario(
    "session.id.assigned-at-initialize",
    "session.id.header-name",
    "session.id.visible-ascii",
    "session.id.secure",
    on=("http",),
)
async def opens_several_sessions(probe: "Probe") -> None:
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(conversing(probe)) for _ in range(_SESSIONS)]
        ids = [line.carrier.session for line in lines if line.carrier.session is not None]
    if not ids:
        probe.not_applicable("session.id.assigned-at-initialize", PERMISSION)
        for id in ("header-name", "visible-ascii", "secure"):
            probe.not_applicable(f"session.id.{id}", _STATELESS)
        return
    probe.holds("session.id.assigned-at-initialize", condition=True, why="")
    probe.holds("session.id.header-name", condition=True, why="")
    odd = [each for each in ids if not each or any(not "!" <= mark <= "~" for mark in each)]
    probe.holds(
        "session.id.visible-ascii",
        not odd,
        f"gives the session id {odd[:1]}, expected visible ASCII characters alone",
    )
    if len(ids) < _SESSIONS:
        probe.skip("session.id.secure", "the server gave few session ids")
        return
    least = min(_differences(one, other) for one, other in combinations(ids, 2))
    # The ids themselves stay out of reports: some of them may still be in use.
    probe.holds(
        "session.id.secure",
        least >= _DIFFERENT,
        f"gives session ids of which {least} characters differ from one session to another,"
        " expected unguessable ones",
        evidence=(),
    )


def _differences(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


@scenario("session.id.missing-400", on=("http",))
async def leaves_the_session_id_out(probe: "Probe") -> None:
    id = "session.id.missing-400"
    async with conversing(probe) as line:
        if line.carrier.session is None:
            probe.not_applicable(id, _STATELESS)
            return
        heard = await post_message(line, request("ping"), mcp_session_id=None)
        if heard.is_ok:
            probe.not_applicable(id, "the server does not insist on session ids")
            return
        probe.holds(
            id,
            heard.status == 400,
            f"answers a request without session id with {heard}, expected status 400",
        )


@scenario("session.end.terminated-404", "session.end.server-may-terminate", on=("http",))
async def uses_a_session_that_was_ended(probe: "Probe") -> None:
    id = "session.end.terminated-404"
    probe.not_applicable("session.end.server-may-terminate", PERMISSION)
    async with conversing(probe) as line:
        if line.carrier.session is None:
            probe.not_applicable(id, _STATELESS)
            return
        async with exchange(line, method="DELETE") as ended:
            pass
        if not ended.is_ok:
            probe.skip(id, f"the server lets no client end a session: {ended}")
            return
        heard = await post_message(line, request("ping"))
        probe.holds(
            id,
            heard.status == 404,
            f"answers a request in a session that was ended with {heard}, expected status 404",
        )

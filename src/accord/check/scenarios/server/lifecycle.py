"""Initialization: revisions, capabilities, and requests out of order."""

from typing import Final

from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._requests import harmless_method, is_alive, wait_for_answer
from accord.protocol.revisions import REVISIONS, later_than

_UNKNOWN: Final = "1999-12-31"


@scenario("lifecycle.version.server-echoes")
async def requests_the_revision_under_check(probe: Probe) -> None:
    # A server that does not speak the revision is not checked under it.
    chosen = probe.connection.opening.get("protocolVersion")
    if not isinstance(chosen, str):
        probe.skip("lifecycle.version.server-echoes", "the server names no revision")
        return
    probe.holds(
        "lifecycle.version.server-echoes",
        chosen == probe.revision,
        f"answers {probe.revision} with {chosen!r}",
        evidence=probe.connection.opening_proof,
    )


@scenario(
    "lifecycle.version.server-offers-other",
    "lifecycle.version.server-offers-latest",
    is_once=True,
)
async def requests_an_unknown_revision(probe: Probe) -> None:
    async with probe.open(begins=False) as connection:
        try:
            reply = await connection.initialize(_UNKNOWN, is_confirmed=False)
        except MessageTimeout:
            await _blame_for_silence(probe, connection, "initialize with an unknown revision")
            return
        offered = reply.result.get("protocolVersion")
        is_other = isinstance(offered, str) and offered != _UNKNOWN
        # README of the requirements, contradictions: an error -32602 that lists what is supported
        # is what 2025-06-18 shows in its example.
        is_refusal = reply.code == -32602
        probe.holds(
            "lifecycle.version.server-offers-other",
            is_other or is_refusal,
            f"answers an unknown revision with {reply}",
        )
        if not is_other:
            probe.skip("lifecycle.version.server-offers-latest", "the server offers no other")
            return
        later = [row.id for row in later_than(str(offered)) if await _speaks(probe, row.id)]
        probe.holds(
            "lifecycle.version.server-offers-latest",
            not later,
            f"offers {offered} although it speaks {', '.join(later)}",
        )


async def _speaks(probe: Probe, revision: str) -> bool:
    if not REVISIONS[revision].handshake:
        return False
    async with probe.open(begins=False, is_judged=False) as connection:
        reply = await connection.initialize(revision, is_confirmed=False)
        return reply.result.get("protocolVersion") == revision


@scenario("lifecycle.errors.handled", is_once=True)
async def sends_invalid_initialize_parameters(probe: Probe) -> None:
    async with probe.open(begins=False, is_judged=False) as connection:
        try:
            reply = await connection.ask("initialize", {"protocolVersion": 7})
        except ConnectionEnded as error:
            probe.fail("lifecycle.errors.handled", f"ends after a malformed initialize: {error}")
            return
        except MessageTimeout:
            await _blame_for_silence(probe, connection, "a malformed initialize")
            return
        probe.holds(
            "lifecycle.errors.handled",
            reply.is_error,
            f"accepts an initialize without capabilities and clientInfo: {reply}",
        )


@scenario("jsonrpc.request.answered", "ping.response.prompt", on=("stdio", "sse"), is_once=True)
async def sends_requests_before_initialize(probe: Probe) -> None:
    async with probe.open(begins=False, is_judged=False) as connection:
        # The server may refuse them, but must answer.
        ping = await connection.begin("ping")
        try:
            is_pinged = await _arrives(connection, ping)
        except ConnectionEnded as error:
            probe.fail("practice.server.survives-errors", f"ends after the first ping: {error}")
            return
        # A server that has not answered anything may still be starting.
        method = harmless_method(probe.facts)
        id = await connection.begin(method) if method != "ping" else None
        await connection.initialize(probe.revision)
        is_pinged = is_pinged or await _arrives(connection, ping, probe.target.patience)
        probe.holds("ping.response.prompt", is_pinged, "answers no ping before initialize")
        if id is not None:
            await wait_for_answer(probe, connection, id, f"{method} before initialize")
        await is_alive(probe, connection, "requests before initialize")


async def _arrives(connection: RawConnection, id: object, patience: float | None = None) -> bool:
    try:
        await connection.reply_to(id, patience=patience)
    except MessageTimeout:
        return False
    return True


async def _blame_for_silence(probe: Probe, connection: RawConnection, what: str) -> None:
    """Record a verdict on a first request without an answer, unless the server is starting.

    Raises:
        MessageTimeout: it does not answer a valid initialize either.
    """
    await connection.initialize(probe.revision)
    probe.fail("jsonrpc.request.answered", f"leaves {what} unanswered")


@scenario("jsonrpc.request.answered", is_once=True)
async def initializes_twice(probe: Probe) -> None:
    async with probe.open(is_judged=False) as connection:
        await connection.initialize(probe.revision)
        await is_alive(probe, connection, "a second initialize")


@scenario("lifecycle.initialized.server-waits", is_once=True)
async def omits_the_initialized_notification(probe: Probe) -> None:
    id = "lifecycle.initialized.server-waits"
    async with probe.open(begins=False) as connection:
        await connection.initialize(probe.revision, is_confirmed=False)
        await connection.collect(probe.target.settling)
        early = [
            str(each["method"])
            for each in connection.received
            if "method" in each and "id" in each and each["method"] != "ping"
        ]
        probe.holds(id, not early, f"sends {', '.join(early)} before notifications/initialized")


@scenario("lifecycle.capabilities.respected", needs="tools", is_once=True)
async def declares_no_capabilities(probe: Probe) -> None:
    tools = probe.facts.callable_tools()
    if not tools:
        probe.skip("lifecycle.capabilities.respected", "no tool may be called")
        return
    async with probe.open(capabilities={}) as connection:
        for tool, arguments in tools:
            id = await connection.begin(
                "tools/call", {"name": tool["name"], "arguments": arguments}
            )
            await wait_for_answer(probe, connection, id, f"a call of {tool['name']}")
        # The monitor would report a request to the client.
        probe.holds("lifecycle.capabilities.respected", condition=True, why="")

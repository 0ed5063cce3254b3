"""The error of 2025-11-25 that sends the user to a page before a request can go on."""

from functools import partial
from typing import Any, Final

from accord.types import JsonObject
from accord_tools.check.probing.messages import Reply
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import EVERYTHING, RawConnection
from accord_tools.check.scenarios._scenario import MISSING_URI, call_all, scenario

_ONLY: Final = "elicitation.required-error.only-for-url"
_USED: Final = "elicitation.required-error.used"
_REQUIRED: Final = -32042
_MODES: Final[JsonObject] = {"form": {}, "url": {}}
_NO_PAGE: Final = "no request needs a page that the user visits first"


@scenario(
    _ONLY,
    _USED,
    opens=partial(Probe.open, capabilities={**EVERYTHING, "elicitation": _MODES}),
    era="handshake",
    sends=("tools/call", "resources/read", "prompts/get"),
)
async def looks_for_pages_that_come_first(probe: Probe, connection: RawConnection) -> None:
    for tool, reply in await call_all(probe, connection):
        connection.point_at(reply.message)
        _judge(probe, reply, f"a call of {tool.name}")
    for method, params in _mistakes(probe):
        reply = await connection.ask(method, params)
        if reply.code == _REQUIRED:
            _judge(probe, reply, f"{method} with {params}")
    probe.skip((_ONLY, _USED), _NO_PAGE)


def _mistakes(probe: Probe) -> list[tuple[str, JsonObject]]:
    found: list[tuple[str, JsonObject]] = [("accord-check/no-such-method", {})]
    if probe.facts.declares("tools"):
        found.append(("tools/call", {"name": "accord-check-no-such-tool", "arguments": {}}))
    if probe.facts.declares("resources"):
        found.append(("resources/read", {"uri": MISSING_URI}))
    if probe.facts.declares("prompts"):
        found.append(("prompts/get", {"name": "accord-check-no-such-prompt"}))
    return found


def _judge(probe: Probe, reply: Reply, what: str) -> None:
    pages = [each for each in _elicitations(reply) if isinstance(each, dict) and "url" in each]
    if reply.code == _REQUIRED:
        why = f"answers {what} with {reply}, which names no page to visit"
        if probe.holds(_ONLY, pages, why):
            probe.passes(_USED)
    elif pages:
        why = f"answers {what} with {reply}, which names a page to visit first"
        probe.fail(_USED, f"{why}, expected error {_REQUIRED}")


def _elicitations(reply: Reply) -> list[Any]:
    data = reply.error.get("data")
    found = data.get("elicitations") if isinstance(data, dict) else None
    return found if isinstance(found, list) else []

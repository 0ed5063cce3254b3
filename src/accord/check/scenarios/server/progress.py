"""Progress: tokens of both kinds, requests that want none, and how often it is reported."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._asking import answered

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe

__all__: list[str] = []

_PROGRESS: Final = "notifications/progress"
# Nobody can read more than this in a second.
_MOST: Final = 200
_REPORTED: Final = (
    "progress.notification.token",
    "progress.notification.progress",
    "progress.notification.total",
    "progress.notification.message",
    "progress.notification.method-name",
    "progress.value.increases",
    "progress.stops-after-completion",
    "progress.rate-limited",
)


@scenario(*_REPORTED, needs="tools")
async def asks_for_progress(probe: "Probe") -> None:
    tools = probe.facts.callable_tools()
    async with probe.borrow() as line:
        wanted: dict[Any, Any] = {}
        for number, (tool, arguments) in enumerate(tools):
            for token in (f"token-{number}", 1000 + number):
                wanted[token] = await line.start(
                    "tools/call",
                    {
                        "name": tool["name"],
                        "arguments": arguments,
                        "_meta": {"progressToken": token},
                    },
                )
        for token, id in wanted.items():
            await answered(probe, line, id, f"a call with the progress token {token!r}")
        # What is reported after the answer comes soon after it.
        await line.collect(probe.subject.settling)
        reports = [each for each in line.received if each.get("method") == _PROGRESS]
        if not reports:
            for id in _REPORTED:
                probe.skip(id, "no tool that may be called reports progress")
            return
        counts = Counter(str((each.get("params") or {}).get("progressToken")) for each in reports)
        token, most = counts.most_common(1)[0]
        probe.holds(
            "progress.rate-limited",
            most <= _MOST,
            f"reports progress on {token} {most} times during one short call",
        )


@scenario("progress.notification.active-only", needs="tools")
async def asks_for_no_progress(probe: "Probe") -> None:
    async with probe.borrow() as line:
        for tool, arguments in probe.facts.callable_tools():
            id = await line.begin("tools/call", {"name": tool["name"], "arguments": arguments})
            await answered(probe, line, id, f"a call of {tool['name']}")
        await line.collect(probe.subject.settling)
        uninvited = [each for each in line.received if each.get("method") == _PROGRESS]
        if probe.facts.callable_tools():
            probe.holds(
                "progress.notification.active-only",
                not uninvited,
                "reports progress although no request asked for it",
            )

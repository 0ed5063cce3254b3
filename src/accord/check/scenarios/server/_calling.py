"""Calling the tools of a server, as scenarios of several areas do."""

import re
from typing import TYPE_CHECKING, Any, Final

from accord.check.probing.raw_connection import RawConnection, Reply
from accord.check.scenarios.server._asking import answered

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe

__all__ = [
    "asking_tools",
    "call",
    "call_all",
    "call_together",
    "has_failed",
    "is_listening",
    "text_of",
]

_WORDS_OF_FAILURE: Final = re.compile(
    r"\b(?:error|exception|invalid|required?|missing|must|expected|unknown|undefined argument"
    r"|fail(?:ed|s|ure)?|not (?:found|allowed|provided|valid)|cannot|can't|unable)\b",
    re.IGNORECASE,
)


async def call(
    probe: "Probe", line: RawConnection, tool: dict[str, Any], arguments: dict[str, Any]
) -> Reply | None:
    """Call a tool; silence becomes a verdict, None is returned then."""
    id = await line.begin("tools/call", {"name": tool["name"], "arguments": arguments})
    return await answered(probe, line, id, f"a call of {tool['name']}")


async def call_all(probe: "Probe", line: RawConnection) -> list[tuple[dict[str, Any], Reply]]:
    """Call every tool that may be called, one after the other; returns those that answered."""
    made = []
    for tool, arguments in probe.facts.callable_tools():
        reply = await call(probe, line, tool, arguments)
        if reply is not None:
            made.append((tool, reply))
    return made


async def asking_tools(probe: "Probe") -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Find the tools that ask something of the client."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if not probe.facts.is_asking:
        return found
    async with probe.borrow() as line:
        for tool, arguments in probe.facts.callable_tools():
            since = len(line.received)
            await call(probe, line, tool, arguments)
            if any("method" in each and "id" in each for each in line.received[since:]):
                found.append((tool, arguments))
    return found


async def call_together(probe: "Probe", line: RawConnection) -> None:
    """Call every tool that may be called, all at once."""
    calls = [
        (tool, await line.start("tools/call", {"name": tool["name"], "arguments": arguments}))
        for tool, arguments in probe.facts.callable_tools()
    ]
    for tool, id in calls:
        await answered(probe, line, id, f"a call of {tool['name']}")


def text_of(reply: Reply) -> str:
    """Return the text of a tool result."""
    content = reply.result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [each.get("text") for each in blocks if isinstance(each, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def has_failed(reply: Reply) -> bool:
    """Tell whether a tool says that it failed, be it in words alone."""
    if reply.is_error or reply.result.get("isError") is True:
        return True
    return _WORDS_OF_FAILURE.search(text_of(reply)) is not None


def is_listening(line: RawConnection) -> bool:
    """Tell whether the server can send what answers no request."""
    return getattr(line.carrier, "listens", True) is not False

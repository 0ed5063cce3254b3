"""Trying the tools of a server once, before scenarios rely on them: those that take long are left
alone from then on, for a stranger cannot tell a long task from a lost answer.
"""

import asyncio
import contextlib
from typing import Final

from accord.check.probing.probe import ServerFacts
from accord.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection

# Scenarios call each tool several times, so that one which takes longer would cost too much.
_LONG: Final = 1.5
_SETTLINGS: Final = 5


async def try_tools(facts: ServerFacts, line: RawConnection, *, settling: float = 0.0) -> None:
    """Call each tool that may be called, all at once; note those that do not answer soon.

    Args:
        facts: gets what was found out.
        line: used by nobody else meanwhile: a tool may bring its server to a stand.
        settling: seconds in which things settle with this server; a slow one has more time.
    """
    long = max(_LONG, settling * _SETTLINGS)
    calls = [
        (
            str(tool["name"]),
            await line.start("tools/call", {"name": tool["name"], "arguments": args}),
        )
        for tool, args in facts.callable_tools()
    ]
    known = len(facts.slow)
    deadline = asyncio.get_running_loop().time() + min(long, line.patience)
    for name, id in calls:
        left = max(deadline - asyncio.get_running_loop().time(), 0)
        try:
            await line.reply_to(id, patience=left)
        except MessageTimeout:
            facts.slow[name] = f"its first call took longer than {long:.2g} s"
            with contextlib.suppress(ConnectionEnded):
                await line.notify("notifications/cancelled", {"requestId": id})
        except ConnectionEnded:
            break
    facts.is_asking = any("method" in each and "id" in each for each in line.received)
    if len(facts.slow) > known:
        # Nobody else shall wait behind what may still be under way.
        line.end("a tool took too long on it")

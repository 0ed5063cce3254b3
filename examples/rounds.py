"""Questions to the user: answered by a callback, or one round at a time, also by another process.

python examples/rounds.py                                  both ways
accord call examples/rounds.py book city=Oslo              asks you
"""

import asyncio
import os
import secrets
from typing import Any

from accord import Context, Server, connect
from accord.types import CallToolResult, ElicitParams, ElicitRequest, ElicitResult

KEY = os.environ.get("TRIP_KEY") or secrets.token_hex(32)
server = Server("trip", state_keys=[KEY])  # processes that serve together share it


@server.tool
async def book(ctx: Context, city: str) -> str:
    """Book a room."""
    nights, name = await asyncio.gather(  # two questions, one round
        ctx.elicit("How many nights?", int), ctx.elicit("Whose name?", str)
    )
    # The handler runs again in each round; this part of it does not.
    room = await ctx.once("hold", lambda: 100 + secrets.randbelow(100))
    if not await ctx.elicit(f"Room {room} for {name}?", bool):
        return "not booked"
    return f"room {room} in {city} for {name}, {nights} nights"


def answer(question: ElicitParams) -> dict[str, Any]:
    """Answer as a user would."""
    return {"value": {"How many nights?": 3, "Whose name?": "Ada"}.get(question.message, True)}


async def main() -> None:
    async with connect(server, on_elicit=answer) as client:
        print("by callback:", await client.call_tool("book", {"city": "Oslo"}, result_type=str))

    answers: dict[str, ElicitResult] = {}
    state = None
    while True:  # each round in a process of its own
        async with connect(__file__, env={"TRIP_KEY": KEY}, on_elicit=answer) as client:
            result = await client.rounds.call_tool(
                "book", {"city": "Rome"}, answers=answers, state=state
            )
        if isinstance(result, CallToolResult):
            break
        state = result.request_state
        for key, asked in (result.input_requests or {}).items():
            assert isinstance(asked, ElicitRequest)  # this server asks nothing else
            print("asked:", asked.params.message)
            answers[key] = ElicitResult("accept", answer(asked.params))
    print("by rounds:", result.text)


if __name__ == "__main__":
    asyncio.run(main())

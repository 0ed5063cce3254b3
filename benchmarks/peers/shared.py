"""accord as one of several workers: python shared.py OPTIONS, a JSON object for `Server.run`."""

import asyncio
import json
import sys
import time

import ours

from accord import Context


async def crawl(ctx: Context, steps: int = 1_000) -> int:
    """Report a step every 20 ms."""
    for step in range(1, steps + 1):
        await ctx.info(step)
        await asyncio.sleep(0.02)
    return steps


def compute(milliseconds: float) -> int:
    """Compute for a while, on the loop."""
    end = time.thread_time() + milliseconds / 1000
    steps = 0
    while time.thread_time() < end:
        steps += sum(range(100))
    return steps


def main() -> None:
    options = json.loads(sys.argv[1])
    server = ours.build(options.pop("tools", 100))
    server.add_tool(crawl, idempotent=True)
    server.add_tool(compute, inline=True)
    server.run("http", **options)


if __name__ == "__main__":
    main()

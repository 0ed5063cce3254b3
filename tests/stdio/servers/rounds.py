"""Asks twice, and keeps in between what happened once; its keys are given."""

import os
import sys

from accord import Context, Server

server = Server("rounds", state_keys=[sys.argv[1]])


@server.tool
async def book(ctx: Context) -> str:
    """Book a trip."""
    nights = await ctx.elicit("How many nights?", int, key="nights")
    process = await ctx.once("process", os.getpid, result_type=int)
    sure = await ctx.elicit("Sure?", bool, key="sure")
    return f"{nights} {sure} {process == os.getpid()}"


server.run()

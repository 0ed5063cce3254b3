"""Asks clients everything that servers may ask, from tools, prompts and resources."""

import asyncio
from datetime import date
from typing import Annotated, Any

import msgspec

from accord import Choices, Context, Server, types
from accord.errors import ElicitationRefused, UrlElicitationRequired

PAGE = "https://desk.example/link/{elicitation_id}"
SIZES = Choices({"s": "Small", "l": "Large"})


class Journey(msgspec.Struct):
    """Where to go."""

    city: str
    size: Annotated[str, SIZES] = "s"
    nights: Annotated[int, msgspec.Meta(ge=1, le=30)] = 2
    leaves: date | None = None


class Baggage(msgspec.Struct):
    """What to take along, which needs a choice of several."""

    sizes: Annotated[list[str], SIZES]


ordered: list[str] = []
linked: list[Any] = []


def make(**settings: Any) -> Server[Any]:
    ordered.clear()
    linked.clear()
    server = Server("asking", **settings)
    add_questions(server)
    add_pages(server)
    add_models(server)
    return server


def add_questions(server: Server[Any]) -> None:
    @server.tool
    async def book(ctx: Context) -> str:
        """Ask for a journey, after an order that is made once."""
        number = await ctx.once("order", lambda: ordered.append("order") or len(ordered))
        journey = await ctx.elicit("Where to?", Journey)
        return f"{number}: {journey.city} {journey.size} {journey.nights}"

    @server.tool
    async def pack(ctx: Context) -> list[str]:
        """Ask for a choice of several."""
        return (await ctx.elicit("What to take?", Baggage)).sizes

    @server.tool
    async def all_at_once(ctx: Context) -> list[str]:
        """Ask the user, the model and the client at the same time."""
        journey, answer, roots = await asyncio.gather(
            ctx.elicit("Where to?", Journey), ctx.sample("Which way?"), ctx.roots()
        )
        return [journey.city, answer.text, *(root.uri for root in roots)]

    @server.tool
    async def one_by_one(ctx: Context, times: int) -> list[str]:
        """Ask several times, each after the one before.

        Args:
            times: how often
        """
        return [(await ctx.elicit(f"Stop {n}?", Journey)).city for n in range(times)]

    @server.prompt
    async def plan(ctx: Context, days: str) -> str:
        """Plan a journey.

        Args:
            days: how long
        """
        journey = await ctx.elicit("Where to?", Journey)
        return f"Plan {days} days in {journey.city}."

    @server.completion("plan", "days")
    async def days(typed: str) -> list[str]:
        journey = await Context.current().elicit("Where to?", Journey)
        return [f"{typed} in {journey.city}"]

    @server.resource("journey://{name}")
    async def journey(ctx: Context, name: str) -> str:
        """Ask where a journey leads."""
        return f"{name} leads to {(await ctx.elicit('Where to?', Journey)).city}"


def add_pages(server: Server[Any]) -> None:
    @server.tool
    async def link(ctx: Context) -> str:
        """Ask the user to visit a page."""
        try:
            linked.append(await ctx.elicit_url("Link your account", PAGE))
        except ElicitationRefused as refused:
            return refused.action
        return "accept"

    @server.tool
    async def balance(ctx: Context) -> str:
        """Need a page that the user has visited."""
        if not linked:
            linked.append(ctx.prepare_url("Link your account", PAGE))
            raise UrlElicitationRequired("no account is linked", elicitations=linked)
        return "12 EUR"

    @server.tool
    async def finish() -> list[bool]:
        """Report that the pages are complete, as their handler would."""
        return [server.elicitation_completed(page.id) for page in linked]


def add_models(server: Server[Any]) -> None:
    @server.tool
    async def weather(city: str) -> str:
        """Say how warm it is.

        Args:
            city: where
        """
        return f"4 C in {city}"

    @server.tool
    async def forecast(ctx: Context) -> str:
        """Let the model use the tool of this server, then answer."""
        asked: list[Any] = ["Weather in Oslo?"]
        answer = await ctx.sample(asked, tools=["weather"], tool_choice="required")
        results = [
            types.ToolResultContent(use.id, [types.TextContent(await weather(**use.input))])
            for use in answer.tool_uses
        ]
        asked += [answer, types.SamplingMessage("user", results)]
        return (await ctx.sample(asked, tools=["weather"])).text

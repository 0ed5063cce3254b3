"""Tools that tell, ask, wait and are cancelled."""

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import msgspec

from accord import Context, Server, types
from accord.errors import ElicitationRefused, MissingCapability, RequestError
from accord.server import ClientLogHandler, Proceed


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Order(msgspec.Struct):
    """What the user wants."""

    name: str
    count: Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")] = 1
    size: Size = Size.SMALL
    gift: bool = False
    mail: str | None = None


@dataclass
class State:
    """What the lifespan yields."""

    started: bool = True


@dataclass
class Caller:
    """What middleware keeps for a request."""

    name: str


seen: list[str] = []
noticed = threading.Event()
logger = logging.getLogger("desk.work")


@asynccontextmanager
async def lifespan(server: Server[State]) -> AsyncIterator[State]:
    seen.append("lifespan began")
    yield State()
    seen.append("lifespan ended")


async def outer(ctx: Context[Any], proceed: Proceed) -> Any:
    ctx.put(Caller(ctx.client_info.name if ctx.client_info else "nobody"))
    seen.append(f"outer {ctx.method}")
    return await proceed()


async def inner(ctx: Context[Any], proceed: Proceed) -> Any:
    result = await proceed()
    if ctx.method == "tools/call" and isinstance(result, types.CallToolResult):
        result.meta = {"org.example/through": "inner"}
    return result


def make(**settings: Any) -> Server[State]:
    seen.clear()
    noticed.clear()
    server = Server("working", lifespan=lifespan, **settings)
    add_telling(server)
    add_asking(server)
    add_waiting(server)
    add_knowing(server)
    return server


def make_with_middleware() -> Server[State]:
    return make(middleware=[outer, inner])


def make_small() -> Server[State]:
    return make(in_flight=2)


def make_old() -> Server[State]:
    return make(revisions=["2024-11-05", "2025-03-26"])


def add_telling(server: Server[State]) -> None:
    @server.tool
    async def steps(ctx: Context, values: list[float]) -> str:
        """Tell progress.

        Args:
            values: what to tell
        """
        for value in values:
            await ctx.progress(value, 10, message=f"at {value:g}")
        return "done"

    @server.tool
    def steps_in_thread(ctx: Context, values: list[float]) -> str:
        """Tell progress from a thread.

        Args:
            values: what to tell
        """
        for value in values:
            ctx.progress(value, message=f"at {value:g}")
        return "done"

    @server.tool
    async def late(ctx: Context) -> str:
        """Tell progress after the end."""

        async def afterwards() -> None:
            await asyncio.sleep(0.02)
            ctx.progress(99)
            seen.append("reported late")

        background.add(asyncio.ensure_future(afterwards()))
        return "done"

    background: set[Any] = set()

    @server.tool
    async def speak(ctx: Context) -> str:
        """Log at every level."""
        ctx.debug("d")
        ctx.info({"rows": 3})
        ctx.log("notice", "n", logger="shop")
        ctx.warning("w")
        await ctx.error("e")
        ctx.log("critical", "c")
        ctx.log("alert", "a")
        ctx.log("emergency", object)
        return "done"

    @server.tool
    def bridge() -> str:
        """Log by the standard library, from a thread."""
        handler = ClientLogHandler()
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            logger.info("opened %d doors", 3)
            logger.debug("trifle")
            logger.critical("fire")
        finally:
            logger.removeHandler(handler)
        logging.getLogger("accord.server").addHandler(handler)
        logging.getLogger("accord.server").info("not for clients")
        logging.getLogger("accord.server").removeHandler(handler)
        return "done"


def add_asking(server: Server[State]) -> None:
    @server.tool
    async def think(ctx: Context, question: str) -> str:
        """Ask the model.

        Args:
            question: what
        """
        answer = await ctx.sample(
            [question, types.SamplingMessage("assistant", types.TextContent("hm"))],
            max_tokens=50,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["."],
            preferences=types.ModelPreferences(
                hints=[types.ModelHint("small")],
                speed_priority=1.0,
                intelligence_priority=0.2,
                cost_priority=0.1,
            ),
        )
        assert isinstance(answer.content, types.TextContent)
        return f"{answer.model}: {answer.content.text} ({answer.stop_reason})"

    @server.tool
    async def order(ctx: Context) -> str:
        """Ask the user."""
        try:
            return repr(await ctx.elicit("What would you like?", Order))
        except ElicitationRefused as refused:
            return f"refused: {refused.action}"

    @server.tool
    async def order_plainly(ctx: Context) -> str:
        """Ask the user and leave a refusal alone."""
        return repr(await ctx.elicit("What would you like?", Order))

    @server.tool
    def order_in_thread(ctx: Context) -> str:
        """Ask the user from a thread."""
        return repr(ctx.wait(ctx.elicit("What would you like?", Order)))

    @server.tool
    async def places(ctx: Context) -> list[str]:
        """Ask for roots."""
        return [root.uri for root in await ctx.roots()]

    @server.tool
    async def try_to_ask(ctx: Context) -> list[str]:
        """Ask for everything and tell what is missing."""
        missing = []
        for ask in (ctx.sample("x"), ctx.elicit("x", Order), ctx.roots()):
            try:
                await ask
            except MissingCapability as error:
                missing.append(error.message)
            except RequestError as error:
                missing.append(f"answered {error.code}")
        return missing

    @server.on_roots_changed
    async def changed(session: Any) -> None:
        (root,) = await session.roots()
        seen.append(f"roots changed to {root.uri}")

    @server.on_roots_changed
    def failing(session: Any) -> None:
        raise ValueError("callbacks fail")


def add_waiting(server: Server[State]) -> None:
    gates: dict[str, asyncio.Event] = {}

    @server.tool
    async def wait(name: str) -> str:
        """Wait until the gate is opened.

        Args:
            name: of the gate
        """
        seen.append(f"waiting {name}")
        try:
            await gates.setdefault(name, asyncio.Event()).wait()
        finally:
            seen.append(f"left {name}")
        return name

    @server.tool
    async def open_gate(name: str) -> str:
        """Open a gate.

        Args:
            name: of the gate
        """
        gates.setdefault(name, asyncio.Event()).set()
        return "open"

    @server.tool
    async def chatter(ctx: Context, times: int) -> str:
        """Tell progress and never wait for anything else.

        Args:
            times: how often
        """
        ending = "silenced"
        try:
            for number in range(times):
                await ctx.progress(number)
            ending = "chattered"
        finally:
            seen.append(ending)
        return "done"

    @server.tool
    def work(ctx: Context) -> str:
        """Work in a thread until it is cancelled."""
        seen.append("working")
        while not ctx.is_cancelled:
            time.sleep(0.005)
        seen.append("noticed")
        return "never seen"

    @server.tool
    def ask_and_work(ctx: Context) -> str:
        """Wait for the user in a thread until it is cancelled."""
        seen.append("asking")
        try:
            return repr(ctx.wait(ctx.elicit("What would you like?", Order)))
        finally:
            seen.append("asked")

    @server.tool
    async def tick(ctx: Context, times: int) -> str:
        """Tell progress now and then.

        Args:
            times: how often
        """
        for step in range(times):
            await asyncio.sleep(40)
            await ctx.progress(step + 1)
        return "done"

    @server.tool
    def nap(seconds: float) -> str:
        """Sleep in a thread.

        Args:
            seconds: how long
        """
        time.sleep(seconds)
        return "awake"

    meeting = threading.Barrier(10)

    @server.tool
    def meet() -> str:
        """Wait in a thread until others have come."""
        meeting.wait(20)
        return "met"

    @server.tool(inline=True)
    def thread_name() -> str:
        """Say where this runs."""
        return threading.current_thread().name

    @server.tool
    async def block() -> str:
        """Block the loop until the watchdog has noticed."""
        deadline = time.monotonic() + 20
        while not noticed.is_set() and time.monotonic() < deadline:
            time.sleep(0.01)
        return "blocked"

    @server.tool
    async def events() -> list[str]:
        """Say what was seen."""
        return list(seen)


def add_knowing(server: Server[State]) -> None:
    @server.tool
    async def facts(ctx: Context[State]) -> dict[str, Any]:
        """Say what is known of the request."""
        return {
            "method": ctx.method,
            "revision": ctx.revision,
            "client": ctx.client_info.name if ctx.client_info else None,
            "capabilities": sorted(ctx.client_capabilities),
            "has id": ctx.request_id is not None,
            "started": ctx.state.started,
            "cancelled": ctx.is_cancelled,
        }

    @server.tool
    async def reach() -> list[str]:
        """Find the context from anywhere."""
        found = [Context.current().method]
        found.append(await asyncio.to_thread(helper))
        found.append(await asyncio.ensure_future(async_helper()))
        return found

    @server.tool
    def reach_in_thread() -> list[str]:
        """Find the context in a worker thread, and in a thread it starts."""
        found = [helper()]
        variables = contextvars.copy_context()
        thread = threading.Thread(target=lambda: found.append(variables.run(helper)))
        thread.start()
        thread.join()
        return found

    @server.tool(inline=True)
    def reach_inline() -> str:
        """Find the context on the loop."""
        return helper()

    @server.resource("context://here")
    def here() -> str:
        """Find the context in a reader."""
        return helper()

    @server.prompt
    def prompt_here() -> str:
        """Find the context in a prompt."""
        return helper()

    @server.tool
    async def caller(ctx: Context) -> str:
        """Return the caller that middleware found."""
        try:
            return ctx.get(Caller).name
        except LookupError as error:
            return str(error)


def helper() -> str:
    return Context.current().method


async def async_helper() -> str:
    return helper()

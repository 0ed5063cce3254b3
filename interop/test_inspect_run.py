"""A session with `accord inspect` in Chromium, by the keyboard: choose, run, answer, look."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from browser import Chromium
from inspector_pages import CONTROL, InspectorPage, inspected, open_inspector

SHOP: Final = '''
from typing import Annotated, Literal

import msgspec

from accord import Context, Server

server = Server("shop-desk")
READS = {"readOnlyHint": True}
Text = Annotated[str, msgspec.Meta(min_length=1)]


class Address(msgspec.Struct):
    street: Text
    zip: Annotated[str, msgspec.Meta(pattern=r"^\\d{5}$")]
    country: Literal["PE", "JP"]


class Item(msgspec.Struct):
    sku: Annotated[str, msgspec.Meta(pattern="^[A-Z]{2}-[0-9]{3}$")]
    count: Annotated[int, msgspec.Meta(ge=1, le=9)]


class Reason(msgspec.Struct):
    why: str


@server.tool(annotations=READS)
def place_order(
    items: Annotated[list[Item], msgspec.Meta(min_length=2)],
    address: Address,
    buyer: Text,
    giver: Text,
    greeting: Text,
    wrapping: Text,
    voucher: str = "",
) -> str:
    """Place an order of several items, to an address."""
    return f"{len(items)} items go to {address.zip}"


@server.tool
async def refund(ctx: Context, order: str) -> str:
    """Refund an order, after a question."""
    answer = await ctx.elicit(f"Why refund {order}?", Reason)
    return f"{order} is refunded: {answer.why}" if answer else "not refunded"


@server.tool(annotations=READS)
def clock() -> str:
    """Say the time."""
    return "noon"
'''
ONE: Final = '''
from accord import Server

server = Server("adder")


@server.tool(annotations={"readOnlyHint": True})
def add(first: int, second: int) -> int:
    """Add two integers."""
    return first + second
'''
LISTED: Final = '''
from accord import Server

server = Server("library")


@server.resource("desk://rules")
def rules() -> str:
    """The rules."""
    return "No swords."
'''
SCRIPTED: Final = "tests/inspector/scripted_server.py"
IN_VIEW: Final = (
    "((each) => { const box = each.getBoundingClientRect();"
    " return box.top >= 0 && box.bottom <= innerHeight && each.checkVisibility(); })"
)
Look = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("inspect")


@pytest.fixture
def look(in_browser: Any, tmp_path: Path) -> Look:
    """One browser for all tests: inspects a server there, whose code is given, or a command."""

    async def do(
        chromium: Chromium,
        source: str | list[str],
        at: Callable[[InspectorPage], Awaitable[None]],
        **facts: Any,
    ) -> None:
        if isinstance(source, str):
            (tmp_path / "server.py").write_text(source)
            source = [str(tmp_path / "server.py")]
        async with inspected(["--no-history", *source]) as url:
            page = await open_inspector(chromium, url, **facts)
            await page.sees("✓ connected", where="header")
            await at(page)
            assert await page.troubles() == []
            assert await page.faults() == []

    return lambda *args, **facts: in_browser(lambda chromium: do(chromium, *args, **facts))


async def choose(page: InspectorPage, name: str) -> None:
    """Choose an entry by the palette."""
    await page.press("k", modifiers=CONTROL)
    await page.until("document.querySelector('dialog[open]') !== null")
    await page.write(name)
    await page.sees(name, where="dialog li[aria-selected=true]")
    await page.press("Enter")
    # The focus is in the form, or on Run where there is no field.
    await page.until("document.activeElement.matches('main :is(.form *, [data-run])')")


async def has_focus(page: InspectorPage, role: str, name: str) -> None:
    """Wait until an element has the focus."""
    named = f"document.activeElement?.matches('input, textarea, select, {role}')"
    await page.until(f"{named} && document.activeElement.checkVisibility()")
    await page.has_focused(role, name)


def test_a_chosen_tool_has_the_focus_and_runs_by_keys_from_anywhere_in_its_pane(
    look: Look,
) -> None:
    async def at(page: InspectorPage) -> None:
        await choose(page, "refund")
        await has_focus(page, "textbox", "order")
        # A tool without a field has the focus on Run.
        await choose(page, "clock")
        await has_focus(page, "button", "Run")
        await page.use("link", "Skip to the pane")
        assert (await page.focused())[0] == "main"
        await page.press("Enter", modifiers=CONTROL)
        await page.sees("noon", where="main .result")
        await page.sees("Run again", where=".run-bar")
        await page.press("r")
        await page.until("document.querySelectorAll('main tbody tr').length === 2")

    look(SHOP, at)


def test_run_and_the_result_of_a_long_form_are_in_view(look: Look) -> None:
    async def at(page: InspectorPage) -> None:
        await choose(page, "place_order")
        run = "document.querySelector('[data-run]')"
        assert await page.page.run(f"return {IN_VIEW}({run})")
        assert await page.page.run(
            "const main = document.querySelector('main');"
            "return main.scrollHeight > main.clientHeight"
        )
        await page.use("button", "Example")
        await page.sees("Undo", where="main")
        await page.go_to("textbox", "sku")
        await page.press("Enter", modifiers=CONTROL)
        await page.sees("2 items go to", where="main .result")
        await page.sees("done", where=".run-bar")
        for part in ("[data-run]", ".run-bar .sign", ".result .block"):
            await page.until(f"{IN_VIEW}(document.querySelector({part!r}))")

    look(SHOP, at)


def test_a_question_of_a_call_is_answered_in_its_result(look: Look) -> None:
    async def at(page: InspectorPage) -> None:
        await choose(page, "refund")
        await has_focus(page, "textbox", "order")
        await page.write("A-7")
        await page.press("Enter", modifiers=CONTROL)
        await page.use("button", "Call it")
        await page.sees("Why refund A-7?", where=".call")
        await page.sees("1", where="nav .badge")
        await has_focus(page, "textbox", "why")
        # The pane of all questions has it, too; the tool in use is one chord away.
        await page.use("link", "Questions.*")
        await page.sees("Why refund A-7?", where="main [data-pane=questions]")
        await page.use("link", "Skip to the pane")
        await page.press("g")
        await page.press("t")
        await page.sees("Why refund A-7?", where=".call")
        await page.until("location.hash.endsWith('/tools/refund')")
        await page.fill("why", "it is broken")
        await page.press("Enter", modifiers=CONTROL)
        await page.sees("A-7 is refunded: it is broken", where="main .result")
        assert await page.page.run("return document.querySelector('nav .badge') === null")

    look(SHOP, at)


def test_each_wrong_field_has_one_line_after_run_was_pressed(look: Look) -> None:
    async def at(page: InspectorPage) -> None:
        await choose(page, "place_order")
        await page.press("Enter", modifiers=CONTROL)
        await page.sees("The arguments do not fit the schema (8 errors).", where=".run-bar")
        red = "document.querySelectorAll('main .error')"
        await page.until(f"{red}.length === 8")
        assert "/address" not in await page.page.text("main")

    look(SHOP, at)


def test_the_only_tool_is_open_with_the_focus_in_its_first_field(look: Look) -> None:
    async def at(page: InspectorPage) -> None:
        await page.until("location.hash === '#/t/0/tools/add'")
        await has_focus(page, "textbox", "first")
        await page.sees("adder", where="header .target")
        groups = await page.page.run(
            "return [...document.querySelectorAll('nav h2')].map((each) => each.innerText)"
        )
        assert groups == ["Use", "Look", "Judge", "Set up"]
        links = (await page.page.text(".nav-groups")).split("\n")
        assert {"Tools", "1", "Resources", "0", "Prompts"} <= set(links)
        lacking = await page.page.run(
            "return [...document.querySelectorAll('nav .is-lacking')].map((each) => each.hash)"
        )
        assert lacking == ["#/t/0/resources", "#/t/0/prompts", "#/t/0/tasks"]
        await page.use("link", "Resources.*")
        await page.sees("The server offers no resources.", where="main")
        # The list stays open for a person who goes back to it.
        await page.use("link", "Tools.*")
        await page.sees("second", where="main .form")
        await page.use("link", "Tools.*")
        await page.sees("Choose a tool to fill in its arguments", where="main")

    look(ONE, at)


def test_a_server_without_tools_opens_at_its_overview_and_read_is_in_the_card(look: Look) -> None:
    async def at(page: InspectorPage) -> None:
        await page.sees("not tested yet", where="main")
        assert (
            await page.page.run("return document.querySelectorAll('main button.primary').length")
            == 0
        )
        await choose(page, "desk://rules")
        await page.has_focused("button", "Read")
        await page.press("Enter")
        await page.sees("No swords.", where="main .result")

    look(LISTED, at)


def test_the_log_opens_at_the_first_breach_and_stays_as_it_was_left(look: Look) -> None:
    async def at(page: InspectorPage) -> None:
        assert await page.page.run("return document.querySelector('.log') === null")
        await choose(page, "wrong")
        await page.press("Enter", modifiers=CONTROL)
        await page.use("button", "Call it")
        await page.sees("1 failed", where=".log")
        await page.use("button", "Hide")
        await page.until("document.querySelector('.log') === null")
        await page.page.run("location.reload()")
        await page.sees("✓ connected", where="header")
        await page.sees("1 failed", where="header")
        assert await page.page.run("return document.querySelector('.log') === null")

    look(["--", sys.executable, "-I", "-S", SCRIPTED], at)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_pane_and_log_and_folds_the_header(look: Look, theme: str) -> None:
    async def at(page: InspectorPage) -> None:
        await page.until("location.hash === '#/t/0/tools/add'")
        assert await page.page.run("return document.querySelector('header').offsetHeight") < 60
        await page.use("button", "Log")
        await page.sees("tools/list", where=".log")
        await page.until(f"{IN_VIEW}(document.querySelector('[data-run]'))")
        await page.use("DisclosureTriangle", "Menu")
        await page.use("button", "Keys")
        await page.sees("Single letters are keys", where="dialog")

    look(ONE, at, width=390, theme=theme)

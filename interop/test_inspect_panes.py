"""Panes of the inspector in a real browser, by the keyboard: questions to exports."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from browser import browser
from inspector_pages import CONTROL, InspectorPage, inspected, open_inspector

EXAMPLES = Path(__file__).parents[1] / "examples"
# Texts that a page must not take for more than texts.
ODD_SERVER = """
import asyncio
from accord import Context, Server
from accord.server.tasks import TaskSettings
from accord.server.tasks import MemoryTaskStore

EVIL = "<img src=x onerror=alert(1)>\\u202e\\x1b[31m"
server = Server("odd", tasks=TaskSettings(store=MemoryTaskStore(), poll_interval=0.05))

@server.tool(task="optional")
async def wait(ctx: Context, seconds: float) -> str:
    if ctx.task is not None:
        await ctx.task.update(EVIL)
    await asyncio.sleep(seconds)
    return EVIL

@server.tool
async def visit(ctx: Context) -> str:
    done = await ctx.elicit_url(EVIL, "https://example.com/way/" + "x" * 200)
    return EVIL
"""
PANES = ("questions", "roots", "tasks", "raw", "check", "history", "exports")
FITS = "[document.documentElement, main].every((each) => each.scrollWidth <= each.clientWidth)"
Use = Callable[[Callable[[InspectorPage], Awaitable[Any]]], Any]


@pytest.fixture(scope="module")
def use(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Use]:
    """Use the one page of all tests; after each nothing may have gone wrong in it."""
    odd = tmp_path_factory.mktemp("odd") / "odd.py"
    odd.write_text(ODD_SERVER)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def start() -> InspectorPage:
            servers = [str(EXAMPLES / "everything.py"), str(odd)]
            words = [*servers, "--no-history", "--no-reload", "--revision", "2025-11-25"]
            url = await stack.enter_async_context(inspected(words))
            chromium = await stack.enter_async_context(browser())
            page = await open_inspector(chromium, url)
            await page.sees("connected", where="header")
            return page

        async def check(page: InspectorPage, at: Callable[[InspectorPage], Awaitable[Any]]) -> Any:
            found = await at(page)
            assert await page.troubles() == []
            return found

        try:
            page = runner.run(start())
            yield lambda at: runner.run(check(page, at))
        finally:
            runner.run(stack.aclose())


async def go(page: InspectorPage, pane: str, target: int = 0) -> None:
    """Go to a pane as a link does."""
    await page.page.run(f"location.hash = '#/t/{target}/{pane}'")
    name = pane.partition("/")[0]
    await page.page.wait_for(f"document.querySelector('#main .pane[data-pane={name}]') !== null")


async def act(page: InspectorPage, action: str, **params: Any) -> Any:
    """Do what another pane does, without going there."""
    asked = json.dumps({"target": 0, **params})
    return await page.page.run(
        f"const {{ call }} = await import('/api.js'); return call({action!r}, {asked})"
    )


async def run_tool(page: InspectorPage, name: str, /, **arguments: Any) -> str:
    """Call a tool; returns the id of the call."""
    given = {"name": name, "arguments": json.dumps(arguments), "confirmed": True}
    return str((await act(page, "calls.tool", **given))["id"])


async def answer_of(page: InspectorPage, id: str) -> Any:
    """Wait for the end of a call; returns its result."""
    while (found := await act(page, "calls.get", id=id))["state"] == "running":
        await asyncio.sleep(0.02)
    return json.loads(found["response"])


def test_a_form_of_the_server_is_filled_in_after_its_errors_were_shown(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        id = await run_tool(page, "book", city="Lima")
        await page.sees("The server asks you for information", where="#live")
        await go(page, "questions")
        await page.sees("Which seat to Lima?")
        await page.use("button", "Accept and send")
        await page.sees("the answer does not fit the form")
        await page.has_focused("button", "Accept and send")
        await page.fill("row.*", "12")
        await page.use("button", "Accept and send")
        await page.sees("No question waits")
        assert (await page.focused())[0] == "main"
        text = (await answer_of(page, id))["content"][0]["text"]
        assert text == "Booked Lima, row 12, window."

    use(at)


def test_a_question_for_a_model_is_answered_by_a_person_or_declined(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        await go(page, "questions")
        first = await run_tool(page, "advise", city="Nara")
        await page.sees("One sentence about Nara.")
        await page.fill("Text of the model", "Deer <b>everywhere</b>.")
        await page.use("button", "Send the answer")
        found = await answer_of(page, first)
        assert found["content"][0]["text"] == "Deer <b>everywhere</b>."
        second = await run_tool(page, "advise", city="Kyoto")
        await page.sees("One sentence about Kyoto.")
        await page.use("button", "Decline")
        assert (await answer_of(page, second)).get("isError") is not False

    use(at)


def test_roots_are_edited_and_the_server_gets_them(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        await go(page, "roots")
        await page.use("button", "Add a root")
        await page.page.wait_for("document.activeElement.id === 'root-uri-0'")
        await page.write("https://example.com")
        await page.use("button", "Save and notify the server")
        await page.sees("A root begins with file://")
        await page.page.wait_for("document.activeElement.id === 'root-uri-0'")
        await page.write("file:///luggage")
        await page.fill("Name of root 1", "suitcase")
        await page.use("button", "Save and notify the server")
        await page.sees("The roots are saved", where="#live")
        await page.has_focused("button", "Save and notify the server")
        id = await run_tool(page, "luggage")
        assert (await answer_of(page, id))["content"][0]["text"] == '["suitcase"]'

    use(at)


def test_a_faulty_message_is_sent_and_the_answer_is_shown(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        await go(page, "raw")
        await page.use("button", "Open a connection")
        await page.sees("Open. Revision")
        assert (await page.focused())[0] == "button"
        await page.go_to("combobox", "Template")
        await page.press("ArrowDown")
        await page.sees("The server answers with the error -32601")
        await page.go_to("textbox", "Text")
        await page.press("Enter", modifiers=CONTROL)
        await page.sees("method 'accord/unknown' does not exist", where=".pane .rows")
        await page.use("button", "Close the connection")
        await page.sees("Not open.")

    use(at)


def test_a_check_of_some_requirements_is_run_and_filtered(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        await go(page, "check")
        await page.fill("Only these requirements", "ping.response")
        await page.use("checkbox", "2025-06-18", " ")
        await page.use("button", "Start the check")
        await page.sees("score")
        await page.fill("Text", "prompt", role="searchbox")
        await page.sees("1 of ", where=".pane [role=status]")
        await page.use("DisclosureTriangle", ".*ping.response.prompt.*")
        await page.sees("A ping is answered promptly.", where=".pane .rows .clause")
        assert await page.faults() == []

    use(at)


def test_a_kept_call_is_made_again_and_compared(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        for name in ("Ann", "Bob"):
            await answer_of(page, await run_tool(page, "greet", name=name))
        await go(page, "history")
        await page.use("button", "tool greet")
        await page.sees('"Bob"', where=".focus-place")
        await page.use("button", "Replay")
        await page.sees("Welcome to the travel desk, Bob.", where=".result")
        await page.use("button", "Compare with the kept result")
        await page.sees("The results are the same.")
        await page.fill("Note", "twice the same")
        await page.press("Enter")
        await page.sees("twice the same", where=".pane table")
        await page.use("button", "Close")
        for name, count in (("Ann", 1), ("Bob", 2)):
            await page.fill("Text", name, role="searchbox")
            await page.page.wait_for(f"document.querySelectorAll('tbody tr').length === {count}")
            await page.use("checkbox", "Choose greet .* to compare", " ")
        await page.use("button", "Compare the two chosen")
        await page.sees("/content/0/text", where=".pane table")
        await page.sees("≠ changed", where=".pane table")

    use(at)


def test_tasks_are_followed_and_cancelled(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        for seconds in (0, 600):
            given = {"name": "wait", "arguments": json.dumps({"seconds": seconds})}
            await act(page, "calls.tool", **given, target=1, as_task=True, confirmed=True)
        await go(page, "tasks", 1)
        await page.sees("completed", where=".pane table")
        await page.sees("<img src=x onerror=alert(1)>\\u202e\\x1b[31m", where=".pane table")
        await page.use("button", "Cancel")
        await page.sees("cancelled", where=".pane table")
        await page.has_focused("button", "Cancel")
        await page.page.run("[...document.querySelectorAll('.pane td button')].at(-2).focus()")
        await page.press("Enter")
        await page.sees("<img src=x onerror=alert(1)>\\u202e\\x1b[31m", where=".result")

    use(at)


def test_an_address_is_shown_before_it_is_opened(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        given = {"name": "visit", "arguments": "{}", "confirmed": True}
        await act(page, "calls.tool", target=1, **given)
        await go(page, "questions", 1)
        await page.sees("https://example.com/way/" + "x" * 200)
        await page.go_to("link", "Open the address")
        opened = "document.activeElement"
        way = await page.page.run(f"return [{opened}.href, {opened}.target, {opened}.rel]")
        assert way == ["https://example.com/way/" + "x" * 200, "_blank", "noopener noreferrer"]
        await page.use("button", "Decline")
        await page.sees("No question waits")

    use(at)


def test_exports_are_shown_and_a_recording_is_opened(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        await go(page, "exports")
        await page.go_to("combobox", "Host")
        await page.page.wait_for("document.querySelectorAll('#main option').length > 5")
        await page.press("ArrowDown")
        await page.sees("everything.py", where="#main pre")
        await page.use("button", "Write the text")
        await page.sees("Save as breaches.md")
        found = await page.page.send(
            "Runtime.evaluate", expression="document.querySelector('[type=file]')"
        )
        trace = EXAMPLES / "traces/2025-06-18-faulty.jsonl"
        await page.page.send(
            "DOM.setFileInputFiles", files=[str(trace)], objectId=found["result"]["objectId"]
        )
        await page.page.wait_for("location.hash.startsWith('#/t/2/')")
        await page.sees("recording", where="header")

    use(at)


def test_no_pane_needs_scrolling_sideways_or_bars_a_screen_reader(use: Use) -> None:
    async def at(page: InspectorPage) -> None:
        await run_tool(page, "book", city="Lima")
        await run_tool(page, "advise", city="Lima")
        await page.page.send(
            "Emulation.setDeviceMetricsOverride",
            width=320,
            height=700,
            deviceScaleFactor=1,
            mobile=False,
        )
        found = {}
        for pane in PANES:
            await go(page, pane)
            found[pane] = (await page.page.run(f"return {FITS}"), await page.faults())
        assert found == dict.fromkeys(PANES, (True, []))

    use(at)

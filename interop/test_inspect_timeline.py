"""The timeline of the inspector, and standing answers, in a real browser by the keyboard."""

import asyncio
import json
from pathlib import Path
from typing import Any

from browser import Chromium
from inspector_pages import InspectorPage, inspected, open_inspector

EXAMPLES = Path(__file__).parents[1] / "examples"
FITS = "[document.documentElement, main].every((each) => each.scrollWidth <= each.clientWidth)"
LANES = "[...document.querySelectorAll('.lanes .lane:not(.lane-columns)')]"
CHOSEN = "document.querySelector('.lane[aria-selected=true]')"


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


async def answer_of(page: InspectorPage, id: str) -> str:
    """Wait for the end of a call; returns the text of its result."""
    while (found := await act(page, "calls.get", id=id))["state"] == "running":
        await asyncio.sleep(0.02)
    return str(json.loads(found["response"])["content"][0]["text"])


async def use_lanes(page: InspectorPage) -> None:
    """Move between lanes, open a message and zoom, by keys alone."""
    await page.press("g")
    await page.press("i")
    await page.sees("tools/call", where=".lanes")
    await page.until(f"{LANES}.some((each) => each.innerText.includes('open'))")
    await page.until("document.querySelector('.lane-mark.is-question') !== null")
    await page.go_to("grid", "Requests, .* lanes")
    await page.press("Home")
    await page.until(f"{CHOSEN}?.innerText.includes('initialize')")
    await page.press("ArrowDown")
    await page.until(f"{CHOSEN} === {LANES}[1]")
    await page.press("End")
    await page.until(f"{LANES}.indexOf({CHOSEN}) > 1")
    at = await page.page.run(f"return {LANES}.indexOf({CHOSEN})")
    # After the call came its question, and perhaps a list that the page asked for.
    while not await page.page.run(f"return {LANES}[{at}].innerText.includes('tools/call')"):
        at -= 1
        await page.press("ArrowUp")
        await page.until(f"{CHOSEN} === {LANES}[{at}]")
    await page.press("+")
    await page.sees("From ", where="#live")
    await page.press("0")
    await page.press("Enter")
    await page.sees("tools/call", where=".log-detail")
    assert (await page.focused())[0] == "grid"


async def keep_an_answer(page: InspectorPage) -> None:
    """Answer a question once for all, see it used, and end it."""
    await page.press("g")
    await page.press("q")
    await page.sees("Which seat to Lima?")
    await page.fill("row.*", "12")
    await page.use("checkbox", "Answer like this from now on", " ")
    await page.use("button", "Accept and send")
    await page.sees("Standing answers")
    id = await run_tool(page, "book", city="Oslo")
    assert await answer_of(page, id) == "Booked Oslo, row 12, window."
    await page.sees("used 1 time")
    await page.sees("by rule", where=".log-grid")
    assert await page.faults() == []
    await page.use("button", "End it: .*")
    await page.lacks("Standing answers")
    assert (await page.focused())[0] == "main"


def test_lanes_and_standing_answers_work_by_the_keyboard(in_browser: Any) -> None:
    async def at(chromium: Chromium) -> None:
        words = [str(EXAMPLES / "everything.py"), "--no-history", "--no-reload"]
        words += ["--revision", "2025-11-25"]
        async with inspected(words) as url:
            page = await open_inspector(chromium, url)
            await page.sees("connected", where="header")
            await run_tool(page, "book", city="Lima")
            await page.sees("The server asks you for information", where="#live")
            await use_lanes(page)
            assert await page.faults() == []
            await keep_an_answer(page)
            assert await page.troubles() == []
            narrow = await open_inspector(chromium, url, width=320, theme="dark")
            await narrow.page.run("location.hash = '#/t/0/timeline'")
            await narrow.sees("tools/call", where=".lanes")
            assert await narrow.page.run(f"return {FITS}")
            assert await narrow.faults() == []
            assert await narrow.troubles() == []

    in_browser(at)

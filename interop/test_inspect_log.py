"""The page of the inspector in a real browser: the log, the tools, and texts that attack it."""

import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from browser import Chromium
from inspector_pages import CONTROL, InspectorPage, inspected, open_inspector

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
CALLS = 4000
# Rows that may be drawn at once, whatever the log holds.
DRAWN = 100
Look = Callable[[Callable[[Chromium], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def look(in_browser: Any) -> Look:
    return in_browser


def long_trace(path: Path) -> None:
    """Write a recording of many calls, after one that breaks rules."""
    lines = (EXAMPLES / "traces/2025-06-18-faulty.jsonl").read_text().splitlines()
    for number in range(CALLS):
        call = {"name": "forecast", "arguments": {"city": f"city-{number}"}}
        request = {"jsonrpc": "2.0", "id": f"n{number}", "method": "tools/call", "params": call}
        result = {"content": [{"type": "text", "text": f"sunny in {number}"}]}
        answer = {"jsonrpc": "2.0", "id": f"n{number}", "result": result}
        for sender, message in (("client", request), ("server", answer)):
            row = {"t": 20 + number, "from": sender, "transport": "stdio", "message": message}
            lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n")


async def drawn_rows(page: InspectorPage) -> int:
    return int(await page.page.run("return document.querySelectorAll('.log-row[id]').length"))


async def chosen_row(page: InspectorPage) -> str:
    found = "document.querySelector('.log-row[aria-selected=true] [role=gridcell]')"
    await page.page.wait_for(f"{found} !== null")
    return str(await page.page.run(f"return {found}.innerText"))


async def focus_log(page: InspectorPage) -> None:
    await page.press("g")
    await page.press("l")
    await page.page.wait_for("document.activeElement.getAttribute('role') === 'grid'")


def test_a_long_log_is_read_by_keys_and_only_its_visible_part_is_drawn(
    look: Look, tmp_path: Path
) -> None:
    long_trace(tmp_path / "long.jsonl")

    async def use(chromium: Chromium) -> None:
        async with inspected(["--trace", str(tmp_path / "long.jsonl")]) as url:
            page = await open_inspector(chromium, url)
            await page.sees("sunny in 3999", where=".log")
            await focus_log(page)
            await page.press("Home")
            assert await chosen_row(page) == "1"
            await page.sees("initialize", where=".log-grid")
            await page.press("j")
            await page.press("ArrowDown")
            assert await chosen_row(page) == "3"
            await page.press("Enter")
            await page.sees("Message 3", where=".log-detail")
            await page.press("k")
            await page.sees("Message 2", where=".log-detail")
            await page.press("Escape")
            await page.page.wait_for("document.querySelector('.log-detail') === null")
            await page.press("End")
            assert int(await chosen_row(page)) > 2 * CALLS
            assert await drawn_rows(page) < DRAWN
            assert await page.troubles() == []

    look(use)


def test_a_breach_shows_its_clause_and_its_place_in_the_message(look: Look) -> None:
    trace = EXAMPLES / "traces/2025-06-18-faulty.jsonl"

    async def use(chromium: Chromium) -> None:
        async with inspected(["--trace", str(trace)]) as url:
            page = await open_inspector(chromium, url)
            await page.sees("resources/read", where=".log")
            await page.use("checkbox", "only breaches", " ")
            await page.page.wait_for(
                "document.querySelector('.log-grid').getAttribute('aria-rowcount') < 12"
            )
            await page.fill("Filter by text", "weather://stations", role="searchbox")
            await page.page.wait_for(
                "document.querySelector('.log-grid').getAttribute('aria-rowcount') === '2'"
            )
            await page.go_to("grid", "Messages, .*")
            await page.press("Home")
            await page.press("Enter")
            await page.sees("resources.contents.text-or-blob", where=".log-detail")
            await page.sees("To mend", where=".log-detail")
            await page.sees("here", where=".json-marked")
            assert await page.faults() == []
            assert await page.troubles() == []

    look(use)


def test_a_tool_is_found_filled_in_and_called_without_a_mouse(look: Look) -> None:
    async def use(chromium: Chromium) -> None:
        async with inspected([str(EXAMPLES / "everything.py"), "--no-history"]) as url:
            page = await open_inspector(chromium, url)
            await page.sees("connected", where="header")
            await page.press("k", modifiers=CONTROL)
            await page.page.wait_for("document.querySelector('dialog[open]') !== null")
            await page.write("weather")
            await page.sees("tool", where="dialog")
            await page.press("Enter")
            await page.sees("Forecast the weather", where="#main .panel")
            await page.fill("city.*", "Lima")
            await page.press("Enter", modifiers=CONTROL)
            await page.sees("done", where="#main .result")
            await page.use("button", "Messages of this call")
            await page.sees("messages of call", where=".log")
            await page.page.wait_for(
                "document.querySelector('.log-grid').getAttribute('aria-rowcount') === '3'"
            )
            assert await page.faults() == []
            assert await page.troubles() == []

    look(use)


def test_texts_of_a_server_stay_texts(look: Look) -> None:
    async def use(chromium: Chromium) -> None:
        words = ["--no-history", "--", sys.executable, str(HERE / "hostile_peer.py")]
        async with inspected(words) as url:
            page = await open_inspector(chromium, url, theme="dark")
            await page.sees("\\u202egnp.exe\\u202c", where="#main")
            await page.page.run("location.hash = '#/t/0/tools/plain'")
            await page.sees("\\x1b[31mred", where="#main .panel")
            await page.use("button", "Run")
            await page.sees("done", where="#main .result")
            await page.sees("<script>alert(1)</script>", where="#main .result")
            await page.sees("The data are not base64.", where="#main .result")
            for pane in ("overview", "prompts", "resources"):
                await page.page.run(f"location.hash = '#/t/0/{pane}'")
                await page.sees("<img src=x", where="#main")
            await page.page.run("location.hash = '#/t/0/tools'")
            await page.sees("<img src=x", where="#main")
            state = await page.page.run(
                "return [document.title, document.querySelectorAll('#app script, #app iframe, "
                "#app [onerror], #app a[href^=javascript]').length,"
                "[...document.images].every((each) => each.src.startsWith('blob:'))]"
            )
            assert state[0].endswith("accord inspect")
            assert state[1:] == [0, True]
            assert await page.troubles() == []

    look(use)


def test_a_small_screen_needs_no_scrolling_sideways(look: Look) -> None:
    trace = EXAMPLES / "traces/2025-06-18-faulty.jsonl"

    async def use(chromium: Chromium) -> None:
        async with inspected(["--trace", str(trace)]) as url:
            page = await open_inspector(chromium, url, width=320, theme="dark")
            await page.sees("Rules of the protocol")
            assert await is_narrow_enough(page)
            assert await page.faults() == []
            await page.use("button", "Log")
            await page.sees("roots/list", where=".log")
            assert await is_narrow_enough(page)
            # The log is a drawer: what is above it stays in view.
            assert await page.page.run(
                "const [pane, log] = ['main', '.log'].map((each) =>"
                " document.querySelector(each).getBoundingClientRect());"
                "return pane.height > 300 && pane.bottom <= log.top"
            )
            assert await page.faults() == []

    look(use)


async def is_narrow_enough(page: InspectorPage) -> bool:
    return bool(await page.page.run("return document.documentElement.scrollWidth <= innerWidth"))

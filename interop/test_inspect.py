"""`accord inspect` in Chromium, used by the keyboard alone: every pane, every revision."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from browser import NODE
from inspector_pages import InspectorPage, inspected, open_inspector

from accord.protocol.revisions import REVISIONS

EVERYTHING: Final = "examples/everything.py"
ELICITS: Final = ("2025-06-18", "2025-11-25", "2026-07-28")
HAS_HINTS: Final = ("2025-03-26", *ELICITS)
PANES: Final = (
    "overview",
    "tools/weather",
    "resources",
    "prompts/plan",
    "tasks",
    "questions",
    "roots",
    "notifications",
    "raw",
    "check",
    "authorization",
    "history",
    "exports",
)
Look = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("inspect")


@pytest.fixture
def look(in_browser: Any) -> Look:
    """One browser for all tests: opens `accord inspect` there and does something."""

    async def do(
        chromium: Any,
        words: list[str],
        at: Callable[[InspectorPage], Awaitable[Any]],
        **facts: Any,
    ) -> Any:
        async with inspected(["--no-history", *words]) as url:
            page = await open_inspector(chromium, url, **facts)
            await page.sees("✓ connected")
            found = await at(page)
            assert await page.troubles() == []
            return found

    return lambda *args, **facts: in_browser(lambda chromium: do(chromium, *args, **facts))


async def open_pane(page: InspectorPage, name: str) -> None:
    """Go to a pane by the navigation."""
    await page.use("link", f"{name}.*")
    await page.until(f"document.querySelector('main h1')?.innerText === {name!r}")


async def call_tool(
    page: InspectorPage, name: str, /, *, agrees: bool = True, **arguments: str
) -> None:
    """Open a tool, fill in its form and run it; agree that it may change things."""
    await open_pane(page, "Tools")
    await page.use("link", f"{name}\\b.*")
    await page.until(f"document.querySelector('main .chooser h2')?.innerText === {name!r}")
    await page.go_to("button", "Clear")
    for field, text in arguments.items():
        await page.fill(field, text)
    await page.use("button", "Run|Run again")
    if agrees:
        await page.use("button", "Call it")


async def answer_question(page: InspectorPage, button: str, **answers: str) -> None:
    """Answer the question that waits."""
    await open_pane(page, "Questions")
    for field, text in answers.items():
        await page.fill(field, text)
    await page.use("button", button)


async def use_tools(page: InspectorPage, revision: str) -> None:
    # Only since 2025-03-26 a tool can say that it changes nothing.
    await call_tool(page, "weather", city="Lima", agrees=revision not in HAS_HINTS)
    await page.sees("celsius", where="main")
    await call_tool(page, "boarding_pass", name="Ada")
    await page.until("document.querySelector('main img')?.naturalWidth > 0")
    if revision in HAS_HINTS:
        await page.until("document.querySelector('main audio') !== null")
    await call_tool(page, "fly", city="Lima")
    await page.sees("Landed in Lima.", where="main")
    await call_tool(page, "queue")
    await page.use("button", "Cancel")
    await page.sees("cancelled", where="main")


async def answer_questions(page: InspectorPage, revision: str) -> None:
    await call_tool(page, "advise", city="Lima")
    await answer_question(page, "Send the answer", **{"Text of the model": "Bring a coat."})
    await call_tool_again(page, "advise")
    await page.sees("Bring a coat.", where="main")
    if revision in ELICITS:
        await call_tool(page, "book", city="Lima")
        await answer_question(page, "Accept and send", row="12")
        await call_tool_again(page, "book")
        await page.sees("row 12, window", where="main")


async def call_tool_again(page: InspectorPage, name: str) -> None:
    """Return to the tool that was called."""
    await open_pane(page, "Tools")
    await page.use("link", f"{name}\\b.*")


async def use_resources(page: InspectorPage, revision: str) -> None:
    await open_pane(page, "Resources")
    await page.use("link", "desk://rules.*")
    await page.use("button", "Read")
    await page.sees("No swords.", where="main")
    await page.use("link", "desk://departures.*")
    await page.use("button", "Subscribe")
    await page.sees("updated", where="main")
    await page.use("tab", "Resources")
    await page.press("ArrowRight")
    await page.use("link", "city://.*")
    await page.fill("country", "Peru")
    await page.fill("city", "Lima")
    await page.use("button", "Read")
    await page.sees("Lima is in Peru.", where="main")


async def use_prompts(page: InspectorPage, revision: str) -> None:
    await open_pane(page, "Prompts")
    await page.use("link", "plan.*")
    await page.fill("country", "Peru")
    await page.fill("city", "Lima")
    await page.use("button", "Get")
    await page.sees("Plan 3 days in Lima, Peru.", where="main")


async def change_roots(page: InspectorPage, revision: str) -> None:
    await open_pane(page, "Roots")
    await page.use("button", "Add a root")
    await page.fill("URI.*", "file:///home/ada/trips")
    await page.fill("Name.*", "trips")
    await page.use("button", "Save and notify the server")
    await call_tool(page, "luggage")
    await page.sees("trips", where="main")


async def read_the_log(page: InspectorPage, revision: str) -> None:
    if await page.page.run("return document.querySelector('.log') === null"):
        await page.use("button", "Log")
    await page.fill("Filter by text", "Lima")
    await asyncio.sleep(1)  # clock: the page takes the text over after a rest, which moves the rows
    await page.go_to("grid", "Messages.*")
    await page.press("End")
    await page.press("Enter")
    await page.sees("jsonrpc")


STEPS: Final = (
    use_tools,
    answer_questions,
    use_resources,
    use_prompts,
    change_roots,
    read_the_log,
)


async def walk(page: InspectorPage, revision: str) -> None:
    await page.sees(revision)
    for step in STEPS:
        await step(page, revision)


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_feature_is_used_by_the_keyboard(look: Look, revision: str) -> None:
    look([EVERYTHING, "--revision", revision], lambda page: walk(page, revision))


# -- servers of others

NPM: Final = "interop/node_modules/@modelcontextprotocol"


async def use_everything(page: InspectorPage) -> None:
    """Use the official server of examples, in JavaScript."""
    await call_tool(page, "get-sum", a="20", b="22", agrees=False)
    await page.sees("The sum of 20 and 22 is 42.", where="main")
    # It changes something: the page asks.
    await call_tool(page, "trigger-sampling-request", prompt="hello")
    await answer_question(page, "Send the answer", **{"Text of the model": "good day"})
    await call_tool_again(page, "trigger-sampling-request")
    await page.sees("good day", where="main")
    await open_pane(page, "Prompts")
    await page.use("link", "args-prompt.*")
    await page.fill("city", "Lima")
    await page.use("button", "Get")
    await page.sees("Lima", where="main")


async def use_time(page: InspectorPage) -> None:
    """Use a server of the official Python SDK."""
    await call_tool(page, "get_current_time", timezone="America/Lima", agrees=False)
    await page.sees("America/Lima", where="main")
    await call_tool(page, "get_current_time", timezone="nowhere", agrees=False)
    await page.sees("nowhere", where="main")
    await use_raw_message(page)


async def use_raw_message(page: InspectorPage) -> None:
    await open_pane(page, "Raw messages")
    await page.use("button", "Open a connection")
    await page.sees("Open.", where="main")
    await page.fill("Text", '{"jsonrpc": "2.0", "id": 77, "method": "no/such"}')
    await page.use("button", "Send")
    # The newest revision wants more in each request, which is the first thing to be refused.
    await page.sees("-32602", where="main")


async def use_sqlite(page: InspectorPage) -> None:
    """Use a server of the first generation of the official Python SDK."""
    await call_tool(page, "create_table", query="create table trips (city text)")
    await page.sees("created", where="main")
    await call_tool(page, "write_query", query="insert into trips values ('Lima')")
    await page.sees("affected_rows", where="main")
    await open_pane(page, "History")
    await page.sees("create_table", where="main")


FOREIGN: Final[dict[str, tuple[list[str], Any]]] = {
    "everything": ([NODE, f"{NPM}/server-everything/dist/index.js", "stdio"], use_everything),
    "time": ([".venv-interop/bin/mcp-server-time"], use_time),
    "sqlite": (
        [".venv-interop/older-servers/bin/mcp-server-sqlite", "--db-path", "{folder}/data.db"],
        use_sqlite,
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_servers_of_others_are_used_by_the_keyboard(look: Look, name: str, tmp_path: Path) -> None:
    command, use = FOREIGN[name]
    look(["--", *(word.format(folder=tmp_path) for word in command)], use)


# -- people with other eyes and other screens


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (400, "dark")])
def test_no_pane_has_a_serious_accessibility_fault(look: Look, width: int, theme: str) -> None:
    async def examine(page: InspectorPage) -> dict[str, list[str]]:
        for tool in ("weather", "advise"):
            await page.page.run(
                "const { call } = await import('/api.js'); await call('calls.tool',"
                f"{{ target: 0, name: '{tool}', arguments: '{{\"city\":\"Lima\"}}',"
                " confirmed: true });"
            )
        found = {}
        for pane in PANES:
            await page.page.run(f"location.hash = {'#/t/0/' + pane!r}")
            await page.until(
                "document.querySelector('main')?.innerText.includes('Loading.') === false"
            )
            assert await page.page.run(
                "return document.documentElement.scrollWidth <= innerWidth"
            ), f"{pane} is wider than the page"
            found[pane] = await page.faults()
        return {pane: faults for pane, faults in found.items() if faults}

    assert look([EVERYTHING], examine, width=width, theme=theme) == {}

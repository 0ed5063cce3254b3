"""`accord inspect` in Chromium with files of the person: code that is edited, and recordings."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from browser import Chromium
from inspector_pages import InspectorPage, inspected, open_inspector

ONE: Final = '''
from accord import Server

server = Server("desk")


@server.tool
def greet(name: str, times: int = 1) -> str:
    """Greet a person."""
    return f"hello {name}" * times
'''
TWO: Final = (
    ONE.replace("times: int = 1", "times: int = 1, loud: bool = False")
    + '''

@server.tool
def leave(name: str) -> str:
    """Say goodbye."""
    return name
'''
)
FAULTY: Final = Path(__file__).parents[1] / "examples/traces/2025-06-18-faulty.jsonl"
Look = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("inspect")


async def _edit_while_open(page: InspectorPage, file: Path) -> None:
    await page.page.run("location.hash = '#/t/0/tools/greet'")
    await page.go_to("button", "Clear")
    await page.fill("name.*", "Ada")
    await page.use("button", "Run|Run again")
    await page.use("button", "Call it")
    await page.sees("hello Ada", where="main")
    await page.fill("name.*", "Grace")
    name = "document.activeElement.value"

    file.write_text(TWO)
    await page.sees("added leave", where="main")
    await page.sees("loud", where="main")
    assert await page.page.run(f"return {name}") == "Grace"
    assert (await page.focused())[1] == "name"
    await page.sees("hello Ada", where="main")

    file.write_text(TWO + "\ndef broken(:\n")
    await page.sees("server.py:18: invalid syntax", where="main")
    await page.sees("the last version goes on", where="main")
    await page.use("button", "Run again")
    await page.sees("hello Grace", where="main")

    file.write_text("import no_such_module\n" + TWO)
    await page.sees("the module no_such_module is not installed", where="main")
    file.write_text(TWO.replace("hello", "salve"))
    await page.sees("server.py changed; restarted", where="main")
    await page.sees("✓ connected")
    await page.use("button", "Run again")
    await page.sees("salve Grace", where="main")


@pytest.fixture
def look(in_browser: Any) -> Look:
    """One browser for all tests: opens `accord inspect` there and does something."""

    async def do(
        chromium: Chromium, words: list[str], at: Callable[[InspectorPage], Awaitable[None]]
    ) -> None:
        async with inspected(["--no-history", *words]) as url:
            page = await open_inspector(chromium, url)
            await at(page)
            assert await page.troubles() == []

    return lambda words, at: in_browser(lambda chromium: do(chromium, words, at))


def test_a_server_is_edited_while_its_form_is_half_filled_in(look: Look, tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(ONE)

    async def at(page: InspectorPage) -> None:
        await page.sees("\u2713 connected")
        await _edit_while_open(page, file)

    look([str(file)], at)


def test_a_page_without_a_server_opens_a_recording(look: Look) -> None:
    async def at(page: InspectorPage) -> None:
        await page.sees("No server yet")
        await page.until("document.querySelector('[type=file]') !== null")
        assert await page.faults() == []
        field = await page.page.send(
            "Runtime.evaluate", expression="document.querySelector('[type=file]')"
        )
        await page.page.send(
            "DOM.setFileInputFiles", files=[str(FAULTY)], objectId=field["result"]["objectId"]
        )
        await page.sees(FAULTY.name, where="header")
        await page.sees("139 rules kept, 9 broken (53 not tested yet)", where="main")

    look([], at)


def test_a_file_that_is_not_a_recording_says_what_to_do(look: Look, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("buy bread\n")

    async def at(page: InspectorPage) -> None:
        await page.sees("line 1: not JSON", where="main")
        await page.sees("accord watch --record", where="main")
        await page.lacks("no connection", where="main")

    look(["--trace", str(file)], at)

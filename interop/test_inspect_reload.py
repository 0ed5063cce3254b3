"""`accord inspect` in Chromium while the code of the server is edited."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from browser import browser
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


def test_a_server_is_edited_while_its_form_is_half_filled_in(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text(ONE)

    async def look() -> None:
        async with inspected(["--no-history", str(file)]) as url, browser() as chromium:
            page = await open_inspector(chromium, url)
            await page.sees("✓ connected")
            await _edit_while_open(page, file)
            assert await page.troubles() == []

    asyncio.run(look())

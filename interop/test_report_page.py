"""The page of a report in a real browser: it filters, unfolds, searches, and requests nothing."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Page
from report_pages import Look, one_browser

TRACES = Path(__file__).parents[1] / "examples" / "traces"
FAULTY = TRACES / "2025-06-18-faulty.jsonl"
SHOWN = "[...document.querySelectorAll('.result')].filter((each) => each.checkVisibility())"
HOSTILE = "</pre><script>troubles.push('ran')</script><img src=x onerror=\"troubles.push('ran')\">"


def made(recording: Path, page: Path) -> str:
    """Judge a recording and write the report as a page; returns its address."""
    command = [sys.executable, "-m", "accord.cli.main", "check", "trace", recording]
    done = subprocess.run(
        [*command, "--output", page], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stderr
    return page.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return made(FAULTY, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def look() -> Iterator[Look]:
    """Open a page in the one browser of all tests and do something there."""
    with one_browser() as found:
        yield found


async def choose(page: Page, name: str, value: str) -> None:
    await page.run(
        f"const field = document.querySelector('.filters').elements[{json.dumps(name)}];"
        f"field.value = {json.dumps(value)};"
        "field.dispatchEvent(new Event('input', { bubbles: true }))"
    )


async def shown(page: Page, fact: str) -> list[str]:
    """Return a fact of every result that can be seen, each once."""
    return list(await page.run(f"return [...new Set({SHOWN}.map((each) => {fact}))].sort()"))


def test_all_results_are_there_and_the_broken_ones_come_first(look: Look, address: str) -> None:
    async def at(page: Page) -> None:
        everything = await page.run("return document.querySelectorAll('.result').length")
        assert set(await shown(page, "each.dataset.verdict")) == {"fail", "warn"}
        await page.click("#unfold")
        assert await page.run(f"return {SHOWN}.length") == everything > 100
        assert await page.text(".shown") == f"{everything} of {everything} requirements shown"
        assert (await page.text("main > section h2")).startswith("Failed")
        assert str(FAULTY) in await page.text("h1")

    look(address, at)


@pytest.mark.parametrize("name", ["area", "level", "party"])
def test_a_filter_leaves_what_fits(look: Look, address: str, name: str) -> None:
    async def at(page: Page) -> None:
        values = await shown(page, f"each.dataset.{name}")
        assert len(values) > 1
        for value in values:
            await choose(page, name, value)
            assert await shown(page, f"each.dataset.{name}") == [value]
        await page.click("button[type=reset]")
        await page.wait_for(f"{SHOWN}.length === document.querySelectorAll('.result').length")

    look(address, at)


def test_verdicts_are_switched_off_one_by_one(look: Look, address: str) -> None:
    async def at(page: Page) -> None:
        await page.click("#unfold")
        before = await shown(page, "each.dataset.verdict")
        assert {"fail", "pass"} <= set(before)
        await page.click("input[value=pass]")
        assert await shown(page, "each.dataset.verdict") == [e for e in before if e != "pass"]
        assert not await page.run(
            "return document.querySelector('#all-pass').parentElement.checkVisibility()"
        )

    look(address, at)


def test_the_search_finds_words_in_any_order_and_says_when_nothing_fits(
    look: Look, address: str
) -> None:
    async def at(page: Page) -> None:
        await page.click("input[type=search]")
        await page.send("Input.insertText", text="token PROGRESS grows")
        assert await shown(page, "each.id") == ["progress.value.increases"]
        await page.send("Input.insertText", text=" no such words")
        assert await shown(page, "each.id") == []
        assert await page.text(".shown") == await page.run(
            "return `0 of ${document.querySelectorAll('.result').length} requirements shown`"
        )
        assert await page.text("#unmatched") == "No requirement fits these filters."

    look(address, at)


def test_a_result_unfolds_by_mouse_by_keyboard_and_by_its_address(look: Look, address: str) -> None:
    async def at(page: Page) -> None:
        await page.run("document.querySelector('#fold').click()")
        is_open = "document.getElementById('progress.value.increases').open"
        assert not await page.run(f"return {is_open}")
        await page.click("[id='progress.value.increases'] > summary")
        await page.wait_for(is_open)
        text = await page.text("[id='progress.value.increases'] .inside")
        assert "progress grows with every notification for a token" in text
        assert '"method": "notifications/progress"' in text
        for kind in ("keyDown", "keyUp"):
            await page.send("Input.dispatchKeyEvent", type=kind, key="Enter", text="\r")
        await page.wait_for(f"!{is_open}")
        await page.run("location.hash = 'progress.value.increases'")
        await page.wait_for(is_open)

    look(address, at)


def test_all_that_is_shown_unfolds_at_once(look: Look, address: str) -> None:
    async def at(page: Page) -> None:
        await choose(page, "area", "progress")
        await page.click("#unfold")
        assert await shown(page, "String(each.open)") == ["true"]
        opened = "[...document.querySelectorAll('.result')].filter((each) => each.open)"
        areas = await page.run(f"return [...new Set({opened}.map((each) => each.dataset.area))]")
        assert "tools" not in areas

    look(address, at)


def test_a_command_to_repeat_a_check_is_copied(look: Look, tmp_path: Path) -> None:
    server = tmp_path / "small.py"
    server.write_text('from accord import Server\n\nServer("small").run()\n')
    page = tmp_path / "report.html"
    command = [sys.executable, "-m", "accord.cli.main", "check", "server", "--revision"]
    command += ["2025-06-18", "--only", "ping", "--output", page]
    done = subprocess.run(
        [*command, "--", sys.executable, server],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert page.exists(), done.stderr

    async def at(page: Page) -> str:
        await page.run(
            "navigator.clipboard.writeText = async (text) => { window.copied = text; };"
            "document.querySelector('#unfold').click()"
        )
        await page.click(".result[open] .copy")
        await page.wait_for("window.copied")
        assert await page.text(".result[open] .copy") == "Copied"
        return str(await page.run("return copied"))

    copied = look(page.as_uri(), at)
    assert copied.startswith("accord check server --only ping.")
    assert copied.endswith(f" --revision 2025-06-18 -- {sys.executable} {server}")


@pytest.mark.parametrize("width", [1200, 390, 320])
def test_the_page_fits_the_screen(look: Look, address: str, width: int) -> None:
    async def at(page: Page) -> None:
        await page.run("document.querySelector('#unfold').click()")
        assert await page.run("return document.documentElement.scrollWidth <= innerWidth")

    look(address, at, width=width)


def test_hostile_text_stays_text(look: Look, tmp_path: Path) -> None:
    lines = FAULTY.read_text(encoding="utf-8").splitlines()
    evil = {"jsonrpc": "2.0", "id": 900, "result": {HOSTILE: HOSTILE}}
    lines.append(json.dumps({"t": 99, "from": "server", "message": evil}))
    lines.append(json.dumps({"t": 99, "from": "server", "message": None, "raw": HOSTILE}))
    recording = tmp_path / "<img src=x onerror=troubles.push('ran')>.jsonl"
    recording.write_text("\n".join(lines) + "\n", encoding="utf-8")

    async def at(page: Page) -> None:
        assert recording.name in await page.text("h1")
        await page.run("document.querySelector('#unfold').click()")
        assert HOSTILE in await page.text("main")
        assert await page.run("return document.querySelectorAll('script, img').length") == 1

    look(made(recording, tmp_path / "report.html"), at)


def test_the_page_is_readable_without_scripts(look: Look, address: str) -> None:
    async def at(page: Page) -> Any:
        await page.click("[id='progress.value.increases'] > summary")
        await page.wait_for("document.getElementById('progress.value.increases').open")
        assert not await page.run("return document.querySelector('.filters').checkVisibility()")
        assert not await page.run("return document.querySelector('.copy')?.checkVisibility()")
        return await page.text("[id='progress.value.increases'] .inside")

    assert "progress grows" in look(address, at, scripts=False)


def test_breaches_are_printed_unfolded(look: Look, address: str) -> None:
    async def at(page: Page) -> None:
        await page.run(
            "document.querySelector('#fold').click(); dispatchEvent(new Event('beforeprint'))"
        )
        opened = "[...document.querySelectorAll('.result')].filter((each) => each.open)"
        verdicts = await page.run(
            f"return [...new Set({opened}.map((each) => each.dataset.verdict))]"
        )
        assert set(verdicts) <= {"fail", "warn"}
        assert verdicts
        await page.run("dispatchEvent(new Event('afterprint'))")
        assert await page.run(f"return {opened}.length") == 0

    look(address, at)

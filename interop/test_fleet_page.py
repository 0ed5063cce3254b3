"""The page of a fleet in a real browser: it sorts, filters, unfolds, and requests nothing."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Page
from report_pages import Look, one_browser

from accord_tools.fleet.rendering.html import as_html
from accord_tools.fleet.rendering.site import write_site

TESTS = Path(__file__).parents[1] / "tests"
# Each server is a body of the table: a row of numbers, and a line of text below it.
ROWS = "[...document.querySelectorAll('.fleet-table tbody')]"
SHOWN = f"{ROWS}.filter((row) => row.checkVisibility())"
NAMES = f"{SHOWN}.map((row) => row.querySelector('a').textContent)"
FITS = "document.documentElement.scrollWidth <= innerWidth"


def made(folder: Path) -> dict[str, str]:
    """Write the pages that the tests look at; returns their addresses."""
    # The views are those of the other tests.
    sys.path.insert(0, str(TESTS))
    try:
        from fleet import views
    finally:
        sys.path.remove(str(TESTS))
    found = {}
    for name, view in {
        "desk": views.desk_view(),
        "hostile": views.hostile_view(),
        "large": views.large_view(),
        "long": views.long_view(),
    }.items():
        page = folder / f"{name}.html"
        page.write_text(as_html(view), encoding="utf-8")
        found[name] = page.as_uri()
    write_site(views.desk_view(), folder / "site")
    found["site"] = (folder / "site" / "index.html").as_uri()
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return made(tmp_path_factory.mktemp("fleet"))


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


async def names(page: Page) -> list[str]:
    return list(await page.run(f"return {NAMES}"))


async def column(page: Page, name: str) -> list[str | None]:
    return list(
        await page.run(
            f"return {SHOWN}.map((row) => row.querySelector("
            f"'[data-name={name}]')?.innerText.split('\\n')[0] ?? null)"
        )
    )


async def sort_by(page: Page, title: str) -> str:
    """Click on a head; returns the order that it has then, for assistive software."""
    head = (
        f"[...document.querySelectorAll('thead th')].find((each) => each.innerText.trim()"
        f".startsWith({json.dumps(title)}))"
    )
    await page.run(f"const head = {head}; head.querySelector('button').click()")
    return str(await page.run(f"return {head}.ariaSort"))


def test_columns_sort_both_ways_and_unknown_values_stay_last(
    look: Look, pages: dict[str, str]
) -> None:
    async def at(page: Page) -> None:
        first = await names(page)
        assert first[:3] == ["tickets", "people-and-places-with-a-long-name", "broken"]
        assert await sort_by(page, "Tools") == "descending"
        assert (await names(page))[0] == "big"
        assert await sort_by(page, "Tools") == "ascending"
        tools = await column(page, "tools")
        known = [int(str(each).replace(",", "")) for each in tools[:-3]]
        assert known == sorted(known)
        assert tools[-3:] == ["\u2013"] * 3
        # Facts without a column are in the choice of the order.
        await choose(page, "order", "tokens")
        tokens = await column(page, "tokens")
        known = [int(str(each).split()[0].replace(",", "")) for each in tokens[:-3]]
        assert known == sorted(known, reverse=True)
        assert tokens[-3:] == [None] * 3
        assert await sort_by(page, "Server") == "ascending"
        assert await names(page) == sorted(first)
        assert await page.run("return document.querySelectorAll('[aria-sort]').length") == 1
        await page.click("button[type=reset]")
        await page.wait_for("!document.querySelector('[aria-sort]')")
        assert await names(page) == first

    look(pages["desk"], at)


def test_a_column_sorts_by_keyboard(look: Look, pages: dict[str, str]) -> None:
    async def at(page: Page) -> None:
        await page.run("document.querySelectorAll('thead button')[4].focus()")
        for kind in ("keyDown", "keyUp"):
            await page.send("Input.dispatchKeyEvent", type=kind, key="Enter", text="\r")
        await page.wait_for("document.querySelector('[aria-sort=ascending]')")
        assert (await names(page))[0] == "people-and-places-with-a-long-name"

    look(pages["desk"], at)


def test_filters_leave_what_fits_in_the_table_and_below(look: Look, pages: dict[str, str]) -> None:
    async def at(page: Page) -> None:
        await page.click("input[type=search]")
        await page.send("Input.insertText", text="EU team-b")
        assert await names(page) == ["mail-eu", "clock-eu", "deploy-eu", "chat-eu"]
        assert await page.text(".shown") == "4 of 30 servers shown"
        seen = "[...document.querySelectorAll('.server')].filter((e) => e.checkVisibility()).length"
        assert await page.run(f"return {seen}") == 4
        assert not await page.run("return document.querySelector('.group').checkVisibility()")
        await choose(page, "search", "nothing like this")
        assert await page.text("#unmatched") == "No server fits these filters."
        await page.click("button[type=reset]")
        await page.wait_for(f"{SHOWN}.length === 30")
        for state in ("ok", "skipped"):
            await page.click(f"input[value={state}]")
        assert len(await names(page)) == 4
        await page.click("button[type=reset]")
        await page.wait_for(f"{SHOWN}.length === 30")
        for name, text in (("tag", "public"), ("owner", "team-b")):
            value = await page.run(
                f"return [...document.querySelector('[name={name}]').options]"
                f".find((each) => each.text === {text!r}).value"
            )
            await choose(page, name, value)
            rows = await page.run(f"return {SHOWN}.map((row) => row.textContent)")
            assert rows
            assert all(text in row for row in rows)

    look(pages["desk"], at)


def test_a_link_to_a_server_unfolds_its_details(look: Look, pages: dict[str, str]) -> None:
    async def at(page: Page) -> None:
        await page.click(".fleet-table tbody a")
        await page.wait_for("document.querySelector('.server[open]')")
        text = await page.text(".server[open] .inside")
        assert "Requirements broken (6)" in text
        assert "answers with breach number" in text
        await page.run("navigator.clipboard.writeText = async (text) => { window.copied = text; };")
        await page.click(".server[open] .copy")
        await page.wait_for("window.copied")
        assert str(await page.run("return copied")).startswith("accord test cases/tickets")

    look(pages["desk"], at)


@pytest.mark.parametrize("name", ["desk", "hostile"])
def test_the_page_never_scrolls_sideways(look: Look, pages: dict[str, str], name: str) -> None:
    async def at(page: Page) -> None:
        await page.run("for (const each of document.querySelectorAll('details')) each.open = true")
        for width in (1280, 820, 400, 320):
            await page.send(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=900,
                deviceScaleFactor=1,
                mobile=False,
            )
            assert await page.run(f"return {FITS}"), width

    look(pages[name], at)


@pytest.mark.parametrize("name", ["desk", "hostile"])
def test_the_table_fits_its_card(look: Look, pages: dict[str, str], name: str) -> None:
    async def at(page: Page) -> None:
        for width in (1440, 1920):
            await page.send(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=900,
                deviceScaleFactor=1,
                mobile=False,
            )
            fits = "const each = document.querySelector('.servers .scroll');"
            fits += "return each.scrollWidth <= each.clientWidth"
            assert await page.run(fits), width
            reason = "document.querySelector('.fleet-table .below').getBoundingClientRect().width"
            table = "document.querySelector('.fleet-table').getBoundingClientRect().width"
            assert await page.run(f"return {reason} > 0.9 * {table}")

    look(pages[name], at)


def test_a_long_text_is_unfolded_by_a_click(look: Look, pages: dict[str, str]) -> None:
    async def at(page: Page) -> None:
        text = "document.querySelector('.fleet-table details.text')"
        await page.wait_for(text)
        before = await page.run(f"return {text}.innerText")
        await page.click(".fleet-table details.text > summary")
        await page.wait_for(f"{text}.open")
        assert len(await page.run(f"return {text}.innerText")) > len(before)

    look(pages["long"], at)


def test_servers_are_cards_on_a_phone_and_sort_there_too(look: Look, pages: dict[str, str]) -> None:
    async def at(page: Page) -> None:
        assert await page.run(f"return getComputedStyle({ROWS}[0]).display") == "grid"
        await page.run(
            "const order = document.querySelector('[name=order]');"
            "order.value = [...order.options].find((each) => each.text === 'Tokens').value;"
            "order.dispatchEvent(new Event('input', { bubbles: true }))"
        )
        assert (await names(page))[0] == "big"

    look(pages["desk"], at, width=400)


def test_hostile_texts_stay_texts(look: Look, pages: dict[str, str]) -> None:
    async def at(page: Page) -> None:
        await page.run("for (const each of document.querySelectorAll('details')) each.open = true")
        assert "</script></pre><img src=x onerror=\"alert('ran')\">" in await page.text("main")
        assert await page.run("return document.querySelectorAll('script, img').length") == 1

    look(pages["hostile"], at)


def test_the_page_is_readable_without_scripts(look: Look, pages: dict[str, str]) -> None:
    async def at(page: Page) -> Any:
        assert not await page.run("return document.querySelector('.filters').checkVisibility()")
        assert not await page.run("return document.querySelector('.copy').checkVisibility()")
        assert len(await names(page)) == 30
        await page.click(".server > summary")
        await page.wait_for("document.querySelector('.server').open")
        return await page.text(".server .inside")

    assert "Still running after it was stopped" in look(pages["desk"], at, scripts=False)


def test_the_dark_page_is_dark_and_the_printed_one_unfolds_what_failed(
    look: Look, pages: dict[str, str]
) -> None:
    async def colour(page: Page) -> str:
        return str(await page.run("return getComputedStyle(document.body).backgroundColor"))

    assert look(pages["desk"], colour, theme="dark") == "rgb(18, 21, 27)"
    assert look(pages["desk"], colour) == "rgb(246, 247, 249)"

    async def at(page: Page) -> None:
        await page.run("dispatchEvent(new Event('beforeprint'))")
        opened = "[...document.querySelectorAll('.server[open]')]"
        assert await page.run(f"return {opened}.length") == 4
        assert await page.run(f"return getComputedStyle({ROWS}[0]).display") == "table-row-group"
        assert await page.run(f"return {FITS}")
        await page.run("dispatchEvent(new Event('afterprint'))")
        assert await page.run(f"return {opened}.length") == 0

    look(pages["desk"], at, media="print", width=720)


def test_a_large_page_sorts_and_filters(look: Look, pages: dict[str, str]) -> None:
    async def at(page: Page) -> None:
        assert len(await names(page)) == 100
        await sort_by(page, "Server")
        assert (await names(page))[0] == "server-000-of-some-team"
        await choose(page, "search", "server-007")
        assert await names(page) == ["server-007-of-some-team"]

    look(pages["large"], at)


def test_the_pages_of_a_site_lead_to_each_other(look: Look, pages: dict[str, str]) -> None:
    async def at(page: Page) -> None:
        await page.click(".fleet-table tbody a")
        await page.wait_for("document.querySelector('.server[open]')")
        await page.click(".server[open] .inside dd a")
        await page.wait_for("document.title.includes('tickets: MCP conformance')")
        await page.click("dd a[href$='-tests']")
        await page.wait_for("document.querySelector('.server[open] h3[id$=-tests]')")
        await page.click(".server[open] .inside dd a")
        await page.wait_for("document.title.includes('MCP conformance')")
        await page.click(".kicker a")
        await page.wait_for("document.title.includes('MCP fleet')")

    look(pages["site"], at)

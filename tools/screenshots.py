"""Take the pictures of the documentation: the pages of a check, of a fleet and of the inspector.

    .venv-interop/bin/python tools/screenshots.py

writes them to docs/images. It needs the browser of the tests beside foreign peers (`interop`).
"""

import asyncio
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
FAULTY = "examples/traces/2025-06-18-faulty.jsonl"
WIDTH = 1200

# What tests look at, and their browser.
sys.path += [str(ROOT / "interop"), str(ROOT / "tests")]

from browser import Chromium, Page, browser  # noqa: E402
from inspector_pages import inspected, open_inspector  # noqa: E402

from accord_tools.fleet.rendering import render_fleet  # noqa: E402
from fleet.views import desk_view  # noqa: E402


async def picture(page: Page, name: str, *, height: int, theme: str = "light") -> None:
    """Write a picture of what a page shows."""
    size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    await page.send("Emulation.setDeviceMetricsOverride", **size)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    await page.send("Emulation.setEmulatedMedia", media="screen", features=features)
    await page.send("Emulation.setScrollbarsHidden", hidden=True)
    await page.screenshot(IMAGES / name)
    print(f"{name}: {(IMAGES / name).stat().st_size // 1000} kB")


async def reports(chromium: Chromium, folder: Path) -> None:
    """Show a report of a check and a page of a fleet."""
    check, fleet = folder / "check.html", folder / "fleet.html"
    command = [sys.executable, "-m", "accord", "check", "trace", FAULTY, "--output", check]
    subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    fleet.write_text(render_fleet(desk_view(), "html"), encoding="utf-8")
    page = await chromium.open(check.as_uri())
    await page.run("document.querySelector('.result').open = true")
    await picture(page, "check.png", height=980)
    await picture(await chromium.open(fleet.as_uri()), "fleet.png", height=980)


async def inspector(chromium: Chromium) -> None:
    """Show a recording with a message that breaks a clause, light and dark."""
    async with inspected(["--no-history", "--trace", FAULTY]) as url:
        for theme in ("light", "dark"):
            page = (await open_inspector(chromium, url, theme=theme)).page
            await page.wait_for("document.querySelector('.log-row .is-fail')")
            await page.click(".log-row:has(.is-fail)")
            await page.wait_for("document.querySelector('.log-detail .breach')")
            await picture(page, f"inspector-{theme}.png", height=760, theme=theme)


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        async with browser() as chromium:
            await reports(chromium, Path(folder))
            await inspector(chromium)


if __name__ == "__main__":
    asyncio.run(main())

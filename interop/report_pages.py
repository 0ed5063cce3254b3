"""Opens a report in a real browser, and notes whatever goes wrong there."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from browser import Chromium, Page, browser

Look = Callable[..., Any]
# Given to the page before anything of its own runs.
WATCH = """
window.troubles = [];
addEventListener('error', (event) => troubles.push(`error: ${event.message}`), true);
addEventListener('unhandledrejection', (event) => troubles.push(`rejected: ${event.reason}`));
addEventListener('securitypolicyviolation', (event) => troubles.push(`no ${event.blockedURI}`));
for (const name of ['error', 'warn']) {
  console[name] = (...said) => troubles.push(`${name}: ${said.join(' ')}`);
}
"""


@contextmanager
def one_browser() -> Iterator[Look]:
    """Start a browser for many pages; yields a function that opens one and does something there."""
    with asyncio.Runner() as runner:
        opened = browser()
        chromium = runner.run(opened.__aenter__())
        try:
            yield lambda *args, **facts: runner.run(_open_page(chromium, *args, **facts))
        finally:
            runner.run(opened.__aexit__(None, None, None))


async def _open_page(
    chromium: Chromium,
    address: str,
    at: Callable[[Page], Awaitable[Any]],
    *,
    width: int = 1280,
    scripts: bool = True,
    media: str = "screen",
    theme: str = "light",
) -> Any:
    page = await chromium.open()
    await page.send(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    features = [{"name": "prefers-color-scheme", "value": theme}]
    await page.send("Emulation.setEmulatedMedia", media=media, features=features)
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    await page.send("Emulation.setScriptExecutionDisabled", value=not scripts)
    await page.go(address)
    found = await at(page)
    # Nothing went wrong, and nothing went out.
    if scripts:
        assert await page.run("return troubles") == []
        assert await page.run("return performance.getEntriesByType('resource').length") == 0
    return found

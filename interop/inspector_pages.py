"""Opens `accord inspect` in a real browser, and uses it by the keyboard alone.

    async with inspected(["examples/ten_lines.py"]) as url, browser() as chromium:
        page = await open_inspector(chromium, url)
        await page.go_to("link", "Tools")
        await page.press("Enter")

An element is found as people with a screen reader find it: by its role and its name, and by
pressing Tab until the focus is on it.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from browser import PATIENCE, Chromium, Page
from report_pages import WATCH

ROOT: Final = Path(__file__).parents[1]
AXE: Final = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
CONTROL: Final = 2
SHIFT: Final = 8
# What a key press is, beyond its name.
KEYS: Final = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    " ": ("Space", 32, " "),
    "Escape": ("Escape", 27, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "Backspace": ("Backspace", 8, ""),
    "Delete": ("Delete", 46, ""),
}
SERIOUS: Final = ("serious", "critical")


@asynccontextmanager
async def inspected(words: Sequence[str], **environ: str) -> AsyncIterator[str]:
    """Run `accord inspect` and yield the address of the page, with the key."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "accord", "inspect", "--no-open", "--json", *words),
        cwd=ROOT,
        env={**os.environ, "PYTHONFAULTHANDLER": "1", **environ},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            line = await process.stdout.readline()
            while line and not line.endswith(b"}\n"):
                line += await process.stdout.readline()
        if not line:
            _, said = await process.communicate()
            raise AssertionError(f"accord inspect ended: {said.decode()}")
        yield json.loads(line)["url"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(PATIENCE):
                await process.communicate()
        except TimeoutError:
            state = process.returncode
            # It then prints the stacks of its threads.
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGABRT)
            _, said = await process.communicate()
            raise AssertionError(
                f"accord inspect does not end ({state}): {said.decode(errors='replace')}"
            ) from None


class InspectorPage:
    """The page of the inspector, used by the keyboard."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def press(self, key: str, *, modifiers: int = 0) -> None:
        """Press a key and let it go."""
        code, number, text = KEYS.get(key, ("", ord(key.upper()[0]), key))
        facts: dict[str, Any] = {"key": key, "modifiers": modifiers}
        facts |= {"code": code or f"Key{key.upper()}", "windowsVirtualKeyCode": number}
        is_text = bool(text) and not modifiers & CONTROL
        down = {"type": "keyDown", "text": text} if is_text else {"type": "rawKeyDown"}
        await self.page.send("Input.dispatchKeyEvent", **down, **facts)
        await self.page.send("Input.dispatchKeyEvent", type="keyUp", **facts)

    async def write(self, text: str) -> None:
        """Type a text into what has the focus, in place of what is there."""
        await self.press("a", modifiers=CONTROL)
        await self.page.send("Input.insertText", text=text)

    async def focused(self) -> tuple[str, str]:
        """Return role and name of what has the focus, as a screen reader says them."""
        found = await self.page.send(
            "Runtime.evaluate", expression="document.activeElement ?? document.body"
        )
        tree = await self.page.send(
            "Accessibility.getPartialAXTree",
            objectId=found["result"]["objectId"],
            fetchRelatives=False,
        )
        node = tree["nodes"][0]
        return str(node.get("role", {}).get("value")), str(node.get("name", {}).get("value", ""))

    async def has_focused(self, role: str, name: str) -> None:
        """Wait until the focus is on an element: the page moves it after it has drawn."""
        try:
            async with asyncio.timeout(PATIENCE):
                while await self.focused() != (role, name):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            at = await self.focused()
            raise AssertionError(f"the focus is on {at}, expected {(role, name)}") from None

    async def go_to(self, role: str, name: str) -> None:
        """Press Tab until the focus is on an element; patterns for its whole role and name.

        Raises:
            AssertionError: no element with this role and name can be reached.
        """
        wanted = re.compile(name)
        seen: dict[tuple[str, str], None] = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    found = await self.focused()
                    if re.fullmatch(role, found[0]) and wanted.fullmatch(found[1]):
                        return
                    seen[found] = None
                    await self.press("Tab")
        except TimeoutError:
            passed = [f"{role} {name!r}" for role, name in seen]
            raise AssertionError(
                f"Tab never reaches {role} {name!r}; it passes {', '.join(passed)}"
            ) from None

    async def use(self, role: str, name: str, key: str = "Enter") -> None:
        """Go to an element and press a key there."""
        await self.go_to(role, name)
        await self.press(key)

    async def fill(self, name: str, text: str, *, role: str = "textbox|searchbox|combobox") -> None:
        """Go to a field and type into it."""
        await self.go_to(role, name)
        await self.write(text)

    async def until(self, condition: str) -> None:
        """Wait until an expression is true in the page; say what is there if it never is."""
        try:
            await self.page.wait_for(condition)
        except TimeoutError:
            shown = await self.page.text()
            raise AssertionError(f"{condition} is not true of the page:\n{shown[:3000]}") from None

    async def sees(self, text: str, *, where: str = "body") -> None:
        """Wait until a text is on the page."""
        await self.until(f"document.querySelector({where!r})?.innerText.includes({text!r})")

    async def lacks(self, text: str, *, where: str = "body") -> None:
        """Wait until a text is not on the page any more."""
        await self.until(f"!document.querySelector({where!r})?.innerText.includes({text!r})")

    async def troubles(self) -> list[str]:
        """Return what went wrong in the page: errors, warnings, breaches of the policy."""
        return list(await self.page.run("return window.troubles"))

    async def faults(self) -> list[str]:
        """Return the serious findings of axe-core."""
        source = AXE.read_text(encoding="utf-8")
        await self.page.send("Runtime.evaluate", expression=source)
        found = await self.page.run(
            "const all = await axe.run(document, { resultTypes: ['violations'] });"
            "return all.violations.map((each) => [each.impact, each.id, each.help,"
            " each.nodes.slice(0, 5).map((node) => node.html.slice(0, 200))])"
        )
        return [
            f"{name}: {help} {nodes}" for impact, name, help, nodes in found if impact in SERIOUS
        ]


async def open_inspector(
    chromium: Chromium, url: str, *, width: int = 1280, theme: str = "light"
) -> InspectorPage:
    """Open the page and wait until it shows a session."""
    page = await chromium.open()
    await page.send(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    features = [
        {"name": "prefers-color-scheme", "value": theme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    await page.send("Emulation.setEmulatedMedia", features=features)
    await page.send("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    await page.send("Accessibility.enable")
    await page.send("DOM.enable")
    await page.go(url)
    await page.wait_for("document.querySelector('main') !== null")
    return InspectorPage(page)

"""The style of all pages: contrast of its colours in both themes, and the size of the inspector."""

import gzip
import re
from itertools import product
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "src/accord_tools"
STATIC = TOOLS / "inspector/static"
ASSETS = TOOLS / "reports/assets"
COLOURS = re.findall(
    r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);",
    (ASSETS / "common.css").read_text(),
)
# Texts, and what they are drawn on.
TEXTS = ("ink", "soft", "link", "fail", "warn", "pass", "info")
GROUNDS = ("page", "card", "code", "chosen", "paired")
NOTES = ("fail-back", "warn-back", "info-back")
MARKS = ("fail", "warn", "pass", "info", "beside", "away")
TEXT_CONTRAST = 4.5
EDGE_CONTRAST = 3.0
LARGEST_PAGE = 150_000
DOCS = TOOLS.parents[1] / "docs"
# Of all pictures together; tools/screenshots.py takes them.
LARGEST_PICTURES = 600_000


def theme(name: str) -> dict[str, str]:
    return {each: light if name == "light" else dark for each, light, dark in COLOURS}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_can_be_read_on_every_ground(name: str) -> None:
    found = theme(name)
    pairs = [
        *product(TEXTS, GROUNDS),
        *product(("ink", "soft", "link"), NOTES),
        *((each, f"{each}-back") for each in MARKS),
        ("on-link", "link"),
    ]
    faint = {
        f"{text} on {ground}": round(contrast(found[text], found[ground]), 2)
        for text, ground in pairs
        if contrast(found[text], found[ground]) < TEXT_CONTRAST
    }
    assert faint == {}


@pytest.mark.parametrize("name", ["light", "dark"])
def test_the_edges_of_controls_can_be_seen(name: str) -> None:
    found = theme(name)
    assert all(contrast(found["edge"], found[each]) >= EDGE_CONTRAST for each in ("card", "page"))


def test_every_colour_that_is_used_is_defined() -> None:
    sheets = "".join(path.read_text() for path in [*STATIC.rglob("*.css"), *ASSETS.glob("*.css")])
    used = set(re.findall(r"var\(--([\w-]+)\)", sheets))
    # Set by the page itself: the share of a split.
    assert used - set(theme("dark")) - {"row", "share"} == set()


def test_the_whole_page_is_small() -> None:
    files = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html")]
    files.append(ASSETS / "common.css")
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < LARGEST_PAGE


def test_no_rule_of_the_shared_sheet_is_written_again() -> None:
    def rules(path: Path) -> set[str]:
        return {line.strip() for line in path.read_text().splitlines() if line.endswith("; }")}

    common, own = ASSETS / "common.css", [ASSETS / "report.css", *STATIC.rglob("*.css")]
    assert [rules(common) & rules(each) for each in own] == [set()] * len(own)
    assert rules(own[0]) & rules(STATIC / "style.css") == set()


def test_each_picture_is_shown_by_a_page_of_the_documentation_and_they_are_small() -> None:
    pages = "".join(page.read_text() for page in DOCS.glob("*.md"))
    pictures = sorted((DOCS / "images").iterdir())
    assert [each.name for each in pictures] == [
        *("check.png", "fleet.png", "inspector-dark.png", "inspector-light.png")
    ]
    assert all(f"images/{each.name}" in pages for each in pictures)
    assert sum(each.stat().st_size for each in pictures) < LARGEST_PICTURES

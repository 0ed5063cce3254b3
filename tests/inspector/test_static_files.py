"""The files of the page: what is vendored is unchanged, what is ours cannot run text as code."""

import hashlib
import re
from pathlib import Path

from support.tables import cases

STATIC = Path(__file__).parents[2] / "src/accord_tools/inspector/static"
VENDORED = {
    "hooks.js": "e862ab2973aa6455eaa0f77c5d832d2157d6be59a17c8ba546550a575b58c6b4",
    "htm-LICENSE": "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f",
    "htm.js": "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4",
    "preact-LICENSE": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    "preact.js": "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
}
OURS = sorted(each for each in STATIC.rglob("*.js") if each.parent.name != "vendor")
NAMES = [each.relative_to(STATIC).as_posix() for each in OURS]
# Ways from a text to code or to markup.
DANGEROUS = re.compile(
    r"\beval\b|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|"
    r"dangerouslySet|setAttribute\(\s*[\"']on|import\s*\(|XMLHttpRequest|new WebSocket|srcdoc|"
    r"<(?:iframe|script|style|object|embed)\b"
)
LONGEST = 400


def test_vendored_files_are_those_that_were_published() -> None:
    found = {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in (STATIC / "vendor").iterdir()
        if each.name != "README.md"
    }
    assert found == VENDORED


def test_each_vendored_file_has_its_version_and_licence_recorded() -> None:
    table = (STATIC / "vendor/README.md").read_text()
    for name in VENDORED:
        assert f"| {name} " in table or f"{name} |" in table


@cases("path", OURS, ids=NAMES)
def test_a_module_cannot_turn_text_into_code_or_markup(path: Path) -> None:
    found = DANGEROUS.search(path.read_text())
    assert found is None or found[0] in ALLOWED.get(path.name, ())


# The panes of its own table are loaded when they are opened.
ALLOWED: dict[str, tuple[str, ...]] = {"app.js": ("import(",)}


@cases("path", OURS, ids=NAMES)
def test_a_module_is_short_enough_to_be_read(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


@cases("path", OURS, ids=NAMES)
def test_only_one_module_talks_to_the_server(path: Path) -> None:
    assert path.name == "api.js" or not re.search(r"\bfetch\(", path.read_text())


def test_nothing_in_the_page_names_an_address_to_load_from() -> None:
    for path in (*OURS, STATIC / "index.html", *STATIC.rglob("*.css")):
        assert not re.search(
            r"(?:src|href|url\(|from|import)\s*[=(]?\s*[\"']?https?:", path.read_text()
        )


def imports_of(path: Path) -> list[Path]:
    """The modules that a module imports."""
    found = re.findall(r"(?:from|import)\s+\"([^\"]+)\"", path.read_text())
    bare = {"preact": STATIC / "vendor/preact.js"}
    return [bare[each] if each in bare else (path.parent / each).resolve() for each in found]


def test_the_modules_of_the_first_view_are_loaded_side_by_side() -> None:
    waiting = [STATIC / "app.js", STATIC / "panes/tools.js"]
    needed: set[Path] = set()
    while waiting:
        each = waiting.pop()
        if each not in needed:
            needed.add(each)
            waiting += imports_of(each)
    names = {each.relative_to(STATIC).as_posix() for each in needed} - {"app.js"}
    page = (STATIC / "index.html").read_text()
    assert set(re.findall(r"modulepreload\" href=\"([^\"]+)\"", page)) == names

"""Every Python block of the documentation runs, and every command in it exists.

A block runs by itself, as a module and in a folder with the files of its page: those that begin
with a comment naming a file. One that needs more says so in its first line:
`# continues desk.py above`, `# continues the block above`, `# in an async function`.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from accord.check.contract.cases import read_cases
from accord.cli.main import _parse, _split

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMANDS = re.compile(r"^(?:\$ |\.venv/bin/)?(accord [^|>\n]*)", re.MULTILINE)
_CASES = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)

# First lines of blocks that continue an earlier one or need an async function.
_CONTINUES = re.compile(r"# continues (?:the (first )?block|([\w/]+\.py)) above")
_ASYNC = re.compile(r"# (?:continues .* above, )?in an async function\n")
_FILE = re.compile(r"# ([\w/]+\.py)\n")

_RUNNER = """
import ast, asyncio, inspect, json, sys

names = {"__name__": "snippet"}
for source, is_async in json.load(sys.stdin):
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if is_async else 0
    outcome = eval(compile(source, "block", "exec", flags), names)
    if inspect.iscoroutine(outcome):
        asyncio.run(asyncio.wait_for(outcome, 100))
"""


def blocks_of(page):
    """Return each Python block of a page with the number of its line."""
    text = page.read_text(encoding="utf-8")
    return [(text[: found.start()].count("\n") + 1, found[1]) for found in _SNIPPET.finditer(text)]


def earlier_than(number, blocks):
    """Return the blocks that a block continues, the first one first."""
    found = _CONTINUES.match(blocks[number][1])
    if found is None:
        return []
    if found[2]:
        names = [_FILE.match(source) for _, source in blocks[:number]]
        place = [at for at, name in enumerate(names) if name and name[1] == found[2]][-1]
    else:
        place = 0 if found[1] else number - 1
    return [*earlier_than(place, blocks), blocks[place][1]]


ALL = [
    pytest.param(page, number, id=f"{page.name}:{line}")
    for page in PAGES
    for number, (line, _) in enumerate(blocks_of(page))
]


@pytest.mark.parametrize(("page", "number"), ALL)
def test_a_block_runs_as_a_reader_copies_it(page, number, tmp_path):
    """Alone, or after the block that its first line names, beside the files of the page."""
    blocks = blocks_of(page)
    for _, source in blocks[: number + 1]:
        if name := _FILE.match(source):
            path = tmp_path / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
    sources = [*earlier_than(number, blocks), blocks[number][1]]
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER],
        input=json.dumps([(each, _ASYNC.match(each) is not None) for each in sources]),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_servers_of_the_pages_on_authorization_pass_the_type_checker(tmp_path):
    for page in (*(ROOT / "docs").glob("auth*.md"), ROOT / "docs" / "sign-in.md"):
        blocks = blocks_of(page)
        for number, (_, source) in enumerate(blocks):
            if "ctx.principal" in source and _ASYNC.match(source) is None:
                file = tmp_path / f"{page.stem.replace('-', '_')}_{number}.py"
                file.write_text(
                    "\n".join([*earlier_than(number, blocks), source]), encoding="utf-8"
                )
    files = sorted(tmp_path.glob("*.py"))
    assert len(files) >= 4
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in (*PAGES, ROOT / "examples" / "README.md")
        if _COMMANDS.search(page.read_text(encoding="utf-8"))
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_commands_of_a_page_exist(page):
    for found in _COMMANDS.finditer(page.read_text(encoding="utf-8")):
        words, _ = _split(shlex.split(found[1], comments=True)[1:])
        assert _parse(words).run, found[1]  # ends the process where there is no such option


def test_the_cases_of_the_page_on_testing_can_be_read(tmp_path):
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (found,) = _CASES.findall(text)
    file = tmp_path / "desk.accord.toml"
    file.write_text(found, encoding="utf-8")
    assert [case.name for case in read_cases(file).case] == ["adds two numbers", "refuses words"]

"""Every Python snippet of the documentation runs, and every command in it is one there is.

The snippets of a page run in order, in one process and one namespace, in an empty folder; `await`
may stand at the top. One that begins with a comment naming a file is saved under that name as well.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from accord.check.contract.cases import read_cases
from accord.cli.main import _parsed, _split

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMANDS = re.compile(r"^(?:\$ |\.venv/bin/)?(accord [^|>\n]*)", re.MULTILINE)
_CASES = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)

_RUNNER = """
import ast, asyncio, inspect, json, re, sys
from pathlib import Path

names = {"__name__": "snippet"}
for number, source in enumerate(json.load(sys.stdin), 1):
    file = re.match(r"# ([\\w/]+\\.py)\\b", source)
    if file:
        Path(file[1]).write_text(source)
    code = compile(source, f"snippet {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    outcome = eval(code, names)
    if inspect.iscoroutine(outcome):
        asyncio.run(asyncio.wait_for(outcome, 100))
"""


def snippets_of(page):
    return [found[1] for found in _SNIPPET.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if snippets_of(page)], ids=lambda page: page.name
)
def test_the_snippets_of_a_page_run(page, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER],
        input=json.dumps(snippets_of(page)),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_servers_of_the_pages_on_authorization_hold_to_their_types(tmp_path):
    for page in (ROOT / "docs").glob("auth*.md"):
        for number, source in enumerate(snippets_of(page)):
            if "ctx.principal" in source and "async with" not in source:
                # Snippets that go on from an earlier one have the names of that.
                before = "".join(snippets_of(page)[:1]) if "import" not in source else ""
                file = tmp_path / f"{page.stem.replace('-', '_')}_{number}.py"
                file.write_text(f"{before}\n{source}", encoding="utf-8")
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
def test_the_commands_of_a_page_are_those_that_there_are(page):
    for found in _COMMANDS.finditer(page.read_text(encoding="utf-8")):
        words, _ = _split(shlex.split(found[1], comments=True)[1:])
        assert _parsed(words).run, found[1]  # ends the process where there is no such option


def test_the_cases_of_the_page_on_testing_can_be_read(tmp_path):
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (found,) = _CASES.findall(text)
    file = tmp_path / "desk.accord.toml"
    file.write_text(found, encoding="utf-8")
    assert [case.name for case in read_cases(file).case] == ["adds two numbers", "refuses words"]

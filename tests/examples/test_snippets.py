"""Every Python snippet of the documentation runs.

The snippets of a page run in order, in one process and one namespace, in an empty folder; `await`
may stand at the top. One that begins with a comment naming a file is saved under that name as well.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

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
        asyncio.run(asyncio.wait_for(outcome, 60))
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

"""The backend that docs/backends.md shows passes the contract suite, as a reader would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import LONG

ROOT = Path(__file__).parents[3]


CONTRACT = ROOT / "tests" / "sharing" / "backends" / "contract"


def find_source() -> str:
    page = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    found = re.search(r"^```python\n(# file_backend\.py\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def run_suite(folder: Path, source: str, *tests: str) -> str:
    (folder / "file_backend.py").write_text(source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        + [str(CONTRACT / test) for test in tests],
        cwd=ROOT,
        env={
            **os.environ,
            "ACCORD_CONTRACT_BACKEND": "file_backend:make_backend",
            "FILE_BACKEND_FOLDER": str(folder),
            "PYTHONPATH": str(folder),
        },
        capture_output=True,
        text=True,
        timeout=4 * LONG,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_the_backend_of_the_page_keeps_some_of_the_contract(tmp_path: Path):
    output = run_suite(tmp_path, find_source(), "test_fences.py", "test_operation.py")
    assert re.search(r"^\d+ passed in", output, re.MULTILINE), output


@pytest.mark.thorough
def test_the_backend_of_the_page_keeps_the_whole_contract(tmp_path: Path):
    output = run_suite(tmp_path, find_source(), "")
    assert re.search(r"^\d+ passed in", output, re.MULTILINE), output


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('found["fence"] += 1', "pass"),
    ],
)
def test_a_backend_that_breaks_a_promise_fails_the_contract(tmp_path: Path, right: str, wrong: str):
    source = find_source()
    assert source.count(right) == 1
    output = run_suite(tmp_path, source.replace(right, wrong), "test_fences.py")
    assert re.search(r"^\d+ failed, \d+ passed in", output, re.MULTILINE), output

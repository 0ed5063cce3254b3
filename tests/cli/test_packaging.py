"""The wheel has all files of the package, and works when installed."""

import json
import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 300


@pytest.mark.thorough
def test_the_wheel_has_every_file_and_writes_a_page(tmp_path):
    build = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "-q", "-w", tmp_path]
    built = subprocess.run(build, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if built.returncode and "hatchling" in built.stderr:
        pytest.skip("hatchling cannot be had here")
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    for package in ("accord", "accord_tools"):
        assert _files(site / package) == _files(ROOT / "src" / package)
    check = [sys.executable, "-P", "-m", "accord.cli.main", "check", "server"]
    options = ["--revision", "2025-06-18", "--only", "ping", "--format", "html"]
    done = subprocess.run(
        [*check, str(ROOT / "examples" / "ten_lines.py"), *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert done.returncode == 0, done.stderr
    style = ROOT / "src/accord_tools/reports/assets/common.css"
    assert style.read_text() in done.stdout
    assert "ping.response.prompt" in done.stdout
    _check_page(site, tmp_path)


def _check_page(site, folder):
    """The page of the inspector is served from the wheel alone, and each of its files."""
    start = (
        f"import sys; sys.path.insert(0, {str(site)!r}); from accord.__main__ import main; main()"
    )
    words = ["inspect", "--json", "--no-open", "--no-history", str(ROOT / "examples/ten_lines.py")]
    # -I: nothing of this checkout is found. No Node: the PATH is empty.
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", start, *words],
        stdout=subprocess.PIPE,
        cwd=folder,
        env={"PATH": "", "HOME": str(folder)},
    )
    try:
        base = json.loads(process.stdout.readline())["url"].partition("#")[0]
        static = site / "accord_tools" / "inspector" / "static"
        for name in _files(static):
            if name.endswith((".js", ".css", ".html")):
                with urllib.request.urlopen(base + name, timeout=PATIENCE) as answer:
                    assert answer.read() == (static / name).read_bytes()
    finally:
        process.terminate()
        process.communicate()
    assert {"htm-LICENSE", "preact-LICENSE"} <= _files(static / "vendor")


def _files(folder):
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

"""Try a release without publishing it: build, install, follow the first screen of the README.

    make release-check               the version in src/accord/version.py, as it stands
    make release-check TAG=v1.2.3    the same, and demand that everything is ready for this tag

The wheel and the source archive are left in dist/.
"""

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "accord"
SECONDS = 600
SECTION_LINES = 60  # what a person reads; every change in full is on the archive page


def main() -> int:
    """Run every step; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", help="the tag to be released, such as v1.2.3")
    version = _version()
    try:
        if tag := parser.parse_args().tag:
            _check_tag(tag, version)
        wheel = _build(version)
        _check_files(wheel)
        with tempfile.TemporaryDirectory() as folder:
            _try_base(Path(folder), wheel)
            _try_standard(Path(folder), wheel, version)
        _show_changes(version)
    except (AssertionError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or getattr(error, "output", None) or ""
        print(f"release-check: {error}\n{output}".rstrip(), file=sys.stderr)
        return 1
    print(f"accord {version} is ready: dist/{wheel.name}")
    return 0


def _version() -> str:
    text = (PACKAGE / "version.py").read_text()
    return re.search(r'__version__: Final = "(.+)"', text)[1]


def _check_tag(tag: str, version: str) -> None:
    assert tag == f"v{version}", f"the tag is {tag}, but src/accord/version.py says {version}"
    fragments = [path.name for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]
    assert not fragments, (
        f"changes/ holds {', '.join(fragments)}, which belong on docs/changes-{version}.md"
    )
    section = _changelog_section(version)
    archive = f"docs/changes-{version}.md"
    assert (ROOT / archive).is_file(), f"{archive} is missing: see CONTRIBUTING.md, Releasing"
    assert f"]({archive})" in section, f"CHANGELOG.md has no link to {archive} under {version}"
    lines = len(section.strip().splitlines())
    assert lines <= SECTION_LINES, (
        f"CHANGELOG.md has {lines} lines about {version}; {SECTION_LINES} are allowed"
    )


def _changelog_section(version: str) -> str:
    _, heading, rest = (ROOT / "CHANGELOG.md").read_text().partition(f"\n## {version} (")
    assert heading, f"CHANGELOG.md has no {version}"
    return (heading + rest).strip().partition("\n## ")[0]


def _build(version: str) -> Path:
    _report("build the source archive and the wheel")
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", ROOT / "dist", ROOT)
    (wheel,) = (ROOT / "dist").glob("*.whl")
    assert version in wheel.name, f"{wheel.name} is not version {version}"
    assert list((ROOT / "dist").glob("*.tar.gz")), "there is no source archive"
    return wheel


def _check_files(wheel: Path) -> None:
    _report("compare the files of the wheel with the package")
    with zipfile.ZipFile(wheel) as packed:
        found = {name for name in packed.namelist() if name.startswith("accord/")}
    expected = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert found == expected, f"the wheel differs from the package in {sorted(found ^ expected)}"


def _try_base(folder: Path, wheel: Path) -> None:
    _report("install the wheel alone, and call the README's server with the README's client")
    python = _environment(folder / "base", str(wheel))
    server, client = _readme_blocks()
    work = folder / "base-work"
    work.mkdir()
    (work / "desk.py").write_text(server)
    (work / "client.py").write_text(client)
    printed = _run(python, "client.py", cwd=work)
    assert printed.strip() == "3", f"the client printed {printed!r} instead of 3"


def _try_standard(folder: Path, wheel: Path, version: str) -> None:
    _report("install accord[standard], and run the commands of the README's first screen")
    python = _environment(folder / "standard", f"{wheel}[standard]")
    accord = python.parent / "accord"
    work = folder / "standard-work"
    work.mkdir()
    (work / "desk.py").write_text(_readme_blocks()[0])
    printed = _run(accord, "--version", cwd=work)
    assert printed.strip() == f"accord {version}", printed
    printed = _run(accord, "call", "desk.py", "add", "a=1", "b=2", cwd=work)
    assert printed.strip() == "3", printed
    assert '"command"' in _run(accord, "run", "desk.py", "--print-config", cwd=work)
    port = str(_free_port())
    serving = subprocess.Popen([accord, "run", "desk.py", "--http", "--port", port], cwd=work)
    try:
        _wait_for(int(port))
        url = f"http://127.0.0.1:{port}/mcp"
        assert _run(accord, "call", url, "add", "a=1", "b=2", cwd=work).strip() == "3"
    finally:
        serving.terminate()
        serving.wait(30)
    checked = _run(accord, "check", "server", "desk.py", "--only", "ping", cwd=work)
    assert "score: 100" in checked, checked


def _show_changes(version: str) -> None:
    _report("what the archive page will say of changes that are not released yet")
    towncrier = Path(sys.executable).parent / "towncrier"
    print(_run(towncrier, "build", "--draft", "--version", version, cwd=ROOT))


def _readme_blocks() -> tuple[str, str]:
    """Return the README's first server and first client."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return blocks[0], blocks[1]


def _environment(folder: Path, requirement: str) -> Path:
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", requirement)
    return python


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on port {port} after a minute")


def _run(*command: object, cwd: Path | None = None) -> str:
    outside = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=outside,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout


def _report(step: str) -> None:
    print(f"- {step}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

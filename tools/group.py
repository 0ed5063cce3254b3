"""Run one group of tests; look a second time at what failed, and remember what needed it.

    .venv/bin/python tools/group.py wire -n 2 --dist worksteal tests/http

The first word is the name of the group; the rest goes to pytest, which runs in this interpreter. A
test that fails while the machine is busy gets a second look, alone. What fails twice fails. What
passes at the second look is written to `.pytest_cache/second-looks.txt` and printed; if the same
test needed it in the run before, too, the group fails: such a test is a defect with a name.
The last line says what the group cost, so that a costly one is seen in every run.
"""

import json
import re
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

CACHE = Path(".pytest_cache").resolve()
LOOKS = CACHE / "second-looks.txt"
# The exit code of pytest when tests failed; all others mean that it could not run them.
FAILED = 1


def main(group: str, *options: str) -> int:
    """Run a group and return its exit code."""
    start = time.monotonic()
    cache = CACHE / group
    memory = CACHE / f"second-looks-{group}.json"
    before = set(json.loads(memory.read_text())) if memory.exists() else set()
    list_of_failed = cache / "v" / "cache" / "lastfailed"
    list_of_failed.unlink(missing_ok=True)
    status = pytest(cache, "-q", *options)
    failed = read_failed(list_of_failed) if status == FAILED else []
    # A file that could not be collected is named without a test: then its tests have not run.
    if failed and all("::" in each for each in failed):
        print("A second look at what failed, one at a time:", flush=True)
        paths = [each for each in options if each.startswith(("tests", "interop"))]
        status = pytest(
            cache,
            "-v",
            "--last-failed",
            "--last-failed-no-failures=none",
            *markers(options),
            *paths,
        )
    again = set(read_failed(list_of_failed)) if status == FAILED else set()
    mended = sorted(set(failed) - again) if status in (0, FAILED) else []
    if mended:
        note(group, mended)
    repeated = sorted(before.intersection(mended))
    if repeated:
        print("These needed a second look in two runs in a row; mend them:", *repeated, sep="\n  ")
    memory.parent.mkdir(exist_ok=True)
    memory.write_text(json.dumps(mended))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, elapsed = used.ru_utime + used.ru_stime, time.monotonic() - start
    print(f"{group}: {cpu:.0f} s of CPU in {elapsed:.0f} s", flush=True)
    return status or bool(repeated)


def pytest(cache: Path, *options: str) -> int:
    """Run pytest with a cache of its own, so that groups can run side by side."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *options]
    return subprocess.run(command, check=False).returncode


def markers(options: tuple[str, ...]) -> list[str]:
    """Return the choice of markers among the options."""
    return [*options[(at := options.index("-m")) : at + 2]] if "-m" in options else []


def read_failed(path: Path) -> list[str]:
    """Return the ids of tests that failed, without the groups of `--dist loadgroup` after them."""
    if not path.exists():
        return []
    found = [re.sub(r"@\w+$", "", each) for each in json.loads(path.read_text())]
    path.write_text(json.dumps(dict.fromkeys(found, True)))
    return found


def note(group: str, mended: list[str]) -> None:
    """Write down and print which tests passed only at the second look."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with LOOKS.open("a") as file:
        file.writelines(f"{now} {group} {each}\n" for each in mended)
    print(f"Passed only at a second look (kept in {LOOKS.name}):", *mended, sep="\n  ", flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Hold every layer to its coverage of lines and branches, child processes included.

.venv/bin/python tools/coverage_gate.py     after the tests have written their .coverage files
"""

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Pure code has no excuse; elsewhere some lines are for systems and faults that tests cannot make.
WHOLE = ("protocol", "http/rules", "stdio/lines", "types", "json_schema")
LEAST = 95.0


def main() -> int:
    """Print a row per layer; the exit code is 1 if one of them falls short."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        coverage = [sys.executable, "-m", "coverage"]
        subprocess.run([*coverage, "combine", "-q", "--append"], cwd=ROOT, check=False)
        subprocess.run([*coverage, "json", "-q", "-o", str(path)], cwd=ROOT, check=True)
        files = json.loads(path.read_text())["files"]
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    gaps: dict[str, list[str]] = defaultdict(list)
    for name, file in files.items():
        layer = layer_of(name)
        summary = file["summary"]
        covered = summary["covered_lines"] + summary.get("covered_branches", 0)
        total = summary["num_statements"] + summary.get("num_branches", 0)
        counts[layer][0] += covered
        counts[layer][1] += total
        if covered < total:
            gaps[layer].append(
                f"    {name}: lines {file['missing_lines']}, branches "
                f"{file.get('missing_branches', [])}"
            )
    unknown = set(sys.argv[1:]) - counts.keys()
    if unknown:
        print("no file was measured of", *sorted(unknown))
    failed = bool(unknown)
    for layer, (covered, total) in sorted(counts.items()):
        if len(sys.argv) > 1 and layer not in sys.argv[1:]:
            continue
        share = 100.0 * covered / total if total else 100.0
        least = 100.0 if layer in WHOLE else LEAST
        is_enough = share >= least
        failed |= not is_enough
        print(f"{layer:24} {share:6.2f} % of {least:g} %{'' if is_enough else '  too little'}")
        if not is_enough:
            print("\n".join(gaps[layer]))
    return int(failed)


def layer_of(file: str) -> str:
    """Return the layer of a file; the modules beside the layers (errors, trace, ...) are one."""
    path = file.partition("src/")[2].removesuffix(".py")
    package, _, inside = path.partition("/")
    layer, _, rest = inside.partition("/")
    if package == "accord" and inside.startswith(tuple(each for each in WHOLE if "/" in each)):
        return "/".join(inside.split("/")[:2])
    if not rest:
        return package
    return layer if package == "accord" else f"{package}/{layer}"


if __name__ == "__main__":
    sys.exit(main())

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
WHOLE = ("protocol", "bindings", "types", "json_schema")
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
        # The modules beside the layers (errors, principal, trace, ...) count together.
        layer, inside, _ = name.partition("src/accord/")[2].partition("/")
        layer = layer if inside else "accord"
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
    failed = False
    for layer, (covered, total) in sorted(counts.items()):
        if len(sys.argv) > 1 and layer not in sys.argv[1:]:
            continue
        share = 100.0 * covered / total if total else 100.0
        least = 100.0 if layer in WHOLE else LEAST
        is_enough = share >= least
        failed |= not is_enough
        print(f"{layer:12} {share:6.2f} % of {least:g} %{'' if is_enough else '  too little'}")
        if not is_enough:
            print("\n".join(gaps[layer]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

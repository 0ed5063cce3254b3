"""The modules of the inspector's page, read by the TypeScript compiler: names, imports, types."""

import subprocess
from pathlib import Path

from browser import NODE

HERE = Path(__file__).parent


def test_the_modules_of_the_page_use_only_what_exists() -> None:
    compiler = HERE / "node_modules/typescript/bin/tsc"
    ran = subprocess.run(
        [NODE, str(compiler), "--pretty", "false", "-p", str(HERE / "page.tsconfig.json")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # Compressed files of others have no types.
    found = [line for line in ran.stdout.splitlines() if "/vendor/" not in line]
    assert "error" in ran.stdout or ran.returncode == 0, ran.stderr
    assert found == []

"""`accord check client` on foreign clients as they are: what it finds is known and justified.

`docs/foreign-results.md` has the text of the specification for each finding.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from sessions import HERE, NODE, QUIET

CHECKED: Final = HERE / "checked"
COMMANDS: Final = {
    "mcp": [sys.executable, str(CHECKED / "mcp_client.py")],
    "fastmcp": [sys.executable, str(CHECKED / "fastmcp_client.py")],
    "sdk-1": [NODE, str(CHECKED / "sdk1_client.js")],
    "sdk-2": [NODE, str(CHECKED / "sdk2_client.js")],
}
PLACES: Final = {"http": "{url}", "stdio": "{server}"}
# Found by hand, each with its clause in docs/foreign-results.md.
_COMMON: Final = frozenset(
    {
        "http.session.client-restarts-on-404",
        "jsonrpc.batch.receive",
        "lifecycle.capabilities.respected",
        "sampling.tools.capability",
        "tasks.tool.required-tasked",
    }
)
FAILS: Final = {
    "mcp": _COMMON,
    "fastmcp": _COMMON,
    "sdk-1": _COMMON,
    "sdk-2": _COMMON,
}
# Clients that never give up a request are stopped after this; most runs take one second.
PATIENCE: Final = 8


# The gate checks one client on some areas; `make thorough` checks all, half a minute each.
SOME_AREAS: Final = ("http.session", "lifecycle")
ALL_AREAS: Final = ()
PAIRS: Final = [
    pytest.param("sdk-1", "http", SOME_AREAS, 15, id="sdk-1-http-some-areas"),
    *(
        pytest.param(name, over, ALL_AREAS, 60, id=f"{name}-{over}", marks=pytest.mark.thorough)
        for name in sorted(COMMANDS)
        for over in sorted(PLACES)
    ),
]


@pytest.mark.parametrize(("name", "over", "areas", "passes"), PAIRS)
def test_nothing_is_found_that_was_not_justified(
    name: str, over: str, areas: tuple[str, ...], passes: int, tmp_path: Path
) -> None:
    kept = tmp_path / "report.json"
    check = [sys.executable, "-m", "accord.cli.main", "check", "client"]
    options = ["--timeout", str(PATIENCE), "--format", "json", "--output", str(kept)]
    options += [word for each in areas for word in ("--only", each)]
    quiet = [word for each in QUIET.items() for word in ("--env", "=".join(each))]
    done = subprocess.run(
        [*check, *options, *quiet, "--", *COMMANDS[name], PLACES[over]],
        capture_output=True,
        timeout=500,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    results = json.loads(kept.read_text())["results"]
    fails = {each["id"]: each["message"] for each in results if each["verdict"] == "fail"}
    assert set(fails) <= FAILS[name], fails
    assert sum(each["verdict"] == "pass" for each in results) > passes

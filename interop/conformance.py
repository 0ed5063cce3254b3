"""The official conformance suite: how it is run, and what it found.

The suite's own exit status is too kind: it lets a server break what it only should keep, and takes
scenarios in which nothing was checked for passed. So its checks are read one by one.
"""

import contextlib
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sessions import HERE, NODE

SUITE: Final = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
SERVER: Final = HERE / "conformance_server.py"
CLIENT: Final = HERE / "conformance_client.py"
SCENARIOS: Final = tomllib.loads((HERE / "conformance.toml").read_text(encoding="utf-8"))

# On an idle machine the server starts within one second, all its scenarios take two, and one of the
# client's takes one.
STARTING: Final = 15.0
PATIENCE: Final = 25.0
CLIENT_PATIENCE: Final = 15.0


def scenarios(role: str, revision: str | None = None) -> list[str]:
    """Return what is run of the suite, in general or for a pinned revision."""
    lacking = SCENARIOS[role]["without"].get(revision, ())
    return [each for each in SCENARIOS[role]["run"] if each not in lacking]


def listed() -> dict[str, list[str]]:
    """Ask the suite which scenarios it has, by role."""
    found: dict[str, list[str]] = {"server": [], "client": []}
    role = ""
    for line in _run("list").splitlines():
        if heading := re.match(r"(Server|Client) scenarios", line):
            role = heading[1].lower()
        elif scenario := re.match(r"\s+- (\S+)", line):
            found[role].append(scenario[1])
    return found


def judge_server(arguments: list[str], folder: Path) -> dict[str, list[str]]:
    """Let the suite look at the server; returns complaints by scenario, and the server's own."""
    folder.mkdir()
    log = folder / "server.log"
    with serving(arguments, log) as url:
        printed = _run("server", "--url", url, "--suite", "all", "--output-dir", str(folder))
    found = {each: [f"not finished: {printed[-1000:]}"] for each in _begun(printed)}
    for path in folder.glob("server-*/checks.json"):
        scenario = re.sub(r"^server-(.*)-\d{4}-\d\d-\d\dT.*$", r"\1", path.parent.name)
        found[scenario] = complaints(path)
    said = log.read_text(encoding="utf-8").splitlines()
    found["log"] = [line for line in said if not re.match(r"INFO:|\S+ is served at http", line)]
    return found


def _begun(printed: str) -> list[str]:
    return re.findall(r"Running scenario: (\S+)", printed)


def judge_client(scenario: str, arguments: list[str], folder: Path) -> list[str]:
    """Let the suite look at the client in one scenario; returns its complaints."""
    printed = _run(
        *("client", "--scenario", scenario, "--output-dir", str(folder)),
        *("--command", " ".join([sys.executable, str(CLIENT), *arguments])),
        *("--timeout", str(round(CLIENT_PATIENCE * 1000))),
    )
    found = [each for path in folder.rglob("checks.json") for each in complaints(path)]
    if "Results saved" not in printed or re.search(
        "^Client (exited|timed out)", printed, re.MULTILINE
    ):
        found.append(f"not finished: {printed[-4000:]}")
    return found


def complaints(path: Path) -> list[str]:
    """Read what the suite has against a scenario; one that checked nothing was not passed."""
    checks: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    found = [
        f"{check['status']} {check['id']}: {check.get('errorMessage')}"
        for check in checks
        if check["status"] in ("FAILURE", "WARNING") and not _is_late(check)
    ]
    if not any(check["status"] == "SUCCESS" or _is_late(check) for check in checks):
        found.append("nothing was checked")
    return found


def _is_late(check: dict[str, Any]) -> bool:
    """Tell whether the suite complains of a wait that was too long.

    To come back no earlier than asked is the rule. Its upper bound of 0.2 s more measures the
    machine, and later releases of the suite have none.
    """
    details = check.get("details", {})
    return bool(details.get("slightlyLate") or details.get("veryLate"))


@contextlib.contextmanager
def serving(arguments: list[str], log: Path) -> Iterator[str]:
    """Run the server; yields where it is."""
    command = [sys.executable, str(SERVER), "--port", "0", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield f"{_place(process, log)}/mcp"
    finally:
        process.terminate()
        try:
            process.wait(STARTING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _place(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text(encoding="utf-8")):
            return found[0]
        time.sleep(0.02)
    raise AssertionError(f"the server did not start: {log.read_text(encoding='utf-8')[-4000:]}")


def _run(*arguments: str) -> str:
    """Run the suite and return what it printed; its checks tell more than its exit status."""
    process = subprocess.Popen(
        [NODE, str(SUITE), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        return process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        # A server that does not answer would keep it waiting for ever.
        process.kill()
        return process.communicate()[0]

"""The official conformance suite: how it is run, and what it found.

The suite's own exit status is too kind: it lets a server break what it only should keep, takes
scenarios in which nothing was checked for passed, and does not look at how a client ended. So its
checks are read one by one, and clients say how they ended.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from client_pool import ENDED
from sessions import HERE, NODE

OLD: Final = "0.1.16"
NEXT: Final = "0.2.0-alpha.12"
SUITES: Final = {
    OLD: HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js",
    NEXT: HERE / "node_modules/conformance-next/dist/index.js",
}
SERVER: Final = HERE / "conformance_server.py"
POOL: Final = HERE / "client_pool.py"
KNOWN: Final = tomllib.loads((HERE / "conformance.toml").read_text(encoding="utf-8"))

ALL: Final = "all"
IN_NO_SET: Final = "in no set"
# The sets that the suite has itself: scenarios that count, and more that run with them.
SETS: Final = ("2025-11-25", "2026-07-28")
# The other revisions, by which the suite can choose among its scenarios.
FILTERS: Final = ("2025-03-26", "2025-06-18")
NOT_SCORED: Final = "not scored"

# On an idle machine the server starts within one second, and a run takes ten.
STARTING: Final = 15.0
PATIENCE: Final = 120.0
CLIENTS_AT_ONCE: Final = 3


class Run(NamedTuple):
    """One run of the suite: a release, a role of ours, a set, and how our side is started."""

    release: str
    role: str
    set: str
    arguments: tuple[str, ...] = ()
    pinned: str = ""

    def __str__(self) -> str:
        words = (each.removeprefix("--") for each in self.arguments)
        return "-".join([self.role, self.release, self.set, *words])

    @property
    def scenarios(self) -> list[str]:
        """What the suite has to come to, in its order."""
        lists = KNOWN[self.release][self.role]
        return [*lists[self.set], *lists.get(f"{self.set} {NOT_SCORED}", ())]

    @property
    def passing(self) -> list[str]:
        """The scenarios in which nothing may be found."""
        others = {*self.failing, *self.unchecked, *self._without()}
        return [each for each in self.scenarios if each not in others]

    @property
    def failing(self) -> list[str]:
        """The scenarios that contradict the specification, or ask for what is not there yet."""
        return self._exceptions("contradicts") + self._exceptions("not_yet")

    @property
    def unchecked(self) -> list[str]:
        """The scenarios that check nothing."""
        return self._exceptions("unchecked")

    def _exceptions(self, kind: str) -> list[str]:
        found = [each["scenario"] for each in KNOWN.get(kind, ()) if self._is_meant(each)]
        return [each for each in self.scenarios if each in found]

    def _without(self) -> list[str]:
        return [
            scenario
            for each in KNOWN["without"]
            if self._is_meant(each) and each["pinned"] == self.pinned
            for scenario in each["scenarios"]
        ]

    def _is_meant(self, exception: dict[str, Any]) -> bool:
        return (exception["release"], exception["role"]) == (self.release, self.role)

    def options(self, folder: Path) -> list[str]:
        """Return what the suite is started with, but for its peer."""
        chosen = ["--suite", ALL]
        if self.set in SETS:
            chosen = ["--requirements", self.set]
        elif self.set in FILTERS:
            chosen += ["--spec-version", self.set]
        return [self.role, *chosen, "--output-dir", str(folder)]


Found = dict[str, list[str]]


def judge(run: Run, folder: Path) -> Found:
    """Let the suite look; return complaints by scenario."""
    folder.mkdir()
    return judge_server(run, folder) if run.role == "server" else judge_clients(run, folder)


def judge_server(run: Run, folder: Path) -> Found:
    """Let the suite look at the server; returns its own complaints too, as those of `log`."""
    log = folder / "server.log"
    with serving(run.arguments, log) as url:
        printed = _run(run.release, *run.options(folder), "--url", url)
    begun = re.findall(r"Running scenario: (\S+)", printed)
    found = {each: [f"not finished: {printed[-1000:]}"] for each in begun}
    for path in folder.glob("server-*/checks.json"):
        found[_scenario(path, folder).removeprefix("server-")] = complaints(path)
    said = log.read_text(encoding="utf-8").splitlines()
    found["log"] = [line for line in said if not re.match(r"INFO:|\S+ is served at http", line)]
    return found


def judge_clients(run: Run, folder: Path) -> Found:
    """Let the suite look at clients, one per scenario; those that failed count as a complaint."""
    timeout = str(round(PATIENCE * 1000))
    with pool(folder) as command:
        command = " ".join([*command, *run.arguments])
        options = [*run.options(folder), "--command", command, "--timeout", timeout]
        printed = _run(run.release, *options)
    found: Found = {}
    for path in folder.rglob("checks.json"):
        said = path.with_name("stderr.txt").read_text(encoding="utf-8")
        failed = [] if said.endswith(f"{ENDED} 0\n") else [f"the client failed: {said[-4000:]}"]
        found[_scenario(path, folder)] = complaints(path) + failed
    return found or {"log": [f"not finished: {printed[-4000:]}"]}


def _scenario(path: Path, folder: Path) -> str:
    """Return the scenario in the name of a folder of results, which ends with the time."""
    return re.sub(r"-\d{4}-\d\d-\d\dT[^/]*$", "", str(path.parent.relative_to(folder)))


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


# -- what the suite has


def listed(release: str) -> dict[str, dict[str, list[str]]]:
    """Ask the suite which scenarios it has: by role, then by the sets of `conformance.toml`."""
    found: dict[str, dict[str, list[str]]] = {}
    listing: dict[str, list[str]] = {}
    for line in _run(release, "list").splitlines():
        if heading := re.match(r"(\w+) (?:server )?scenarios", line):
            listing = found.setdefault(heading[1].lower(), {ALL: []})
        elif scenario := re.match(r"\s+- (\S+)(?: \[(.*)\])?", line):
            for each in (ALL, *(scenario[2] or "").split(",")):
                listing.setdefault(each, []).append(scenario[1])
    return found


def required() -> dict[str, dict[str, list[str]]]:
    """Ask the newer suite for its own sets, by role."""
    found: dict[str, dict[str, list[str]]] = {"server": {}, "client": {}}
    revision = role = ""
    for line in _run(NEXT, "list", "--requirements", ",".join(SETS)).splitlines():
        if heading := re.match(r"Required for (\S+)", line):
            revision = heading[1]
        elif heading := re.match(r"(Server|Client) scenarios", line):
            role = heading[1].lower()
        elif scenario := re.match(r"\s+- (\S+) \[(\w+)\]", line):
            found[scenario[2]].setdefault(f"{revision} {NOT_SCORED}", []).append(scenario[1])
        elif scenario := re.match(r"\s+- (\S+)", line):
            found[role].setdefault(revision, []).append(scenario[1])
    return found


# -- our side


@contextlib.contextmanager
def serving(arguments: tuple[str, ...], log: Path) -> Iterator[str]:
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


@contextlib.contextmanager
def pool(folder: Path) -> Iterator[list[str]]:
    """Run the pool of clients; yields the command that plays one."""
    place = folder / "pool"
    command = [sys.executable, str(POOL), str(place), str(CLIENTS_AT_ONCE)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + STARTING
        while not place.exists():
            assert process.poll() is None, "the pool of clients ended"
            assert time.monotonic() < deadline, "the pool of clients did not start"
            time.sleep(0.02)
        # Isolated and without its packages, an interpreter starts in 20 ms.
        yield [sys.executable, "-IS", str(POOL), str(place)]
    finally:
        # With all clients that are left.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run(release: str, *arguments: str) -> str:
    """Run the suite and return what it printed; its checks tell more than its exit status."""
    process = subprocess.Popen(
        [NODE, str(SUITES[release]), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        return process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        # A peer that does not answer would keep it waiting for ever.
        process.kill()
        return process.communicate()[0]


def judge_authorization(issuer: str, client_id: str, port: int, folder: Path) -> Found:
    """Let the suite look at an authorization server, as a user who follows its links."""
    process = subprocess.Popen(
        [
            *(NODE, str(SUITES[NEXT]), "authorization", "--url", issuer, "--client-id", client_id),
            *("--resource", f"{issuer}/mcp", "--port", str(port), "--output-dir", str(folder)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    ending = threading.Timer(PATIENCE, process.kill)
    ending.start()
    printed = ""
    is_open = False
    with process:
        for line in process.stdout:
            printed += line
            link = re.search(rf"{re.escape(issuer)}/\S+\?\S+", printed)
            # It prints the link, and that it waits for the browser, in either order.
            if link and "Callback server started" in printed and not is_open:
                is_open = True
                opener.open(link[0], timeout=PATIENCE).close()
    ending.cancel()
    return {
        _scenario(path, folder).removeprefix("authorization-server-"): complaints(path)
        for path in folder.glob("*/checks.json")
    } or {"log": [printed]}

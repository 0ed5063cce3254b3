"""`accord fleet` on ten servers of npm and PyPI: all are reached, and none leaves a process."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sessions import HERE, NODE

FLEET = HERE / "real_servers.toml"
NPM = {"everything", "filesystem", "memory", "thinking", "clock"}
PYPI = {"time", "git", "sqlite", "calculator", "editor"}
# Those that the gate checks: of each origin one, in one revision, for what takes few launches. The
# official Python SDK takes half a second to load, so that the others are only started and listed.
CHECKED = ("everything", "calculator", "clock")
SHORT = f"""
[fleet]
extends = "{FLEET.as_posix()}"

[defaults]
revisions = ["2025-06-18"]
only = ["stdio.server.stdout-only-messages"]
contract = false
"""


class Ran(NamedTuple):
    """A run of the command: its exit code, what it printed, and the JSON that it wrote."""

    code: int
    text: str
    run: dict[str, Any]
    page: str

    @property
    def servers(self) -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in self.run["results"]}

    @property
    def unexpected(self) -> dict[str, list[str]]:
        return {each["name"]: each["reasons"] for each in self.run["results"] if each["reasons"]}


class RealFleet:
    """The ten servers, with a folder to work in: they get it by the variable `SCRATCH`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scratch = folder / "scratch"
        self._runs = 0
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", self.scratch]
        subprocess.run(["git", "init", "-q", self.scratch], check=True)
        (self.scratch / "notes.txt").write_text("a text\n")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)

    def check(self, file: Path, options: Sequence[str] = ()) -> Ran:
        self._runs += 1
        form = self.folder / f"run{self._runs}"
        command = [sys.executable, "-m", "accord", "fleet", str(file), "--yes", *options]
        command += ["--history", str(self.folder / "history.sqlite")]
        command += ["--output", f"{form}.json", "--output", f"{form}.html"]
        done = subprocess.run(
            command,
            check=False,
            env={
                **os.environ,
                "NODE": NODE,
                "PATH": os.pathsep.join([str(Path(NODE).parent), os.environ["PATH"]]),
                "SCRATCH": str(self.scratch),
                "ACCORD_FLEET_KEY": "a key of this test",
            },
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, 1), done.stderr + done.stdout
        run = json.loads(Path(f"{form}.json").read_text())["run"]
        page = Path(f"{form}.html").read_text()
        return Ran(done.returncode, done.stdout, run, page)

    def running(self) -> list[str]:
        """Return the commands of processes that have this folder among their variables."""
        mark = os.fsencode(f"SCRATCH={self.scratch}")
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (each / "environ").read_bytes().split(b"\0"):
                    found.append((each / "cmdline").read_text().replace("\0", " "))
            except OSError:  # it has ended, or belongs to another user
                continue
        return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> RealFleet:
    return RealFleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def listed(fleet: RealFleet) -> Ran:
    """All ten, started, listed and stopped."""
    return fleet.check(FLEET, ["--skip", "check", "--skip", "test", "--skip", "measure"])


def test_all_ten_are_reached(listed: Ran) -> None:
    assert listed.servers.keys() == NPM | PYPI
    assert {each["state"] for each in listed.servers.values()} == {"ok"}, listed.text
    assert listed.code == 0
    for each in listed.servers.values():
        assert each["surface"]["tools"] > 0, each["name"]
        assert each["timing"]["start"] > 0, each["name"]
        assert each["server_version"], each["name"]


def test_names_that_two_servers_share_are_found(listed: Ran) -> None:
    collisions = [each for each in listed.run["findings"] if each["id"] == "safety.collision"]
    assert [each["subject"] for each in collisions] == ["tool convert_time"]


def test_no_single_server_looks_dangerous(listed: Ran) -> None:
    found = [each for one in listed.servers.values() for each in one["findings"]]
    assert [each for each in found if each["id"].startswith("safety.")] == []


def test_the_page_names_every_server(listed: Ran) -> None:
    for name in NPM | PYPI:
        assert f">{name}<" in listed.page


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_no_process_is_left(listed: Ran, fleet: RealFleet) -> None:
    assert fleet.running() == []
    assert not any(each["left_processes"] for each in listed.servers.values())


def test_results_are_reused_where_files_show_what_runs(fleet: RealFleet) -> None:
    file = fleet.folder / "accord-fleet.toml"
    file.write_text(SHORT)
    chosen = [word for name in CHECKED for word in ("--server", name)]
    first, again = (fleet.check(file, chosen) for _ in range(2))
    for ran in (first, again):
        # A new release may break something else: that is news.
        assert {each["state"] for each in ran.servers.values()} <= {"ok", "failed"}, ran.text
        (breach,) = [each for each in ran.servers["clock"]["breaches"] if each["verdict"] == "fail"]
        assert breach["requirement"] == "stdio.server.stdout-only-messages"
        assert breach["accepted"].startswith("prints a greeting to standard output")
    assert not any(each["reused_from"] for each in first.servers.values())
    reused = {name for name, each in again.servers.items() if each["reused_from"]}
    assert reused == {"everything", "calculator"}
    assert again.servers["clock"]["not_cached"] == "time-mcp runs whichever node is found first"
    assert again.servers["everything"]["verdicts"] == first.servers["everything"]["verdicts"]


@pytest.mark.thorough
def test_nothing_but_accepted_breaches_fails_in_any_revision(fleet: RealFleet) -> None:
    whole = fleet.check(FLEET)
    assert whole.unexpected == {}, whole.text
    assert all(each["tests"]["names"] for each in whole.servers.values())
    remarks = {name: each["remarks"] for name, each in whole.servers.items() if each["remarks"]}
    assert remarks == {}
    assert fleet.running() == []

"""The exit code of a run, and where it was made."""

import subprocess

from accord_tools.fleet.fleet_runner import find_origin
from accord_tools.fleet.results import (
    CatalogChange,
    CatalogFinding,
    FleetRun,
    RuleSetStamp,
    RunComparison,
    RunDifference,
    ServerResult,
    exit_code,
)
from support.tables import cases

GOOD = ServerResult(name="good", state="ok")
BAD = ServerResult(name="bad", state="failed")
SLOW = ServerResult(name="slow", state="timed-out")
GONE = ServerResult(name="gone", state="unreachable")
LEFT_OUT = ServerResult(name="left-out", state="skipped")
WARNED = ServerResult(name="warned", state="ok", warnings=1)
FOUND = ServerResult(
    name="found", state="ok", findings=(CatalogFinding(id="a", severity="warn", text=""),)
)
ACCEPTED = ServerResult(
    name="accepted",
    state="ok",
    findings=(
        CatalogFinding(id="a", severity="warn", text="", accepted="known"),
        CatalogFinding(id="b", severity="info", text=""),
    ),
)
CHANGED = ServerResult(
    name="changed",
    state="ok",
    changes=(CatalogChange(kind="text", subject="tool a", what="removed"),),
)


def code(*results, fail_on=("failure",), kinds=(), flaky=False, **rest):
    run = FleetRun(
        fleet="f",
        file="f",
        started="",
        accord="",
        rules=RuleSetStamp(version="", digest=""),
        results=results,
    )
    comparison = None
    if kinds:
        differences = tuple(
            RunDifference(kind=each, server="good", text="", is_flaky=flaky) for each in kinds
        )
        comparison = RunComparison(against="run 1", differences=differences)
    return exit_code(run, comparison, fail_on, **rest)


@cases(
    ("results", "settings", "expected"),
    [
        ([GOOD], {}, 0),
        ([GOOD, BAD], {}, 1),
        ([GOOD, GONE], {}, 1),
        ([GOOD, SLOW], {}, 1),
        ([GOOD, LEFT_OUT], {}, 0),
        ([LEFT_OUT], {}, 0),
        ([GOOD, LEFT_OUT], {"require_all": True}, 2),
        ([GONE], {}, 2),
        ([GONE, LEFT_OUT], {}, 2),
        ([GOOD, WARNED], {}, 0),
        ([GOOD, BAD], {"fail_on": ("never",)}, 0),
        ([GONE], {"fail_on": ("never",)}, 0),
        ([GOOD, WARNED], {"fail_on": ("warning",)}, 1),
        ([GOOD, FOUND], {"fail_on": ("warning",)}, 1),
        ([GOOD, ACCEPTED], {"fail_on": ("warning",)}, 0),
        ([GOOD, BAD], {"fail_on": ("warning",)}, 1),
        ([GOOD, BAD], {"fail_on": ("regression",)}, 0),
        ([GOOD], {"fail_on": ("regression",), "kinds": ["new-failure"]}, 1),
        ([GOOD], {"fail_on": ("regression",), "kinds": ["coverage-lost"]}, 1),
        ([GOOD], {"fail_on": ("regression",), "kinds": ["surface-breaking"]}, 1),
        ([GOOD], {"fail_on": ("regression",), "kinds": ["surface-changed"]}, 0),
        ([GOOD], {"fail_on": ("regression",), "kinds": ["fixed", "appeared"]}, 0),
        ([GOOD], {"fail_on": ("regression",), "kinds": ["new-failure"], "flaky": True}, 0),
        ([GOOD], {"fail_on": ("failure",), "kinds": ["new-failure"]}, 0),
        ([GOOD], {"fail_on": ("drift",), "kinds": ["surface-changed"]}, 1),
        ([GOOD, CHANGED], {"fail_on": ("drift",)}, 1),
        ([GOOD, BAD], {"fail_on": ("drift", "failure")}, 1),
    ],
)
def test_the_exit_code_follows_from_what_fails_a_run(results, settings, expected):
    assert code(*results, **settings) == expected


def test_commit_branch_and_changes_of_the_folder_are_found(tmp_path):
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
        subprocess.run(["git", *who, "-C", tmp_path, *words], check=True, capture_output=True)

    git("init", "-b", "trunk")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "first")
    found = find_origin(tmp_path, {})
    assert (len(found.git_commit), found.git_branch, found.is_dirty) == (40, "trunk", False)
    (tmp_path / "a").write_text("2")
    git("checkout", "--detach")
    job = {"GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "a/b"}
    job |= {"GITHUB_RUN_ID": "7", "GITHUB_REF_NAME": "feature"}
    found = find_origin(tmp_path, job)
    assert (found.git_branch, found.is_dirty) == ("feature", True)
    assert found.ci_url == "https://git.example/a/b/actions/runs/7"


def test_a_folder_outside_of_git_has_no_commit(tmp_path):
    assert find_origin(tmp_path, {"BUILD_URL": "https://ci.example/1"}).git_commit == ""
    assert find_origin(tmp_path, {"BUILD_URL": "https://ci.example/1"}).ci_url.endswith("/1")

"""Where a run was made: commit and branch of the folder, and the job of CI."""

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from accord_tools.fleet.results import RunOrigin

_SECONDS: Final = 5.0
# A folder that was downloaded must not name programs that git runs.
_SAFE: Final = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
# The variables in which systems for CI name their jobs.
_CI_URLS: Final = ("CI_JOB_URL", "BUILD_URL", "CIRCLE_BUILD_URL", "BUILDKITE_BUILD_URL")
_CI_BRANCHES: Final = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "CIRCLE_BRANCH"),
    *("BUILDKITE_BRANCH", "BRANCH_NAME"),
)


def find_origin(folder: Path, environ: Mapping[str, str] | None = None) -> RunOrigin:
    """Return commit, branch, job and machine of a run; what is unknown stays empty.

    Args:
        folder: of the fleet file.
        environ: the variables of this process.
    """
    environ = os.environ if environ is None else environ
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return RunOrigin(ci_url=_ci_url(environ), host=platform.node())
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    if branch == "HEAD":  # jobs of CI check out a commit, not a branch
        branch = next((environ[each] for each in _CI_BRANCHES if environ.get(each)), "")
    return RunOrigin(
        git_commit=commit,
        git_branch=branch,
        is_dirty=bool(_git(folder, "status", "--porcelain", "--untracked-files=no")),
        ci_url=_ci_url(environ),
        host=platform.node(),
    )


def _ci_url(environ: Mapping[str, str]) -> str:
    job = [environ.get(f"GITHUB_{each}") for each in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    if all(job):
        return f"{job[0]}/{job[1]}/actions/runs/{job[2]}"
    return next((environ[each] for each in _CI_URLS if environ.get(each)), "")


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  # fixed words
            ["git", "-C", str(folder), *_SAFE, *words],  # noqa: S607  # the user's own git
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

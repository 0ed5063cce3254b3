"""Advice on a server that does not start, for `accord doctor` and for checks of hosts."""

import os
import re
import shutil
from collections.abc import Sequence
from typing import Final

from accord.stdio.error_lines import find_cause, find_missing_variable, telling_lines
from accord_tools.check.probing.messages import shorten
from accord_tools.hosts.checking.findings import Blame

_LINES: Final = 3
_LINE: Final = 200
DOWNLOADERS: Final = frozenset({"npx", "uvx", "uv", "bunx", "pipx", "docker", "podman"})
"""Programs whose first start may take minutes."""
_RUNNERS: Final = {
    "npx": "Node.js",
    "node": "Node.js",
    "uvx": "uv",
    "uv": "uv",
    "docker": "Docker",
    "bun": "Bun",
    "bunx": "Bun",
    "deno": "Deno",
}


def advise_program(program: str) -> str:
    """Return what to do about a program that does not exist."""
    if os.path.isabs(program) or os.path.dirname(program):
        return "correct the path; is it executable?"
    if program in _RUNNERS:
        return f"install {_RUNNERS[program]}, or write the full path of {program}"
    if program == "python" and shutil.which("python3"):
        return "write python3, or the full path of the Python that has the server's packages"
    return "install it, or write its full path"


def advise_start(stderr: Sequence[str], stray: Sequence[str]) -> str:
    """Return what to do about a server that does not start, by what it wrote."""
    return diagnose_start(stderr, stray)[1]


def diagnose_start(stderr: Sequence[str], stray: Sequence[str]) -> tuple[Blame, str]:
    """Return what has to change, and how, by what a server wrote before it ended."""
    text = "\n".join(stderr)
    if "ModuleNotFoundError" in text or "No module named" in text:
        return (
            "machine",
            "install the missing module for that Python, or name the Python that has it",
        )
    if "Cannot find module" in text or "ERR_MODULE_NOT_FOUND" in text:
        return "machine", "install the packages of the server (npm install), or correct the path"
    if "Permission denied" in text or "EACCES" in text:
        return "machine", "let the user of the host read and run these files"
    if "EADDRINUSE" in text or "Address already in use" in text:
        return "machine", "end the other copy of the server: both want the same port"
    if variable := find_missing_variable(stderr):
        option = f"--env {variable}=VALUE here, env in the entry of a host"
        return "entry", f"set the variable that it misses, {variable}: {option}"
    if "KeyError" in text or "environment variable" in text.lower():
        return (
            "entry",
            "set the variable that it misses: --env K=V here, env in the entry of a host",
        )
    if re.search(r"can't open file|no such file|there is no file|ENOENT", text, re.IGNORECASE):
        return "entry", "correct the path that it does not find; make it absolute"
    if stray:
        return "server", "write messages alone to standard output, one in each line"
    if stderr:
        return "server", "mend what it says on standard error"
    return "entry", "check that the command serves MCP over stdio: it may need another argument"


def quote_stderr(lines: Sequence[str]) -> str:
    """Return the cause and the last lines of standard error, to be added to a message."""
    cause, last = find_cause(lines), telling_lines(lines)[-_LINES:]
    kept = last if any(each in cause for each in last) else [cause, *last]
    shown = [shorten(each, _LINE) for each in kept if each]
    return f"; stderr: {' | '.join(shown)}" if shown else ""

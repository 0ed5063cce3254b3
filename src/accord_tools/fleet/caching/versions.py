"""The version of a server, from its package, a command or a file."""

import json
import re
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from accord_tools.contract.data_files import read_data_file
from accord_tools.fleet.definition import FleetError, ResolvedServer

_SECONDS: Final = 20.0
_LONGEST: Final = 200
_SEPARATORS: Final = re.compile(r"[-_.]+")
# Any file can be named, and reports show what is found, so other texts are not taken for one.
_VERSION: Final = re.compile(r"[vV]?\d[\w.+!-]{0,63}")


def version_in_file(path: Path) -> str:
    """Return the version that a project file or a text file names.

    Raises:
        FleetError: there is no such file, or no version in it.
    """
    try:
        text = read_data_file(path).decode("utf-8-sig")
        if path.suffix == ".toml":
            found: Any = tomllib.loads(text)
            found = found.get("project", found.get("package", found)).get("version")
        elif path.suffix == ".json":
            found = json.loads(text).get("version")
        else:
            found = text.strip().partition("\n")[0]
    except OSError as error:
        raise FleetError(f"version: {path}: {error.strerror}") from None
    except (ValueError, AttributeError, RecursionError) as error:
        raise FleetError(f"version: {path} cannot be read: {error}") from None
    if not isinstance(found, str) or not _VERSION.fullmatch(found.strip()):
        raise FleetError(f"version: {path} names no version, which begins with a digit")
    return found.strip()


def version_of_command(command: Sequence[str], folder: Path) -> str:
    """Return the first line that a command prints.

    Raises:
        FleetError: it fails, or prints nothing.
    """
    try:
        done = subprocess.run(  # noqa: S603  # of the fleet file, which the user confirmed
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or f"no answer within {_SECONDS:g} s"
        raise FleetError(f"version: {command[0]}: {why}") from None
    lines = done.stdout.split("\n")
    if done.returncode or not lines[0].strip():
        raise FleetError(f"version: {command[0]} ended with {done.returncode} and no version")
    return lines[0].strip()[:_LONGEST]


def version_of_package(named: str, resolved: ResolvedServer) -> str:
    """Return the version of an installed package, as "pypi:NAME" or "npm:NAME" names it.

    Raises:
        FleetError: it is not installed beside the program.
    """
    kind, _, name = named.partition(":")
    if kind == "npm":
        top = Path(resolved.cwd or Path.cwd())
        words = [top / each for each in resolved.command]
        for folder in [top, *(each.parent for each in words)]:
            for around in (folder, *folder.parents):
                manifest = around / "node_modules" / name / "package.json"
                if manifest.is_file():
                    return version_in_file(manifest)
    elif kind == "pypi" and resolved.command:
        home = Path(resolved.command[0]).parent.parent
        wanted = _SEPARATORS.sub("-", name).lower()
        for each in home.glob("lib/python3*/site-packages/*.dist-info"):
            found, _, version = each.name.removesuffix(".dist-info").rpartition("-")
            if _SEPARATORS.sub("-", found).lower() == wanted:
                return version
    raise FleetError(f"version: the package {named!r} is not installed where the server runs")

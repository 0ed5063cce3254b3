"""The Python that runs accord: the words that launch it again, and where its modules are found."""

import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Final

_LISTING_TIMEOUT: Final = 30.0
_CELLAR: Final = re.compile(r"(?P<brew>.*)/Cellar/(?P<formula>[^/]+)/[^/]+/(?P<rest>.+)")
_VERSIONED: Final = re.compile(r"python\d[\d.]*(?:\.exe)?|pythonw(?:\.exe)?", re.IGNORECASE)


def python_words(executable: Path | None = None, prefix: Path | None = None) -> tuple[str, ...]:
    """Return the words that launch accord with a Python, by default with the one that runs it.

    Args:
        executable: as it was started.
        prefix: the folder of its environment.
    """
    executable = executable or Path(os.path.abspath(sys.executable))
    prefix = prefix or Path(sys.prefix)
    # -P: a file in the host's folder must not hide a module of the standard library.
    return (str(stable_python(executable, prefix)), "-P", "-m", "accord")


def stable_python(executable: Path, prefix: Path) -> Path:
    """Return the path of a Python that stays the same when Python is upgraded.

    Args:
        executable: as it was started; links are not followed.
        prefix: the folder of its environment.
    """
    found = _CELLAR.fullmatch(executable.as_posix())
    if found:
        # Homebrew deletes the folder of a version when it installs the next one.
        lasting = Path(found["brew"], "opt", found["formula"], found["rest"])
        framework = re.sub(r"Frameworks/Python\.framework/Versions/[^/]+/", "", found["rest"])
        short = Path(found["brew"], "opt", found["formula"], framework)
        executable = next((each for each in (short, lasting) if each.exists()), executable)
    if not _VERSIONED.fullmatch(executable.name):
        return executable
    plain = executable.with_name("python.exe" if executable.suffix == ".exe" else "python")
    # Outside of an environment, `python` may be another version, without accord.
    is_own = is_environment(prefix) and executable.parent.parent == prefix
    is_window = executable.name.lower().startswith("pythonw")
    return plain if (is_own or is_window) and plain.exists() else executable


def is_environment(prefix: Path) -> bool:
    """Return whether a folder is that of a virtual or conda environment."""
    return (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir()


def import_folders(module: str = "") -> list[str]:
    """Return the folders for PYTHONPATH: hosts do not pass our environment on.

    Args:
        module: a module that has to be found too, beside accord.
    """
    wanted = [Path(__file__).parents[2]]
    if module:
        wanted += find_folders(module.partition(".")[0])
    wanted += [Path(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    known = _default_folders()
    folders = [str(each.absolute()) for each in wanted]
    return list(dict.fromkeys(each for each in folders if os.path.realpath(each) not in known))


def find_folders(package: str) -> list[Path]:
    """Return the folder that a module or package is imported from, without importing it."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(package, [os.getcwd(), *sys.path])
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(each).parent for each in spec.submodule_search_locations]
    return [] if spec.origin is None else [Path(spec.origin).parent]


@cache
def _default_folders() -> frozenset[str]:
    """Return the import path of this Python in an empty environment."""
    import json
    import subprocess

    code = "import json, sys; print(json.dumps(sys.path))"
    try:
        done = subprocess.run(  # noqa: S603  # the interpreter that runs this
            [sys.executable, "-P", "-c", code],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LISTING_TIMEOUT,
            check=True,
        )
        return frozenset(os.path.realpath(each) for each in json.loads(done.stdout) if each)
    except (OSError, ValueError, subprocess.SubprocessError):
        return frozenset()  # then all folders are named, which does no harm

"""Facts about programs and scripts in the file system."""

import os
import re
from pathlib import Path
from typing import Final

from accord_tools.hosts.definition import Machine

# Caches from which `uvx`, `pipx run` and `npx` launch; they are emptied now and then.
_CACHES: Final = (
    (re.compile(r"[/\\]uv[/\\](?:cache[/\\])?(?:archive|builds|environments)-v\d+[/\\]"), "uv"),
    (re.compile(r"[/\\]pipx[/\\]\.cache[/\\]"), "pipx"),
    (re.compile(r"[/\\]_npx[/\\]"), "npx"),
)
_TEMPORARY: Final = ("/tmp", "/private/tmp", "/var/folders", "/private/var/folders", "/var/tmp")  # noqa: S108
_FIRST_LINE: Final = 512
# A search for a moved script ends here: it may not take long, nor look everywhere.
_MOST_SEEN: Final = 20_000
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "site-packages", "dist", "build"})
_PROJECT_SIGNS: Final = (".git", "pyproject.toml", "package.json", "setup.py")
_PYTHONS: Final = ("python", "python3", "python.exe")


def is_throw_away(path: Path, machine: Machine) -> str:
    """Return which folder that gets deleted a path is in; empty if it is in none."""
    for pattern, name in _CACHES:
        if pattern.search(str(path)):
            return f"the cache of {name}"
    given = machine.environ.get("TMPDIR") or machine.environ.get("TEMP")
    folders = (given,) if given else _TEMPORARY
    for folder in folders:
        if path != Path(folder) and path.is_relative_to(folder):
            return "a folder for temporary files"
    return ""


def shebang_of(program: Path) -> list[str]:
    """Return the words of the first line of a script; empty if it is another file."""
    try:
        with program.open("rb") as file:
            start = file.read(_FIRST_LINE)
    except OSError:
        return []
    if not start.startswith(b"#!"):
        return []
    line = start[2:].split(b"\n", 1)[0].decode("utf-8", "replace")
    return line.split()


def dead_interpreter(path: Path) -> str:
    """Return why an interpreter no longer works; empty if nothing is known against it."""
    if path.is_symlink() and not path.exists():
        return f"it is a link to {os.readlink(path)}, which is gone"
    home = _base_folder(path)
    if home is not None and path.exists() and not Path(home).is_dir():
        return f"its environment is based on {home}, which is gone"
    return ""


def _base_folder(path: Path) -> str | None:
    """Return the folder of the Python that a virtual environment is based on."""
    try:
        text = (path.parent.parent / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"(?m)^home *= *(.+?)\s*$", text)
    return found[1] if found else None


def other_interpreter(path: Path) -> Path | None:
    """Return a Python in the same folder that works, in place of one that does not."""
    if not re.match(r"python[\d.]*(?:\.exe)?$", path.name):
        return None
    others = sorted(path.parent.glob("python3.*[0-9]"))
    candidates = [*(path.with_name(name) for name in _PYTHONS), *others]
    for each in candidates:
        is_program = each.is_file() and os.access(each, os.X_OK)
        if each != path and is_program and not dead_interpreter(each):
            return each
    return None


def find_moved(path: Path, home: Path) -> Path | None:
    """Return the only file of the same name in the project of a file that is gone."""
    root = next((each for each in path.parents if each.is_dir()), None)
    if root is None:
        return None
    # Without the sign of a project, another project may be below the folder.
    root = next((each for each in (root, *root.parents) if _is_project(each)), None)
    if root is None or root in (home, *home.parents):
        return None
    found: list[Path] = []
    seen = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            each
            for each in folders
            if not each.startswith(".") and each not in _SKIPPED and not _is_venv(folder, each)
        )
        seen += len(files) + len(folders)
        if path.name in files:
            found.append(Path(folder) / path.name)
        if seen > _MOST_SEEN or len(found) > 1:
            return None
    return found[0] if found else None


def _is_project(folder: Path) -> bool:
    return any((folder / name).exists() for name in _PROJECT_SIGNS)


def _is_venv(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))

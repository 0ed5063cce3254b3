"""Commands that a host finds, whatever its PATH and its folder."""

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from accord_tools.hosts.definition import HostsError, Machine, Scope

# Every system has these in its PATH, also for applications that are started from a menu.
_SYSTEM_FOLDERS: Final = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")
_USUAL_PATH: Final = ("/usr/local/bin", *_SYSTEM_FOLDERS)
_EXTENSIONS: Final = ".COM;.EXE;.BAT;.CMD"
_SHEBANG: Final = re.compile(rb"#!\s*\S*/env\s+(?:-S\s+)?([^\s=]+)([^\r\n]*)")
_SHEBANG_LENGTH: Final = 256
# They start `node`, `sh` and programs of packages by name.
_PACKAGE_RUNNERS: Final = ("npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "corepack")
# Tools that look for a file in the current folder: with these words, unless one of these options.
_PROJECT_TOOLS: Final = {
    "uv": (("run",), ("--directory", "--project", "--script", "--no-project"), "pyproject.toml"),
    "poetry": (("run",), ("--directory", "-C", "--project", "-P"), "pyproject.toml"),
    "npm": (("run", "start", "exec"), ("--prefix",), "package.json"),
    "pnpm": (("run", "start", "exec"), ("--dir", "-C"), "package.json"),
    "yarn": (("run", "start", "exec"), ("--cwd",), "package.json"),
    "cargo": (("run",), ("--manifest-path", "-C"), "Cargo.toml"),
    "go": (("run",), ("-C",), "go.mod"),
}
# What cmd gives a meaning, beside blanks.
_CMD_SIGNS: Final = frozenset(' &|<>^()%!"')
_WHICH_TIMEOUT: Final = 20.0
# Where version managers keep programs: of one version, or small ones that choose a version.
_ONE_VERSION: Final = {
    "nvm": r"/\.?nvm/(?:versions/|v\d)",
    "fnm": r"/\.?fnm(?:/|_multishells/)",
    "mise": r"/mise/installs/",
    "asdf": r"/\.?asdf/installs/",
    "volta": r"/\.?volta/tools/",
    "pyenv": r"/\.?pyenv/versions/",
    "nodenv": r"/\.?nodenv/versions/",
}
_SHIMS: Final = {
    "mise": r"/mise/shims/",
    "asdf": r"/\.?asdf/shims/",
    "volta": r"/\.?volta/bin/",
    "pyenv": r"/\.?pyenv/shims/",
    "nodenv": r"/\.?nodenv/shims/",
}


class SettledCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command for an entry.

    Attributes:
        words: program and arguments.
        remarks: what a user should know about them, sentences.
        env: variables that the program needs in addition; those of the entry take precedence.
    """

    words: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


def settle_command(
    words: Sequence[str], machine: Machine, *, scope: Scope, cwd: Path | None = None
) -> SettledCommand:
    """Return a command with full paths, for the file of a user; those of projects keep names.

    Args:
        words: program and arguments, as a user would type them.
        machine: whose PATH is searched.
        scope: of the file; others have other paths, so that words stay as they are in projects.
        cwd: the folder that relative paths start from; that of the project by default.

    Raises:
        HostsError: there is no such program, or it cannot be launched.
    """
    if not words or not words[0].strip():
        raise HostsError("the command is empty; write the program and its arguments after --")
    folder = machine.project if cwd is None else cwd
    if scope == "project":
        remarks = tuple(_project_remarks(words, machine))
        return SettledCommand(words=tuple(words), remarks=remarks)
    program, remarks_of_program = _settle_program(words[0], machine, folder)
    arguments = [_settle_argument(each, machine, folder) for each in words[1:]]
    remarks_of_program += [*_module_remarks(words, folder), *_project_tool_remarks(words, folder)]
    if machine.system == "windows":
        return _windows_command(program, arguments, remarks_of_program)
    before, env = _interpreter(program, machine)
    return SettledCommand(
        words=(*before, str(program), *arguments), remarks=tuple(remarks_of_program), env=env
    )


# -- the program


def find_program(name: str, machine: Machine) -> Path | None:
    """Return the full path of a program in the PATH of a machine; None if it has no such one."""
    folders = machine.environ.get("PATH", "")
    if machine.system != "windows":
        found = shutil.which(name, path=folders or os.pathsep.join(_USUAL_PATH))
        return None if found is None else Path(os.path.abspath(found))
    extensions = machine.environ.get("PATHEXT", _EXTENSIONS).split(";")
    known = {each.lower() for each in extensions if each}
    endings = [""] if Path(name).suffix.lower() in known else sorted(known, key=_priority)
    # Not the current folder: a host has another one.
    for folder in filter(None, folders.split(";")):
        for ending in endings:
            path = Path(folder.strip('"'), f"{name}{ending}")
            if path.is_file():
                return path
    return None


def _priority(ending: str) -> tuple[bool, str]:
    return ending != ".exe", ending


def _settle_program(name: str, machine: Machine, folder: Path) -> tuple[Path, list[str]]:
    expanded = _expand_home(name, machine)
    if not _has_folder(expanded):
        found = find_program(expanded, machine)
        if found is None:
            raise HostsError(
                f"there is no program {name} in PATH: install it, or write its full path"
            )
        return _settle_version(found, machine, folder)
    path = Path(os.path.normpath(folder / expanded))
    if machine.system == "windows" and not path.is_file():
        path = next((each for each in _with_endings(path) if each.is_file()), path)
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise HostsError(f"{path} {kind}; the command begins with the path of a program")
    if machine.system != "windows" and not path.stat().st_mode & stat.S_IXUSR:
        raise HostsError(
            f"{path} is not executable: make it so with chmod +x, or write the program that runs "
            "it before it"
        )
    return _settle_version(path, machine, folder)


def _with_endings(path: Path) -> Iterator[Path]:
    for ending in (".exe", ".cmd", ".bat"):
        yield path.with_name(path.name + ending)


def _has_folder(text: str) -> bool:
    return "/" in text or "\\" in text or text in (".", "..")


def _expand_home(text: str, machine: Machine) -> str:
    if text == "~" or text.startswith(("~/", "~\\")):
        return str(machine.home) + text[1:]
    return text


def _settle_version(path: Path, machine: Machine, folder: Path) -> tuple[Path, list[str]]:
    """Return the program that a version manager has chosen, and what to know about it."""
    text = path.as_posix()
    for manager, pattern in _SHIMS.items():
        if re.search(pattern, text, re.IGNORECASE):
            real = _ask_manager(manager, path, machine, folder)
            if real is not None:
                return real, [_version_remark(real, manager)]
            return path, [_shim_remark(path, manager)]
    if "fnm_multishells" in path.parts:
        path = path.parent.resolve() / path.name  # the folder is that of one terminal
    for manager, pattern in _ONE_VERSION.items():
        if re.search(pattern, text, re.IGNORECASE):
            return path, [_version_remark(path, manager)]
    return path, []


def _shim_remark(path: Path, manager: str) -> str:
    return (
        f"{path} is a program of {manager} that chooses a version by the folder it runs in, and "
        f"needs {manager} itself in PATH: a host may get another version, or none"
    )


def _version_remark(path: Path, manager: str) -> str:
    return (
        f"{path} belongs to one version in {manager}: repeat this command when that version is "
        "removed"
    )


def _ask_manager(manager: str, shim: Path, machine: Machine, folder: Path) -> Path | None:
    import subprocess

    program = find_program(manager, machine)
    if program is None or not folder.is_dir():
        return None
    try:
        done = subprocess.run(  # noqa: S603  # the version manager of the user
            [str(program), "which", shim.stem if machine.system == "windows" else shim.name],
            cwd=folder,
            env=dict(machine.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_WHICH_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = Path(done.stdout.decode(errors="replace").strip())
    is_found = done.returncode == 0 and found.is_absolute() and found.is_file()
    return found if is_found and found != shim else None


# -- scripts that need another program


def _interpreter(program: Path, machine: Machine) -> tuple[list[str], dict[str, str]]:
    """Return what has to stand before a script whose first line names a program without path."""
    try:
        with open(program, "rb") as file:
            found = _SHEBANG.match(file.read(_SHEBANG_LENGTH))
    except OSError:
        found = None
    if found is None:
        return [], {}
    name = found[1].decode(errors="replace")
    beside = program.parent / name
    interpreter = beside if os.access(beside, os.X_OK) else find_program(name, machine)
    if interpreter is None:
        raise HostsError(f"{program} is run by {name}, which is not in PATH: install {name}")
    if str(interpreter.parent) in _SYSTEM_FOLDERS and str(program.parent) in _SYSTEM_FOLDERS:
        return [], {}  # hosts have these folders in PATH
    before = [str(interpreter), *found[2].decode(errors="replace").split()]
    if program.name not in _PACKAGE_RUNNERS:
        return before, {}
    folders = dict.fromkeys((str(interpreter.parent), str(program.parent), *_USUAL_PATH))
    return before, {"PATH": ":".join(folders)}


def _windows_command(program: Path, arguments: list[str], remarks: list[str]) -> SettledCommand:
    ending = program.suffix.lower()
    if ending == ".ps1":
        raise HostsError(
            f"{program} is a script of PowerShell, which hosts cannot launch: name the .cmd or "
            ".exe beside it, or write powershell -File before it"
        )
    if ending not in (".cmd", ".bat"):
        return SettledCommand(words=(str(program), *arguments), remarks=tuple(remarks))
    if " " in str(program) and any(_CMD_SIGNS & set(each) for each in arguments):
        garbled = (
            f"{program} is run by cmd, which garbles a path with blanks if an argument has blanks "
            "or one of &|<>^()%! too"
        )
        remarks = [*remarks, garbled]
    return SettledCommand(words=("cmd", "/c", str(program), *arguments), remarks=tuple(remarks))


# -- arguments


def _settle_argument(text: str, machine: Machine, folder: Path) -> str:
    """Return an argument with the full path of a file or folder that exists."""
    option, equals, value = text.partition("=")
    if equals and option.startswith("-"):
        return f"{option}={complete_path(value, machine, folder)}"
    return complete_path(text, machine, folder)


def complete_path(text: str, machine: Machine, folder: Path) -> str:
    """Return the full path of a file or folder that exists; other texts stay as they are."""
    expanded = _expand_home(text, machine)
    if expanded != text:
        return expanded
    # A plain word may be a file by chance, such as `run`.
    looks_like_path = _has_folder(text) or Path(text).suffix != ""
    if not text or text.startswith("-") or not looks_like_path or "://" in text:
        return text
    try:
        path = folder / text
        exists = path.exists()
    except (OSError, ValueError):
        return text
    return os.path.normpath(path) if exists else text


def _module_remarks(words: Sequence[str], folder: Path) -> list[str]:
    """Return a remark if `python -m` finds its module in the current folder only."""
    if "-m" not in words[1:-1]:
        return []
    module = words[words.index("-m", 1) + 1].partition(".")[0]
    is_here = (folder / module).is_dir() or (folder / f"{module}.py").is_file()
    if not Path(words[0]).stem.lower().startswith("python") or not is_here:
        return []
    advice = "give that folder with --cwd, or install the package"
    return [f"python -m {module} finds the module in {folder}: {advice}"]


def _project_tool_remarks(words: Sequence[str], folder: Path) -> Iterator[str]:
    """Yield a remark if a tool finds its project in the current folder only."""
    tool = Path(words[0]).stem.lower()
    verbs, options, file = _PROJECT_TOOLS.get(tool, ((), (), ""))
    if len(words) < 2 or words[1] not in verbs or not (folder / file).is_file():
        return
    if not any(each.partition("=")[0] in options for each in words):
        yield (
            f"{tool} {words[1]} finds its project in {folder}: give that folder with --cwd, or "
            f"with the option {options[0]} of {tool}"
        )


def _project_remarks(words: Sequence[str], machine: Machine) -> Iterator[str]:
    program = words[0]
    if not _has_folder(program):
        if find_program(program, machine) is None:
            yield f"there is no program {program} in PATH here"
        yield (
            f"the file is shared, so that {program} has no path: every user needs it in the PATH "
            "of the host"
        )
    for word in words:
        expanded = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        is_own = expanded.startswith((str(machine.home), "~"))
        if is_own or re.match(r"[A-Za-z]:[\\/]", expanded) or _is_full_path(expanded):
            yield f"the file is shared, and {word} is a path of this machine"


def _is_full_path(text: str) -> bool:
    return text.startswith("/") and text.count("/") > 1 and Path(text).exists()

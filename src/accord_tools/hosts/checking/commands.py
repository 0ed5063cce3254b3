"""The command of an entry: are its program, interpreter and script there, for this host?"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final, NamedTuple

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.checking.findings import FindingSeverity
from accord_tools.hosts.checking.launch import advise_program
from accord_tools.hosts.definition import ConfigFile, HostsError, Machine
from accord_tools.hosts.launching.command import settle_command
from accord_tools.hosts.launching.environment import LaunchSettings, variable
from accord_tools.hosts.launching.installation import accord_command

# -- facts about programs and scripts in the file system


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


# -- the command of an entry


_SCRIPT: Final = re.compile(r"(.+\.(?:py|pyz|js|mjs|cjs|ts|mts|rb|sh|jar|php|lua))(?::[\w.]+)?$")
# What these run is not in the file system of the host, or found by other rules.
_FOREIGN: Final = frozenset({"docker", "podman", "npx", "uvx", "bunx", "pipx", "ssh", "wsl", "cmd"})
_FOLDER_OPTIONS: Final = frozenset({"--directory", "--project", "--cwd", "--prefix"})
_WORD_OPTIONS: Final = frozenset({"-c", "-e", "--eval", "-p"})


class CommandFault(NamedTuple):
    """A fault of a command.

    Attributes:
        code: of the table of findings.
        message: what is wrong.
        change: what to do.
        words: the words that take the place of others, by their index; None if that is not
            certain.
        env: variables that the entry should set.
        severity: if it is not that of the code.
    """

    code: str
    message: str
    change: str = ""
    words: Mapping[int, tuple[str, ...]] | None = None
    env: Mapping[str, str] = {}
    severity: FindingSeverity | None = None


class CommandCheck:
    """Looks at the command of one entry, without running it.

    Args:
        file: the file of the entry.
        machine: where it runs.
        settings: as the host launches it, with placeholders filled in.
        entry: it says what the entry sets by itself.
    """

    def __init__(
        self, file: ConfigFile, machine: Machine, settings: LaunchSettings, entry: ServerSpec
    ) -> None:
        self._file = file
        self._host = file.host
        self._machine = machine
        self._settings = settings
        self._has_folder = entry.cwd is not None
        self._env = entry.env
        self._words = settings.command

    def find_faults(self) -> Iterator[CommandFault]:
        """Yield what is wrong, the cheapest to see first."""
        if self._has_folder and not self._settings.cwd.is_dir():
            folder = self._settings.cwd
            yield CommandFault("folder-missing", f"cwd {folder} does not exist", "correct it")
            return
        found: Path | None = None
        for fault in self._program():
            if isinstance(fault, Path):
                found = fault
            else:
                yield fault
        if found is not None:
            yield from self._interpreter(found)
        yield from self._tildes()
        if PurePosixPath(self._words[0]).stem.lower() not in _FOREIGN:
            yield from self._scripts()
        yield from self._throw_away(found)

    # -- the program

    def _program(self) -> "Iterator[CommandFault | Path]":
        program = self._words[0]
        if program.startswith("~") and not self._host.launch.has_shell:
            return
        if not _has_folder(program):
            yield from self._by_path(program)
            return
        path = Path(program)
        if not _is_absolute(program):
            path = self._settings.cwd / program
            yield from self._relative(0, program)
            if not path.exists():
                return
        if path.is_dir():
            yield CommandFault("program-missing", f"{program} is a folder", "name a program")
        elif not path.exists() or dead_interpreter(path):
            yield self._missing(path)
        elif self._machine.system != "windows" and not os.access(path, os.X_OK):
            advice = f"run chmod +x {program}, or name the interpreter before it"
            yield CommandFault("program-mode", f"{program} may not be executed", advice)
        else:
            yield path

    def _by_path(self, program: str) -> "Iterator[CommandFault | Path]":
        of_shell = shutil.which(program, path=variable(self._machine.environ, "PATH"))
        found = shutil.which(program, path=self._settings.path)
        host = self._host.name
        if found is None and of_shell is None:
            yield CommandFault(
                "program-missing", f"{program} was not found", advise_program(program)
            )
        elif found is None:
            assert of_shell is not None
            message = f"{host} does not find {program}: its PATH has not the folder of {of_shell}"
            words, env = self._settle_program(program, of_shell)
            full = shlex.join(words[0]) if words else of_shell
            yield CommandFault("program-path", message, f"write {full}", words, env)
        else:
            if of_shell and Path(of_shell).resolve() != Path(found).resolve():
                message = f"{host} finds {found}, this terminal {of_shell}"
                yield CommandFault("program-differs", message, "write the full path of one")
            yield Path(found)

    def _settle_program(
        self, program: str, of_shell: str
    ) -> tuple[Mapping[int, tuple[str, ...]] | None, Mapping[str, str]]:
        """Return the words and variables with which a host without this PATH finds a program."""
        is_certain = self._file.scope == "user" and self._host.launch.path == "desktop"
        if not is_certain or is_throw_away(Path(of_shell), self._machine):
            return None, {}
        try:
            settled = settle_command([program], self._machine, scope="user")
        except HostsError:
            return None, {}
        env = {name: each for name, each in settled.env.items() if name not in self._env}
        return {0: settled.words}, env

    def _missing(self, path: Path) -> CommandFault:
        dead = dead_interpreter(path)
        other = other_interpreter(path)
        own = self._accord_words(path)
        if own is not None:
            words, env = own
            message = f"{path}: {dead or 'it does not exist'}"
            return CommandFault("interpreter-dead", message, f"launch {words[0][0]}", words, env)
        is_python = re.match(r"python[\d.]*(\.exe)?$", path.name) is not None
        if not dead and not (is_python and path.parent.is_dir()):
            advice = advise_program(str(path))
            return CommandFault("program-missing", f"{path} does not exist", advice)
        message = f"{path}: {dead or 'this interpreter is gone'}"
        if other is not None and self._file.scope == "user":
            return CommandFault("interpreter-dead", message, f"write {other}", {0: (str(other),)})
        return CommandFault("interpreter-dead", message, "make the environment again")

    def _accord_words(
        self, path: Path
    ) -> tuple[Mapping[int, tuple[str, ...]], Mapping[str, str]] | None:
        """Return the words and variables that launch this accord, in place of one that is gone."""
        if self._file.scope == "project" or other_interpreter(path) is not None:
            return None
        words = self._words
        at = next((at for at, each in enumerate(words[:4]) if each == "-m"), 0)
        is_module = at > 0 and words[at + 1 : at + 2] == ("accord",)
        if not is_module and path.stem != "accord":
            return None
        try:
            found = accord_command(self._machine)
        except HostsError:
            return None
        used = range(1, at + 2) if is_module else ()
        return {0: found.words, **dict.fromkeys(used, ())}, found.env

    def _interpreter(self, program: Path) -> Iterator[CommandFault]:
        """Look at the first line of a script that is launched as a program."""
        if self._machine.system == "windows":
            return
        words = shebang_of(program)
        if not words:
            return
        name = words[0]
        if Path(name).name == "env":
            wanted = next((each for each in words[1:] if not each.startswith("-")), "")
            if not wanted or shutil.which(wanted, path=self._settings.path):
                return
            yield self._interpreter_path(program, wanted)
        elif not Path(name).exists():
            message = f"{program} needs {name}, which does not exist"
            other = other_interpreter(Path(name)) or other_interpreter(program.with_name("python"))
            is_accord = program.name == "accord" and other is not None
            words_after = {0: (str(other), "-m", "accord")} if is_accord else None
            yield CommandFault("interpreter-dead", message, "install it again", words_after)

    def _interpreter_path(self, program: Path, wanted: str) -> CommandFault:
        message = f"{program} needs {wanted}, which {self._host.name} does not find by its PATH"
        beside = next(
            (
                folder
                for folder in (program.parent, program.resolve().parent)
                if shutil.which(wanted, path=str(folder))
            ),
            None,
        )
        of_shell = shutil.which(wanted, path=variable(self._machine.environ, "PATH"))
        if beside is None and of_shell is not None:
            beside = Path(of_shell).parent
        if beside is None:
            return CommandFault("interpreter-path", message, f"install {wanted}")
        path = f"{beside}:{self._settings.path}"
        is_certain = self._file.scope == "user" and "PATH" not in self._host.launch.ignores
        advice = f"set PATH to {path} in the variables of the entry"
        env = {"PATH": path} if is_certain else {}
        return CommandFault("interpreter-path", message, advice, {} if is_certain else None, env)

    # -- the other words

    def _tildes(self) -> Iterator[CommandFault]:
        if self._host.launch.has_shell:
            return
        for index, word in enumerate(self._words):
            if word != "~" and not word.startswith("~/"):
                continue
            whole = str(self._machine.home / word[2:])
            message = f"{self._host.name} does not expand {word}"
            severity: FindingSeverity = "warning" if index else "error"
            words = {index: (whole,)} if self._file.scope == "user" else None
            advice = f"write {whole}"
            yield CommandFault("path-tilde", message, advice, words, severity=severity)

    def _scripts(self) -> Iterator[CommandFault]:
        base: Path | None = None
        words = self._words
        for index, word in enumerate(words[1:], 1):
            before = words[index - 1]
            if before in _FOLDER_OPTIONS:
                base = self._settings.cwd / word
                if not word.startswith("~") and not base.is_dir():
                    message = f"{before} {word}: there is no such folder"
                    yield CommandFault("folder-missing", message, "correct the path")
                    return
            is_module = before == "-m" and word != "accord"
            if before in _WORD_OPTIONS or is_module:
                return  # the other words mean what a program or a module makes of them
            script = _SCRIPT.match(word)
            if script is None or word.startswith(("-", "~")) or "://" in word:
                continue
            path = script[1]
            if _is_absolute(path):
                if not Path(path).exists():
                    yield self._find_script(index, Path(path))
            elif base is not None:
                if not (base / path).exists():
                    yield CommandFault("script-missing", f"{base / path} does not exist")
            else:
                yield from self._relative(index, path)
            return

    def _relative(self, index: int, path: str) -> Iterator[CommandFault]:
        settings, machine = self._settings, self._machine
        here, there = settings.cwd / path, machine.project / path
        is_project = self._file.scope == "project"
        if here.exists():
            if self._has_folder or is_project:
                return
            message = f"{path} is found only in {settings.cwd}, where {self._host.name} runs"
            whole = {index: (self._full_path(index, path, here),)}
            # In a host that runs in any project, the path may mean a file of each of them.
            is_certain = self._host.launch.cwd != "project"
            mended = whole if is_certain else None
            yield CommandFault("path-relative", message, f"write {here}", mended)
        elif there.exists() and not self._has_folder:
            message = f"{path}: {self._host.name} runs in {settings.cwd}, not in {machine.project}"
            words = None if is_project else {index: (self._full_path(index, path, there),)}
            yield CommandFault("path-relative", message, f"write {there}", words, severity="error")
        elif index:
            message = f"{path} does not exist in {settings.cwd}"
            yield CommandFault("script-missing", message, "correct the path; make it absolute")
        else:
            message = f"{path} does not exist in {settings.cwd}"
            yield CommandFault("program-missing", message, "correct the path; make it absolute")

    def _full_path(self, index: int, path: str, whole: Path) -> str:
        return os.path.normpath(whole) + self._words[index].removeprefix(path)

    def _find_script(self, index: int, path: Path) -> CommandFault:
        message = f"{path} does not exist"
        found = find_moved(path, self._machine.home)
        if found is None or self._file.scope == "project":
            return CommandFault("script-missing", message, "correct the path")
        words = {index: (self._full_path(index, str(path), found),)}
        return CommandFault("script-missing", message, f"write {found}", words)

    def _throw_away(self, program: Path | None) -> Iterator[CommandFault]:
        paths = [*([program] if program else []), *map(Path, self._words[1:])]
        for path in paths:
            why = is_throw_away(path, self._machine) if path.is_absolute() else ""
            if why:
                advice = (
                    "install it to stay: pipx install, uv tool install, or uvx in the command"
                    if "cache" in why
                    else "move it to a folder that stays"
                )
                yield CommandFault("throw-away", f"{path} is in {why}", advice)
                return


def _has_folder(program: str) -> bool:
    return "/" in program or "\\" in program


def _is_absolute(path: str) -> bool:
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()

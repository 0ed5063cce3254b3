"""The entry that launches the server of a bundle, with placeholders filled in."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.client.server_spec import NeededValue, ServerSpec
from accord_tools.hosts.bundles.archive import Bundle
from accord_tools.hosts.bundles.manifest import BundleSetting, SettingValue, check_setting
from accord_tools.hosts.definition import HostsError, Machine, System
from accord_tools.hosts.entries.literals import variable_name
from accord_tools.hosts.server_names import clean_name
from accord_tools.hosts.targets import TargetReader, complete_target

# -- conditions on versions, as manifests write them: `>=3.8,<4.0`, `>=16.0.0 <21`, `^1.2.3`


_CONDITION: Final = re.compile(r"(>=|<=|==|!=|~=|>|<|=|\^|~)?\s*v?(\d+(?:\.(?:\d+|[x*]))*|\*|x)\S*")


def satisfies(version: str, conditions: str) -> bool | None:
    """Return whether a version meets conditions; None if they cannot be read.

    >>> satisfies("3.11.2", ">=3.8,<4.0")
    True
    """
    numbers = _numbers(version)
    if not numbers:
        return None
    results = [_meets_all(numbers, each) for each in conditions.split("||")]
    if None in results:
        return None
    return any(results)


def _numbers(text: str) -> list[int]:
    found = re.match(r"\D*(\d+(?:\.\d+)*)", text)
    return [int(each) for each in found[1].split(".")] if found else []


def _meets_all(version: list[int], conditions: str) -> bool | None:
    parts = re.sub(r"([<>=~^!])\s+", r"\1", conditions.replace(",", " ")).split()
    results = []
    for part in parts:
        found = _CONDITION.fullmatch(part)
        if found is None:
            return None
        results.append(_meets(version, found[1] or "==", found[2]))
    return all(results)


def _meets(version: list[int], sign: str, text: str) -> bool:
    wanted = [int(each) for each in re.split(r"\.", text) if each.isdigit()]
    if not wanted:
        return True  # any version
    if sign in ("==", "=", "!="):
        is_same = version[: len(wanted)] == wanted
        return is_same != (sign == "!=")
    width = max(len(version), len(wanted))
    own, other = _pad(version, width), _pad(wanted, width)
    compared = {">=": own >= other, ">": own > other, "<=": own <= other, "<": own < other}
    if sign in compared:
        return compared[sign]
    fixed = max(len(wanted) - 1, 1) if sign == "~=" else min(len(wanted), 2)
    if sign == "^":  # up to the first number that is not 0
        fixed = next((at for at, each in enumerate(wanted, 1) if each), len(wanted))
    return own >= other and version[:fixed] == wanted[:fixed]


def _pad(numbers: list[int], width: int) -> list[int]:
    return numbers + [0] * (width - len(numbers))


# -- the entry


PLATFORMS: Final[Mapping[System, str]] = {
    "linux": "linux",
    "macos": "darwin",
    "windows": "win32",
}
_NAMES: Final = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_PLACEHOLDER: Final = re.compile(r"\$\{([^${}]+)\}")
_SETTING: Final = "user_config."
_PYTHONS: Final = ("python", "python3", "python.exe")
_NEWEST_PYTHON: Final = 20
_ASKING_TIMEOUT: Final = 20.0


def bundle_folder(bundle: Bundle, environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder in which accord unpacks a bundle."""
    from accord.private_files import user_folder

    manifest = bundle.manifest
    version = re.sub(r"[^A-Za-z0-9._+-]+", "-", manifest.version).strip(".-")[:60] or "0"
    return user_folder(environ) / "bundles" / f"{clean_name(manifest.name)}@{version}"


def check_compatibility(bundle: Bundle, machine: Machine) -> None:
    """Refuse a bundle that does not work on this system.

    Raises:
        HostsError: it is for others.
    """
    platforms = bundle.manifest.compatibility.platforms
    own = PLATFORMS[machine.system]
    if platforms and own not in platforms:
        names = " and ".join(_NAMES.get(each, each) for each in platforms)
        raise HostsError(f"{bundle.path} is for {names}, and this is {_NAMES[own]}")


def bundle_target(bundle: Bundle, folder: Path, reader: TargetReader) -> ServerSpec:
    """Return the server of a bundle.

    Args:
        bundle: it need not be unpacked yet.
        folder: where its files are, or will be.
        reader: what targets are read with; its `values` are those of the bundle's settings.

    Raises:
        HostsError: it is for other systems, or a value does not fit its setting.
    """
    check_compatibility(bundle, reader.machine)
    found = _Filling(bundle, folder, reader).target()
    return msgspec.structs.replace(found, bundle=bundle)


class _Filling:
    """Fills in the command of one bundle."""

    def __init__(self, bundle: Bundle, folder: Path, reader: TargetReader) -> None:
        self._bundle = bundle
        self._folder = folder
        self._machine = reader.machine
        self._reader = reader
        self._remarks = list(bundle.remarks)
        self._places = _places(folder, reader.machine)
        self._command, self._args, self._env = self._choose_command()
        self._variables = self._variable_names()
        self._needed: dict[str, NeededValue] = {}
        self._values = {
            key: self._value(key, each, reader.values)
            for key, each in bundle.manifest.user_config.items()
        }

    def target(self) -> ServerSpec:
        args = self._fill_args()
        env = {}
        for name, text in self._env.items():
            filled = self._fill(text)
            if filled is not None:
                env[name] = filled
        program = self._program(self._fill(self._command) or "")
        words = (program, *map(self._own_path, args))
        entry = ServerSpec(name=clean_name(self._bundle.manifest.name), command=words, env=env)
        return complete_target(
            entry,
            title=self._bundle.manifest.title,
            needed=list(self._needed.values()),
            remarks=self._remarks,
        )

    def _choose_command(self) -> tuple[str, tuple[str, ...], Mapping[str, str]]:
        """Return command, arguments and variables for this platform."""
        server = self._bundle.manifest.server
        config = server.mcp_config
        if config is None:
            point = server.entry_point.removeprefix("${__dirname}/")
            return "uv", ("run", "--directory", "${__dirname}", point), {}
        other = config.platform_overrides.get(PLATFORMS[self._machine.system])
        if other is None:
            return config.command, config.args, config.env
        args = config.args if other.args is None else other.args
        env = config.env if other.env is None else other.env
        return other.command or config.command, args, env

    # -- settings

    def _variable_names(self) -> dict[str, str]:
        """Return a variable for each setting: the one that it is passed on in, if there is one."""
        names = {key: variable_name(key) for key in self._bundle.manifest.user_config}
        for variable, text in self._env.items():
            found = _PLACEHOLDER.fullmatch(text)
            if found and found[1].startswith(_SETTING):
                names[found[1].removeprefix(_SETTING)] = variable
        return names

    def _value(
        self, key: str, setting: BundleSetting, values: Mapping[str, str]
    ) -> list[str] | str | None:
        """Return the value of a setting as text; None if it is left out."""
        variable = self._variables[key]
        given = values.get(key, values.get(variable))
        if given is None and setting.default is not None and not setting.sensitive:
            return self._as_text(setting.default)
        if given is not None and not setting.sensitive:
            return self._as_text(self._parse(key, setting, given))
        if given is None and not setting.required and not setting.sensitive:
            self._remarks.append(f"{setting.title or key} can be set: --env {variable}=VALUE")
            return None
        if given is None and not setting.required:
            self._remarks.append(f"{setting.title or key} can be set: --env {variable}")
            return None
        self._needed[key] = NeededValue(
            name=variable,
            key=key,
            title=setting.title or key,
            description=setting.description,
            type=setting.type,
            is_secret=setting.sensitive,
            is_required=setting.required,
            is_multiple=setting.multiple,
        )
        return f"${{env:{variable}}}"

    def _parse(self, key: str, setting: BundleSetting, text: str) -> SettingValue:
        value: SettingValue = text
        if setting.type == "number":
            try:
                value = float(text) if re.search(r"[.eE]", text) else int(text)
            except ValueError:
                raise HostsError(f"the value of {key} is not a number") from None
        elif setting.type == "boolean":
            if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
                raise HostsError(f"the value of {key} is neither true nor false")
            value = text.lower() in ("true", "1", "yes")
        elif setting.type in ("directory", "file"):
            parts = text.split(os.pathsep) if setting.multiple else [text]
            paths = [str(self._machine.project / self._home(each)) for each in parts if each]
            self._remarks += [f"there is no {each}" for each in paths if not Path(each).exists()]
            value = paths if setting.multiple else "".join(paths)
        problem = check_setting(setting, value)
        if problem:
            raise HostsError(f"the value of {key} {problem}")
        return value

    def _home(self, text: str) -> str:
        return str(self._machine.home) + text[1:] if text.startswith("~") else text

    def _as_text(self, value: SettingValue) -> list[str] | str:
        if isinstance(value, list):
            return [self._fill_places(each) for each in value]
        if isinstance(value, bool):
            return "true" if value else "false"
        return self._fill_places(value) if isinstance(value, str) else f"{value:g}"

    # -- texts

    def _fill_places(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: self._places.get(found[1], found[0]), text)

    def _fill(self, text: str) -> str | None:
        """Return a text with its placeholders filled in; None if a setting in it is left out."""
        parts: list[Any] = _PLACEHOLDER.split(text)
        for at in range(1, len(parts), 2):
            name = parts[at]
            key = name.removeprefix(_SETTING)
            if not name.startswith(_SETTING) or key not in self._values:
                parts[at] = self._places.get(name, f"${{{name}}}")
                continue
            value = self._values[key]
            if value is None:
                return None
            if isinstance(value, list):
                sign = ";" if self._machine.system == "windows" else ":"
                self._remarks.append(f"the values of {key} are joined with {sign}")
                value = sign.join(value)
            parts[at] = value
        return "".join(parts)

    def _fill_args(self) -> list[str]:
        filled: list[str] = []
        for text in self._args:
            found = _PLACEHOLDER.fullmatch(text)
            key = found[1].removeprefix(_SETTING) if found else ""
            several = self._values.get(key)
            if isinstance(several, list):
                filled += several
                continue
            value = self._fill(text)
            if value is not None:
                filled.append(value)
            elif filled and re.fullmatch(r"--?[A-Za-z][\w-]*", filled[-1]):
                filled.pop()  # the option whose value is left out
        return filled

    def _own_path(self, text: str) -> str:
        """Return the full path of a file in the bundle."""
        bare = text.removeprefix("./")
        return str(self._folder / bare) if self._bundle.has_file(bare) else text

    def _program(self, program: str) -> str:
        bare = program.removeprefix(f"{self._folder}{os.sep}").removeprefix(f"{self._folder}/")
        bare = bare.removeprefix("./")
        for name in (f"{bare}.exe", bare) if self._machine.system == "windows" else (bare,):
            if self._bundle.has_file(name):
                return str(self._folder / name)
        if program in _PYTHONS and self._bundle.manifest.server.type == "python":
            return self._find_python(program)
        if program == "node":
            self._check_node()
        return program

    def _find_python(self, program: str) -> str:
        """Return a Python of the version that the bundle needs; our own one if it is."""
        wanted = self._bundle.manifest.compatibility.runtimes.python
        own = f"{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}"
        python = _own_python(self._reader)
        if python and (not wanted or satisfies(own, wanted) is not False):
            return python
        from accord_tools.hosts.launching.command import find_program

        for minor in range(_NEWEST_PYTHON, 7, -1):
            found = find_program(f"python3.{minor}", self._machine)
            if found is not None and satisfies(f"3.{minor}", wanted or "*") is not False:
                return str(found)
        self._remarks.append(f"the bundle needs Python {wanted}, which was not found")
        return program

    def _check_node(self) -> None:
        import subprocess

        from accord_tools.hosts.launching.command import find_program

        wanted = self._bundle.manifest.compatibility.runtimes.node
        node = find_program("node", self._machine)
        if node is None:
            self._remarks.append("the bundle needs Node.js: there is no node in PATH")
        if node is None or not wanted:
            return
        try:
            done = subprocess.run(  # noqa: S603  # the user's own
                [str(node), "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ASKING_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return
        version = done.stdout.decode(errors="replace").strip()
        if satisfies(version, wanted) is False:
            self._remarks.append(f"the bundle needs Node.js {wanted}; {node} is {version}")


def _own_python(reader: TargetReader) -> str:
    """Return the Python of accord, unless it is in a throw-away environment."""
    words = reader.find_accord().words
    return words[0] if words[1:3] == ("-P", "-m") else ""


def _places(folder: Path, machine: Machine) -> dict[str, str]:
    sign = "\\" if machine.system == "windows" else "/"
    return {
        "__dirname": str(folder),
        "HOME": str(machine.home),
        "DESKTOP": str(machine.home / "Desktop"),
        "DOCUMENTS": str(machine.home / "Documents"),
        "DOWNLOADS": str(machine.home / "Downloads"),
        "pathSeparator": sign,
        "/": sign,
    }
